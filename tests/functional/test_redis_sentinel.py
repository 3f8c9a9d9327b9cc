"""Sluice servers that find their Redis through Sentinels, while the master changes."""

import json
import time
import unittest

from harness import request, wait_for
from redis_load import RULES, SHORT, Callers, FaultTest


class FailoverTest(FaultTest):
    def setUp(self):
        self.redis_set = self.sentinels()
        self.server = self.serve_store(self.redis_set.url, deadline=SHORT)


class KilledMaster(FailoverTest):
    def test_kill_9_of_the_master_under_load_loses_only_what_was_not_replicated(self):
        master = self.redis_set.master()
        with Callers(self, self.server, forgets=True) as callers:
            replicated = time.monotonic()
            self.redis_set.wait_until_replicated()
            master.kill()
            killed = time.monotonic()
            callers.wait_for_all("fallback")
            self.redis_set.wait_for_master_other_than(master)
            callers.wait_for_all("ok")
        for caller in callers.callers:
            self.assertGreaterEqual(self.used(self.server, caller.user),
                                    caller.surely_admitted(replicated, killed))


class ReplicatedLimit(FailoverTest):
    def test_a_replicated_limit_is_exact_on_the_next_master(self):
        server = self.serve_store(self.redis_set.url)
        self.assertEqual(self.take(server, "/refuse", "u", 12), 12)
        self.redis_set.wait_until_replicated()
        master = self.redis_set.master()
        master.kill()
        self.redis_set.wait_for_master_other_than(master)
        self.wait_until_decided(server)
        self.assertEqual(self.take(server, "/refuse", "u", 20), 8)



class Budgets(FaultTest):
    def test_the_next_master_ends_replicated_holds_once(self):
        redis_set = self.sentinels()
        rules = RULES + """
  - name: budget
    match: { path: /budget }
    on_store_error: deny
    limits: [{ name: org, key: "{org}", algorithm: budget, limit: 1000, per: never }]
"""
        server = self.serve_store(redis_set.url, rules)

        def post(path, call, **more):
            body = {"attributes": {"path": "/budget", "org": "a"}, "id": call, **more}
            answer = request(server.http, "POST", path, json.dumps(body))
            self.assertEqual(answer.status, 200, answer.body)
            said = answer.json
            return said["limits"][0]["remaining"], said.get("repeated", False), said.get("late", False)

        for call in ("open", "cancelled", "settled", "ended", "kept"):
            post("/v1/check", call, cost=100, hold_ms=3_600_000)
        self.assertEqual(post("/v1/settle", "settled", actual=70), (530, False, False))
        self.assertEqual(post("/v1/cancel", "ended"), (630, False, False))
        redis_set.wait_until_replicated()
        master = redis_set.master()
        master.kill()
        redis_set.wait_for_master_other_than(master)
        self.wait_until_decided(server)
        self.assertEqual(post("/v1/settle", "settled", actual=70), (630, True, False))
        self.assertEqual(post("/v1/cancel", "ended"), (630, True, False))
        self.assertEqual(post("/v1/check", "kept", cost=100, hold_ms=3_600_000), (630, True, False))
        self.assertEqual(post("/v1/settle", "open", actual=150), (580, False, False))
        self.assertEqual(post("/v1/cancel", "cancelled"), (680, False, False))
        self.assertEqual(post("/v1/settle", "open", actual=150), (680, True, False))
        self.assertEqual(post("/v1/extend", "kept", hold_ms=3_600_000), (680, False, False))


class FormerMaster(FailoverTest):
    def test_a_former_master_that_comes_back_is_not_used(self):
        master = self.redis_set.master()
        with Callers(self, self.server, forgets=True) as callers:
            master.pause()
            callers.wait_for_all("fallback")
            left = [self.least_remaining(caller) for caller in callers.callers]
            self.redis_set.wait_for_master_other_than(master)
            wait_for(lambda: all(self.latest_remaining(caller) < at
                                 for caller, at in zip(callers.callers, left)),
                     "more used units than at the old master")
            resumed = time.monotonic()
            master.resume()  # still reports itself as a master until the Sentinels demote it
            callers.wait_for_all("ok", times=50)
        for caller in callers.callers:  # an answer of the old master would have more units left
            said = [s.remaining for s in caller.said if s.at > resumed and s.reason == "ok"]
            self.assertEqual(said, sorted(said, reverse=True))

    @staticmethod
    def least_remaining(caller):
        return min(said.remaining for said in list(caller.said) if said.reason == "ok")

    @staticmethod
    def latest_remaining(caller):
        return next(said.remaining for said in reversed(list(caller.said)) if said.reason == "ok")


class Switch(FailoverTest):
    def test_servers_follow_a_failover_while_the_old_master_still_answers(self):
        self.redis_set.sentinels[0].command("SENTINEL", "FAILOVER", self.redis_set.name)
        with Callers(self, self.server, forgets=True) as callers:
            old = self.redis_set.servers[0]
            new = self.redis_set.wait_for_master_other_than(old)
            wait_for(lambda: self.scripts_run(new) > 100, "requests at the new master")

            def is_left_alone():
                asked = self.scripts_run(old)
                callers.wait_for_all("ok", times=30)
                return self.scripts_run(old) == asked

            wait_for(is_left_alone, "no more scripts at the old master")

    @staticmethod
    def scripts_run(redis):
        """Returns how many scripts clients have run on the server."""
        line = redis.info("commandstats").get("cmdstat_evalsha", "calls=0,")
        return int(line.split("calls=")[1].split(",")[0])


class Sentinels(FaultTest):
    """Servers need Sentinels only to connect."""

    def test_any_sentinel_is_enough_to_connect_and_none_to_stay_connected(self):
        redis_set = self.sentinels()
        first, second, third = redis_set.sentinels
        first.kill()
        server = self.serve_store(redis_set.url)
        with Callers(self, server) as callers:
            second.kill()
            third.kill()
            callers.wait_for_all("ok", times=30)
        self.assertEqual(set(callers.reasons()), {"ok"})
        self.assertEqual(self.take(server, "/refuse", "u", 25), 20)
        third.start()
        redis_set.servers[0].command("CLIENT", "KILL", "TYPE", "normal")
        self.wait_until_decided(server)


if __name__ == "__main__":
    unittest.main()
