"""How a Sluice server connects to Redis: TLS, users and protocols; and which commands it sends."""

import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import unittest

from gate import SteeredGate
from harness import PATIENCE, ROOT, binary, free_port, wait_for
from redis_harness import Certificates
from redis_load import HEAD, FaultTest, ask, rule


class Tls(FaultTest):
    @classmethod
    def setUpClass(cls):
        cls.own, cls.foreign = Certificates(cls.folder()), Certificates(cls.folder())

    def redis_by_tls(self, **more):
        self.port = free_port()
        return self.redis(self.own.server_options(self.port, **more), tcp=False)

    def url(self, host="localhost"):
        return f"rediss://{host}:{self.port}"

    def cannot_connect(self, url, why, **redis):
        server = self.serve_store(url, wait=False, **redis)
        wait_for(lambda: why in server.log(), what=f"{why!r} in the log:\n{server.log()}")
        said = ask(server, "/refuse", "u")
        self.assertEqual((said.status, said.reason), (429, "fallback"))

    def test_a_redis_with_a_known_authority_is_trusted(self):
        self.redis_by_tls()
        for host in ("localhost", "127.0.0.1"):
            server = self.serve_store(self.url(host), tls={"ca_file": self.own.ca_crt})
            self.assertEqual(self.take(server, "/refuse", host, 25), 20)

    def test_a_redis_with_another_authority_or_name_is_not_trusted(self):
        self.redis_by_tls()
        self.cannot_connect(self.url(), "certificate", tls={"ca_file": self.foreign.ca_crt})
        self.cannot_connect(self.url(), "certificate")
        self.cannot_connect(self.url(), "certificate", tls={
            "ca_file": self.own.ca_crt, "server_name": "redis.example.org"})

    def test_the_expected_name_may_differ_from_the_host(self):
        self.redis_by_tls()
        self.serve_store(self.url("127.0.0.1"), tls={
            "ca_file": self.own.ca_crt, "server_name": "localhost"})

    def test_without_verification_any_certificate_is_accepted(self):
        self.redis_by_tls()
        self.serve_store(self.url(), tls={"verify": False})

    def test_a_redis_that_requires_a_client_certificate_receives_one(self):
        self.redis_by_tls(ask_clients=True)
        tls = {"ca_file": self.own.ca_crt}
        server = self.serve_store(self.url(), wait=False, tls=tls)
        self.assertEqual(ask(server, "/refuse", "u").reason, "fallback")
        server = self.serve_store(self.url(), tls={
            **tls, "cert_file": self.own.client_crt, "key_file": self.own.client_key})
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)

    def test_a_redis_without_tls_is_refused(self):
        redis = self.redis()
        server = self.serve_store(f"rediss://localhost:{redis.port}", wait=False,
                                  tls={"ca_file": self.own.ca_crt})
        wait_for(lambda: server.metrics()['sluice_store_events_total{event="connect_failed"}'],
                 "a failed handshake")
        self.assertEqual(ask(server, "/refuse", "u").reason, "fallback")

    def test_a_lost_tls_connection_is_restored(self):
        redis = self.redis_by_tls()
        server = self.serve_store(self.url(), tls={"ca_file": self.own.ca_crt})
        for _ in range(3):
            redis.command("CLIENT", "KILL", "TYPE", "normal")
            self.wait_until_decided(server)


class SilentNames(FaultTest):
    """Names whose servers do not answer delay neither the start nor the end of a server."""

    @classmethod
    def setUpClass(cls):
        library = cls.folder() / "silent_names.so"
        source = pathlib.Path(__file__).with_name("silent_names.cc")
        subprocess.run([os.environ.get("CXX", "c++"), "-shared", "-fPIC", "-o", library, source], check=True)
        cls.environment = {**os.environ, "LD_PRELOAD": str(library)}

    def starts_and_ends(self, **config):
        server = self.serve(config={**config, "drain": {"timeout": f"{2 * PATIENCE}s"}}, env=self.environment)
        server.check({"attributes": {"path": "/login", "ip": "192.0.2.1"}})
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0)

    def test_of_redis(self):
        self.starts_and_ends(store="redis://redis.example.com")

    def test_of_a_quota_service(self):
        self.starts_and_ends(store="quota://quota.example.com:8081")

    def test_of_a_receiver_of_opentelemetry(self):
        self.starts_and_ends(otlp={"endpoint": "http://otlp.example.com:4318"})


ALGORITHMS = ["fixed_window", "sliding_window_log", "sliding_window_counter",
              "sliding_window_hybrid", "leaky_bucket", "token_bucket", "gcra"]


class Users(FaultTest):
    PASSWORD = "hunter2-hunter2"
    # The command in docs/reference/state-format.md.
    SET_USER = (ROOT / "docs/reference/state-format.md").read_text("utf-8").split("```\nACL SETUSER ")[1]
    SET_USER = SET_USER.split("```")[0].replace("PASSWORD", PASSWORD).split()

    def setUp(self):
        self.store = self.redis()
        self.store.command("ACL", "SETUSER", *self.SET_USER)

    def calls(self):
        """Returns the names of the commands that Redis has executed."""
        stats = self.store.info("commandstats")
        return {name.removeprefix("cmdstat_") for name in stats
                if not stats[name].startswith("calls=0,")}

    def refused_times(self, command):
        stats = self.store.info("commandstats").get(f"cmdstat_{command}", "")
        return [int(word.split("=")[1]) for word in stats.split(",")
                if word.startswith("rejected_calls=")]

    def refused(self):
        """Returns the commands that Redis has refused to a user."""
        words = lambda entry: dict(zip(entry[::2], entry[1::2], strict=True))
        return [words(entry)["object"] for entry in self.store.command("ACL", "LOG")]

    def file(self, text):
        file = self.folder() / "password"
        file.write_text(text)
        file.chmod(0o600)
        return str(file)

    def test_a_user_with_the_documented_rights_is_enough(self):
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

    def test_everything_uses_exactly_the_documented_commands(self):
        url = self.store.url.replace("redis://", f"redis://sluice:{self.PASSWORD}@") + "/3"
        folder = self.folder()
        limits = "".join(f"      - {{name: {name}, algorithm: {name}, limit: 500, per: 1h}}\n"
                         for name in ALGORITHMS)
        (folder / "rules.yaml").write_text(f"""
version: 1
rules:
  - name: all
    match: {{ path: /all }}
    limits:
{limits}  - name: login
    match: {{ path: /login }}
    limits: [ {{ name: user, key: "{{user}}", algorithm: gcra, limit: 1, per: 1h,
                block: {{ after: 1, within: 10m, for: 15m }} }} ]
  - name: jobs
    match: {{ path: /jobs }}
    limits: [ {{ name: all, algorithm: concurrency, limit: 5, lease: 1h }} ]
""")
        cli = lambda *words: subprocess.run(
            [binary(), *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
            check=True).stdout
        cli("rules", "push", "rules.yaml", "--store", url)
        for protocol in (2, 3):
            server = self.serve(config={"store": url, "rules": "redis",
                                        "redis": {"deadline": f"{PATIENCE}s", "protocol": protocol}})
            ask = lambda path, server=server, **more: server.check(
                {"attributes": {"path": path, "user": "u"}, **more}).json
            wait_for(lambda: ask("/all", cost=0)["reason"] == "ok", "a decision of the store")
            for verb in ("check", "peek", "refund", "charge", "reserve", "take_at_most", "reset"):
                more = {"max_wait_ms": 0} if verb == "reserve" else {}
                with self.subTest(verb=verb, protocol=protocol):
                    self.assertEqual(ask("/all", verb=verb, **more)["reason"], "ok")
            for _ in range(150):  # the log becomes a long one
                self.assertEqual(ask("/all")["reason"], "ok")
            self.assertEqual(ask("/jobs")["reason"], "ok")
            self.assertIn("blocked", {ask("/login")["reason"] for _ in range(3)})
            admin = lambda *words, server=server: server.admin_request(*words)
            self.assertEqual(len(admin("GET", "/v1/blocks").json["blocks"]), 1)
            self.assertEqual(admin("DELETE", "/v1/blocks?rule=login&user=u").status, 200)
            given = {"attributes": {"user": "v"}, "limit": 7}
            path = "/v1/overrides/login/user"
            self.assertEqual(admin("PUT", path, json.dumps(given)).status, 200)
            other = self.serve(config={"store": url, "rules": "redis"})
            seen = lambda other=other: other.check(
                {"attributes": {"path": "/login", "user": "v"}, "verb": "peek"}
            ).json["limits"][0]["limit"]
            wait_for(lambda: seen() == 7, "the override in another server")  # may be of the table
            self.assertEqual(admin("DELETE", path + "?user=v").status, 200)
            wait_for(lambda: seen() == 1, "the change in another server")  # is of the stream
        self.assertIn("sliding_window_log", cli("key", "dump", "--store", url))
        self.store.config("maxmemory", 1)
        self.assertEqual(ask("/all")["reason"], "ok", "of counters that exist")
        self.assertEqual(self.refused(), [])
        documented = {word[1:] for word in self.SET_USER if word.startswith("+")}
        # Of clusters and Sentinels, without scripts, with as many overrides as there may be, and of
        # ledgers.
        elsewhere = {"cluster", "role", "incrby", "decrby", "hexists", "xlen"}
        self.assertEqual(documented - self.calls(), elsewhere)

    def test_a_command_that_is_missing_is_logged_once_with_its_key(self):
        self.store.command("ACL", "SETUSER", "sluice", "-hscan")
        server = self.serve_store(self.store.url, username="sluice",
                                  password_file=self.file(self.PASSWORD))
        wait_for(lambda: len(self.refused_times("hscan")) > 0 and self.refused_times("hscan")[0] > 9,
                 "several questions")
        lines = [line for line in server.log().splitlines() if "overrides in Redis" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("sluice:{overrides} (a hash): NOPERM", lines[0])

    def test_a_password_may_come_from_the_url_or_the_environment(self):
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

    def test_a_wrong_password_is_logged_without_its_value(self):
        server = self.serve_store(self.store.url, wait=False, username="sluice",
                                  password_file=self.file("wrong-wrong"))
        wait_for(lambda: "WRONGPASS" in server.log(), what="the reason in the log")
        self.assertNotIn("wrong-wrong", server.log())
        self.assertEqual(ask(server, "/refuse", "u").reason, "fallback")


class Protocols(FaultTest):
    def test_both_protocols_work(self):
        redis = self.redis()
        for protocol in (0, 2, 3):
            server = self.serve_store(redis.url, protocol=protocol, prefix=f"p{protocol}:")
            self.assertEqual(self.take(server, "/refuse", "u", 25), 20)

    def test_a_redis_without_hello_is_used_by_the_older_protocol(self):
        redis = self.redis({"rename-command": 'HELLO ""'})
        server = self.serve_store(redis.url)
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)


class Work(FaultTest):
    """The commands that the server sends to Redis."""

    def setUp(self):
        self.store = self.redis()

    def calls(self):
        """Returns the counts of commands from clients, without the commands that scripts called."""
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

    def test_a_repeated_denial_comes_from_the_cache(self):
        server = self.serve_store(self.store.url, threads=1, deny_cache={"longest": "1h"})
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)
        before = self.calls()["evalsha"]
        self.assertEqual(self.take(server, "/refuse", "u", 200), 0)
        self.assertEqual(self.calls()["evalsha"], before)
        self.assertEqual(ask(server, "/refuse", "u").reason, "deny_cache")

    def test_without_the_cache_every_request_reaches_redis(self):
        server = self.serve_store(self.store.url, threads=1, deny_cache={"enabled": False})
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)
        before = self.calls()["evalsha"]
        self.assertEqual(self.take(server, "/refuse", "u", 100), 0)
        self.assertEqual(self.calls()["evalsha"] - before, 100)

    def test_requests_wait_for_a_slow_redis_concurrently(self):
        gate = SteeredGate(self.store.address)
        self.addClassCleanup(gate.stop)
        server = self.serve_store(gate.url, threads=1)
        gate.swallow()
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            said = [pool.submit(ask, server, "/refuse", f"u{i}") for i in range(40)]
            wait_for(lambda: server.metrics()["sluice_store_pending"] == 40, "40 waiting requests")
            gate.open()
        self.assertEqual({one.result().reason for one in said}, {"ok"})


if __name__ == "__main__":
    unittest.main()
