"""GET /v1/events: the stream that the live page follows, without a browser."""

import contextlib
import json
import signal
import socket

from harness import PATIENCE, Raw, ServerTest, Sluice, exchange, wait_for, wait_until_received

RULES = """
version: 1
rules:
  - name: login
    match: { path: /login }
    limits: [{ name: address, key: "{ip}", algorithm: fixed_window, limit: 2, per: 1h }]
  - name: trial
    mode: shadow
    match: { path: /trial }
    limits: [{ name: all, algorithm: fixed_window, limit: 1, per: 1h }]
"""
TOKEN = "a-token-of-the-test-0123456789"
VIEWERS = 50


class Viewer(Raw):
    """A client of the stream. Reads its header at once."""

    def __init__(self, server, token=None):
        super().__init__(server.admin)
        field = f"Authorization: Bearer {token}\r\n" if token else ""
        self.send(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n{field}\r\n")
        self.status = int(self.reader.readline().split()[1])
        self.fields = {}
        while (line := self.reader.readline().decode().strip()) != "":
            name, value = line.split(": ", 1)
            self.fields[name.lower()] = value

    def event(self):
        line = self.reader.readline()
        if not line:
            raise EOFError("the stream has ended")
        if not line.startswith(b"data: ") or self.reader.readline() != b"\n":
            raise AssertionError(f"no event: {line!r}")
        return json.loads(line[len(b"data: ") :])


class Events(ServerTest):
    def setUp(self):
        self.server = Sluice(self.folder(), RULES)
        self.addCleanup(self.server.stop)

    def view(self):
        viewer = Viewer(self.server)
        self.addCleanup(viewer.close)
        return viewer

    def check(self, path, count=1):
        for _ in range(count):
            self.server.check({"attributes": {"path": path, "ip": "192.0.2.1"}})

    def test_each_second_an_event_says_what_has_happened(self):
        viewer = self.view()
        self.assertEqual(viewer.status, 200)
        self.assertEqual(viewer.fields["content-type"], "text/event-stream")
        self.assertEqual(viewer.fields["cache-control"], "no-store")
        self.assertNotIn("content-length", viewer.fields)
        first = viewer.event()
        self.check("/login", 5)
        self.check("/trial", 3)
        second = viewer.event()
        while second["total"]["requests"] < 8:
            second = viewer.event()
        self.assertEqual(second["total"], {"requests": 8, "denied": 3, "would_deny": 2, "failed": 0})
        login, trial = second["rules"]["busiest"]
        self.assertEqual((login["name"], login["denied"], login["shadow"]), ("login", 3, False))
        self.assertEqual((trial["would_deny"], trial["shadow"]), (2, True))
        self.assertEqual(second["rules"]["sources"], [str(self.server.rules_file)])
        self.assertEqual(second["reasons"]["limited"], 3)
        self.assertEqual(second["store"]["kind"], "memory")
        check = next(of for of in second["latency"] if of["front_end"] == "check")
        self.assertEqual(sum(check["buckets"]), 8)
        third = viewer.event()
        self.assertGreaterEqual(third["steady_ms"] - second["steady_ms"], 700)
        self.assertGreater(second["steady_ms"], first["steady_ms"])

    def test_a_change_of_the_rules_shows(self):
        viewer = self.view()
        before = viewer.event()["rules"]
        new = RULES.replace("name: login", "name: sign-in")
        self.assertEqual(self.server.admin_request("PUT", "/v1/rules", new).status, 200)
        after = wait_for(lambda: (found := viewer.event()["rules"])["version"] > 1 and found)
        self.assertEqual(after["busiest"][0]["name"], "sign-in")
        self.assertEqual(after["sources"], ["PUT /v1/rules"])
        self.assertGreater(after["loaded_at"], before["loaded_at"])

    def test_viewers_see_the_same_event_and_one_too_many_is_refused(self):
        viewers = [self.view() for _ in range(VIEWERS)]
        for viewer in viewers:
            self.assertEqual(viewer.status, 200)
        latest = []
        for viewer in viewers:
            event = viewer.event()
            while event["viewers"] < VIEWERS:
                event = viewer.event()
            latest.append(event)
        self.assertEqual({event["steady_ms"] for event in latest}, {latest[0]["steady_ms"]})
        refused = self.server.admin_request("GET", "/v1/events")
        self.assertEqual(refused.status, 503)
        self.assertIn("50 viewers", refused.json["detail"])
        viewers[0].close()
        wait_for(lambda: self.view().status == 200, what="the place of the one who left")

    def test_a_viewer_that_does_not_read_is_dropped_and_costs_no_memory(self):
        server = self.serve(RULES, {"bounds": {"write_timeout": "1s"}})
        names = [f"{'rule-' * 20}{i}" for i in range(100)]
        rule = "  - {{ name: {0}, match: {{ path: /{0} }}, limits: [{{ name: {0}, algorithm: gcra, limit: 9, per: 1s }}] }}\n"
        many = "version: 1\nrules:\n" + "".join(rule.format(name) for name in names)
        self.assertEqual(server.admin_request("PUT", "/v1/rules", many).status, 200)
        reader = Viewer(server)
        self.addCleanup(reader.close)
        before = server.resident_bytes()
        with contextlib.ExitStack() as stack:
            for _ in range(VIEWERS - 1):
                slow = stack.enter_context(socket.socket())
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                host, port = server.admin.split(":")
                slow.connect((host, int(port)))
                slow.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait_for(lambda: reader.event()["viewers"] == VIEWERS, what="the slow viewers")
            wait_for(lambda: reader.event()["viewers"] == 1, "only the viewer that reads")
            self.assertLess(server.resident_bytes() - before, 32 << 20)
        self.assertGreater(server.metrics()['sluice_request_errors_total{reason="timed_out"}'], 0)

    def test_streams_end_at_once_when_the_server_drains(self):
        patience = f"{2 * PATIENCE}s"
        server = self.serve(RULES, {"bounds": {"header_timeout": patience}, "drain": {"timeout": patience}})
        hold = Raw(server.http).send("GET")  # an unfinished request, which keeps the server draining
        self.addCleanup(hold.close)
        wait_until_received(hold.socket)
        viewer = Viewer(server)
        self.addCleanup(viewer.close)
        viewer.event()
        server.signal(signal.SIGTERM)
        with self.assertRaises(EOFError):
            while True:
                viewer.event()
        self.assertIsNone(server.child.poll())
        hold.close()
        self.assertEqual(server.wait(), 0)

    def test_head_has_the_header_only(self):
        with Raw(self.server.admin) as raw:
            raw.send("HEAD /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertTrue(raw.reader.readline().startswith(b"HTTP/1.1 200"))
            while raw.reader.readline() != b"\r\n":
                pass
            self.assertTrue(raw.ended())


class WithAToken(ServerTest):
    @classmethod
    def setUpClass(cls):
        folder = cls.folder()
        cls.file = folder / "token"
        cls.file.write_text(TOKEN)
        cls.file.chmod(0o600)
        cls.server = cls.serve(RULES, {"admin": {"token_file": str(cls.file)}})

    def test_the_stream_needs_the_token(self):
        for token in (None, "another"):
            with Viewer(self.server, token) as viewer:
                self.assertEqual(viewer.status, 401)
        with Viewer(self.server, TOKEN) as viewer:
            self.assertEqual(viewer.status, 200)
            self.assertEqual(viewer.event()["rules"]["version"], 1)

    def reload(self, token):
        headers = {"Authorization": f"Bearer {token}"}
        answer = self.server.admin_request("POST", "/v1/rules/reload", headers=headers)
        self.assertEqual(answer.status, 200)

    def test_a_stream_ends_when_the_token_is_replaced(self):
        other = TOKEN + "-2"
        with Viewer(self.server, TOKEN) as viewer:
            self.reload(TOKEN)
            for _ in range(3):
                viewer.event()  # the token is the same
            self.file.write_text(other)
            self.reload(TOKEN)
            try:
                with self.assertRaises(EOFError):
                    for _ in range(PATIENCE):
                        viewer.event()
                with Viewer(self.server, TOKEN) as refused:
                    self.assertEqual(refused.status, 401)
                with Viewer(self.server, other) as again:
                    self.assertTrue(again.event())
            finally:
                self.file.write_text(TOKEN)
                self.reload(other)

    def test_pages_of_other_sites_cannot_read_it(self):
        answer = exchange(
            self.server.admin,
            "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
            f"Authorization: Bearer {TOKEN}\r\n\r\n",
        )
        self.assertEqual(answer.status, 403)
