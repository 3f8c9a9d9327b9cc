"""Permits (`concurrency`) over HTTP and RESP: one rule, held and released by clients of both."""

import json
import unittest

from harness import PATIENCE, ServerTest, request, wait_for
from redis_harness import Resp
from redis_load import FaultTest

RULES = """
version: 1
rules:
  - name: exports
    match: { path: /export }
    limits:
      - { name: place, key: "{user|header.x-user}", algorithm: concurrency, limit: 2, lease: LEASE }
      - { name: rate, key: "{user|header.x-user}", algorithm: token_bucket, limit: 100, per: 1s }
"""


class Tests:
    """The tests, for two stores."""

    config = {}
    clock = None  # of the store

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.clock = cls.clock or cls.stopped_clock()
        cls.sluice = cls.start("1h", {"listen": {"resp": "127.0.0.1:0"}})
        host, port = cls.sluice.front_ends["resp"].rsplit(":", 1)
        cls.resp = (host, int(port))

    @classmethod
    def start(cls, lease, config=()):
        return cls.serve(RULES.replace("LEASE", lease), {**cls.config, **dict(config)}, clock=cls.clock)

    def post(self, path, body, sluice=None):
        answer = request((sluice or self.sluice).http, "POST", path, json.dumps(body))
        return answer.status, answer.json

    def check(self, user, sluice=None, **more):
        body = {"attributes": {"path": "/export", "user": user}, **more}
        return self.post("/v1/check", body, sluice)

    def test_a_permit_is_held_until_it_is_released(self):
        permits = [self.check("a")[1]["permit"] for _ in range(2)]
        status, denied = self.check("a")
        self.assertEqual((status, denied["reason"]), (429, "limited"))
        self.assertNotIn("permit", denied)
        self.assertEqual(denied["retry_after_ms"], 3_600_000)
        self.assertEqual(self.post("/v1/release", {"permit": permits[0]}),
                         (200, {"outcome": "allowed", "reason": "ok"}))
        status, problem = self.post("/v1/release", {"permit": permits[0]})
        self.assertEqual((status, problem["detail"]), (404, "The permit or the hold has ended."))
        self.assertEqual(self.check("a")[0], 200)
        self.assertEqual(self.check("a")[0], 429)
        self.assertEqual(self.post("/v1/extend", {"permit": permits[1]})[0], 200)
        self.assertEqual(self.post("/v1/extend", {"permit": permits[0]})[0], 404)

    def test_a_request_that_another_limit_denies_holds_nothing(self):
        self.check("b", cost=2)
        permit = self.check("b", verb="peek")[1]
        self.assertNotIn("permit", permit)
        self.assertEqual(self.check("b", cost=101)[0], 429)
        self.assertEqual(self.check("b", verb="reset")[0], 200)
        self.assertEqual(self.check("b")[0], 200)

    def test_each_request_of_an_array_has_its_own(self):
        one = {"attributes": {"path": "/export", "user": "c"}}
        status, answers = self.post("/v1/check", [one, one, one])
        self.assertEqual(status, 200)
        self.assertEqual(["permit" in answer for answer in answers], [True, True, False])
        self.assertNotEqual(answers[0]["permit"], answers[1]["permit"])

    def test_resp_and_http_share_permits(self):
        with Resp(self.resp) as resp:
            reply = resp("RL.CHECK", "*", "path", "/export", "user", "d")
            permit = dict(zip(reply[::2], reply[1::2]))[b"permit"].decode()
            self.assertEqual(self.post("/v1/release", {"permit": permit})[0], 200)
            held = self.check("d")[1]["permit"]
            self.assertEqual(resp("RL.EXTEND", held), 1)
            self.assertEqual(resp("RL.RELEASE", held), 1)
            self.assertEqual(resp("RL.RELEASE", held), 0)

    def test_mistakes_are_explained(self):
        for body in "x", {}, {"permit": 5}, {"permit": "x", "more": 1}, [{"permit": "x"}]:
            status, problem = self.post("/v1/release", body)
            self.assertEqual(status, 400)
            self.assertIn("expected {", problem["detail"])
        status, problem = self.post("/v1/extend", {"permit": "x"})
        self.assertEqual(status, 400)
        self.assertIn("at permit: ", problem["detail"])
        answer = request(self.sluice.http, "GET", "/v1/release")
        self.assertEqual((answer.status, answer["allow"]), (405, "POST"))

    def test_gateways_cannot_hold_a_permit(self):
        answer = self.sluice.auth("GET", "/export", **{"x-user": "e"})
        self.assertEqual(answer.status, 400, answer.body)

    def test_the_units_of_a_holder_that_dies_come_back_after_the_lease(self):
        sluice = self.start("2s")
        for _ in range(2):
            self.assertEqual(self.check("f", sluice)[0], 200)
        status, denied = self.check("f", sluice)
        self.assertEqual((status, denied["retry_after_ms"]), (429, 2_000))
        self.clock.advance(2)
        wait_for(lambda: self.check("f", sluice)[0] == 200, "the end of the cached denial")


class Memory(Tests, ServerTest):
    """With the memory store."""


class Redis(Tests, FaultTest):
    """With Redis, in which any server can release a permit."""

    @classmethod
    def setUpClass(cls):
        cls.clock = cls.stopped_clock()
        redis = cls.redis(clock=cls.clock)
        cls.config = {"store": redis.url, "redis": {"deadline": f"{PATIENCE}s"}}
        super().setUpClass()
        cls.other = cls.start("1h")

    def test_another_server_releases_a_permit(self):
        permit = self.check("g")[1]["permit"]
        self.assertEqual(self.post("/v1/release", {"permit": permit}, self.other)[0], 200)
        self.assertEqual(self.post("/v1/release", {"permit": permit})[0], 404)


if __name__ == "__main__":
    unittest.main()
