"""The module in a Redis that servers of Sluice use, next to a server that uses scripts."""

import json
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
        redis = self.redis()
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
        redis = self.redis()
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

    def test_a_hold_of_one_server_is_settled_by_the_other(self):
        rules = HEAD + """
  - name: call
    limits: [{name: spend, algorithm: budget, limit: 100, per: never, key: "{ip}"}]
"""
        redis = self.redis()
        config = {"ledger": "redis"}
        servers = [self.serve_store(redis.url, rules, config=config),
                   self.serve_store(redis.url, rules, config=config, module="off")]
        commands = ["sluice.apply", "evalsha"]
        for number in range(4):
            call = {"attributes": {"ip": "u"}, "id": f"call {number}"}
            asked = {"costs": {"spend": 20}, "hold_ms": 60_000}
            before = self.calls(redis)
            with self.subTest(number=number):
                at = 100 - 5 * number
                first, second = number % 2, (number + number // 2 + 1) % 2
                self.assertEqual(left(servers[first], "/v1/check", call | asked), [at - 20])
                self.assertEqual(left(servers[second], "/v1/settle", call | {"actual": 5}), [at - 5])
                after = self.calls(redis)
                for index, command in enumerate(commands):
                    self.assertEqual(after.get(command, 0) - before.get(command, 0),
                                     (first == index) + (second == index))
        streams = redis.command("KEYS", "sluice:e*")
        self.assertEqual([redis.command("XLEN", stream) for stream in streams], [8])

    def test_clients_without_sluice_ask_redis_itself(self):
        redis = self.redis()
        self.assertEqual(redis.command("CL.THROTTLE", "k", 4, 1, 60), [0, 5, 4, -1, 60])
        self.assertEqual(redis.command("GCRA", "k", 4, 1, "60.0", "TOKENS", 4)[:3], [0, 5, 0])
        self.assertEqual(redis.command("THROTTLE", "k", 5, 1, 60)[:3], [0, 5, 0])


if __name__ == "__main__":
    unittest.main()
