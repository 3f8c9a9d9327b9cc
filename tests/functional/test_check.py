"""POST /v1/check over the wire."""

import json
import unittest

from harness import ServerTest, request, wait_for

RULES = """
version: 1
domain: shop
rules:
  - name: send-code
    match: { method: POST, path: /send/code }
    limits:
      - { key: "{body.email}", algorithm: sliding_window_log, limit: 3, per: 60s }
    reject:
      status: 429
      body: '{"code":429,"message":"请求过于频繁,请稍后再试","data":null}'
  - name: page
    match: { path: /page }
    limits:
      - { name: hour, key: "{ip}", algorithm: fixed_window, limit: 5, per: 1h }
  - name: near
    match: { path: /near }
    limits: [{ name: all, key: "{ip}", algorithm: fixed_window, limit: 5, per: 366d, warn: 80% }]
  - name: models
    match: { path: /chat }
    limits:
      - { name: requests, key: "{ip}", algorithm: fixed_window, limit: 5, per: 1h, cost: 1 }
      - { name: tokens, key: "{ip}", algorithm: fixed_window, limit: 900, per: 1h,
          cost: "{body.max_tokens|500}" }
  - name: closed
    match: { path: /closed }
    limits: [{ algorithm: fixed_window, limit: 0, per: 1m }]
    reject: { status: 503 }
  - name: order
    match: { path: /order }
    limits:
      - { name: all, algorithm: token_bucket, limit: 1, per: 1h, burst: 100 }
      - { name: user, key: "{header.x-user-id|ip}", algorithm: token_bucket, limit: 1, per: 1h, burst: 2 }
  - name: legacy
    match: { path: /legacy }
    headers: legacy
    limits: [{ algorithm: fixed_window, limit: 9, per: 1m }]
  - name: quiet
    match: { path: /quiet }
    headers: none
    limits: [{ algorithm: fixed_window, limit: 9, per: 1m }]
"""


def page(ip, **more):
    return {"attributes": {"path": "/page", "ip": ip}, **more}


class Check(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.sluice = cls.serve(RULES)

    def test_a_key_near_its_limit_is_reported_once(self):
        asked = {"attributes": {"path": "/near", "ip": "192.0.2.50"}}
        near = [json.loads(self.sluice.check(asked).body)["limits"][0]["near"] for _ in range(6)]
        self.assertEqual(near, [False, False, False, True, True, True])
        samples = self.sluice.metrics()
        self.assertEqual(samples['sluice_near_keys_total{rule="near",limit="all"}'], 1)
        line = "near rule=near limit=all key=192.0.2.50 capacity=5 remaining=1 "
        wait_for(lambda: line in self.sluice.log(), what="the line of the log")
        self.assertEqual(self.sluice.log().count("near rule=near"), 1)

    def test_the_answer_has_the_outcome_the_rule_and_each_limit(self):
        answer = self.sluice.check(page("192.0.2.1"))
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer["content-type"].startswith("application/json"))
        self.assertEqual(answer.json["outcome"], "allowed")
        self.assertEqual(answer.json["rule"], "page")
        self.assertEqual(answer.json["reason"], "ok")
        [limit] = answer.json["limits"]
        self.assertEqual((limit["name"], limit["limit"], limit["remaining"]), ("hour", 5, 4))
        self.assertTrue(3_590_000 < limit["reset_after_ms"] <= 3_600_000, limit)

    def test_a_request_over_the_limit_gets_429_and_a_retry_time(self):
        attributes = {"method": "POST", "path": "/send/code", "body.email": "a@example.org"}
        for left in (2, 1, 0):
            answer = self.sluice.check({"attributes": attributes})
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.json["limits"][0]["name"], "send-code/0")
            self.assertEqual(answer.json["limits"][0]["remaining"], left)
        answer = self.sluice.check({"attributes": attributes})
        self.assertEqual(answer.status, 429)
        self.assertEqual(answer.json["outcome"], "denied")
        self.assertEqual(answer.json["limits"][0]["name"], "send-code/0")
        self.assertTrue(50_000 < answer.json["retry_after_ms"] <= 60_000)
        self.assertTrue(50 < int(answer["retry-after"]) <= 60)

    def test_answers_carry_both_families_of_fields_unless_the_rule_says_otherwise(self):
        answer = self.sluice.check(page("192.0.2.2"))
        self.assertEqual(answer["ratelimit-policy"], '"hour";q=5;w=3600')
        self.assertRegex(answer["ratelimit"], r'^"hour";r=4;t=(3600|3599)$')
        self.assertEqual(answer["x-ratelimit-limit"], "5")
        self.assertEqual(answer["x-ratelimit-remaining"], "4")
        self.assertIn(answer["x-ratelimit-reset"], ("3600", "3599"))
        self.assertIsNone(answer["retry-after"])
        legacy = self.sluice.check({"attributes": {"path": "/legacy"}})
        self.assertIsNone(legacy["ratelimit"])
        self.assertEqual(legacy["x-ratelimit-limit"], "9")
        quiet = self.sluice.check({"attributes": {"path": "/quiet"}})
        self.assertFalse([n for n, _ in quiet.fields if "ratelimit" in n], quiet)

    def test_the_tightest_limit_is_first_in_the_fields(self):
        answer = self.sluice.check({"attributes": {"path": "/order", "ip": "192.0.2.9"}})
        self.assertTrue(answer["ratelimit"].startswith('"user";r=1'), answer["ratelimit"])
        self.assertIn('"all"', answer["ratelimit"])
        self.assertEqual(answer["x-ratelimit-limit"], "2")

    def test_a_request_without_a_rule_is_allowed(self):
        answer = self.sluice.check({"attributes": {"path": "/nowhere"}})
        self.assertEqual(answer.status, 200)
        self.assertIsNone(answer.json["rule"])
        self.assertEqual(answer.json["outcome"], "allowed")

    def test_a_limit_of_zero_has_no_retry_time(self):
        answer = self.sluice.check({"attributes": {"path": "/closed"}})
        self.assertEqual(answer.json["outcome"], "denied")
        self.assertEqual(answer.json["reason"], "never")
        self.assertNotIn("retry_after_ms", answer.json)
        self.assertIsNone(answer["retry-after"])

    def test_a_denied_request_consumes_nothing_of_the_other_limits(self):
        def order(user):
            attributes = {"path": "/order", "header.x-user-id": user}
            return self.sluice.check({"attributes": attributes})

        def left_of_all(answer):
            return next(l["remaining"] for l in answer.json["limits"] if l["name"] == "all")

        order("greedy")
        before = left_of_all(order("greedy"))
        self.assertEqual([order("greedy").status for _ in range(3)], [429] * 3)
        self.assertEqual(left_of_all(order("modest")), before - 1)

    def test_a_request_takes_its_cost(self):
        self.assertEqual(
            self.sluice.check(page("192.0.2.3", cost=4)).json["limits"][0]["remaining"], 1
        )
        self.assertEqual(self.sluice.check(page("192.0.2.3", cost=2)).status, 429)
        self.assertEqual(
            self.sluice.check(page("192.0.2.3", cost=0)).json["limits"][0]["remaining"], 1
        )
        self.assertEqual(
            self.sluice.check(page("192.0.2.3", cost=1)).json["limits"][0]["remaining"], 0
        )

    def test_peek_refund_and_reset_change_the_counter_as_documented(self):
        def left(**more):
            return self.sluice.check(page("192.0.2.4", **more)).json["limits"][0]["remaining"]

        self.assertEqual(left(verb="peek"), 4)  # as the check would
        self.assertEqual(left(verb="peek", cost=0), 5)
        self.assertEqual(left(cost=0), 5)
        self.assertEqual(left(cost=3), 2)
        self.assertEqual(left(verb="peek"), 1)
        self.assertEqual(left(verb="peek"), 1)
        self.assertEqual(left(verb="refund", cost=2), 4)
        self.assertEqual(left(verb="check"), 3)
        self.assertEqual(left(verb="reset"), 5)
        self.assertEqual(left(), 4)

    def test_each_element_of_an_array_is_decided_separately(self):
        wishes = [
            page("192.0.2.5", cost=5),
            page("192.0.2.5"),
            page("192.0.2.6"),
            {"attributes": {"path": "/nowhere"}},
        ]
        answer = self.sluice.check(wishes)
        self.assertEqual(answer.status, 200)
        self.assertEqual(
            [one["outcome"] for one in answer.json], ["allowed", "denied", "allowed", "allowed"]
        )
        self.assertEqual([one["rule"] for one in answer.json], ["page", "page", "page", None])

    def test_an_array_holds_at_most_a_thousand(self):
        nowhere = {"attributes": {"path": "/nowhere"}}
        self.assertEqual(len(self.sluice.check([nowhere] * 1000).json), 1000)
        self.assertEqual(self.sluice.check([nowhere] * 1001).status, 400)
        self.assertEqual(self.sluice.check([]).json, [])

    def test_one_bad_element_refuses_the_whole_array(self):
        answer = self.sluice.check([page("192.0.2.7", cost=5), {"attributes": 3}])
        self.assertEqual(answer.status, 400)
        self.assertIn("1", answer.json["detail"])
        self.assertEqual(self.sluice.check(page("192.0.2.7", cost=5)).status, 200)

    def test_each_limit_has_its_own_cost(self):
        def left(**more):
            request = {"attributes": {"path": "/chat", "ip": "192.0.2.8"}, **more}
            return [limit["remaining"] for limit in self.sluice.check(request).json["limits"]]

        tokens = {"path": "/chat", "ip": "192.0.2.8", "body": {"max_tokens": 200}}
        self.assertEqual(left(attributes=tokens), [4, 700])
        self.assertEqual(left(cost=3), [3, 200])
        self.assertEqual(left(costs={"tokens": 201}), [3, 200])
        self.assertEqual(left(costs={"tokens": 200}), [2, 0])
        settled = {"requests": 0, "tokens": 150}
        self.assertEqual(left(verb="refund", costs=settled), [2, 150])

    def test_errors_are_refused_with_their_position(self):
        for body, where in [
            ("", ""),
            ("{", ""),
            ('{"attributes":{"path":"/page"}', ""),
            ("[1]", ""),
            ('{"attributes":{"path":7}}', "path"),
            ('{"attributes":{},"cost":-1}', "cost"),
            ('{"attributes":{},"cost":1.5}', "cost"),
            ('{"attributes":{},"cost":9007199254740992}', "cost"),
            ('{"attributes":{},"cost":"1"}', "cost"),
            ('{"attributes":{},"costs":7}', "costs"),
            ('{"attributes":{},"costs":{"tokens":-1}}', "costs: 'tokens' is -1"),
            ('{"attributes":{},"costs":{"tokens":9007199254740992}}', "costs"),
            ('{"attributes":{},"costs":{"tokens":"7"}}', "costs"),
            ('{"attributes":{},"costs":{"tokens":1,"tokens":1}}', "'tokens' is given twice"),
            ('{"attributes":{"path":"/chat"},"costs":{"token":1}}', "no limit 'token'"),
            ('{"attributes":{"path":"/chat","ip":"a","body":{"max_tokens":1e3}}}', "'body.max_tokens', is '1e3'"),
            ('{"attributes":{"path":"/chat","ip":"a","body.max_tokens":"7\\u0000"}}', "expected a whole number"),
            ('{"attributes":{},"verb":"steal"}', "verb"),
            ('{"attributes":{},"price":1}', "price"),
            ('{"cost":1}', "attributes"),
            ('{"attributes":{"a":"b"},"attributes":{}}', "attributes"),
            ('{"attributes":{}} x', ""),
            ("null", ""),
            ("3", ""),
        ]:
            with self.subTest(body=body):
                answer = self.sluice.check(body)
                self.assertEqual(answer.status, 400)
                self.assertEqual(answer["content-type"], "application/problem+json")
                self.assertEqual(answer.json["status"], 400)
                self.assertIn(where, answer.json["detail"])

    def test_any_text_may_be_a_value(self):
        for ip in ("", "请求", "a\u0000b", "\U0001f600", "x" * 10_000, '|%{}"\\\n'):
            with self.subTest(ip=ip[:20]):
                first = self.sluice.check(page(ip))
                self.assertEqual(first.status, 200)
                json.loads(first.body)

    def test_methods_other_than_post_get_405_and_allow(self):
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            answer = request(self.sluice.http, method, "/v1/check")
            self.assertEqual(answer.status, 405)
            self.assertIn("POST", answer["allow"])

    def test_a_running_server_is_healthy_and_ready(self):
        self.assertEqual(self.sluice.get("/healthz").status, 200)
        self.assertEqual(self.sluice.get("/readyz").status, 200)


if __name__ == "__main__":
    unittest.main()
