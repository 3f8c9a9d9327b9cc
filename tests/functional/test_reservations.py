"""Limitador's gRPC service with gRPC's own client: what is reserved is committed once, whatever is
lost."""

import grpc

import envoy_harness
import harness
import redis_harness

RULES = """
version: 1
domain: llm
rules:
  - name: models
    match: { model: "**" }
    limits:
      - { name: calls, key: "{org}", algorithm: fixed_window, limit: 100, per: 1d, cost: 1 }
      - { name: org, key: "{org}", algorithm: budget, limit: 9007199254740991, per: never }
      - { name: agent, key: "{org} {agent}", algorithm: budget, limit: 1000, per: day,
          on_expiry: release, cost: "{tokens|10}" }
"""
LIMITS = "{ domain: shop, descriptors: [ { key: model, rate_limit: { unit: day, requests_per_unit: 3 } } ] }"
SERVICE = "/kuadrant.service.ratelimit.v1.RateLimitService/"
OK, OVER = 1, 2
LARGEST = 2**53 - 1


def setUpModule():
    global rls, messages
    rls = envoy_harness.messages()
    from kuadrant.service.ratelimit.v1 import kuadrantrls_pb2 as messages


class Calls:
    """What a gateway asks a server, of tests that have `org`, the name of an organisation."""

    def call(self, server, message, answer, method, domain="llm"):
        message.domain = domain
        descriptor = message.descriptors.add()
        for key, value in {"model": "small", "org": self.org, "agent": "a"}.items():
            descriptor.entries.add(key=key, value=value)
        with envoy_harness.channel_to(server) as channel:
            over = channel.unary_unary(SERVICE + method, type(message).SerializeToString, answer.FromString)
            return over(message, timeout=harness.PATIENCE)

    def reserve(self, server, amount, seconds=None, nanos=0, **more):
        message = messages.ReserveRequest(amount=amount)
        if seconds is not None:
            message.ttl.seconds, message.ttl.nanos = seconds, nanos
        answer = self.call(server, message, messages.ReserveResponse, "Reserve", **more)
        return answer.code, answer.reservation_id

    def commit(self, server, reservation, amount, **more):
        message = messages.CommitRequest(reservation_id=reservation, actual_amount=amount)
        answer = self.call(server, message, messages.CommitResponse, "Commit", **more)
        return answer.reservation_released

    def ask(self, server, method, hits=0, **more):
        message = rls.RateLimitRequest(hits_addend=hits)
        return self.call(server, message, rls.RateLimitResponse, method, **more)

    def left(self, server):
        """Returns what the calls, the organisation and the agent have left."""
        attributes = {"model": "small", "org": self.org, "agent": "a"}
        nothing = {"calls": 0, "org": 0, "agent": 0}
        answer = server.check({"attributes": attributes, "verb": "peek", "costs": nothing}).json
        return [limit["remaining"] for limit in answer["limits"]]

    def refused(self, call, *args, **more):
        with self.assertRaises(grpc.RpcError) as raised:
            call(*args, **more)
        return raised.exception.code(), raised.exception.details()

    @property
    def org(self):
        return self.id()


class Reservations(Calls, harness.ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.clock = cls.stopped_clock()
        envoy = cls.folder() / "shop.yaml"
        envoy.write_text(LIMITS)
        config = {"listen": {"grpc": "127.0.0.1:0"}, "envoy": {"files": str(envoy)}}
        cls.server = cls.serve(RULES, config, clock=cls.clock)

    def test_a_reservation_is_committed_once(self):
        code, reservation = self.reserve(self.server, 700, seconds=30)
        self.assertEqual((code, len(reservation)), (OK, 24))
        self.assertEqual(self.left(self.server), [99, LARGEST - 700, 300])
        self.assertEqual(self.reserve(self.server, 301), (OVER, ""))
        for _ in range(2):  # as if the first answer were lost
            self.assertTrue(self.commit(self.server, reservation, 512))
            self.assertEqual(self.left(self.server), [99, LARGEST - 512, 488])
        code, details = self.refused(self.commit, self.server, reservation, 513)
        self.assertEqual(code, grpc.StatusCode.ALREADY_EXISTS)
        self.assertIn("for another amount", details)
        self.assertEqual(self.left(self.server), [99, LARGEST - 512, 488])

    def test_a_reservation_whose_answer_is_lost_ends_with_its_time(self):
        self.reserve(self.server, 700)
        self.clock.advance(59.999999)
        self.assertEqual(self.left(self.server), [99, LARGEST - 700, 300])
        self.clock.advance(0.000001)
        self.assertEqual(self.left(self.server), [99, LARGEST - 700, 1000])

    def test_a_commit_after_the_end_counts(self):
        _, reservation = self.reserve(self.server, 700, seconds=1)
        self.clock.advance(1)
        self.assertFalse(self.commit(self.server, reservation, 512))
        self.assertEqual(self.left(self.server), [99, LARGEST - 512, 488])
        self.commit(self.server, reservation, 512)
        self.assertEqual(self.left(self.server), [99, LARGEST - 512, 488])

    def test_amounts_of_64_bits(self):
        code, reservation = self.reserve(self.server, 1 << 40)
        self.assertEqual((code, reservation), (OVER, ""))  # the agent has 1000
        self.assertFalse(self.commit(self.server, "other", 1 << 40))
        self.assertEqual(self.left(self.server), [100, LARGEST - (1 << 40), 0])

    def test_check_and_report(self):
        for _ in range(2):
            answer = self.ask(self.server, "CheckRateLimit", hits=100)
            self.assertEqual(answer.overall_code, OK)
        self.assertEqual(self.left(self.server), [100, LARGEST, 1000])
        for _ in range(101):
            self.assertEqual(self.ask(self.server, "Report", hits=7).overall_code, OK)
        self.assertEqual(self.left(self.server), [0, LARGEST - 707, 0])
        self.assertEqual(self.ask(self.server, "CheckRateLimit").overall_code, OVER)

    def test_a_domain_of_envoy_has_no_budgets(self):
        for call, args in ((self.reserve, (1,)), (self.commit, ("id", 1))):
            code, details = self.refused(call, self.server, *args, domain="shop")
            self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("expected a domain of rules", details)

    def test_bad_input_says_what_would_be_right(self):
        for call, args, expected in (
            (self.reserve, (2**53,), "at most 9007199254740991"),
            (self.reserve, (2**64 - 1,), "at most 9007199254740991"),
            (self.reserve, (1, -1), "expected 1 s to 24 h"),
            (self.reserve, (1, 0, 999_999_000), "expected 1 s to 24 h"),
            (self.reserve, (1, 86_400, 1), "expected 1 s to 24 h"),
            (self.reserve, (1, 90_000), "expected 1 s to 24 h"),
            (self.commit, ("id", 2**53), "at most 9007199254740991"),
            (self.commit, ("x" * 129, 1), "expected the one of a ReserveResponse"),
        ):
            with self.subTest(call=call.__name__, args=args):
                code, details = self.refused(call, self.server, *args)
                self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT)
                self.assertIn(expected, details)
        for domain, code in (("", grpc.StatusCode.INVALID_ARGUMENT), ("nowhere", None)):
            if code is None:
                self.assertEqual(self.reserve(self.server, 1, domain=domain)[0], OK)
                self.assertFalse(self.commit(self.server, "id", 1, domain=domain))
            else:
                self.assertEqual(self.refused(self.reserve, self.server, 1, domain=domain)[0], code)
        self.assertEqual(self.left(self.server), [100, LARGEST, 1000])
        self.assertEqual(self.reserve(self.server, 1, 0)[0], OK)  # as without a ttl
        self.clock.advance(59)
        self.assertEqual(self.left(self.server), [99, LARGEST - 1, 999])

    def test_a_method_that_does_not_exist(self):
        code, details = self.refused(self.ask, self.server, "Release")
        self.assertEqual((code, details), (grpc.StatusCode.UNIMPLEMENTED, "unknown method"))


class Shared(Calls, redis_harness.RedisTest):
    def test_another_server_commits_what_one_has_reserved(self):
        clock = self.stopped_clock()
        store = self.redis(clock=clock)
        config = {"listen": {"grpc": "127.0.0.1:0"}, "store": store.url, "redis": {"deadline": "5s"}}
        first, other = [self.serve(RULES, config, clock=clock) for _ in range(2)]
        _, reservation = self.reserve(first, 700, seconds=30)
        self.assertEqual(self.left(other), [99, LARGEST - 700, 300])
        self.assertEqual(self.reserve(other, 301), (OVER, ""))
        self.assertTrue(self.commit(other, reservation, 512))
        self.assertTrue(self.commit(first, reservation, 512))
        for server in (first, other):
            self.assertEqual(self.left(server), [99, LARGEST - 512, 488])
            code, _ = self.refused(self.commit, server, reservation, 1)
            self.assertEqual(code, grpc.StatusCode.ALREADY_EXISTS)
        _, ended = self.reserve(first, 400, seconds=30)
        clock.advance(30)
        self.assertEqual(self.left(other), [98, LARGEST - 912, 488])
        self.assertFalse(self.commit(other, ended, 1))
        self.assertEqual(self.left(first), [98, LARGEST - 513, 487])
