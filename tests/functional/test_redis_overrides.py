"""Overrides in Redis: every server of the fleet follows them."""

import json
import unittest

from harness import Sluice, wait_for
from redis_harness import RedisTest
from resp_harness import Resp

RULES = """
version: 1
rules:
  - name: api
    limits: [ { name: requests, key: "{header.x-customer}", algorithm: fixed_window, limit: 2,
                per: 1h } ]
"""
PATH = "/v1/overrides/api/requests"
ALL, HEAD, CHANGES = (
    "sluice:{overrides}", "sluice:{overrides}:head", "sluice:{overrides}:changes"
)


class RedisOverrides(RedisTest):
    def setUp(self):
        self.redis_server = self.redis()
        self.first, self.second = self.start(), self.start()

    def tearDown(self):
        self.doClassCleanups()

    def start(self):
        return self.serve(rules=RULES, config={"store": self.redis_server.url})

    def set(self, customer, **given):
        body = json.dumps({"attributes": {"header.x-customer": customer}, **given})
        answer = self.first.admin_request("PUT", PATH, body)
        self.assertEqual(answer.status, 200, answer)

    def limit_of(self, server, customer):
        body = {"attributes": {"header.x-customer": customer}, "verb": "peek"}
        return server.check(body).json["limits"][0]["limit"]

    def wait_for_limit(self, customer, limit):
        for server in (self.first, self.second):
            wait_for(
                lambda server=server: self.limit_of(server, customer) == limit,
                what=f"the limit {limit}",
            )

    def test_every_server_follows(self):
        self.set("1", limit=10)
        self.assertEqual(self.limit_of(self.first, "1"), 10)
        self.wait_for_limit("1", 10)
        self.assertEqual(self.limit_of(self.start(), "1"), 10)
        removed = self.second.admin_request("DELETE", PATH + "?header.x-customer=1")
        self.assertEqual(removed.status, 200)
        self.wait_for_limit("1", 2)

    def test_a_change_over_resp_reaches_every_server(self):
        server = self.serve(rules=RULES, config={
            "store": self.redis_server.url, "listen": {"resp": "127.0.0.1:0"}})
        address = server.front_ends["resp"]
        resp = Resp(address)
        self.addCleanup(resp.close)
        place = ("api", "requests", "header.x-customer", "5")
        self.assertEqual(resp.ask("RL.OVERRIDE", "SET", *place, "LIMIT", 50), "OK")
        self.assertEqual(self.limit_of(server, "5"), 50)
        self.wait_for_limit("5", 50)
        self.assertEqual(resp.ask("RL.OVERRIDE", "UNSET", *place), 1)
        self.wait_for_limit("5", 2)
        self.assertEqual(resp.ask("RL.OVERRIDE", "UNSET", *place), 0)

    def test_a_change_survives_the_kill_of_its_server(self):
        killed = Sluice(self.folder(), RULES, {"store": self.redis_server.url})
        self.addCleanup(killed.stop)
        for customer in range(20):
            body = {"attributes": {"header.x-customer": str(customer)}, "limit": customer + 100}
            answer = killed.admin_request("PUT", PATH, json.dumps(body))
            self.assertEqual(answer.status, 200, answer)
        killed.kill()
        successor = self.start()
        for customer in range(20):
            self.assertEqual(self.limit_of(successor, str(customer)), customer + 100)
        self.wait_for_limit("19", 119)

    def test_what_another_server_has_removed_ends_at_once_with_a_removal(self):
        self.set("1", limit=10)
        self.wait_for_limit("1", 10)
        # As before the second server has read a removal by the first.
        self.redis_server.command("HDEL", ALL, "default|api|requests|header.x-customer=1")
        answer = self.second.admin_request("DELETE", PATH + "?header.x-customer=1")
        self.assertEqual(answer.status, 404)
        self.assertEqual(self.limit_of(self.second, "1"), 2)

    def test_a_lost_follower_reads_everything_again(self):
        self.set("1", limit=10)
        self.set("2", limit=10)
        self.wait_for_limit("2", 10)
        self.redis_server.command("XTRIM", CHANGES, "MAXLEN", "0")
        self.redis_server.command("HSET", ALL, "default|api|requests|header.x-customer=3",
                                  "limit=30")
        self.redis_server.command("HINCRBY", HEAD, "number", "5")
        self.wait_for_limit("3", 30)
        self.wait_for_limit("1", 10)
        self.redis_server.command("FLUSHALL")
        self.wait_for_limit("1", 2)
        self.wait_for_limit("3", 2)
        self.set("1", limit=20)
        self.wait_for_limit("1", 20)


if __name__ == "__main__":
    unittest.main()
