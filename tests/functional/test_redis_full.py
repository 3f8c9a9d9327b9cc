"""What callers observe while clients have filled the Redis of a Sluice server with made-up keys."""

import time
import unittest

from harness import wait_for
from redis_load import HEAD, Callers, Client, FaultTest, ask, question, rule

MEMORY = 3_000_000
LOGIN = 5  # the limit of each user
PIPELINED = 500

RULES = HEAD + rule("made-up", "allow", 5) + "".join(
    rule(name, policy, LOGIN, algorithm)
    for name, policy, algorithm in [
        ("open", "allow", "fixed_window"), ("closed", "deny", "fixed_window"),
        ("local", "local", "fixed_window"), ("log", "allow", "sliding_window_log"),
        ("slices", "allow", "sliding_window_counter"), ("bucket", "allow", "token_bucket"),
        ("hybrid", "allow", "sliding_window_hybrid"), ("gcra", "allow", "gcra"),
        ("leaky", "allow", "leaky_bucket"),
    ]) + f"""
  - name: login
    match: {{ path: /login }}
    on_store_error: allow
    limits:
      - {{ name: address, key: "{{ip}}", algorithm: fixed_window, limit: {LOGIN}, per: 24h }}
      - {{ name: account, key: "{{body.email}}", algorithm: fixed_window, limit: {LOGIN}, per: 24h }}
"""
OPEN = ["open", "log", "slices", "bucket", "hybrid", "leaky"]


def login(ip, email):
    return {"attributes": {"path": "/login", "ip": ip, "body.email": email}}


class Full(FaultTest):
    @classmethod
    def setUpClass(cls):
        cls.store = cls.redis({"maxmemory": MEMORY, "maxmemory-policy": "noeviction"})
        cls.server = cls.serve_store(cls.store.url, rules=RULES, deny_cache={"enabled": False})
        cls.made_up = 0
        with Client(cls.server.http) as client:
            for path in [*OPEN, "gcra", "closed", "local"]:
                said = [client.ask(question(f"/{path}", "known")) for _ in range(3)]
                assert {one.reason for one in said} == {"ok"}, said
            client.ask(login("192.0.2.1", "known@example.com"))
        cls.fill()

    @classmethod
    def fill(cls):
        """Makes up keys until Redis has no room for more."""
        def is_full():
            with Client(cls.server.http) as client:
                users = range(cls.made_up, cls.made_up + PIPELINED)
                cls.made_up += PIPELINED
                for user in users:
                    client.send(question("/made-up", f"made-up-{user}"))
                said = [client.raw.answer().json for _ in users]
            assert all(one["outcome"] == "allowed" for one in said)
            return all(one["reason"] == "fallback" for one in said)

        wait_for(is_full, "a full Redis")
        # So that nothing that Redis frees makes room again.
        cls.store.config("maxmemory", MEMORY - 500_000)

    def test_a_client_over_its_limit_stays_denied(self):
        with Client(self.server.http) as client:
            for path in [*OPEN, "closed", "local"]:
                with self.subTest(path):
                    said = [client.ask(question(f"/{path}", "known")) for _ in range(2)]
                    self.assertEqual([(s.outcome, s.reason, s.remaining) for s in said],
                                     [("allowed", "ok", 1), ("allowed", "ok", 0)])
                    for i in range(50):
                        client.ask(question("/made-up", f"another-{path}-{i}"))
                        said = client.ask(question(f"/{path}", "known"))
                        self.assertEqual((said.outcome, said.reason), ("denied", "limited"))
            self.assertEqual(self.take(self.server, "/gcra", "known", 50), 2)

    def test_a_new_client_meets_the_policy(self):
        for i in range(20):
            new = f"new-{i}"
            for path in OPEN:
                said = ask(self.server, f"/{path}", new)
                self.assertEqual((said.status, said.reason), (200, "fallback"), path)
            said = ask(self.server, "/closed", new)
            self.assertEqual((said.status, said.reason), (429, "fallback"))
        said = [ask(self.server, "/local", "new") for _ in range(LOGIN + 1)]
        self.assertEqual({one.reason for one in said}, {"fallback"})
        self.assertEqual([one.status for one in said], [200] * LOGIN + [429])

    def test_made_up_keys_of_one_limit_do_not_turn_off_another(self):
        with Client(self.server.http) as client:
            said = [client.ask(login("192.0.2.1", f"made-up-{i}@example.com")) for i in range(50)]
        self.assertEqual([one.outcome for one in said],
                         ["allowed"] * (LOGIN - 1) + ["denied"] * (50 - LOGIN + 1))
        self.assertEqual(said[0].reason, "fallback")
        self.assertEqual(said[-1].reason, "limited")

    def test_the_breaker_stays_closed(self):
        for i in range(200):
            ask(self.server, "/made-up", f"breaker-{i}")
        metrics = self.server.metrics()
        self.assertEqual(metrics["sluice_store_breaker_open"], 0)
        self.assertEqual(metrics["sluice_store_not_asked_total"], 0)
        why = "no memory for a new counter"
        wait_for(lambda: why in self.server.log(), what="the reason in the log")
        self.assertIn("STOREFULL", self.server.log())


class NewKeys(FaultTest):
    RULES = HEAD + "".join(f"""
  - name: {name}
    match: {{ path: /{name} }}
    max_new_keys: 2
    on_store_error: {policy}
    limits:
      - {{ name: user, key: "{{header.x-user}}", algorithm: fixed_window, limit: 5, per: 24h }}
""" for name, policy in [("open", "allow"), ("closed", "deny")])

    def check(self, server, count):
        """Makes up keys. `count` returns the number of counters."""
        said = [ask(server, path, "known").reason for path in ("/open", "/closed")]
        self.assertEqual(said, ["ok", "ok"])
        for path, status in (("/open", 200), ("/closed", 429)):
            before, begin, made_up, refused = count(), time.monotonic(), 0, 0
            with Client(server.http) as client:
                while made_up < 200 or refused <= 100:
                    said = client.ask(question(path, f"made-up-{made_up}"))
                    made_up += 1
                    if said.reason == "fallback":
                        refused += 1
                        self.assertEqual(said.status, status)
                    if made_up == 100:
                        known = [client.ask(question(path, "known")) for _ in range(6)]
                        self.assertEqual([one.reason for one in known],
                                         ["ok"] * 4 + ["limited"] * 2)
            seconds = time.monotonic() - begin
            self.assertEqual(count() - before, made_up - refused)
            self.assertLessEqual(made_up - refused, 2 * (seconds + 2))
            name = f'sluice_new_counters_refused_total{{rule="{path[1:]}",limit="user"}}'
            self.assertEqual(server.metrics()[name], refused)

    def test_bounds_the_counters_in_redis(self):
        store = self.redis()
        server = self.serve_store(store.url, rules=self.RULES, wait=False,
                                  deny_cache={"enabled": False})
        wait_for(lambda: ask(server, "/open", "known", cost=0).reason == "ok", what="a decision")
        self.check(server, lambda: store.command("DBSIZE"))
        self.assertEqual(server.metrics()["sluice_store_errors_total"], 0)

    def test_bounds_the_counters_in_memory(self):
        server = self.serve(self.RULES)
        self.check(server, lambda: server.metrics()["sluice_store_keys"])


class FullMeanwhile(FaultTest):
    def test_callers_do_not_notice_that_redis_is_full(self):
        store = self.redis({"maxmemory-policy": "noeviction"})
        server = self.serve_store(store.url)
        with Callers(self, server) as callers:
            for maxmemory in ("1", "0", "1"):
                store.config("maxmemory", maxmemory)
                callers.wait_for_all("ok", times=30)
            said = ask(server, "/allow", "new")
            self.assertEqual((said.status, said.reason), (200, "fallback"))
        self.assertEqual(set(callers.reasons()), {"ok"})


class FullWithoutScripts(FaultTest):
    def test_a_client_over_its_limit_stays_denied(self):
        clock = self.stopped_clock()
        store = self.redis({"maxmemory-policy": "noeviction"}, clock=clock)
        rules = HEAD + "".join(f"""
  - name: {name}
    match: {{ path: /{name} }}
    on_store_error: {policy}
    limits:
      - {{ key: "{{header.x-user}}", algorithm: {algorithm}, limit: {LOGIN}, per: 24h }}
""" for name, policy, algorithm in [("open", "allow", "fixed_window, align: clock"),
                                    ("closed", "deny", "sliding_window_counter")])
        server = self.serve_store(store.url, rules=rules, wait=False, clock=clock, scripting="off",
                                  deny_cache={"enabled": False})
        wait_for(lambda: ask(server, "/open", "known", cost=0).reason == "ok", what="a decision")
        for path in ("/open", "/closed"):
            self.assertEqual(self.take(server, path, "known", LOGIN), LOGIN)
        store.config("maxmemory", "1")
        for path, status in (("/open", 200), ("/closed", 429)):
            self.assertEqual(self.take(server, path, "known", 50), 0)
            said = ask(server, path, "new")
            self.assertEqual((said.status, said.reason), (status, "fallback"))


if __name__ == "__main__":
    unittest.main()
