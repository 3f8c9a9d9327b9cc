"""SIGTERM under load: the server answers the accepted requests and ends in time."""

import os
import pty
import signal
import threading
import time
import unittest

from harness import PATIENCE, Raw, ServerTest, accepts, request, wait_for, wait_until_received

RULES = """
version: 1
rules:
  - name: page
    match: { path: /page }
    limits: [{ name: all, key: "{ip}", algorithm: fixed_window, limit: 1000000, per: 1h }]
"""
BODY = b'{"attributes":{"path":"/page","ip":"192.0.2.1"}}'
REQUEST = (b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(BODY)) + BODY
# Unfinished requests may take long, even while the server drains.
PATIENT = {
    "bounds": {"header_timeout": f"{PATIENCE}s", "body_timeout": f"{PATIENCE}s"},
    "drain": {"timeout": f"{PATIENCE}s"},
}
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Client(threading.Thread):
    """Sends `depth` requests at a time on one connection until an answer says `Connection: close`.
    An unanswered request before that one is lost."""

    def __init__(self, address, depth):
        super().__init__(daemon=True)
        self.raw = Raw(address)
        self.depth, self.answered, self.error, self.is_closing = depth, 0, None, False

    def run(self):
        try:
            while not self.is_closing:
                self.raw.send(REQUEST * self.depth)
                for i in range(self.depth):
                    answer = self.raw.answer()
                    if answer.status != 200:
                        raise AssertionError(answer)
                    self.answered += 1
                    if answer["connection"] == "close":
                        self.is_closing = True
                        break
        except (EOFError, OSError, AssertionError) as error:
            self.error = error
        finally:
            self.raw.close()


class Newcomer(threading.Thread):
    """Opens a connection for each request, until none can be opened."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.answered, self.error = address, 0, None

    def run(self):
        while True:
            try:
                raw = Raw(self.address)
            except OSError:
                return
            try:
                raw.send(REQUEST)
                if raw.answer().status != 200:
                    raise AssertionError("not 200")
                self.answered += 1
            except (EOFError, OSError, AssertionError) as error:
                self.error = error
                return
            finally:
                raw.close()


def has_no_connection(server):
    listeners = server.admin_request("GET", "/v1/status").json["listeners"]
    return not any(one["connections"] for one in listeners if one["name"] != "admin")


class Drain(ServerTest):
    def test_clients_that_connect_for_each_request_are_answered_or_refused(self):
        # A connection was once reset if its handshake ended while the server stopped listening.
        servers = [self.serve(RULES) for _ in range(5)]
        clients = [Newcomer(server.http) for server in servers for _ in range(6)]
        for client in clients:
            client.start()
        wait_for(lambda: all(client.answered for client in clients), "the first answers")
        for server in servers:
            server.signal(signal.SIGTERM)
        for server in servers:
            self.assertEqual(server.wait(), 0)
        for client in clients:
            client.join(PATIENCE)
        self.assertFalse([str(client.error) for client in clients if client.error])

    def test_no_request_is_lost_under_load(self):
        sluice = self.serve(RULES, {"drain": {"timeout": f"{PATIENCE}s"}})
        clients = [Client(sluice.http, depth) for depth in [1] * 24 + [5] * 8]
        for client in clients:
            client.start()
        wait_for(lambda: sum(client.answered for client in clients) > 200, "200 answers")
        sluice.signal(signal.SIGTERM)
        self.assertEqual(sluice.wait(), 0)
        self.assertNotIn("did not end in time", sluice.log())
        for client in clients:
            client.join(PATIENCE)
        self.assertFalse([str(client.error) for client in clients if client.error])
        self.assertTrue(all(client.is_closing for client in clients))

    def test_connections_that_only_the_kernel_has_accepted_are_answered(self):
        sluice = self.serve(RULES, flags=["--threads", "1"])
        sluice.pause()
        waiting = [Raw(sluice.http).send(REQUEST) for _ in range(20)]
        sluice.signal(signal.SIGTERM)
        sluice.signal(signal.SIGCONT)
        for raw in waiting:
            self.assertEqual(raw.answer().status, 200)
            self.assertTrue(raw.ended())
            raw.close()
        self.assertEqual(sluice.wait(), 0)

    def test_a_request_in_progress_is_finished(self):
        sluice = self.serve(RULES, PATIENT)
        with Raw(sluice.http) as raw:
            raw.send(REQUEST[:60])
            wait_until_received(raw.socket)
            sluice.signal(signal.SIGTERM)
            wait_for(lambda: not accepts(sluice.http), "the end of the listener")
            self.assertEqual(raw.send(REQUEST[60:]).answer().status, 200)
            self.assertTrue(raw.ended())
        self.assertEqual(sluice.wait(), 0)

    def test_a_server_that_drains_leaves_the_unix_socket_of_the_next_one(self):
        address = f"unix:{self.folder()}/http.sock"
        old = self.serve(RULES, PATIENT, ["--http", address])
        with Raw(address) as raw:
            raw.send(REQUEST[:60])
            wait_until_received(raw.socket)
            old.signal(signal.SIGTERM)
            wait_for(lambda: not accepts(address), "the end of the listener")
            self.serve(RULES, flags=["--http", address])
            self.assertEqual(raw.send(REQUEST[60:]).answer().status, 200)
        self.assertEqual(old.wait(), 0)
        self.assertEqual(request(address, "GET", "/healthz").status, 200)

    def test_during_the_delay_the_server_answers_and_readyz_reports_503(self):
        sluice = self.serve(RULES, {"drain": {"delay": f"{PATIENCE}s"}})
        self.assertEqual(sluice.get("/readyz").status, 200)
        sluice.signal(signal.SIGTERM)
        wait_for(lambda: sluice.get("/readyz").status == 503, what="not being ready")
        self.assertEqual(sluice.get("/healthz").status, 200)
        self.assertEqual(sluice.check({"attributes": {"path": "/page", "ip": "a"}}).status, 200)
        sluice.signal(signal.SIGTERM)  # ends the server at once

    def test_the_server_ends_after_the_delay(self):
        sluice = self.serve(RULES, {"drain": {"delay": "1s"}})
        self.assertEqual(sluice.get("/readyz").status, 200)
        begin = time.monotonic()
        sluice.signal(signal.SIGTERM)
        self.assertEqual(sluice.wait(), 0)
        self.assertGreaterEqual(time.monotonic() - begin, 1)
        self.assertIn(
            "draining for 1s (drain.delay), then until connections have ended, at most 10s "
            "(drain.timeout); another SIGTERM or Ctrl-C stops it now connections=",
            sluice.log(),
        )

    def test_without_connections_and_load_balancers_nothing_is_waited_for(self):
        sluice = self.serve(RULES, {"drain": {"delay": f"{2 * PATIENCE}s"}})
        self.assertEqual(sluice.check({"attributes": {"path": "/page", "ip": "a"}}).status, 200)
        wait_for(lambda: has_no_connection(sluice), "the end of the connection")
        sluice.signal(signal.SIGTERM)
        self.assertEqual(sluice.wait(), 0)
        self.assertIn("draining without delay connections=0", sluice.log())

    def test_an_open_connection_is_waited_for(self):
        sluice = self.serve(RULES, {**PATIENT, "drain": {"delay": "10ms", "timeout": "1s"}})
        with Raw(sluice.http) as raw:
            raw.send(REQUEST[:60])
            wait_until_received(raw.socket)
            sluice.signal(signal.SIGTERM)
            self.assertEqual(sluice.wait(), 0)
        self.assertIn("draining for 10ms (drain.delay)", sluice.log())
        self.assertIn(
            'waiting for connections to end, at most 1s (drain.timeout) connections=1 '
            'listeners="http 1"', sluice.log()
        )
        self.assertIn('connections were closed because they did not end in time (drain.timeout) '
                      'connections=1 listeners="http 1"', sluice.log())

    def test_a_second_signal_says_what_it_closes(self):
        sluice = self.serve(RULES, PATIENT)
        with Raw(sluice.http) as raw:
            raw.send(REQUEST[:60])
            wait_until_received(raw.socket)
            sluice.signal(signal.SIGTERM)
            wait_for(lambda: "draining" in sluice.log(), "the first signal")
            sluice.signal(signal.SIGTERM)
            self.assertEqual(sluice.wait(), 0)
        self.assertIn('connections were closed because of a second signal connections=1 '
                      'listeners="http 1"', sluice.log())

    def test_at_a_terminal_there_is_no_delay(self):
        over, under = pty.openpty()
        self.addCleanup(os.close, over)
        sluice = self.serve(RULES, {"drain": {"delay": f"{2 * PATIENCE}s"}}, stdin=under)
        os.close(under)
        self.assertEqual(sluice.get("/readyz").status, 200)
        sluice.signal(signal.SIGINT)
        self.assertEqual(sluice.wait(), 0)
        self.assertIn("draining without delay", sluice.log())

    def test_idle_connections_do_not_delay_the_end(self):
        sluice = self.serve(RULES, {"drain": {"timeout": f"{2 * PATIENCE}s"}})
        idle = [Raw(sluice.http) for _ in range(10)]
        for raw in idle[:5]:
            raw.send(HEALTH).answer()
        sluice.signal(signal.SIGTERM)
        self.assertEqual(sluice.wait(), 0)
        for raw in idle:
            self.assertTrue(raw.ended())
            raw.close()

    def test_unfinished_requests_are_closed_at_the_timeout_and_logged(self):
        sluice = self.serve(RULES, {**PATIENT, "drain": {"timeout": "500ms"}})
        with Raw(sluice.http) as raw:
            raw.send(REQUEST[:60])
            wait_until_received(raw.socket)
            sluice.signal(signal.SIGTERM)
            self.assertEqual(sluice.wait(), 0)
        self.assertIn("did not end in time", sluice.log())

    def test_a_second_signal_ends_the_server_at_once(self):
        sluice = self.serve(RULES, {"drain": {"delay": f"{2 * PATIENCE}s"}})
        self.assertEqual(sluice.get("/readyz").status, 200)
        sluice.signal(signal.SIGTERM)
        wait_for(lambda: sluice.get("/readyz").status == 503)
        sluice.signal(signal.SIGTERM)
        self.assertEqual(sluice.wait(), 0)

    def test_other_signals_do_not_end_the_server(self):
        sluice = self.serve()
        sluice.signal(signal.SIGXFSZ)  # it is not logged
        for one in (
            signal.SIGUSR1,
            signal.SIGUSR2,
            signal.SIGALRM,
            signal.SIGIO,
            signal.SIGPROF,
            signal.SIGVTALRM,
            signal.SIGRTMIN,
            signal.SIGRTMIN + 5,
            signal.SIGRTMAX,
        ):
            text = f'a signal has no effect signal="{signal.strsignal(one)}"'
            sluice.signal(one)
            wait_for(lambda: text in sluice.log(), what=text)
        self.assertEqual(sluice.get("/healthz").status, 200)
        sluice.signal(signal.SIGPWR)
        self.assertEqual(sluice.wait(), 0)
        self.assertIn("draining", sluice.log())

    def test_signals_until_the_very_end_do_not_change_the_status(self):
        for _ in range(10):
            sluice = self.serve(RULES)
            end = time.monotonic() + PATIENCE
            while sluice.child.poll() is None and time.monotonic() < end:
                sluice.signal(signal.SIGTERM)
            self.assertEqual(sluice.wait(), 0)

    def test_sigint_drains_as_sigterm_does(self):
        sluice = self.serve(RULES)
        sluice.signal(signal.SIGINT)
        self.assertEqual(sluice.wait(), 0)


if __name__ == "__main__":
    unittest.main()
