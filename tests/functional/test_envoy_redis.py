"""Envoy's rate limit service with counters in Redis, and while Redis is unavailable."""

import concurrent.futures
import contextlib
import json
import unittest

import grpc

import envoy_harness
import harness
import redis_harness

LIMITS = """
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: year, requests_per_unit: 3 } }
  - { key: path, rate_limit: { unit: year, requests_per_unit: 2 } }
  - { key: hot, rate_limit: { unit: year, requests_per_unit: 100 } }
  - { key: bucket, rate_limit: { algorithm: token_bucket, period: 365d, requests_per_unit: 5 } }
  - { key: q1, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: q2, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 2 } }
  - { key: trial, shadow_mode: true, rate_limit: { unit: year, requests_per_unit: 1 } }
  - { key: allow, rate_limit: { unit: year, requests_per_unit: 1, on_store_error: allow } }
  - { key: deny, rate_limit: { unit: year, requests_per_unit: 1, on_store_error: deny } }
  - { key: local, rate_limit: { unit: year, requests_per_unit: 2, on_store_error: local } }
"""
RULES = """
version: 1
domain: native
rules:
  - name: allow
    match: { user: allow }
    on_store_error: allow
    limits: [ { key: "{user}", algorithm: fixed_window, limit: 1, per: 365d, align: clock } ]
  - name: deny
    match: { user: deny }
    on_store_error: deny
    limits: [ { key: "{user}", algorithm: fixed_window, limit: 1, per: 365d, align: clock } ]
"""
OK, OVER = 1, 2
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def setUpModule():
    global rls
    rls = envoy_harness.messages()


class RedisTest(redis_harness.RedisTest):
    @classmethod
    def serve_grpc(cls, store, **more):
        folder = cls.folder()
        (folder / "shop.yaml").write_text(LIMITS)
        config = {
            "listen": {"grpc": "127.0.0.1:0"},
            "envoy": {"files": str(folder / "shop.yaml")},
            "store": store.url,
            **more,
        }
        server = cls.serve(RULES, config)
        channel = envoy_harness.channel_to(server)
        cls.addClassCleanup(channel.close)
        server.ask = envoy_harness.caller(rls, channel)
        return server

    def request(self, *descriptors, domain="shop"):
        """Sends descriptors "KEY", "KEY+HITS" or "KEY-HITS". The value is the test's name."""
        out = rls.RateLimitRequest(domain=domain)
        for text in descriptors:
            key, sign, hits = text.partition("-") if "-" in text else text.partition("+")
            descriptor = out.descriptors.add(is_negative_hits=sign == "-")
            descriptor.entries.add(key=key, value=self.id())
            if hits:
                descriptor.hits_addend.value = int(hits)
        return out

    def ask(self, server, *descriptors, **options):
        """Returns the overall code, and the code and remaining units of each descriptor."""
        answer = server.ask(self.request(*descriptors, **options), timeout=harness.PATIENCE)
        return answer.overall_code, [(one.code, one.limit_remaining) for one in answer.statuses]


class Decisions(RedisTest):
    @classmethod
    def setUpClass(cls):
        redis = cls.redis()
        cls.servers = [cls.serve_grpc(redis, redis={"deadline": "5s"}) for _ in range(2)]

    def test_a_request_takes_all_limits_or_none(self):
        first, other = self.servers
        self.assertEqual(self.ask(first, "path+2", "user"), (OK, [(OK, 0), (OK, 2)]))
        denied = (OVER, [(OK, 2), (OVER, 0), (OK, 5)])
        self.assertEqual(self.ask(other, "user", "path", "bucket"), denied)
        self.assertEqual(self.ask(first, "user", "path", "bucket"), denied)
        self.assertEqual(self.ask(other, "user+2", "bucket"), (OK, [(OK, 0), (OK, 4)]))

    def test_peeks_and_refunds(self):
        first, other = self.servers
        self.assertEqual(self.ask(first, "user+0"), (OK, [(OK, 3)]))
        self.assertEqual(self.ask(first, "user+3", "bucket+4"), (OK, [(OK, 0), (OK, 1)]))
        self.assertEqual(self.ask(other, "user+0", "bucket+0"), (OK, [(OK, 0), (OK, 1)]))
        self.assertEqual(self.ask(other, "user-2", "bucket-1"), (OK, [(OK, 2), (OK, 2)]))
        self.assertEqual(self.ask(first, "user-9", "bucket-9"), (OK, [(OK, 3), (OK, 5)]))
        # Together with a descriptor that takes units, and with one that cannot.
        self.assertEqual(self.ask(first, "user+3", "path+2"), (OK, [(OK, 0), (OK, 0)]))
        self.assertEqual(self.ask(other, "user-1", "path"), (OVER, [(OK, 0), (OVER, 0)]))
        self.assertEqual(self.ask(other, "path-1", "bucket"), (OK, [(OK, 1), (OK, 4)]))

    def test_quotas_are_charged_while_they_last(self):
        first, other = self.servers
        self.assertEqual(self.ask(first, "q1", "q2", "user"), (OK, [(OK, 0), (OK, 1), (OK, 2)]))
        self.assertEqual(self.ask(other, "q1", "q2", "user"), (OK, [(OVER, 0), (OK, 0), (OK, 1)]))
        over = (OVER, [(OVER, 0), (OVER, 0), (OK, 1)])
        self.assertEqual(self.ask(first, "q1", "q2", "user"), over)
        self.assertEqual(self.ask(first, "user+0"), (OK, [(OK, 1)]))

    def test_a_limit_in_shadow_mode_denies_nothing(self):
        first, other = self.servers
        self.assertEqual(self.ask(first, "trial", "user"), (OK, [(OK, 0), (OK, 2)]))
        self.assertEqual(self.ask(other, "trial", "user"), (OK, [(OK, 0), (OK, 1)]))

    def test_a_request_may_override_the_limit(self):
        first, other = self.servers
        request = self.request("no descriptor of the file", "user")
        request.descriptors[0].limit.requests_per_unit = 1
        request.descriptors[0].limit.unit = 6
        codes = [server.ask(request, timeout=harness.PATIENCE).overall_code for server in (first, other)]
        self.assertEqual(codes, [OK, OVER])
        self.assertEqual(self.ask(first, "user+0"), (OK, [(OK, 2)]))

    def test_concurrent_calls_are_exact(self):
        """Of 300 calls with two limits, exactly as many pass as the tighter limit allows."""
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            futures = [
                pool.submit(self.ask, self.servers[i % 2], "hot", "user" if i % 2 else "path+0")
                for i in range(300)
            ]
            passed = [future.result()[0] == OK for future in futures]
        self.assertEqual((sum(passed[0::2]), sum(passed[1::2])), (97, 3))
        self.assertEqual(self.ask(self.servers[0], "hot+0", "user+0"), (OK, [(OK, 0), (OK, 0)]))


class WithoutStore(RedisTest):
    def setUp(self):
        self.store = self.redis()
        self.server = self.serve_grpc(self.store, redis={"deadline": "500ms"})

    def code_of(self, *descriptors):
        """Returns the overall code, or the gRPC status of a call that fails."""
        try:
            return self.ask(self.server, *descriptors)[0]
        except grpc.RpcError as error:
            self.assertIn("the store could not decide: store_", error.details())
            return error.code()

    def by_rules(self, user):
        request = rls.RateLimitRequest(domain="native")
        request.descriptors.add().entries.add(key="user", value=user)
        return self.server.ask(request, timeout=harness.PATIENCE).overall_code

    def answers_by_policy(self):
        for _ in range(8):  # more failures than the breaker needs to open
            self.assertEqual(self.code_of("allow"), OK)
            self.assertEqual(self.code_of("allow+0"), OK)
            self.assertEqual(self.code_of("allow-1"), OK)
            self.assertEqual(self.code_of("trial"), OK)
            self.assertEqual(self.code_of("unknown"), OK)
            self.assertEqual(self.code_of("allow", "deny"), OVER)
            self.assertEqual(self.code_of("user"), UNAVAILABLE)
            self.assertEqual(self.code_of("allow", "deny", "user"), UNAVAILABLE)
            self.assertEqual(self.code_of("user-1"), UNAVAILABLE)
            self.assertEqual([self.by_rules(user) for user in ("allow", "deny")], [OK, OVER])
        # Each server counts locally.
        self.assertEqual([self.code_of("local") for _ in range(3)], [OK, OK, OVER])

    def answers_again(self):
        def decides():
            with contextlib.suppress(grpc.RpcError):
                return self.ask(self.server, "user+0") == (OK, [(OK, 3)])

        harness.wait_for(decides, what="an answer of the store")
        # The store was not charged, and the local counters are no longer used.
        self.assertEqual(self.ask(self.server, "local+0"), (OK, [(OK, 2)]))

    def test_a_stopped_redis_causes_fallback(self):
        self.assertEqual(self.ask(self.server, "user+0"), (OK, [(OK, 3)]))
        self.store.kill()
        self.answers_by_policy()
        body = {"domain": "shop", "descriptors": [{"entries": [{"key": "user"}]}]}
        answer = harness.request(self.server.http, "POST", "/json", json.dumps(body))
        self.assertEqual(answer.status, 503)
        self.store.start()
        self.answers_again()

    def test_a_redis_that_does_not_answer_causes_fallback(self):
        self.assertEqual(self.ask(self.server, "user+0"), (OK, [(OK, 3)]))
        self.store.pause()
        self.addCleanup(self.store.resume)
        self.assertEqual(self.code_of("user"), UNAVAILABLE)
        self.assertEqual(self.code_of("allow"), OK)
        self.assertEqual(self.code_of("deny"), OVER)
        self.assertEqual(self.code_of("local"), OK)


if __name__ == "__main__":
    unittest.main()
