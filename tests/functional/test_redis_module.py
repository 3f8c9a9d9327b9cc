"""The module in a Redis that servers of Sluice use, next to a server that uses scripts."""

import os
import unittest

from redis_load import HEAD, Client, FaultTest, question, rule

ALGORITHMS = ["fixed_window", "sliding_window_log", "sliding_window_counter",
              "sliding_window_hybrid", "leaky_bucket", "token_bucket", "gcra"]
RULES = HEAD + "".join(rule(name, "deny", 20, name) for name in ALGORITHMS + ["allow"])
RULES = RULES.replace("algorithm: allow", "algorithm: gcra")


class Module(FaultTest):
    def calls(self, redis):
        stats = redis.info("commandstats")
        return {name: int(stats[f"cmdstat_{name}"].split(",")[0].split("=")[1])
                for name in ("sluice.apply", "evalsha") if f"cmdstat_{name}" in stats}

    def test_servers_with_and_without_it_share_counters(self):
        redis = self.redis({"loadmodule": os.environ["SLUICE_MODULE"]})
        by_module = self.serve_store(redis.url, RULES)
        self.assertEqual(set(self.calls(redis)), {"sluice.apply"})
        by_scripts = self.serve_store(redis.url, RULES, module="off")
        before = self.calls(redis)
        self.assertGreater(before["evalsha"], 0)
        with Client(by_module.http) as one, Client(by_scripts.http) as other:
            for name in ALGORITHMS:
                for left in (*range(19, -1, -1), None):
                    said = (one, other)[(left or 0) % 3 == 1].ask(question(f"/{name}", "u"))
                    with self.subTest(algorithm=name, left=left):
                        self.assertEqual((said.reason, said.remaining),
                                         ("limited", 0) if left is None else ("ok", left))
        after = self.calls(redis)
        asked = {name: after[name] - before[name] for name in after}
        self.assertGreaterEqual(asked["sluice.apply"], 14 * len(ALGORITHMS))
        self.assertGreaterEqual(asked["evalsha"], 6 * len(ALGORITHMS))

    def test_clients_without_sluice_ask_redis_itself(self):
        redis = self.redis({"loadmodule": os.environ["SLUICE_MODULE"]})
        self.assertEqual(redis.command("CL.THROTTLE", "k", 4, 1, 60), [0, 5, 4, -1, 60])
        self.assertEqual(redis.command("GCRA", "k", 4, 1, "60.0", "TOKENS", 4)[:3], [0, 5, 0])
        self.assertEqual(redis.command("THROTTLE", "k", 4, 1, 60)[:3], [0, 5, 0])


if __name__ == "__main__":
    unittest.main()
