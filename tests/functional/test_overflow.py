"""Budgets in a row: `overflow` over HTTP and RESP, in memory and in Redis."""

import json
import subprocess
import unittest

from harness import PATIENCE, ServerTest, binary, request
from redis_harness import RedisTest, Resp
from resp_harness import pairs

RULES = """
version: 1
rules:
  - name: models
    match: { path: /v1/chat }
    tag: "{org}"
    limits:
      - { name: calls, key: "{org}", algorithm: token_bucket, limit: 100, per: 1h }
      - name: month
        key: "{org}"
        algorithm: budget
        limit: 100
        per: never
        cost: "{units}"
        overflow:
          name: credits
          key: "{org}"
          limit: 50
          per: never
          overflow: { name: reserve, limit: 1000, per: never }
"""


REFUSED = """
version: 1
rules:
  - name: models
    limits:
      - name: month
        key: "{org}"
        algorithm: budget
        limit: 100
        per: never
        on_missing: deny
        overflow: { name: credits, key: "{team}", limit: 50, per: never }
"""


class Try(ServerTest):
    def test_a_budget_of_a_row_that_is_refused_is_explained(self):
        file = self.folder() / "rules.yaml"
        file.write_text(REFUSED, "utf-8")
        argv = [binary(), "try", str(file), "GET / org=a"]
        tried = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE)
        self.assertIn("limit models/credits: 50 in total (budget), after month", tried.stdout)


class Tests:
    """The tests, for two stores."""

    config = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sluice = cls.start()
        host, port = cls.sluice.front_ends["resp"].rsplit(":", 1)
        cls.resp = (host, int(port))

    @classmethod
    def start(cls):
        return cls.serve(RULES, {**cls.config, "listen": {"resp": "127.0.0.1:0"}})

    def post(self, path, org, sluice=None, **more):
        units = str(more.pop("units", 0))
        attributes = {"path": "/v1/chat", "org": org, "units": units}
        return request((sluice or self.sluice).http, "POST", path,
                       json.dumps({"attributes": attributes, **more})).json  # fmt: skip

    def hold(self, org, call, units, **more):
        return self.post("/v1/check", org, id=call, units=units, hold_ms=60_000, **more)

    def left(self, org):
        answer = self.post("/v1/check", org, verb="peek")
        return [limit["remaining"] for limit in answer["limits"][1:3]]

    def test_a_hold_and_what_follows_it(self):
        self.assertEqual(self.hold("a", "1", 80)["charged"], "month")
        answer = self.hold("a", "2", 30)
        self.assertEqual((answer["outcome"], answer["charged"]), ("allowed", "credits"))
        passed = {limit["name"]: limit.get("passed_over", False) for limit in answer["limits"]}
        self.assertEqual(passed, {"calls": False, "month": True, "credits": False, "reserve": True})
        self.assertEqual(self.left("a"), [20, 20])
        self.assertTrue(self.hold("a", "2", 30)["repeated"])
        self.assertEqual(self.post("/v1/extend", "a", id="2", hold_ms=9_000)["charged"], "credits")
        self.assertEqual(self.post("/v1/settle", "a", id="2", actual=7)["charged"], "credits")
        self.assertEqual(self.post("/v1/cancel", "a", id="1")["charged"], "month")
        self.assertEqual(self.left("a"), [100, 43])

    def test_a_denied_call_charges_none(self):
        self.hold("b", "1", 100)
        self.hold("b", "2", 50)
        answer = self.hold("b", "3", 1001)
        self.assertEqual((answer["outcome"], answer["reason"]), ("denied", "never"))
        self.assertNotIn("charged", answer)
        answer = self.hold("b", "3", 5, costs={"calls": 101})
        self.assertEqual((answer["outcome"], answer["reason"]), ("denied", "never"))
        self.assertEqual(self.left("b"), [0, 0])
        self.assertEqual(self.hold("b", "3", 5)["charged"], "reserve")

    def test_resp(self):
        with Resp(self.resp) as client:
            words = ["*", "path", "/v1/chat", "org", "c", "units"]
            client("RL.HOLD", "CHECK", *words, "90", "TTL", "60s", "ID", "1")
            held = pairs(client("RL.HOLD", "CHECK", *words, "20", "TTL", "60s", "ID", "2"))
            self.assertEqual(held["charged"], "credits")
            month = pairs(held["limits"][1])
            self.assertEqual((month["name"], month["passed_over"]), ("month", 1))
            settled = pairs(client("RL.SETTLE", "CHECK", *words, "0", "ACTUAL", "5", "ID", "2"))
            self.assertEqual(settled["charged"], "credits")
        self.assertEqual(self.left("c"), [10, 45])

    def test_each_is_a_limit_of_its_own_for_operators(self):
        self.hold("d", "1", 30)
        address = "/v1/keys?rule=models&org=d"
        shown = request(self.sluice.admin, "GET", address).json["limits"]
        self.assertEqual([(one["name"], one["limit"]) for one in shown][1:3],
                         [("month", 100), ("credits", 50)])  # fmt: skip
        said = subprocess.run(
            [binary(), "try", "--server", "/v1/chat org=d units=80", "--admin", self.sluice.admin],
            capture_output=True, text=True, check=True, timeout=PATIENCE).stdout  # fmt: skip
        self.assertIn("limit models/credits: 50 in total (budget), after month, key 'd', cost 80", said)
        self.assertIn("charged to reserve", said)


    def test_a_reload_that_removes_the_charged_budget(self):
        sluice = self.start()
        self.hold("r", "1", 80, sluice=sluice)
        self.assertEqual(self.hold("r", "2", 30, sluice=sluice)["charged"], "credits")
        text = RULES[: RULES.index("        overflow:")]
        self.assertEqual(request(sluice.admin, "PUT", "/v1/rules", text).status, 200)
        answer = self.post("/v1/settle", "r", sluice, id="2", actual=20)
        self.assertEqual((answer["charged"], answer.get("late")), ("credits", None), answer)
        answer = self.post("/v1/check", "r", sluice, verb="peek")
        self.assertEqual([limit["name"] for limit in answer["limits"]], ["calls", "month"])
        self.assertEqual(answer["limits"][1]["remaining"], 20)
        self.assertEqual(request(sluice.admin, "PUT", "/v1/rules", RULES).status, 200)
        answer = self.post("/v1/check", "r", sluice, verb="peek")
        self.assertEqual(answer["limits"][2]["remaining"], 30)


class Memory(Tests, ServerTest):
    """With the memory store."""


class Redis(Tests, RedisTest):
    """With Redis, whose servers share the budgets."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.redis()
        cls.config = {"store": cls.server.url, "redis": {"deadline": "5s"}}
        super().setUpClass()
        cls.other = cls.start()

    def test_another_server_settles(self):
        self.hold("e", "1", 90)
        self.assertEqual(self.hold("e", "2", 20)["charged"], "credits")
        answer = self.post("/v1/settle", "e", self.other, id="2", actual=3)
        self.assertEqual(answer["charged"], "credits")
        self.assertEqual(self.left("e"), [10, 47])


class Cluster(RedisTest):
    def test_a_row_with_a_tag(self):
        sluice = self.serve(RULES, {"store": self.cluster(replicas=0).url, "redis": {"deadline": "5s"}})
        for number, charged in enumerate(["month", "credits", "reserve"]):
            attributes = {"path": "/v1/chat", "org": "a", "units": "45" if number else "80"}
            body = {"attributes": attributes, "id": str(number), "hold_ms": 60_000}
            answer = request(sluice.http, "POST", "/v1/check", json.dumps(body)).json
            self.assertEqual(answer["charged"], charged, answer)


if __name__ == "__main__":
    unittest.main()
