"""Spring Cloud Gateway with the files of deploy/spring, as docs/gateway.md describes. The tests replace
only ports, addresses and the timeout."""

import contextlib
import functools
import http.client
import signal
import unittest

from harness import (
    PATIENCE,
    Answer,
    Application,
    ServerTest,
    free_port,
    request,
    tool,
    wait_for,
)
from maven_harness import copied, maven

RULES = """
version: 1
domain: shop
rules:
  - name: order
    match: { path: /api/order/** }
    limits: [ { name: user, key: "{header.x-user-id|ip}", algorithm: gcra, limit: 1, per: 1h, burst: 2 } ]
  - name: login
    match: { method: POST, path: /login }
    limits: [ { name: ip, key: "{ip}", algorithm: sliding_window_log, limit: 2, per: 1h } ]
"""


@functools.cache
def program():
    """Returns the program that Maven builds from deploy/spring and the library."""
    maven(copied("clients/spring", "library"), "-DskipTests", "install")
    project = copied("deploy/spring", "gateway")
    maven(project, "package")
    return project / "target/gateway.jar"


class Gateway(ServerTest):
    timeout = "60s"  # a busy machine is late

    @classmethod
    def setUpClass(cls):
        cls.app = Application()
        cls.addClassCleanup(cls.app.stop)
        cls.ports = {"http": free_port(), "resp": free_port()}  # kept across a restart
        cls.start_sluice()
        cls.port = free_port()
        arguments = {
            "server.port": cls.port,
            "sluice.url": f"redis://127.0.0.1:{cls.ports['resp']}",
            "sluice.timeout": cls.timeout,
            "application": f"http://{cls.app.address}",
        }
        cls.gateway = cls.start_gateway(program(), arguments)

    @classmethod
    def start_gateway(cls, program, arguments):
        folder, address = cls.folder(), f"127.0.0.1:{cls.port}"
        more = [f"--{name}={value}" for name, value in arguments.items()]
        argv = [tool("java"), "-Xmx256m", "-jar", str(program), *more]
        gateway = cls.start_process(argv, folder, "gateway")
        wait_for(lambda: gateway.child.poll() is not None or cls.answers(address), "the gateway")
        return gateway

    @staticmethod
    def answers(address):
        with contextlib.suppress(OSError):
            return request(address, "GET", "/ready").status == 200

    @classmethod
    def start_sluice(cls):
        listen = {name: f"127.0.0.1:{port}" for name, port in cls.ports.items()}
        cls.sluice = cls.serve(RULES, {"listen": listen})

    def ask(self, target, source="127.0.0.1", method="GET", **fields):
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE,
                                                source_address=(source, 0))  # fmt: skip
        with contextlib.closing(connection):
            connection.request(method, target, headers=headers)
            got = connection.getresponse()
            return Answer(got.status, got.getheaders(), got.read())


class Spring(Gateway):
    def test_rules_of_sluice_decide_requests_to_all_routes(self):
        answers = [self.ask("/api/order/1", X_User_Id="anna") for _ in range(4)]
        self.assertEqual([one.status for one in answers], [200, 200, 200, 429])
        self.assertEqual(answers[0].body, b"application: GET /api/order/1\n")
        self.assertEqual(answers[0]["x-ratelimit-remaining"], "2")
        self.assertEqual((answers[3]["retry-after"], answers[3].json["status"]), ("3600", 429))
        seen = [one for one in self.app.seen if one[2].get("x-user-id") == "anna"]
        self.assertEqual(len(seen), 3)
        self.assertEqual(self.ask("/api/order/1", X_User_Id="ben").status, 200)

    def test_a_path_that_hides_another_one_is_refused(self):
        seen = len(self.app.seen)
        for path in ("//login", "/./login", "/a/../login", "/a/%2e%2e/login", "/a/%2E./login",
                     "/login;x", "/login;x=1", "/a/..;/login"):  # fmt: skip
            self.assertIn(self.ask(path, method="POST").status, (400, 404), path)
        self.assertEqual(len(self.app.seen), seen)
        self.assertEqual([self.ask("/%6cogin", "127.0.0.5", "POST").status for _ in range(3)],
                         [200, 200, 429])  # fmt: skip

    def test_limits_of_the_gateway_are_decided_by_cl_throttle(self):
        answers = [self.ask("/reports/1", "127.0.0.7") for _ in range(5)]
        self.assertEqual([one.status for one in answers], [200] * 4 + [429])
        left = [one["x-ratelimit-remaining"] for one in answers]
        self.assertEqual(left, ["3", "2", "1", "0", "0"])
        self.assertTrue(50 <= int(answers[4]["retry-after"]) <= 60, answers[4])
        self.assertEqual(self.ask("/reports/1", "127.0.0.8").status, 200)

    def test_without_sluice_requests_pass_until_it_is_back(self):
        self.assertEqual(self.sluice.stop(), 0)
        try:
            for target in ["/reports/2", "/login"] * 5:
                self.assertEqual(self.ask(target, "127.0.0.9", "POST").status, 200)
        finally:
            type(self).start_sluice()

        def limits():
            both = (self.ask("/reports/2", "127.0.0.9"), self.ask("/login", "127.0.0.9", "POST"))
            return [one.status for one in both] == [429, 429]

        wait_for(limits, "limits again")


class Hanging(Gateway):
    timeout = "100ms"

    def test_while_sluice_hangs_requests_pass(self):
        self.sluice.pause()
        try:
            self.assertEqual(self.ask("/reports/3", "127.0.0.11").status, 200)
        finally:
            self.sluice.signal(signal.SIGCONT)
        wait_for(lambda: self.ask("/api/order/9", X_User_Id="again")["x-ratelimit-limit"], what="limits again")


if __name__ == "__main__":
    unittest.main()
