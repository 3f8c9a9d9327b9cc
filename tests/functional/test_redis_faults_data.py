"""What callers observe while the Redis of a Sluice server refuses commands, has lost data, has
foreign data, has another password, or has another time."""

import time
import unittest

from gate import SteeredGate
from harness import PATIENCE, free_port, wait_for
from redis_harness import Resp, RedisError
from redis_load import HEAD, LIMIT, Callers, FaultTest, ask, rule

ALGORITHMS = ["fixed_window", "sliding_window_log", "sliding_window_counter",
              "sliding_window_hybrid", "leaky_bucket", "token_bucket", "gcra"]
EACH_ALGORITHM = HEAD + rule("allow", "allow", 20) + "".join(
    rule(name, "deny", 20, name) for name in ALGORITHMS)


class Refusals(FaultTest):
    """Redis replies, but not with a decision."""

    def setUp(self):
        self.store = self.redis({"enable-debug-command": "yes"})
        self.server = self.serve_store(self.store.url)

    def refused_and_recovers(self, begin, end):
        with Callers(self, self.server) as callers:
            begin()
            callers.wait_for_all("fallback")
            said = ask(self.server, "/allow", "u")
            self.assertEqual((said.status, said.reason), (200, "fallback"))
            end()
            callers.wait_for_all("ok")

    def test_callers_recover_from_a_redis_that_became_a_replica(self):
        nobody = free_port()
        self.refused_and_recovers(
            lambda: self.store.command("REPLICAOF", "127.0.0.1", nobody),
            lambda: self.store.command("REPLICAOF", "NO", "ONE"))

    def test_callers_recover_from_too_few_replicas_to_write(self):
        self.refused_and_recovers(lambda: self.store.config("min-replicas-to-write", "1"),
                                  lambda: self.store.config("min-replicas-to-write", "0"))

    def test_callers_recover_from_a_redis_that_runs_another_script(self):
        self.store.config("busy-reply-threshold", "50")

        def begin():
            self.busy = self.store.connection(timeout=PATIENCE)
            self.busy.socket.sendall(Resp.encode(["EVAL", "while true do end", "0"]))

        def end():
            self.store.command("SCRIPT", "KILL")
            with self.assertRaises(RedisError):
                self.busy.read()
            self.busy.close()

        self.refused_and_recovers(begin, end)

    def test_callers_recover_from_a_redis_that_loads_its_data(self):
        self.store.config("loading-process-events-interval-bytes", "1024")
        for i in range(100):
            self.store.command("SET", f"other{i}", "x" * 1000)

        def begin():
            self.store.config("key-load-delay", "100000")  # microseconds per key
            self.busy = self.store.connection(timeout=PATIENCE)
            self.busy.socket.sendall(Resp.encode(["DEBUG", "RELOAD"]))

        def end():
            self.store.config("key-load-delay", "0")
            self.assertEqual(self.busy.read(), "OK")
            self.busy.close()

        self.refused_and_recovers(begin, end)


class LostData(FaultTest):
    def setUp(self):
        self.store = self.redis()
        self.server = self.serve_store(self.store.url)

    def test_callers_do_not_notice_script_flush(self):
        with Callers(self, self.server) as callers:
            for i in range(20):
                self.store.command("SCRIPT", "FLUSH", "SYNC" if i % 2 else "ASYNC")
                callers.wait_for_all("ok", times=1)
        self.assertEqual(set(callers.reasons()), {"ok"})

    def test_flushall_resets_all_limits_and_nothing_else(self):
        for _ in range(3):
            self.assertEqual(self.take(self.server, "/refuse", "flushed", 15), 15)
            self.store.command("FLUSHALL")
            self.assertEqual(self.take(self.server, "/refuse", "flushed", 5), 5)
            self.store.command("FLUSHALL")
        self.assertEqual(self.take(self.server, "/refuse", "flushed", 40), 20)

    def test_flushall_under_load_is_not_an_error(self):
        with Callers(self, self.server, forgets=True) as callers:
            for _ in range(10):
                self.store.command("FLUSHALL")
                callers.wait_for_all("ok", times=1)
        self.assertEqual(set(callers.reasons()), {"ok"})
        self.assertGreater(ask(self.server, "/deny", "caller0", cost=0).remaining, LIMIT - 10_000)

    def test_functions_and_scripts_of_others_are_kept(self):
        sha = self.store.command("SCRIPT", "LOAD", "return 7")
        self.take(self.server, "/allow", "u", 3)
        self.assertEqual(self.store.command("EVALSHA", sha, 0), 7)


class ForeignValues(FaultTest):
    """Sluice's keys contain foreign values."""

    @classmethod
    def setUpClass(cls):
        cls.store = cls.redis()
        cls.server = cls.serve_store(cls.store.url, rules=EACH_ALGORITHM)

    def key_of(self, algorithm):
        """Creates a counter and returns its Redis key."""
        before = set(self.store.command("KEYS", "*"))
        said = ask(self.server, f"/{algorithm}", self.id())
        self.assertEqual(said.reason, "ok")
        [key] = set(self.store.command("KEYS", "*")) - before
        return key

    def is_refused(self, algorithm, key):
        """Checks that the rule's policy answers and that the value is unchanged."""
        value = self.store.command("DUMP", key)
        for verb in ("check", "peek"):
            said = ask(self.server, f"/{algorithm}", self.id(), verb=verb)
            self.assertEqual((said.status, said.outcome, said.reason), (429, "denied", "fallback"))
        said = ask(self.server, f"/{algorithm}", self.id(), verb="refund")
        self.assertEqual((said.outcome, said.reason), ("denied", "foreign_value"))
        self.assertEqual(self.store.command("DUMP", key), value)
        self.assertEqual(self.store.command("PTTL", key), -1)

    def is_usable(self, algorithm, key):
        self.store.command("DEL", key)
        self.assertEqual(ask(self.server, f"/{algorithm}", self.id()).reason, "ok")
        self.store.command("DEL", key)

    def test_a_value_of_another_type_is_left_alone(self):
        for algorithm in ALGORITHMS:
            with self.subTest(algorithm):
                key = self.key_of(algorithm)
                for words in (["LPUSH", key, "x"], ["HSET", key, "tokens", "5"], ["SADD", key, "x"],
                              ["ZADD", key, "1", "x"], ["XADD", key, "*", "a", "b"]):
                    self.store.command("DEL", key)
                    self.store.command(*words)
                    self.is_refused(algorithm, key)
                self.is_usable(algorithm, key)

    def test_a_text_that_is_not_a_counter_is_left_alone(self):
        for algorithm in ALGORITHMS:
            with self.subTest(algorithm):
                key = self.key_of(algorithm)
                for text in (b"", b"hello", b"12345", b"\xff" * 40, b"{}" * 5000):
                    self.store.command("SET", key, text)
                    self.is_refused(algorithm, key)
                self.is_usable(algorithm, key)

    def test_foreign_values_do_not_open_the_breaker(self):
        key = self.key_of("gcra")
        self.store.command("SET", key, "hello")
        for _ in range(100):
            ask(self.server, "/gcra", self.id())
            self.assertEqual(ask(self.server, "/allow", self.id(), cost=0).reason, "ok")
        self.is_usable("gcra", key)

    def test_the_server_survives_truncated_counters(self):
        for algorithm in ALGORITHMS:
            with self.subTest(algorithm):
                key = self.key_of(algorithm)
                whole = self.store.command("GET", key)
                for size in range(len(whole)):
                    self.store.command("SET", key, whole[:size])
                    said = ask(self.server, f"/{algorithm}", self.id())
                    self.assertIn(said.reason, ("ok", "limited", "deny_cache", "fallback"), size)
                self.is_usable(algorithm, key)


class Access(FaultTest):
    """Passwords, users and the limit of connections."""

    def setUp(self):
        self.store = self.redis()
        self.gate = SteeredGate(self.store.address)
        self.addClassCleanup(self.gate.stop)

    def password_file(self, text):
        file = self.folder() / "password"
        file.write_text(text + "\n")
        file.chmod(0o600)
        return str(file)

    def test_callers_recover_when_a_changed_password_is_restored(self):
        self.store.config("requirepass", "first-secret")
        self.store.password = "first-secret"
        server = self.serve_store(self.gate.url, password_file=self.password_file("first-secret"))
        with Callers(self, server) as callers:
            self.store.config("requirepass", "second-secret")
            self.store.password = "second-secret"
            self.gate.end_connections()
            callers.wait_for_all("fallback")
            wait_for(lambda: "WRONGPASS" in server.log(), "a refused password")
            self.store.config("requirepass", "first-secret")
            self.store.password = "first-secret"
            callers.wait_for_all("ok")
        self.assertNotIn("secret", server.log())

    def test_callers_recover_when_the_right_to_run_scripts_is_restored(self):
        self.store.command("ACL", "SETUSER", "sluice", "on", ">pass-word", "~sluice:*", "+@all")
        server = self.serve_store(self.gate.url, username="sluice",
                                  password_file=self.password_file("pass-word"))
        with Callers(self, server) as callers:
            self.store.command("ACL", "SETUSER", "sluice", "-evalsha", "-eval")
            callers.wait_for_all("fallback")
            self.store.command("ACL", "SETUSER", "sluice", "+evalsha", "+eval")
            callers.wait_for_all("ok")

    def test_callers_recover_when_a_deleted_user_is_restored(self):
        def make():
            self.store.command("ACL", "SETUSER", "sluice", "on", ">pass-word", "~sluice:*", "+@all")

        make()
        server = self.serve_store(self.gate.url, username="sluice",
                                  password_file=self.password_file("pass-word"))
        with Callers(self, server) as callers:
            self.store.command("ACL", "DELUSER", "sluice")
            callers.wait_for_all("fallback")
            make()
            callers.wait_for_all("ok")

    def test_callers_recover_from_maxclients(self):
        server = self.serve_store(self.gate.url)
        with Callers(self, server) as callers:
            self.gate.refuse()
            callers.wait_for_all("fallback")
            held = [self.store.connection() for _ in range(10)]
            for one in held:
                one("PING")
            steering = held.pop()
            steering("CONFIG", "SET", "maxclients", len(held) + 1)
            opened = time.monotonic()
            self.gate.open()
            wait_for(lambda: "max number of clients" in server.log(), what="a refused connection")
            self.assertEqual(set(callers.reasons(opened)), {"fallback"})
            steering("CONFIG", "SET", "maxclients", 1000)
            callers.wait_for_all("ok")
            for one in [*held, steering]:
                one.close()


RULES_OF_TIME = HEAD + "".join([
    rule("allow", "allow", 20),
    rule("day", "allow", 20),
    rule("log", "allow", 20, "sliding_window_log"),
    rule("bucket", "allow", 20, "token_bucket", per="1h"),
])


class Clock(FaultTest):
    """The clock of Redis jumps."""

    def setUp(self):
        self.clock = self.stopped_clock()
        self.store = self.redis(clock=self.clock)
        self.server = self.serve_store(self.store.url, rules=RULES_OF_TIME,
                                       deny_cache={"enabled": False})

    def test_an_hour_ahead_restores_the_units_of_an_hour(self):
        for path in ("/day", "/log", "/bucket"):
            self.assertEqual(self.take(self.server, path, "u", 15), 15)
        self.clock.advance(3600)
        self.assertEqual(self.take(self.server, "/day", "u", 30), 5)
        self.assertEqual(self.take(self.server, "/log", "u", 30), 5)
        self.assertEqual(self.take(self.server, "/bucket", "u", 30), 20)

    def test_an_hour_back_restores_no_units(self):
        for path in ("/day", "/log", "/bucket"):
            self.assertEqual(self.take(self.server, path, "u", 15), 15)
        self.clock.advance(-3600)
        for path in ("/day", "/log", "/bucket"):
            self.assertEqual(self.take(self.server, path, "u", 30), 5)
            self.assertEqual(self.take(self.server, path, "new", 30), 20)
        self.clock.advance(3600)
        self.assertEqual(self.take(self.server, "/day", "u", 5), 0)
        self.assertEqual(self.take(self.server, "/log", "u", 5), 0)
        self.assertEqual(self.take(self.server, "/bucket", "new", 40), 20)  # one hour later

    def test_jumps_back_and_forth_are_not_failures(self):
        for path in ("/day", "/log"):
            admitted = 0
            for hours in (0, 1, -2, 1, -1, 2, -1):
                self.clock.advance(3600 * hours)
                admitted += self.take(self.server, path, "back and forth", 5)
            self.assertEqual(admitted, 20, path)


if __name__ == "__main__":
    unittest.main()
