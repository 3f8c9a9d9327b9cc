"""Budgets over HTTP: held before a call, settled once after it, whatever is sent again."""

import json
import unittest

from harness import ServerTest, request, wait_for
from redis_harness import RedisTest

RULES = """
version: 1
rules:
  - name: models
    match: { path: /v1/chat }
    limits:
      - { name: requests, key: "{header.x-org}", algorithm: fixed_window, limit: 100, per: 1h, cost: 1 }
      - { name: org, key: "{header.x-org}", algorithm: budget, limit: 9007199254740991, per: never,
          cost: "{body.tokens|10}" }
      - { name: agent, key: "{header.x-org} {header.x-agent}", algorithm: budget, limit: 1000, per: day,
          on_expiry: release, holds: 3, cost: "{body.tokens|10}" }
  - name: plain
    match: { path: /plain }
    limits: [{ name: plain, key: "{header.x-org}", algorithm: budget, limit: 1000, per: never }]
  - name: tried
    match: { path: /tried }
    mode: shadow
    limits: [{ name: tried, key: "{header.x-org}", algorithm: budget, limit: 100, per: never }]
  - name: other
    match: { path: [/other, /tried] }
    limits: [{ algorithm: token_bucket, limit: 100, per: 1s }]
"""
LARGEST = 2**53 - 1
DAY_MS = 86_400_000


class Budgets(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.clock = cls.stopped_clock()
        cls.sluice = cls.serve(RULES, {}, clock=cls.clock)

    def post(self, path, body, **fields):
        answer = request(self.sluice.http, "POST", path, json.dumps(body), fields)
        return answer.status, answer.json

    def attributes(self, org, tokens=None):
        more = {} if tokens is None else {"body.tokens": str(tokens)}
        return {"path": "/v1/chat", "header.x-org": org, "header.x-agent": "a", **more}

    def check(self, org, tokens=None, **more):
        return self.post("/v1/check", {"attributes": self.attributes(org, tokens), **more})

    def end(self, path, org, **more):
        return self.post(path, {"attributes": self.attributes(org), **more})

    def left(self, org):
        nothing = {"requests": 0, "org": 0, "agent": 0}
        status, answer = self.check(org, verb="peek", costs=nothing)
        self.assertEqual(status, 200)
        return [limit["remaining"] for limit in answer["limits"]]

    def test_a_hold_is_settled_once(self):
        status, held = self.check("a", 700, id="call", hold_ms=60_000)
        self.assertEqual((status, held["id"], held["ends_after_ms"]), (200, "call", 60_000))
        self.assertNotIn("repeated", held)
        self.assertEqual(self.left("a"), [99, LARGEST - 700, 300])
        status, again = self.check("a", 700, id="call", hold_ms=60_000)
        self.assertEqual((status, again["repeated"]), (200, True))
        self.assertEqual(self.left("a"), [98, LARGEST - 700, 300])
        status, conflict = self.check("a", 701, id="call", hold_ms=60_000)
        self.assertEqual((status, conflict["reason"]), (409, "conflict"))
        status, settled = self.end("/v1/settle", "a", id="call", actual=512)
        self.assertEqual((status, settled["reason"]), (200, "ok"))
        self.assertEqual([limit["name"] for limit in settled["limits"]], ["org", "agent"])
        self.assertTrue(self.end("/v1/settle", "a", id="call", actual=512)[1]["repeated"])
        self.assertEqual(self.end("/v1/settle", "a", id="call", actual=513)[0], 409)
        self.assertEqual(self.end("/v1/cancel", "a", id="call")[0], 409)
        self.assertEqual(self.end("/v1/extend", "a", id="call", hold_ms=1000)[0], 404)
        self.assertEqual(self.left("a"), [98, LARGEST - 512, 488])

    def test_the_administration_shows_what_is_spent_and_held(self):
        self.check("shown", 300, id="first", hold_ms=60_000)
        self.check("shown", 200, id="second", hold_ms=60_000)
        self.end("/v1/settle", "shown", id="first", actual=950)
        query = "/v1/keys?rule=models&header.x-org=shown&header.x-agent=a"
        requests, org, agent = request(self.sluice.admin, "GET", query).json["limits"]
        self.assertEqual((agent["spent"], agent["held"], agent["remaining"]), (950, 200, 0))
        self.assertEqual((org["spent"], org["held"]), (950, 200))
        self.assertNotIn("held", requests)
        self.assertEqual(agent["numbers"], "1000 per day")
        self.assertEqual(org["numbers"], f"{LARGEST} in total")
        self.assertNotIn("reset_after_ms", org)
        self.assertGreater(agent["reset_after_ms"], 0)

    def test_amounts_of_several_limits(self):
        self.check("b", 700, id="call", hold_ms=60_000)
        status, answer = self.end("/v1/settle", "b", id="call", actual={"org": 2**50, "agent": 1200})
        self.assertEqual((status, answer["reason"]), (200, "over"))
        self.assertEqual(self.left("b"), [99, LARGEST - 2**50, 0])
        self.check("b", 0, id="other", hold_ms=60_000)
        status, problem = self.end("/v1/settle", "b", id="other", actual={"org": 1})
        self.assertEqual(status, 400)
        self.assertIn("no amount for the limit 'agent'", problem["detail"])

    def test_a_settlement_without_an_amount_is_refused(self):
        """Also for a limit without `cost`."""
        attributes = {"path": "/plain", "header.x-org": "s"}
        asked = {"attributes": attributes, "id": "plain"}
        self.assertEqual(self.post("/v1/check", {**asked, "cost": 5, "hold_ms": 60_000})[0], 200)
        status, answer = self.post("/v1/settle", {**asked, "actual": {}})
        self.assertEqual(status, 400, answer)
        self.assertIn("the settlement has no amount for the limit", answer["detail"])
        status, answer = self.post("/v1/settle", {**asked, "actual": 7})
        self.assertEqual((status, answer["limits"][0]["remaining"]), (200, 993), answer)

    def test_cancel_extend_and_ids_that_sluice_makes(self):
        status, held = self.check("c", 700, hold_ms=1000)
        self.assertEqual(len(held["id"]), 24)
        status, longer = self.end("/v1/extend", "c", id=held["id"], hold_ms=DAY_MS)
        self.assertEqual((status, longer["ends_after_ms"]), (200, DAY_MS))
        body = {"attributes": self.attributes("c"), "id": held["id"], "hold_ms": 2000}
        escaped = json.dumps(body).replace('"attributes"', '"\\u0061ttributes"')
        answer = request(self.sluice.http, "POST", "/v1/extend", escaped)
        self.assertEqual((answer.status, answer.json["ends_after_ms"]), (200, 2000), answer.json)
        self.assertEqual(self.end("/v1/cancel", "c", id=held["id"])[0], 200)
        self.assertTrue(self.end("/v1/cancel", "c", id=held["id"])[1]["repeated"])
        self.assertTrue(self.end("/v1/cancel", "c", id="unknown")[1]["late"])
        self.assertEqual(self.left("c"), [99, LARGEST, 1000])

    def test_an_idempotency_key_is_an_id(self):
        body = {"attributes": self.attributes("d", 400)}
        fields = {"Idempotency-Key": "k"}
        self.assertNotIn("repeated", self.post("/v1/check", body, **fields)[1])
        answer = self.post("/v1/check", body, **fields)[1]
        self.assertEqual((answer["id"], answer["repeated"]), ("k", True))
        self.assertNotIn("repeated", self.post("/v1/check", {**body, "cost": 1, "id": "l"}, **fields)[1])
        self.assertEqual(self.left("d")[1], LARGEST - 800)
        self.assertEqual(self.post("/v1/check", [body], **fields)[0], 400)
        self.assertEqual(self.post("/v1/check", body, **{"Idempotency-Key": "x" * 129})[0], 400)

    def test_an_idempotency_key_counts_a_charge_once(self):
        body = {"attributes": self.attributes("k", 400), "verb": "charge"}
        fields = {"Idempotency-Key": "charged"}
        self.assertNotIn("repeated", self.post("/v1/check", body, **fields)[1])
        answer = self.post("/v1/check", body, **fields)[1]
        self.assertEqual((answer["id"], answer["repeated"]), ("charged", True))
        self.assertEqual(self.left("k")[1], LARGEST - 400)
        for verb in ("refund", "reset", "take_at_most"):
            status, problem = self.post("/v1/check", {**body, "verb": verb}, **fields)
            self.assertEqual(status, 400, verb)
            self.assertIn("Idempotency-Key is next to another verb; expected check, peek", problem["detail"])
        self.assertEqual(self.left("k")[1], LARGEST - 400)

    def test_an_idempotency_key_does_not_replace_the_id_of_a_settlement(self):
        fields = {"Idempotency-Key": "settled"}
        body = {"attributes": self.attributes("key"), "cost": 10, "actual": 40}
        safe = {"attributes": self.attributes("key"), "id": "safe", "actual": 40}
        for sent in (body, [body], [safe, body]):
            status, problem = self.post("/v1/settle", sent, **fields)
            self.assertEqual(status, 400, problem)
            self.assertIn('the header Idempotency-Key does not make a settlement without "id" safe to repeat; '
                          'expected "id"', problem["detail"])  # fmt: skip
        self.assertEqual(self.left("key"), [100, LARGEST, 1000])
        self.check("key", 10, id="call", hold_ms=60_000)
        for repeated in (False, True):
            body = {"attributes": self.attributes("key"), "id": "call", "actual": 40}
            status, settled = self.post("/v1/settle", body, **fields)
            self.assertEqual((status, settled.get("repeated", False)), (200, repeated))
        self.assertEqual(self.left("key"), [99, LARGEST - 40, 960])

    def test_an_idempotency_key_does_not_make_a_report_safe(self):
        report = {"attributes": self.attributes("key"), "status": 401}
        for sent in (report, [report, report]):
            status, problem = self.post("/v1/report", sent, **{"Idempotency-Key": "report"})
            self.assertEqual(status, 400, problem)
            self.assertIn("Idempotency-Key does not make a report safe to repeat", problem["detail"])
            self.assertEqual(self.post("/v1/report", sent)[0], 200)

    def test_holds_of_a_limit_in_the_request(self):
        limit = {"key": "k", "algorithm": "budget", "limit": 100, "per": "never"}
        status, held = self.post("/v1/check", {"limit": limit, "id": "a", "hold_ms": 1000, "cost": 70})
        self.assertEqual((status, held["ends_after_ms"]), (200, 1000))
        status, longer = self.post("/v1/extend", {"limit": limit, "id": "a", "hold_ms": 5000})
        self.assertEqual((status, longer["ends_after_ms"]), (200, 5000))
        status, settled = self.post("/v1/settle", {"limit": limit, "id": "a", "actual": 30})
        self.assertEqual((status, settled["limits"][0]["remaining"]), (200, 70))
        self.assertTrue(self.post("/v1/settle", {"limit": limit, "id": "a", "actual": 30})[1]["repeated"])
        self.assertEqual(self.post("/v1/extend", {"limit": limit, "id": "a", "hold_ms": 5000})[0], 404)
        self.post("/v1/check", {"limit": limit, "id": "b", "hold_ms": 1000, "cost": 70})
        status, cancelled = self.post("/v1/cancel", {"limit": limit, "id": "b"})
        self.assertEqual((status, cancelled["limits"][0]["remaining"]), (200, 70))
        bucket = {"key": "k", "algorithm": "token_bucket", "limit": 100, "per": "1s"}
        settle = {"limit": limit, "id": "a"}
        cases = {
            "token_bucket has no ids": ("/v1/check", {"limit": bucket, "hold_ms": 1000}),
            "has no ids and holds nothing; expected budget": ("/v1/check", {"limit": bucket, "id": "a"}),
            "at limit.algorithm": ("/v1/settle", {"limit": bucket, "id": "a", "actual": 1}),
            "at id: missing": ("/v1/settle", {"limit": limit, "actual": 1}),
            "an object next to 'limit'": ("/v1/settle", {**settle, "actual": {"a": 1}}),
            "next to 'limit'": ("/v1/cancel", {**settle, "attributes": {}}),
        }
        for part, (path, body) in cases.items():
            status, problem = self.post(path, body)
            self.assertEqual(status, 400, (path, body, problem))
            self.assertIn(part, problem["detail"])

    def test_holds_are_bounded(self):
        for i in range(3):
            self.assertEqual(self.check("e", id=f"call {i}", hold_ms=60_000)[0], 200)
        status, denied = self.check("e", id="call 3", hold_ms=60_000)
        self.assertEqual((status, denied["reason"]), (429, "too_many_holds"))
        self.assertEqual(denied["retry_after_ms"], 60_000)
        self.assertEqual(self.left("e")[1:], [LARGEST - 30, 970])

    def test_what_is_wrong_is_said(self):
        held = {"attributes": self.attributes("f")}
        cases = {
            "has 0 bytes": ("/v1/check", {**held, "id": ""}),
            "has 129 bytes": ("/v1/check", {**held, "id": "x" * 129}),
            "from 1000 to 86400000": ("/v1/check", {**held, "id": "a", "hold_ms": 999}),
            "(a day)": ("/v1/check", {**held, "id": "a", "hold_ms": DAY_MS + 1}),
            "expected check, peek or charge": ("/v1/check", {**held, "id": "a", "verb": "reset"}),
            "only a check holds": ("/v1/check", {**held, "hold_ms": 1000, "verb": "peek"}),
            "cannot wait": ("/v1/check", {**held, "id": "a", "wait_ms": 1}),
            "expected only 'actual'": ("/v1/settle", {**held, "id": "a", "actual": 1, "cost": 2}),
            "from 0 to 9007199254740991": ("/v1/settle", {**held, "id": "a", "actual": 2**53}),
            "actual": ("/v1/settle", {**held, "id": "a", "actual": 1.5}),
            "id": ("/v1/cancel", held),
            "hold_ms": ("/v1/extend", {**held, "id": "a"}),
            "attributes": ("/v1/extend", {"id": "a", "hold_ms": 1000}),
        }
        for part, (path, body) in cases.items():
            status, problem = self.post(path, body)
            self.assertEqual(status, 400, (path, body, problem))
            self.assertIn(part, problem["detail"])
        self.assertEqual(self.left("f"), [100, LARGEST, 1000])

    def test_a_hold_that_no_budget_has_ends_too(self):
        """Because no rule matches, or only rules without budgets: the check was allowed."""
        for path in ("/other", "/none"):
            held = {"attributes": {"path": path}, "id": "a"}
            self.assertEqual(self.post("/v1/check", {**held, "hold_ms": 1000})[0], 200)
            for end, more in (("settle", {"actual": 1}), ("cancel", {}), ("extend", {"hold_ms": 1000})):
                status, answer = self.post(f"/v1/{end}", {**held, **more})
                self.assertEqual((status, answer["limits"]), (200, []), answer)
                self.assertIn("no budget applies to the request, so nothing was held", answer["detail"])

    def test_a_key_that_is_unlimited_now(self):
        """Its holds are ended, whenever they were made."""
        attributes = {"path": "/plain", "header.x-org": "free"}
        hold = {"attributes": attributes, "cost": 70, "hold_ms": 60_000}
        self.post("/v1/check", {**hold, "id": "before"})
        self.post("/v1/check", {**hold, "id": "cancelled"})
        override = "/v1/overrides/plain/plain"
        given = json.dumps({"attributes": attributes, "unlimited": True})
        self.assertEqual(self.sluice.admin_request("PUT", override, given).status, 200)
        self.assertEqual(self.post("/v1/check", {**hold, "id": "while"})[1]["limits"], [])
        status, settled = self.post("/v1/settle", {"attributes": attributes, "id": "before", "actual": 30})
        self.assertEqual(status, 200, settled)
        self.assertNotIn("late", settled)
        self.assertEqual(self.post("/v1/cancel", {"attributes": attributes, "id": "cancelled"})[0], 200)
        status, longer = self.post("/v1/extend", {"attributes": attributes, "id": "while", "hold_ms": 1000})
        self.assertEqual((status, longer["limits"]), (200, []), longer)
        removed = self.sluice.admin_request("DELETE", override + "?header.x-org=free")
        self.assertEqual(removed.status, 200)
        peek = {"attributes": attributes, "verb": "peek", "cost": 0}
        self.assertEqual(self.post("/v1/check", peek)[1]["limits"][0]["remaining"], 970)

    def test_a_budget_in_shadow_mode_says_what_it_holds(self):
        held = {"attributes": {"path": "/tried", "header.x-org": "a"}, "id": "a"}
        check = {**held, "cost": 70, "hold_ms": 1000}
        self.assertEqual(self.post("/v1/check", check)[1]["ends_after_ms"], 1000)
        self.assertTrue(self.post("/v1/check", check)[1]["repeated"])
        self.assertNotIn("late", self.post("/v1/settle", {**held, "actual": 30})[1])
        self.assertTrue(self.post("/v1/settle", {**held, "actual": 30})[1]["repeated"])
        self.assertTrue(self.post("/v1/settle", {**held, "id": "b", "actual": 9})[1]["late"])
        status, conflict = self.post("/v1/settle", {**held, "actual": 31})
        self.assertEqual((status, conflict["reason"]), (200, "shadow"))

    def test_a_client_without_a_role_ends_its_own_holds(self):
        sluice = self.serve(RULES, {"listen": {"http": "0.0.0.0:0"}}, clock=self.clock)
        address = sluice.http.replace("0.0.0.0", "127.0.0.1")

        def post(path, **more):
            body = {"attributes": self.attributes("g", 5), **more}
            return request(address, "POST", path, json.dumps(body)).status

        self.assertEqual(post("/v1/check", id="a", hold_ms=1000), 200)
        self.assertEqual(post("/v1/extend", id="a", hold_ms=1000), 200)
        self.assertEqual(post("/v1/settle", id="a", actual=500), 200)
        self.assertEqual(post("/v1/cancel", id="b"), 200)
        self.assertEqual(post("/v1/settle", actual=1), 403)
        limit = {"key": "k", "algorithm": "budget", "limit": 100, "per": "never"}
        for path, more in (("settle", {"actual": 1}), ("cancel", {}), ("extend", {"hold_ms": 1000})):
            body = json.dumps({"limit": limit, "id": "a", **more})
            self.assertEqual(request(address, "POST", f"/v1/{path}", body).status, 403)

    def test_a_program_that_dies(self):
        self.check("h", 700, id="call", hold_ms=1000)
        self.clock.advance(1)
        self.assertEqual(self.left("h"), [99, LARGEST - 700, 1000])  # charged, and released
        status, settled = self.end("/v1/settle", "h", id="call", actual=100)
        self.assertEqual((status, settled["late"]), (200, True))
        self.assertEqual(self.left("h"), [99, LARGEST - 100, 900])

    def test_a_cancellation_before_its_hold(self):
        self.end("/v1/cancel", "i", id="call")
        status, held = self.check("i", 700, id="call", hold_ms=60_000)
        self.assertEqual((status, held["reason"]), (409, "conflict"))
        self.assertEqual(self.left("i"), [100, LARGEST, 1000])


class Restarts(ServerTest):
    def test_a_hold_goes_on_after_a_restart(self):
        clock = self.stopped_clock()
        config = {"memory": {"snapshot": str(self.folder() / "counters"), "snapshot_interval": "0s"}}
        attributes = {"path": "/v1/chat", "header.x-org": "a", "header.x-agent": "a", "body.tokens": "7"}

        def post(path, **more):
            return request(server.http, "POST", path, json.dumps({"attributes": attributes, **more})).json

        server = self.serve(RULES, config, clock=clock)
        post("/v1/check", id="open", hold_ms=60_000)
        post("/v1/check", id="ended", hold_ms=60_000)
        post("/v1/settle", id="ended", actual=2)
        self.assertEqual(server.stop(), 0)
        server = self.serve(RULES, config, clock=clock)
        self.assertTrue(post("/v1/settle", id="ended", actual=2)["repeated"])
        answer = post("/v1/settle", id="open", actual=3)
        self.assertNotIn("late", answer)
        self.assertEqual([limit["remaining"] for limit in answer["limits"]], [LARGEST - 5, 995])


class InRedis(RedisTest):
    """Budgets whose Redis is away, or has lost a hold."""

    POLICIES = ("allow", "deny", "local")
    RULES = "version: 1\nrules:" + "".join(
        f"""
  - name: {policy}
    match: {{ path: /{policy} }}
    on_store_error: {policy}
    limits: [ {{ key: "{{org}}", algorithm: budget, limit: 100, per: never }} ]"""
        for policy in POLICIES
    )

    def setUp(self):
        # It keeps what it has counted.
        self.server = self.redis({"appendonly": "yes", "appendfsync": "always"})
        # One event loop: each has a connection of its own, and one may be back before the others.
        config = {"store": self.server.url, "redis": {"deadline": "5s"}, "threads": 1}
        self.sluice = self.serve(self.RULES, config)

    def tearDown(self):
        self.doClassCleanups()

    def post(self, path, policy, **more):
        body = {"attributes": {"path": f"/{policy}", "org": "a"}, **more}
        answer = request(self.sluice.http, "POST", path, json.dumps(body))
        return answer.status, answer.json

    def hold(self, policy, call, cost):
        return self.post("/v1/check", policy, id=call, cost=cost, hold_ms=DAY_MS)

    def settle(self, policy, call, actual):
        return self.post("/v1/settle", policy, id=call, actual=actual)

    def peek(self, policy):
        return self.post("/v1/check", policy, verb="peek", cost=0)[1]

    def left(self, policy):
        return self.peek(policy)["limits"][0]["remaining"]

    def test_redis_is_away_and_comes_back(self):
        for policy in self.POLICIES:
            self.assertEqual(self.hold(policy, "before", 30)[1]["reason"], "ok")
        self.server.kill()
        for policy, expected in (("allow", 200), ("deny", 429), ("local", 200)):
            status, answer = self.hold(policy, "while", 20)
            self.assertEqual((status, answer["reason"]), (expected, "fallback"), answer)
            self.assertEqual("ends_after_ms" in answer, policy == "local", answer)
            status, answer = self.settle(policy, "before", 10)  # whatever the policy: not counted
            self.assertEqual((status, answer["outcome"]), (429, "denied"), answer)
            self.assertIn(answer["reason"], ("store_error", "store_timeout"))
        self.server.start()
        for policy in self.POLICIES:
            wait_for(lambda p=policy: self.peek(p)["reason"] == "ok", "the store")
            self.assertEqual(self.left(policy), 70, policy)
            for repeated in (False, True):
                status, answer = self.settle(policy, "before", 10)
                self.assertEqual((status, answer.get("repeated", False)), (200, repeated), answer)
                self.assertNotIn("late", answer)
                status, answer = self.hold(policy, "while", 20)
                self.assertEqual((status, answer.get("repeated", False)), (200, repeated), answer)
            self.assertEqual(self.left(policy), 70, policy)

    def test_two_servers_with_different_prices(self):
        rules = """
version: 1
prices: {{ large: {{ input: {price} }} }}
rules:
  - name: priced
    match: {{ path: /priced }}
    limits:
      - {{ key: "{{org}}", algorithm: budget, limit: 1000, per: never,
          cost: "{{body.tokens}} * price.input", price: {{ of: "{{body.model}}", default: large }} }}
"""
        old, new = (self.serve(rules.format(price=price), {"store": self.server.url}) for price in (3, 4))

        def post(server, path, **more):
            body = {"attributes": {"path": "/priced", "org": "a", "body.tokens": "10"}, **more}
            answer = request(server.http, "POST", path, json.dumps(body))
            return answer.status, answer.json

        status, held = post(old, "/v1/check", id="call", hold_ms=DAY_MS)
        self.assertEqual((status, held["limits"][0]["remaining"]), (200, 970))
        status, answer = post(new, "/v1/check", id="call", hold_ms=DAY_MS)
        self.assertEqual((status, answer["reason"], answer["limits"][0]["remaining"]), (409, "conflict", 970))
        self.assertTrue(post(old, "/v1/check", id="call", hold_ms=DAY_MS)[1]["repeated"])
        self.assertEqual(post(new, "/v1/extend", id="call", hold_ms=DAY_MS)[0], 200)
        status, settled = post(new, "/v1/settle", id="call", actual=35)
        self.assertEqual((status, settled["limits"][0]["remaining"]), (200, 965))
        self.assertNotIn("late", settled)
        self.assertTrue(post(old, "/v1/settle", id="call", actual=35)[1]["repeated"])

    def test_redis_loses_a_hold(self):
        self.hold("deny", "call", 30)
        self.server.command("FLUSHALL")
        status, answer = self.settle("deny", "call", 10)
        self.assertEqual((status, answer["late"]), (200, True))
        self.assertNotIn("repeated", answer)
        status, again = self.settle("deny", "call", 10)
        self.assertEqual((status, again["repeated"], again["late"]), (200, True, True))
        self.assertEqual(self.left("deny"), 90)
        self.assertEqual(self.hold("deny", "call", 30)[0], 409)
        self.assertEqual(self.left("deny"), 90)


if __name__ == "__main__":
    unittest.main()
