"""How a server of ours reaches a Redis: TLS, users, protocols; and what of it may be read where."""

import concurrent.futures
import os
import time
import unittest

from gate import SteeredGate
from harness import wait_for
from redis_harness import Certificates, pick_port
from redis_load import HEAD, FaultTest, ask, rule


class Tls(FaultTest):
    @classmethod
    def setUpClass(cls):
        cls.own, cls.foreign = Certificates(cls.folder()), Certificates(cls.folder())

    def redis_by_tls(self, **more):
        self.port = pick_port()
        return self.redis(self.own.server_options(self.port, **more), tcp=False)

    def url(self, host="localhost"):
        return f"rediss://{host}:{self.port}"

    def cannot_connect(self, url, why, **redis):
        server = self.serve_store(url, wait=False, **redis)
        wait_for(lambda: why in server.log(), 5, f"{why!r} in the log:\n{server.log()}")
        said = ask(server, "/refuse", "u")
        self.assertEqual((said.status, said.reason), (429, "fallback"))

    def test_a_server_whose_authority_is_known_is_believed(self):
        self.redis_by_tls()
        for host in ("localhost", "127.0.0.1"):
            server = self.serve_store(self.url(host), tls={"ca_file": self.own.ca_crt})
            self.assertEqual(self.take(server, "/refuse", host, 25), 20)

    def test_a_server_of_another_authority_or_name_is_not(self):
        self.redis_by_tls()
        self.cannot_connect(self.url(), "certificate", tls={"ca_file": self.foreign.ca_crt})
        self.cannot_connect(self.url(), "certificate")
        self.cannot_connect(self.url(), "certificate", tls={
            "ca_file": self.own.ca_crt, "server_name": "redis.example.org"})

    def test_the_name_that_is_expected_may_be_another_than_the_hosts(self):
        self.redis_by_tls()
        self.serve_store(self.url("127.0.0.1"), tls={
            "ca_file": self.own.ca_crt, "server_name": "localhost"})

    def test_any_server_is_believed_where_that_is_said(self):
        self.redis_by_tls()
        self.serve_store(self.url(), tls={"verify": False})

    def test_a_redis_that_asks_for_certificates_gets_ours(self):
        self.redis_by_tls(ask_clients=True)
        tls = {"ca_file": self.own.ca_crt}
        server = self.serve_store(self.url(), wait=False, tls=tls)
        self.assertEqual(ask(server, "/refuse", "u").reason, "fallback")
        server = self.serve_store(self.url(), tls={
            **tls, "cert_file": self.own.client_crt, "key_file": self.own.client_key})
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)

    def test_a_redis_without_tls_is_not_talked_to(self):
        redis = self.redis()
        server = self.serve_store(f"rediss://localhost:{redis.port}", wait=False,
                                  tls={"ca_file": self.own.ca_crt})
        time.sleep(0.5)
        self.assertEqual(ask(server, "/refuse", "u").reason, "fallback")

    def test_a_connection_by_tls_that_is_lost_is_made_again(self):
        redis = self.redis_by_tls()
        server = self.serve_store(self.url(), tls={"ca_file": self.own.ca_crt})
        for _ in range(3):
            redis.command("CLIENT", "KILL", "TYPE", "normal")
            self.wait_until_decided(server)


ALGORITHMS = ["fixed_window", "sliding_window_log", "sliding_window_counter",
              "sliding_window_hybrid", "leaky_bucket", "token_bucket", "gcra"]


class Users(FaultTest):
    PASSWORD = "hunter2-hunter2"
    # What docs/state-format.md says that its user needs, and what connecting takes.
    COMMANDS = ("evalsha eval script time get mget set getrange setrange strlen exists pexpire del "
                "hello auth select")

    def setUp(self):
        self.store = self.redis()
        self.store.command("ACL", "SETUSER", "sluice", "on", ">" + self.PASSWORD, "resetkeys",
                           "~sluice:*", "-@all", *("+" + c for c in self.COMMANDS.split()))

    def file(self, text):
        file = self.folder() / "password"
        file.write_text(text)
        file.chmod(0o600)
        return str(file)

    def test_a_user_with_few_rights_is_enough(self):
        rules = HEAD + rule("allow", "allow", 20) + "".join(
            rule(name, "deny", 20, name) for name in ALGORITHMS)
        server = self.serve_store(self.store.url + "/3", rules, username="sluice",
                                  password_file=self.file(self.PASSWORD + "\n"))
        for name in ALGORITHMS:
            with self.subTest(name):
                self.assertEqual(self.take(server, f"/{name}", "u", 25), 20)
                for verb in ("refund", "check", "peek", "reset"):
                    said = ask(server, f"/{name}", "u", verb=verb)
                    self.assertIn(said.reason, ("ok", "limited"), (verb, said))
                self.assertEqual(self.take(server, f"/{name}", "u", 25), 20)

    def test_a_password_may_stand_in_the_url_or_the_environment(self):
        url = self.store.url.replace("redis://", f"redis://sluice:{self.PASSWORD}@")
        server = self.serve_store(url)
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)
        os.environ["SLUICE_TEST_PASSWORD"] = self.PASSWORD
        self.addCleanup(os.environ.pop, "SLUICE_TEST_PASSWORD")
        other = self.serve_store(self.store.url, username="sluice",
                                 password_env="SLUICE_TEST_PASSWORD")
        self.assertEqual(self.take(other, "/refuse", "u", 2), 0)
        for one in (server, other):
            shown = one.log() + one.ready_line
            shown += one.admin_request("GET", "/v1/status").body.decode()
            shown += one.get("/metrics").body.decode()
            self.assertNotIn(self.PASSWORD, shown)

    def test_a_wrong_password_is_said_in_the_log_without_it(self):
        server = self.serve_store(self.store.url, wait=False, username="sluice",
                                  password_file=self.file("wrong-wrong"))
        wait_for(lambda: "WRONGPASS" in server.log(), 5, "the reason in the log")
        self.assertNotIn("wrong-wrong", server.log())
        self.assertEqual(ask(server, "/refuse", "u").reason, "fallback")


class Protocols(FaultTest):
    def test_both_protocols_do(self):
        redis = self.redis()
        for protocol in (0, 2, 3):
            server = self.serve_store(redis.url, protocol=protocol, prefix=f"p{protocol}:")
            self.assertEqual(self.take(server, "/refuse", "u", 25), 20)

    def test_a_redis_that_knows_no_hello_is_spoken_to_in_the_older_protocol(self):
        redis = self.redis({"rename-command": 'HELLO ""'})
        server = self.serve_store(redis.url)
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)


class Work(FaultTest):
    """What the server asks of Redis."""

    def setUp(self):
        self.store = self.redis()

    def calls(self):
        """The commands that clients called, without those that scripts did."""
        lines = self.store.info("commandstats")
        return {name.removeprefix("cmdstat_"): int(line.split("calls=")[1].split(",")[0])
                for name, line in lines.items()}

    def test_a_request_is_one_script_call(self):
        server = self.serve_store(self.store.url, threads=1)
        self.take(server, "/refuse", "u", 1)
        before = self.calls()
        self.take(server, "/refuse", "u", 10)
        after = self.calls()
        self.assertEqual(after["evalsha"] - before["evalsha"], 10)
        self.assertEqual(after.get("eval", 0), before.get("eval", 0))

    def test_what_was_denied_is_denied_again_without_asking(self):
        server = self.serve_store(self.store.url, threads=1)
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)
        before = self.calls()["evalsha"]
        self.assertEqual(self.take(server, "/refuse", "u", 200), 0)
        self.assertLessEqual(self.calls()["evalsha"] - before, 5)
        self.assertEqual(ask(server, "/refuse", "u").reason, "deny_cache")

    def test_without_the_cache_every_request_is_asked(self):
        server = self.serve_store(self.store.url, threads=1, deny_cache={"enabled": False})
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)
        before = self.calls()["evalsha"]
        self.assertEqual(self.take(server, "/refuse", "u", 100), 0)
        self.assertEqual(self.calls()["evalsha"] - before, 100)

    def test_requests_wait_for_a_slow_redis_together_and_not_one_after_the_other(self):
        gate = SteeredGate(self.store.address)
        self.addClassCleanup(gate.stop)
        server = self.serve_store(gate.url, threads=1, deadline="2s")
        gate.open(latency=0.3)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            start = time.monotonic()
            said = list(pool.map(lambda i: ask(server, "/refuse", f"u{i}"), range(16)))
        self.assertEqual({s.reason for s in said}, {"ok"})
        self.assertLess(time.monotonic() - start, 1.5)


if __name__ == "__main__":
    unittest.main()
