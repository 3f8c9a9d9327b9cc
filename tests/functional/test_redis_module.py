"""The module in a Redis that servers of Sluice use, next to a server that uses scripts."""

import json
import os
import unittest

from harness import request
from redis_load import HEAD, Client, FaultTest, question, rule

ALGORITHMS = ["fixed_window", "sliding_window_log", "sliding_window_counter",
              "sliding_window_hybrid", "leaky_bucket", "token_bucket", "gcra"]
RULES = HEAD + "".join(rule(name, "deny", 20, name) for name in ALGORITHMS + ["allow"])
RULES = RULES.replace("algorithm: allow", "algorithm: gcra")


def left(server, path, ask):
    """Returns the remaining units of each limit."""
    answer = request(server.http, "POST", path, json.dumps(ask)).json
    return [limit["remaining"] for limit in answer["limits"]]


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

    def test_a_settlement_up_and_down_is_one_command(self):
        rules = HEAD + """
  - name: call
    limits:
      - {name: requests, algorithm: fixed_window, limit: 100, per: 60s, align: first_request, key: "{ip}"}
      - {name: tokens, algorithm: token_bucket, limit: 1000, per: 366d, key: "{ip}"}
      - {name: images, algorithm: sliding_window_log, limit: 100, per: 366d, key: "{ip}"}
"""
        redis = self.redis({"loadmodule": os.environ["SLUICE_MODULE"]})
        for name, settings in {"sluice.apply": {}, "evalsha": {"module": "off"}}.items():
            server = self.serve_store(redis.url, rules, **settings)
            call = {"attributes": {"ip": name}, "costs": {"tokens": 400, "images": 5}}
            with self.subTest(command=name):
                self.assertEqual(left(server, "/v1/check", call), [99, 600, 95])
                before = self.calls(redis)[name]
                actual = {"tokens": 100, "images": 7}
                self.assertEqual(left(server, "/v1/settle", call | {"actual": actual}),
                                 [99, 900, 93])
                self.assertEqual(self.calls(redis)[name] - before, 1)

    def test_clients_without_sluice_ask_redis_itself(self):
        redis = self.redis({"loadmodule": os.environ["SLUICE_MODULE"]})
        self.assertEqual(redis.command("CL.THROTTLE", "k", 4, 1, 60), [0, 5, 4, -1, 60])
        self.assertEqual(redis.command("GCRA", "k", 4, 1, "60.0", "TOKENS", 4)[:3], [0, 5, 0])
        self.assertEqual(redis.command("THROTTLE", "k", 5, 1, 60)[:3], [0, 5, 0])


if __name__ == "__main__":
    unittest.main()
