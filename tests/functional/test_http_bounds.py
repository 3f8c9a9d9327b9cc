"""The HTTP front end with input that is too large, too slow, invalid, or unusual."""

import json
import re
import resource
import socket
import subprocess
import time
import unittest

from harness import PATIENCE, Raw, ServerTest, binary, exchange, tool, wait_for

RULES = """
version: 1
rules:
  - name: page
    match: { path: /page }
    limits: [{ name: all, key: "{ip}", algorithm: fixed_window, limit: 1000000, per: 1h }]
  - name: count
    match: { path: /count }
    limits: [{ name: all, key: "{ip}", algorithm: fixed_window, limit: 50, per: 1h }]
"""
OPEN = 'sluice_connections{listener="http"}'
MOST = 'sluice_connections_max{listener="http"}'
HEALTH = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(body, *fields, version="1.1"):
    lines = [f"POST /v1/check HTTP/{version}", "Host: localhost", *fields, "", ""]
    return "\r\n".join(lines).encode() + (body.encode() if isinstance(body, str) else body)


def sized(body, *fields):
    data = body.encode() if isinstance(body, str) else body
    return post(data, f"Content-Length: {len(data)}", *fields)


def chunked(*chunks):
    body = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
    return post(body, "Transfer-Encoding: chunked")


def wish(**attributes):
    return json.dumps({"attributes": attributes})


class Messages(ServerTest):
    """Valid and invalid requests to a server with the default bounds."""

    @classmethod
    def setUpClass(cls):
        cls.sluice = cls.serve(RULES)

    def tearDown(self):
        self.assertEqual(exchange(self.sluice.http, HEALTH).status, 200, "the server goes on")

    def refused(self, data, *statuses):
        """Checks that the answer has one of the statuses and that the connection ends."""
        with Raw(self.sluice.http) as raw:
            answer = raw.send(data).answer()
            self.assertIn(answer.status, statuses)
            self.assertEqual(answer["connection"], "close")
            self.assertEqual(answer["content-type"], "application/problem+json")
            self.assertEqual(answer.json["status"], answer.status)
            self.assertTrue(raw.ended(), "the connection stays open")
            return answer

    def answered(self, data, status=200):
        answer = exchange(self.sluice.http, data)
        self.assertEqual(answer.status, status, answer)
        return answer

    def test_a_header_of_32_kib_is_accepted_and_a_longer_one_gets_431(self):
        fits = "x" * (32 * 1024 - 200)
        self.answered(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {fits}\r\n\r\n")
        self.refused(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {fits}{fits}\r\n\r\n", 431)
        self.refused("GET /" + "x" * 40_000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 431)
        many = "".join(f"X-{i}: y\r\n" for i in range(5000))
        self.refused(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}\r\n", 431)

    def test_a_body_of_1_mib_is_accepted_and_a_longer_one_gets_413(self):
        def padded(size):
            return wish(path="/page", ip="x").ljust(size)

        self.answered(sized(padded(1 << 20)))
        self.refused(sized(padded((1 << 20) + 1)), 413)
        self.refused(post("", "Content-Length: 99999999999"), 413)
        self.refused(chunked(*[b" " * 65536] * 20), 413)

    def test_a_length_that_is_not_a_number_gets_400(self):
        for length in ("-1", "1x", "", "0x10", "99999999999999999999999", "+5", "1 1"):
            with self.subTest(length=length):
                self.refused(post("", f"Content-Length: {length}"), 400, 413)

    def test_content_length_with_transfer_encoding_gets_400(self):
        for fields in [
            ("Content-Length: 5", "Transfer-Encoding: chunked"),
            ("Transfer-Encoding: chunked", "Content-Length: 5"),
            ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
            ("Transfer-Encoding: gzip, chunked",),
            ("Transfer-Encoding: identity",),
            ("Transfer-Encoding: chunked, gzip",),
            ("Transfer-Encoding: xchunked",),
        ]:
            with self.subTest(fields=fields):
                self.refused(post("0\r\n\r\n", *fields), 400, 501)

    def test_different_lengths_get_400(self):
        self.refused(post("abc", "Content-Length: 3", "Content-Length: 4"), 400)
        self.refused(post("abc", "Content-Length: 3, 4"), 400)

    def test_transfer_encoding_in_http_1_0_gets_400(self):
        self.refused(post("0\r\n\r\n", "Transfer-Encoding: chunked", version="1.0"), 400)

    def test_chunks_form_one_body(self):
        body = wish(path="/page", ip="chunks").encode()
        answer = self.answered(chunked(body[:1], body[1:7], body[7:]))
        self.assertEqual(answer.json["rule"], "page")
        # With an extension, a trailer, and another request after it.
        data = (
            post(
                b"%X;a=b\r\n%s\r\n0\r\nX-Trailer: y\r\n\r\n" % (len(body), body),
                "Transfer-Encoding: chunked",
            )
            + HEALTH.encode()
        )
        with Raw(self.sluice.http) as raw:
            self.assertEqual(raw.send(data).answer().json["rule"], "page")
            self.assertEqual(raw.answer().body, b"ok\n")

    def test_invalid_chunks_get_400(self):
        for body in (
            "x\r\n",
            "-1\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "fffffffffffffffff\r\n",
            "3 \nabc\r\n",
        ):
            with self.subTest(body=body):
                self.refused(post(body, "Transfer-Encoding: chunked"), 400, 413)

    def test_bytes_that_are_not_http_get_400(self):
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"G(T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"\x00\x00\x00\x00\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n folded\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        ):
            with self.subTest(data=data[:40]):
                self.refused(data, 400, 505)

    def test_host_is_required_once_in_http_1_1(self):
        self.refused("GET /healthz HTTP/1.1\r\n\r\n", 400)
        self.refused("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", 400)
        self.answered("GET /healthz HTTP/1.0\r\n\r\n")

    def test_http_1_0_closes_unless_keep_alive_is_requested(self):
        with Raw(self.sluice.http) as raw:
            self.assertEqual(raw.send("GET /healthz HTTP/1.0\r\n\r\n").answer().status, 200)
            self.assertTrue(raw.ended())
        with Raw(self.sluice.http) as raw:
            for _ in range(2):
                raw.send("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                self.assertEqual(raw.answer()["connection"].lower(), "keep-alive")

    def test_http_1_1_keeps_the_connection_unless_close_is_requested(self):
        with Raw(self.sluice.http) as raw:
            for _ in range(3):
                self.assertEqual(raw.send(HEALTH).answer().status, 200)
            raw.send(HEALTH.replace("Host: localhost", "Host: localhost\r\nConnection: close"))
            self.assertEqual(raw.answer()["connection"], "close")
            self.assertTrue(raw.ended())

    def test_pipelined_requests_are_answered_in_order(self):
        data = b"".join(
            sized(wish(path="/count", ip="pipeline")) + HEALTH.encode() for _ in range(60)
        )
        with Raw(self.sluice.http) as raw:
            raw.send(data)
            for i in range(60):
                answer = raw.answer()
                self.assertEqual(answer.status, 200 if i < 50 else 429, i)
                self.assertEqual(answer.json["limits"][0]["remaining"], max(49 - i, 0))
                self.assertEqual(raw.answer().body, b"ok\n")

    def test_a_request_byte_by_byte_is_one_request(self):
        with Raw(self.sluice.http) as raw:
            raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in sized(wish(path="/page", ip="slow")):
                raw.send(bytes([byte]))
            self.assertEqual(raw.answer().json["rule"], "page")

    def test_half_a_request_and_a_close_do_not_affect_others(self):
        for data in (
            b"GET /he",
            b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
            b"",
        ):
            with Raw(self.sluice.http) as raw:
                raw.send(data)
            with Raw(self.sluice.http) as raw:
                raw.send(data).socket.shutdown(socket.SHUT_WR)
                self.assertTrue(raw.ended())
        wait_for(lambda: self.sluice.metrics()[OPEN] == 1, what="one connection")

    def test_a_client_that_closes_its_half_is_still_answered(self):
        with Raw(self.sluice.http) as raw:
            raw.send(HEALTH).socket.shutdown(socket.SHUT_WR)
            self.assertEqual(raw.answer().status, 200)
            self.assertTrue(raw.ended())

    def test_the_path_of_the_absolute_form_is_used(self):
        self.answered("GET http://shop.example.org/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.answered("GET http://localhost:80/nothing?x HTTP/1.1\r\nHost: localhost\r\n\r\n", 404)
        self.answered("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 404)

    def test_head_is_get_without_the_body(self):
        with Raw(self.sluice.http) as raw:
            raw.send("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + HEALTH)
            head, get = raw.answer(head=True), raw.answer()
            self.assertEqual((head.status, head["content-length"]), (200, get["content-length"]))

    def test_an_unknown_path_gets_404_and_a_wrong_method_405(self):
        for path in ("/", "/v1", "/v1/checks", "/v1/check/", "/v2/check", "/v1/rules", "/V1/CHECK"):
            answer = self.answered(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n", 404)
            self.assertEqual(answer["content-type"], "application/problem+json")
        for method, path in (("GET", "/v1/check"), ("POST", "/healthz"), ("DELETE", "/metrics")):
            answer = self.answered(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n", 405)
            self.assertTrue(answer["allow"])

    def test_expect_100_continue_gets_100(self):
        body = wish(path="/page", ip="polite")
        with Raw(self.sluice.http) as raw:
            raw.send(post("", f"Content-Length: {len(body)}", "Expect: 100-continue"))
            self.assertEqual(raw.answer().status, 100)
            self.assertEqual(raw.send(body).answer().json["rule"], "page")

    def test_bad_json_gets_400_with_detail_and_keeps_the_connection(self):
        with Raw(self.sluice.http) as raw:
            for body in (
                '{"attributes":{"a":}}',
                "{",
                "[" * 500 + "]" * 500,
                '{"a":' * 5000,
                '{"attributes":{"path":"\xff"}}'.encode("latin-1"),
                b'{"attributes":{"path":"\xc0\xaf"}}',
                b'{"attributes":{"path":"\xed\xa0\x80"}}',
                '{"attributes":{"path":"\\ud800"}}',
                "{'attributes':{}}",
                "\ufeff{}",
                '{"attributes":{"path":"a\nb"}}',
                '{"attributes":{"path":NaN}}',
            ):
                answer = raw.send(sized(body)).answer()
                self.assertEqual(answer.status, 400, (body, answer))
                self.assertEqual(answer["content-type"], "application/problem+json")
                self.assertTrue(answer.json["detail"])
            self.assertEqual(raw.send(HEALTH).answer().status, 200)


class TightBounds(ServerTest):
    """A server with bounds that a test can reach quickly."""

    @classmethod
    def setUpClass(cls):
        cls.sluice = cls.serve(
            RULES,
            {
                "bounds": {
                    "header_timeout": "400ms",
                    "body_timeout": "400ms",
                    "write_timeout": "700ms",
                    "idle_timeout": "1500ms",
                }
            },
        )

    def timed_out(self):
        return self.sluice.metrics()['sluice_request_errors_total{reason="timed_out"}']

    def late(self, data, *slowly):
        """Sends the data, then `slowly` one by one. Returns the answer."""
        with Raw(self.sluice.http) as raw:
            raw.send(data)
            for byte in slowly:
                time.sleep(0.1)
                try:
                    raw.send(byte)
                except OSError:
                    break
            answer = raw.answer()
            self.assertTrue(raw.ended())
            return answer

    def test_a_header_that_comes_too_slowly_gets_408(self):
        before = self.timed_out()
        answer = self.late("GET /healthz HTTP/1.1\r\n", *["X: y\r\n"] * 10)
        self.assertEqual((answer.status, answer["connection"]), (408, "close"))
        self.assertGreater(self.timed_out(), before)

    def test_a_body_that_comes_too_slowly_gets_408(self):
        answer = self.late(post("", "Content-Length: 100"), *[" "] * 10)
        self.assertEqual((answer.status, answer["connection"]), (408, "close"))

    def test_an_idle_connection_is_closed_without_a_response(self):
        with Raw(self.sluice.http) as fresh, Raw(self.sluice.http) as used:
            used.send(HEALTH).answer()
            self.assertTrue(fresh.ended() and used.ended())

    def test_a_client_that_does_not_read_is_disconnected(self):
        before = self.timed_out()
        with Raw(self.sluice.http) as raw:
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.socket.settimeout(0.2)
            request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
            try:
                for _ in range(2000):
                    raw.send(request * 100)
            except OSError:
                pass
            wait_for(lambda: self.timed_out() > before, what="the timeout in the metrics")

    def test_slowhttptest_does_not_make_the_server_unavailable(self):
        before = self.timed_out()
        host, port = self.sluice.http.split(":")
        options = f"-c 15 -r 15 -H -i 1 -l 3 -p 20 -x 10 -u http://{host}:{port}/healthz"
        done = subprocess.run(
            [tool("slowhttptest"), *options.split()], capture_output=True, text=True, timeout=PATIENCE
        )
        text = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)  # without color codes
        available = re.findall(r"service available:\s+(\w+)", text)
        self.assertTrue(available and set(available) == {"YES"}, text)
        self.assertGreaterEqual(self.timed_out(), before + 15, "slow connections stayed open")
        self.assertEqual(wait_for(lambda: exchange_or_none(self.sluice.http)).status, 200)


class PunctualClients(ServerTest):
    """Clients that keep to the bounds of the server. A test that was itself late tries again."""

    SECONDS = 1  # of both timeouts

    @classmethod
    def setUpClass(cls):
        timeout = f"{cls.SECONDS}s"
        cls.sluice = cls.serve(RULES, {"bounds": {"header_timeout": timeout, "idle_timeout": timeout}})

    def is_served(self, first, later, steps):
        """Sends `first`, and then `later` in steps that last longer than the timeout only together.
        Returns False if one step did as well."""
        with Raw(self.sluice.http) as raw:
            since = time.monotonic()
            raw.send(first)
            for _ in range(steps):
                time.sleep(1.5 * self.SECONDS / steps)
                now = time.monotonic()
                try:
                    status = raw.send(later).answer().status
                except (EOFError, ConnectionError):
                    status = None
                if status != 200:
                    self.assertGreaterEqual(time.monotonic() - since, self.SECONDS, status)
                    return False
                since = now
        return True

    def test_each_request_has_its_own_timeout_however_the_bytes_are_split(self):
        # Every write ends in the middle of a request. All requests once shared the first's timeout.
        wait_for(lambda: self.is_served(HEALTH[:10], HEALTH[10:] + HEALTH[:10], 5), "punctual requests")

    def test_a_busy_connection_is_not_idle(self):
        wait_for(lambda: self.is_served("", HEALTH, 3), "punctual requests")


class OtherBounds(ServerTest):
    @classmethod
    def setUpClass(cls):
        names = ("header_timeout", "body_timeout", "write_timeout", "idle_timeout")
        bounds = {**dict.fromkeys(names, f"{2 * PATIENCE}s"), "connections": 20,
                  "requests_per_connection": 500}  # fmt: skip
        cls.sluice = cls.serve(RULES, {"bounds": bounds})

    def test_a_connection_ends_after_its_maximum_of_requests(self):
        with Raw(self.sluice.http) as raw:
            raw.send(HEALTH * 600)
            closes = [raw.answer()["connection"] for _ in range(500)]
            self.assertEqual(closes, [None] * 499 + ["close"])
            self.assertTrue(raw.ended())

    def test_connections_over_the_cap_are_refused_at_once_and_others_continue(self):
        wait_for(lambda: self.sluice.metrics()[OPEN] <= 1, what="a free connection")
        held = [Raw(self.sluice.http) for _ in range(20)]
        try:
            for raw in held:
                self.assertEqual(raw.send(HEALTH).answer().status, 200)
            with Raw(self.sluice.http) as one_more:
                try:
                    answer = one_more.send(HEALTH).answer()
                    self.assertEqual(answer.status, 503)
                    self.assertTrue(one_more.ended())
                except (EOFError, ConnectionError):
                    pass  # closed without a response
            for raw in held:
                self.assertEqual(raw.send(HEALTH).answer().status, 200)
            # The metrics and the status say so of this listener; /metrics is also at the other one.
            answer = self.sluice.admin_request("GET", "/metrics").body.decode().splitlines()
            for line in (f"{OPEN} 20", f"{MOST} 20", f"{MOST.replace('http', 'admin')} 20"):
                self.assertIn(line, answer)
            done = subprocess.run([binary(), "status", "--admin", self.sluice.admin],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout.splitlines()[0], "CONNECTIONS NEAR THE MAXIMUM: http 20 of "
                             "20 (bounds.connections); further ones are refused")
        finally:
            for raw in held:
                raw.close()
        wait_for(lambda: exchange_or_none(self.sluice.http), what="an answer again")
        self.assertGreaterEqual(
            self.sluice.metrics()['sluice_connections_refused_total{reason="cap"}'], 1
        )


class SlowReaders(ServerTest):
    """Clients that do not read responses of 4 MB each. The server has one loop."""

    @classmethod
    def setUpClass(cls):
        name = "x" * 60
        limit = "{ name: %s-%d, algorithm: fixed_window, limit: 1000000, per: 1h }"
        limits = ", ".join(limit % (name, i) for i in range(32))
        # A Unix socket, because the kernel keeps megabytes for a connection over TCP.
        config = {"listen": {"http": f"unix:{cls.folder()}/socket"}, "threads": 1,
                  "bounds": {"write_timeout": f"{2 * PATIENCE}s"}}  # fmt: skip
        cls.sluice = cls.serve(
            f"version: 1\nrules:\n  - name: wide\n    limits: [{limits}]\n", config
        )

    def ask(self):
        body = json.dumps([{"attributes": {}}] * 1000)
        return Raw(self.sluice.http).send(sized(body))

    def test_beyond_32_mib_the_slowest_are_closed_and_the_others_get_their_responses(self):
        closed = 'sluice_request_errors_total{reason="timed_out"}'
        before = self.sluice.metrics()[closed]
        slow = []
        try:
            for _ in range(14):
                slow.append(self.ask())
                self.assertIn(b" 200 ", slow[-1].reader.peek(15), "it is answered")
            wait_for(lambda: self.sluice.metrics()[closed] - before >= 5, what="closed connections")
            quick = self.ask()
            slow.append(quick)
            self.assertEqual(len(quick.answer().json), 1000)
            self.assertEqual(len(slow[-2].answer().json), 1000, "the last that is slow")
            with self.assertRaises((EOFError, ConnectionError)):
                slow[0].answer()
        finally:
            for raw in slow:
                raw.close()


def exchange_or_none(address, request=HEALTH):
    try:
        answer = exchange(address, request)
        return answer if answer.status == 200 else None
    except (EOFError, OSError):
        return None


def limit_descriptors(most):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class FewDescriptors(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.sluice = cls.serve(RULES, preexec_fn=limit_descriptors(48))

    def test_without_descriptors_the_server_logs_it_and_continues(self):
        first = Raw(self.sluice.http)
        first.send(HEALTH).answer()
        others = []
        try:
            for _ in range(80):
                others.append(Raw(self.sluice.http))
            wait_for(lambda: "descriptor" in self.sluice.log(), what="a log line about descriptors")
            self.assertEqual(first.send(HEALTH).answer().status, 200, "the first connection")
            self.assertLess(len(self.sluice.log()), 20_000, "it logs at a bounded rate")
        finally:
            for raw in others:
                raw.close()
        self.assertEqual(wait_for(lambda: exchange_or_none(self.sluice.http)).status, 200)
        # The server may not have closed the others yet, and then refuses what is no decision.
        wait_for(lambda: exchange_or_none(self.sluice.http, HEALTH.replace("/healthz", "/metrics")))
        refused = 'sluice_connections_refused_total{reason="out_of_descriptors"}'
        self.assertGreater(self.sluice.metrics()[refused], 0)
        first.close()

    def test_a_flood_of_connections_to_one_listener_leaves_descriptors_for_the_others(self):
        sluice = self.serve(
            RULES, {"listen": {"resp": "127.0.0.1:0"}}, preexec_fn=limit_descriptors(160)
        )
        resp = sluice.front_ends["resp"]
        flood = [Raw(resp) for _ in range(150)]
        try:
            wait_for(lambda: "out of file descriptors" in sluice.log(), what="the end of them")
            others = [Raw(sluice.http).send(HEALTH) for _ in range(8)]
            for raw in others:
                self.assertEqual(raw.answer().status, 200)
                raw.close()
        finally:
            for raw in flood:
                raw.close()

    def test_a_flood_of_connections_leaves_descriptors_for_administration(self):
        sluice = self.serve(
            RULES, {"listen": {"resp": "127.0.0.1:0"}}, preexec_fn=limit_descriptors(160)
        )
        warning = "the limit of 160 open files is enough for "
        wait_for(lambda: warning in sluice.log(), what="the warning")
        resp = sluice.front_ends["resp"]
        flood = [Raw(address) for _ in range(150) for address in (sluice.http, resp)]
        try:
            wait_for(lambda: "out of file descriptors" in sluice.log(), what="the end of them")
            operators = [Raw(sluice.admin).send(HEALTH) for _ in range(8)]
            for raw in operators:
                self.assertEqual(raw.answer().status, 200)
            self.assertEqual(sluice.admin_request("POST", "/v1/rules/reload").status, 200)
            for raw in operators:
                raw.close()
        finally:
            for raw in flood:
                raw.close()
        self.assertEqual(wait_for(lambda: exchange_or_none(sluice.http)).status, 200)


if __name__ == "__main__":
    unittest.main()
