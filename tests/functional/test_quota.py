"""Envoy's rate limit quota service with gRPC's own client and the messages of proto/."""

import copy
import json
import os
import queue
import re
import subprocess
import threading
import time
import unittest

import grpc
import yaml

import envoy_harness
import harness
import redis_harness
import resp_harness
import tls_harness
from harness import wait_for

RULES = """
version: 1
domain: shop
plans: { gold: { requests: { limit: 1000, per: 1s } }, free: { requests: { limit: 10, per: 1s } } }
rules:
  - { name: refused, match: { path: /refused }, action: deny }
  - name: counted
    match: { path: /counted }
    mode: shadow
    limits: [ { name: requests, key: "{path}", algorithm: fixed_window, limit: 100, per: 1d } ]
  - name: daily
    match: { path: /daily }
    limits: [ { name: requests, algorithm: fixed_window, limit: 864, per: 1d } ]
  - name: planned
    match: { path: /planned }
    plan: { from: "{plan}", default: free }
    limits: [ { name: requests, key: "{user}", algorithm: token_bucket } ]
  - name: both
    match: { path: /both }
    limits:
      - { name: all, algorithm: token_bucket, limit: 1000, per: 1s }
      - { name: user, key: "{user}", algorithm: token_bucket, limit: 20, per: 1s }
  - name: api
    match: { path: /api }
    limits: [ { name: requests, key: "{user}", algorithm: token_bucket, limit: 100, per: 1s } ]
"""
METHOD = "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas"


def setUpModule():
    global rlqs, strategies
    envoy_harness.messages()
    from envoy.service.rate_limit_quota.v3 import rlqs_pb2 as rlqs
    from envoy.type.v3 import ratelimit_strategy_pb2 as strategies


class Stream:
    """A proxy: one stream, and the last assignment of each bucket."""

    def __init__(self, server, channel=None):
        # A connection of its own, as each proxy has.
        own = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = channel or grpc.insecure_channel(envoy_harness.address_of(server), own)
        self.outgoing = queue.Queue()
        self.latest, self.abandoned, self.error = {}, set(), None
        self.call = self.channel.stream_stream(
            METHOD,
            request_serializer=rlqs.RateLimitQuotaUsageReports.SerializeToString,
            response_deserializer=rlqs.RateLimitQuotaResponse.FromString,
        )(iter(self.outgoing.get, None))
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        try:
            for message in self.call:
                for action in message.bucket_action:
                    self.take(action)
        except grpc.RpcError as error:
            self.error = error

    def take(self, action):
        bucket = tuple(sorted(action.bucket_id.bucket.items()))
        if action.WhichOneof("bucket_action") == "abandon_action":
            self.abandoned.add(bucket)
        else:
            self.latest[bucket] = action.quota_assignment_action

    def report(self, requests=1, seconds=1, domain="shop", denied=0, and_also=None, **bucket):
        message = rlqs.RateLimitQuotaUsageReports(domain=domain)
        for attributes in [bucket] + ([and_also] if and_also else []):
            usage = message.bucket_quota_usages.add(
                num_requests_allowed=requests, num_requests_denied=denied
            )
            usage.time_elapsed.FromMilliseconds(int(seconds * 1000))
            usage.bucket_id.bucket.update(attributes)
        self.outgoing.put(message)

    def assignment(self, **bucket):
        return self.latest.get(tuple(sorted(bucket.items())))

    def rate(self, **bucket):
        """Requests a second; None: no assignment, or one for all requests."""
        given = self.assignment(**bucket)
        if given is None or given.rate_limit_strategy.WhichOneof("strategy") != "token_bucket":
            return None
        tokens = given.rate_limit_strategy.token_bucket
        return tokens.tokens_per_fill.value * 1000 / tokens.fill_interval.ToMilliseconds()

    def rule(self, **bucket):
        """The rule for all requests; None: no assignment, or a token bucket."""
        given = self.assignment(**bucket)
        if given is None or given.rate_limit_strategy.WhichOneof("strategy") != "blanket_rule":
            return None
        return given.rate_limit_strategy.blanket_rule

    def wait_for_rate(self, least, most, report=None, **bucket):
        """Reports `report` again and again until the rate is between the two."""

        def has_rate():
            if report is not None:
                self.report(report, **bucket)
            rate = self.rate(**bucket)
            return rate is not None and least <= rate <= most

        wait_for(has_rate, f"{least} to {most} requests a second for {bucket}")

    def wait_for_rule(self, rule, **bucket):
        wait_for(lambda: self.rule(**bucket) == rule, f"the rule {rule} for {bucket}")

    def status(self):
        """The status that the stream has ended with."""
        wait_for(lambda: self.error is not None, "the end of the stream")
        return self.error.code()

    def close(self):
        self.outgoing.put(None)
        self.call.cancel()
        self.reader.join()
        self.channel.close()


class Quota(harness.ServerTest):
    every, idle = "100ms", "60s"

    @classmethod
    def setUpClass(cls):
        cls.rules = cls.folder() / "rules.yaml"
        cls.rules.write_text(RULES)
        config = {
            "listen": {"grpc": "127.0.0.1:0"},
            "rules": str(cls.rules),
            "quota": {"every": cls.every, "idle": cls.idle},
        }
        cls.server = cls.serve(config=config)

    def open(self):
        stream = Stream(self.server)
        self.addCleanup(stream.close)
        return stream

    def counters(self, rule):
        document = self.server.admin_request("GET", "/v1/quota").json
        return [one for one in document["counters"] if one["rule"] == rule]


class Assignments(Quota):
    allow = property(lambda _: strategies.RateLimitStrategy.ALLOW_ALL)
    deny = property(lambda _: strategies.RateLimitStrategy.DENY_ALL)

    def test_a_report_is_answered_with_a_part_of_the_limit(self):
        stream = self.open()
        stream.report(1, path="/api", user="first")
        stream.wait_for_rate(0.5, 100, path="/api", user="first")
        self.assertGreaterEqual(
            stream.assignment(path="/api", user="first").assignment_time_to_live.seconds, 3
        )
        stream.wait_for_rate(90, 100, report=500, path="/api", user="first")

    def test_requests_that_were_denied_are_demand_too(self):
        stream = self.open()
        stream.report(5, denied=45, path="/api", user="denied")
        stream.wait_for_rate(45, 51, path="/api", user="denied")

    def test_several_limits_give_the_strictest_part(self):
        stream = self.open()
        stream.wait_for_rate(18, 20, report=500, path="/both", user="b")

    def test_several_limits_leave_to_others_what_one_of_them_denies(self):
        body = json.dumps({"attributes": {"user": "gold"}, "limit": 2000})
        answer = self.server.admin_request("PUT", "/v1/overrides/both/user", body)
        self.assertIn(answer.status, (200, 201))
        stream = self.open()

        def has_the_rest():
            stream.report(20, denied=4980, path="/both", user="one")
            stream.report(950, path="/both", user="gold")
            return (stream.rate(path="/both", user="gold") or 0) >= 900

        wait_for(has_the_rest, "what the limit of a user leaves of the limit of all")
        stream.wait_for_rate(18, 20, path="/both", user="one")

    def test_a_limit_of_a_day_is_an_even_rate_and_the_log_warns(self):
        self.open().wait_for_rate(0.009, 0.01, report=50, path="/daily")
        wait_for(
            lambda: re.search(r"as an even rate.* limit=daily/requests", self.server.log()),
            "the warning",
        )

    def test_a_plan_gives_its_numbers(self):
        stream = self.open()
        stream.wait_for_rate(900, 1000, report=5000, path="/planned", plan="gold", user="g")
        stream.wait_for_rate(9, 10, report=5000, path="/planned", user="f")

    def test_no_limit_is_one_rule_for_all(self):
        stream = self.open()
        rules = {"/refused": self.deny, "/counted": self.allow, "/other": self.allow}
        for path, rule in rules.items():
            stream.report(3, path=path)
            stream.wait_for_rule(rule, path=path)

    def test_a_shadow_rule_counts(self):
        stream = self.open()
        stream.report(7, path="/counted", user="shadow")

        def counted():
            key = self.server.admin_request("GET", "/v1/keys?rule=counted&path=/counted").json
            return key["limits"][0]["remaining"] <= 93

        wait_for(counted, "seven requests to be counted")

    def override(self, user, **given):
        body = json.dumps({"attributes": {"user": user}, **given})
        answer = self.server.admin_request("PUT", "/v1/overrides/api/requests", body)
        self.assertIn(answer.status, (200, 201))

    def test_an_override_counts(self):
        stream = self.open()
        stream.wait_for_rate(90, 100, report=500, path="/api", user="blocked")
        self.override("blocked", blocked=True)
        stream.wait_for_rule(self.deny, path="/api", user="blocked")
        self.override("blocked", limit=30)
        stream.wait_for_rate(25, 30, report=500, path="/api", user="blocked")

    def test_proxies_share_a_limit(self):
        streams = [self.open(), self.open()]
        bucket = {"path": "/api", "user": "shared"}

        def is_fair():
            for stream in streams:
                stream.report(500, **bucket)
            rates = [stream.rate(**bucket) for stream in streams]
            return None not in rates and min(rates) >= 45 and max(rates) <= 55

        wait_for(is_fair, "equal parts")

        def shows_both():  # as it was at most `every` ago
            counters = [one for one in self.counters("api") if "shared" in one["key"]]
            return [one["subscribers"] for one in counters] == [2]

        wait_for(shows_both, "two subscribers in /v1/quota")

    def test_a_proxy_that_reconnects_keeps_its_assignment(self):
        bucket = {"path": "/api", "user": "again"}
        first = self.open()
        first.wait_for_rate(95, 100, report=500, **bucket)

        def has_user():  # as it was at most `every` ago
            return any("again" in one["key"] for one in self.counters("api"))

        wait_for(has_user, "the bucket in /v1/quota")
        first.close()
        wait_for(lambda: not has_user(), "no stream with the bucket in /v1/quota")
        again = self.open()
        # One report for both buckets, so that both are answered at once.
        again.report(500, 5, and_also={"path": "/refused"}, **bucket)
        again.wait_for_rule(self.deny, path="/refused")
        self.assertIsNone(again.assignment(**bucket))
        restarted = self.open()
        restarted.report(1, 0, **bucket)
        restarted.wait_for_rule(self.deny, **bucket)

    def test_a_proxy_may_report_many_buckets_at_once(self):
        stream = self.open()
        many = 6000  # their assignments are more than may wait unread in a stream
        for number in range(many):
            stream.report(1, path="/api", user=f"many-{number}-{'x' * 40}")

        def all_are_assigned():
            self.assertIsNone(stream.error)
            return len(stream.latest) == many

        wait_for(all_are_assigned, f"{many} assignments")

    def test_direct_requests_share_the_limit(self):
        stream = self.open()
        stream.wait_for_rate(90, 100, report=500, path="/api", user="direct")
        ask = {"attributes": {"path": "/api", "user": "direct"}}

        def has_less():
            for _ in range(50):
                self.server.check(ask)
            stream.report(500, path="/api", user="direct")
            rate = stream.rate(path="/api", user="direct")
            return rate is not None and rate < 90

        wait_for(has_less, "a smaller part")

    def test_a_domain_must_be_known_and_stay(self):
        for domain in ("unknown", ""):
            stream = self.open()
            stream.report(domain=domain, path="/api")
            self.assertEqual(stream.status(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("expected", stream.error.details())
        stream = self.open()
        stream.report(path="/other")
        stream.report(domain="", path="/other")
        stream.wait_for_rule(self.allow, path="/other")
        stream.report(domain="other", path="/other")
        self.assertEqual(stream.status(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_a_report_without_a_bucket_is_refused(self):
        stream = self.open()
        stream.report()
        self.assertEqual(stream.status(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("bucket_id", stream.error.details())

    def test_top_shows_the_part_of_each_proxy(self):
        for demand in (40, 30):
            self.open().report(demand, path="/api", user="top")

        def rows():
            done = subprocess.run(
                [harness.binary(), "top", "--quota", "--once", "--interval", "0.1", "--admin",
                 self.server.admin],
                capture_output=True, text=True, timeout=harness.PATIENCE, check=True,
            )
            found = re.findall(r"^ +(\S+) +(\S+) +([0-9.]+) % +[0-9.]+ s  127\.0\.0\.1:([0-9]+) +"
                               r"api/requests +top$", done.stdout, re.MULTILINE)
            return found if len(found) == 2 else None

        first, second = wait_for(rows, "two rows")
        self.assertEqual((first[0], second[0]), ("40.0", "30.0"))  # the largest demand first
        self.assertNotEqual(first[3], second[3])  # the ports

    def test_metrics_count(self):
        stream = self.open()
        stream.wait_for_rate(90, 100, report=500, path="/api", user="metrics")
        wait_for(lambda: self.server.metrics()["sluice_quota_assigned_units_total"] > 0, "units")
        metrics = self.server.metrics()
        self.assertGreater(metrics["sluice_quota_reports_total"], 0)
        self.assertGreater(metrics["sluice_quota_proxies"], 0)


class Changes(Quota):
    def test_other_rules_are_followed_at_once(self):
        stream = self.open()
        stream.wait_for_rate(90, 100, report=500, path="/api", user="rules")
        self.rules.write_text(RULES.replace("limit: 100, per: 1s", "limit: 40, per: 1s"))
        # No further report is needed.
        stream.wait_for_rate(1, 40, path="/api", user="rules")
        stream.wait_for_rate(35, 40, report=500, path="/api", user="rules")


class Idle(Quota):
    idle = "1s"

    def test_a_bucket_without_reports_is_abandoned(self):
        stream = self.open()
        stream.report(path="/other")
        wait_for(lambda: (("path", "/other"),) in stream.abandoned, "the end of the bucket")


class Refused(harness.ServerTest):
    """Envoy says nowhere that its stream was refused."""

    def check(self, address, domain, code, why, rules=RULES, **config):
        server = self.serve(rules, {"listen": {"grpc": address}, **config})
        for _ in range(3):
            stream = Stream(server)
            self.addCleanup(stream.close)
            stream.report(domain=domain, path="/api")
            self.assertEqual(stream.status(), code)
        line = "the quota service refuses a proxy"
        wait_for(lambda: line in server.log(), "the reason in the log")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.log().count(line), 1)  # a minute
        self.assertIn(why, server.log())

    def test_the_log_says_that_the_domain_is_unknown(self):
        self.check("127.0.0.1:0", "shops", grpc.StatusCode.INVALID_ARGUMENT,
                   "the domain 'shops' is unknown")

    def test_the_log_says_that_the_role_is_missing(self):
        self.check("0.0.0.0:0", "shop", grpc.StatusCode.PERMISSION_DENIED,
                   "the role operate is required")

    def test_the_log_says_that_scripts_are_off(self):
        rules = """
            version: 1
            domain: shop
            rules: [ { name: all, limits: [ { algorithm: fixed_window, align: clock, limit: 9, per: 1s } ] } ]
        """
        self.check("127.0.0.1:0", "shop", grpc.StatusCode.FAILED_PRECONDITION,
                   "quotas need scripts in Redis", rules,
                   store="redis+unix:///nonexistent.sock", redis={"scripting": "off"})


class Drain(Quota):
    def test_a_draining_server_ends_streams_so_that_proxies_reconnect(self):
        stream = self.open()
        stream.report(path="/other")
        wait_for(lambda: stream.rule(path="/other") is not None, "an assignment")
        self.server.stop()
        self.assertEqual(stream.status(), grpc.StatusCode.UNAVAILABLE)


class Zones(harness.ServerTest):
    """Two servers in front of a third one, whose quotas decide in them."""

    LIMIT, EVERY = 100, 0.1
    RULES = """
version: 1
domain: shop
rules:
  - name: closed
    match: { path: /closed }
    on_store_error: deny
    limits: [ { name: requests, key: "{user}", algorithm: token_bucket, limit: 100, per: 1s } ]
  - name: both
    match: { path: /both }
    on_store_error: deny
    limits:
      - { name: all, algorithm: token_bucket, limit: 1000, per: 1s }
      - { name: user, key: "{user}", algorithm: token_bucket, limit: 2, per: 1h }
  - name: fast
    match: { path: /fast }
    on_store_error: deny
    limits: [ { name: requests, algorithm: token_bucket, limit: 20000, per: 1s } ]
  - name: api
    match: { path: /api }
    on_store_error: deny
    limits: [ { name: requests, key: "{user}", algorithm: token_bucket, limit: 100, per: 1s } ]
"""

    def setUp(self):
        config = {"listen": {"grpc": "127.0.0.1:0"}, "quota": {"every": "100ms", "ttl": "3s"}}
        self.above = harness.Sluice(self.folder(), self.RULES, config)
        self.addCleanup(self.above.stop)
        store = {
            "listen": {"grpc": "127.0.0.1:0"},
            "quota": {"every": "100ms", "ttl": "3s"},
            "store": f"quota://{self.above.front_ends['grpc']}",
            "upstream": {"deadline": "30s"},
        }
        self.zones = [harness.Sluice(self.folder(), self.RULES, store) for _ in range(2)]
        for zone in self.zones:
            self.addCleanup(zone.stop)
            wait_for(lambda zone=zone: self.status(zone)["connections"] == 1, "a connection")

    @staticmethod
    def status(server):
        return json.loads(server.admin_request("GET", "/v1/status").body)["store"]

    @staticmethod
    def ask(zone, **attributes):
        return zone.check({"attributes": attributes}).json

    def is_allowed(self, zone, **attributes):
        return self.ask(zone, **attributes)["outcome"] == "allowed"

    def test_a_server_decides_by_its_part_and_they_share_the_limit(self):
        began, allowed, denied = time.monotonic(), 0, 0
        while denied < 100 or allowed < 3 * self.LIMIT:
            for zone in self.zones:
                answer = self.ask(zone, path="/api", user="shared")
                self.assertIn(answer["reason"], ("ok", "limited"))
                allowed += answer["outcome"] == "allowed"
                denied += answer["outcome"] == "denied"
        took = time.monotonic() - began
        # The limit in this time, a full counter, and the bound of docs/quota.md for each zone.
        bound = self.LIMIT * (took + 1 + (self.EVERY + 1) + 1) + 2
        self.assertLessEqual(allowed, bound)
        self.assertEqual(self.status(self.zones[0])["kind"], "quota")

    def test_each_request_that_is_admitted_has_taken_its_units(self):
        zone = self.serve(self.RULES, {
            "listen": {"resp": "127.0.0.1:0"},
            "store": f"quota://{self.above.front_ends['grpc']}",
            "upstream": {"deadline": "30s"},
        })
        requests = resp_harness.frame("RL.CHECK", "*", "path", "/fast") * 200
        allowed = 0
        with resp_harness.Resp(zone.front_ends["resp"]) as client:
            # Tokens come back while requests are denied.
            for _ in range(500):
                client.send(requests)
                answers = b""
                while answers.count(b"$6\r\nlimits\r\n") < 200 or not answers.endswith(b"$-1\r\n"):
                    answers += client.socket.recv(1 << 20)
                # The request and its limit.
                allowed += answers.count(b"$7\r\nallowed\r\n") // 2
        wait_for(
            lambda: self.above.metrics()["sluice_quota_used_units_total"] == allowed,
            "as many units as requests",
        )

    def test_a_charge_says_whether_it_exceeds_a_limit(self):
        def charge(cost):
            attributes = {"path": "/api", "user": "charge"}
            request = {"attributes": attributes, "verb": "charge", "cost": cost}
            answer = self.zones[0].check(request).json
            return answer["outcome"], answer["reason"]

        self.assertEqual(charge(0), ("allowed", "ok"))
        self.assertEqual(charge(1000), ("allowed", "over"))

    def test_a_denied_take_of_what_is_left_says_when_a_unit_is_there(self):
        def denial():
            attributes = {"path": "/both", "user": "most"}
            request = {"attributes": attributes, "verb": "take_at_most", "cost": 5}
            answer = self.zones[0].check(request).json
            # A unit takes 30 minutes when the part of the zone is the whole limit.
            is_soon = 1000 < answer.get("retry_after_ms", 0) < 2_000_000
            return answer if is_soon or answer["reason"] == "never" else None

        denied = wait_for(denial, "a denial")
        self.assertEqual(denied["reason"], "limited")

    def test_proxies_of_zones_have_the_limit(self):
        bucket = {"path": "/api", "user": "proxies"}
        proxies = [Stream(zone) for zone in self.zones]
        for proxy in proxies:
            self.addCleanup(proxy.close)
        # Nobody else asks, and then the proxy of the other zone.
        proxies[0].wait_for_rate(0.9 * self.LIMIT, self.LIMIT, report=5 * self.LIMIT, **bucket)

        def is_fair():
            for proxy in proxies:
                proxy.report(5 * self.LIMIT, **bucket)
            rates = [proxy.rate(**bucket) or 0 for proxy in proxies]
            return min(rates) >= 0.4 * self.LIMIT and sum(rates) <= 1.1 * self.LIMIT

        wait_for(is_fair, "parts of the limit for the proxies of two zones")

    def test_each_proxy_of_a_zone_has_a_part(self):
        bucket = {"path": "/api", "user": "several"}
        proxies = [Stream(zone) for zone in [self.zones[0]] * 3 + [self.zones[1]]]
        for proxy in proxies:
            self.addCleanup(proxy.close)

        def is_fair():
            for proxy in proxies:
                proxy.report(5 * self.LIMIT, **bucket)
            *zone, other = [proxy.rate(**bucket) or 0 for proxy in proxies]
            return min(zone) >= 0.14 * self.LIMIT and other >= 0.4 * self.LIMIT

        wait_for(is_fair, "parts of the limit for three proxies of one zone")

    def test_a_denied_request_says_when_to_come_back(self):
        def is_denied():
            answer = self.ask(self.zones[0], path="/both", user="slow")
            return answer if answer["outcome"] == "denied" else None

        denied = wait_for(is_denied, "a denial")
        self.assertEqual(denied["reason"], "limited")
        self.assertGreater(denied["retry_after_ms"], 0)

    def test_long_keys_are_limited(self):
        for user in (5000 * "x", 1500 * "%", 5000 * "y"):
            wait_for(lambda user=user: self.is_allowed(self.zones[0], path="/api", user=user), "a part")
            answers = [self.ask(self.zones[0], path="/api", user=user) for _ in range(100)]
            self.assertIn("limited", [answer["reason"] for answer in answers])

    def test_an_override_above_counts_in_all(self):
        self.assertTrue(self.is_allowed(self.zones[0], path="/api", user="bad"))
        body = json.dumps({"attributes": {"user": "bad"}, "blocked": True})
        self.above.admin_request("PUT", "/v1/overrides/api/requests", body)
        for zone in self.zones:
            wait_for(
                lambda zone=zone: not self.is_allowed(zone, path="/api", user="bad"),
                "the block in a zone",
            )

    def test_without_the_server_above_the_policy_decides_and_says_so(self):
        self.assertTrue(self.is_allowed(self.zones[0], path="/api", user="away"))
        self.above.kill()

        def is_failing():
            answer = self.ask(self.zones[0], path="/closed", user="new")
            return answer["outcome"] == "denied" and answer["reason"] == "fallback"

        wait_for(is_failing, "a failure")
        zone = self.zones[0]
        wait_for(lambda: b"outage" in zone.admin_request("GET", "/v1/status").body, "the status")
        self.assertIn("the server above is not connected", zone.log())

    def test_only_the_first_request_waits_for_a_server_that_assigns_nothing(self):
        more = self.RULES + """
  - name: unknown
    match: { path: /unknown }
    on_store_error: deny
    limits: [ { name: requests, key: "{user}", algorithm: token_bucket, limit: 1, per: 1s } ]
"""
        zone = self.serve(more, {
            "store": f"quota://{self.above.front_ends['grpc']}",
            "upstream": {"deadline": "3s"},
        })
        wait_for(lambda: self.status(zone)["connections"] == 1, "a connection")

        def took():
            began = time.monotonic()
            answer = self.ask(zone, path="/unknown", user="a")
            self.assertEqual((answer["outcome"], answer["reason"]), ("denied", "fallback"))
            return time.monotonic() - began

        # Each thread waits once. A request that is slow for another reason is not counted each time.
        self.assertLess(min(took() for _ in range(10)), 3)

        def is_said():
            self.ask(zone, path="/unknown", user="a")
            status = zone.admin_request("GET", "/v1/status").body
            return b"is connected, and assigns nothing" in status

        wait_for(is_said, "the status")
        self.assertIn("the server above assigns nothing", zone.log())
        wait_for(lambda: self.is_allowed(zone, path="/api", user="a"), "a part of another limit")
        wait_for(lambda: "assigns quotas again" in zone.log(), "the end of the failure")

    def test_a_limit_that_cannot_be_divided_is_refused(self):
        rules = self.RULES.replace(
            "algorithm: token_bucket, limit: 2, per: 1h", "algorithm: concurrency, limit: 2, lease: 1m"
        )
        with self.assertRaisesRegex(AssertionError, "cannot be divided among servers"):
            self.serve(rules, {"store": "quota://127.0.0.1:1"})


class ZoneWithCertificates(harness.ServerTest):
    """A server whose limits another one divides, over TLS."""

    def setUp(self):
        self.certificates = self.folder()
        for name in ("ca", "other"):
            tls_harness.authority(self.certificates, name)
        tls_harness.certificate(self.certificates, "server", names="IP:127.0.0.1")
        tls_harness.certificate(self.certificates, "client", names="DNS:zone")
        tls_harness.certificate(self.certificates, "stranger", by="other", names="DNS:zone")
        tls = {"cert_file": self.file("server.crt"), "key_file": self.file("server.key"),
               "client_ca_file": self.file("ca.crt")}
        self.above = self.serve(RULES, {
            "listen": {"grpc": "127.0.0.1:0"},
            "grpc": {"tls": tls},
            "clients": [{"name": "zone", "certificate": "zone", "role": "operate"}],
        })

    def file(self, name):
        return str(self.certificates / name)

    def zone(self, own, authority="ca", deadline="30s"):
        upstream = {"ca_file": self.file(f"{authority}.crt"), "deadline": deadline}
        if own:
            upstream.update(cert_file=self.file(f"{own}.crt"), key_file=self.file(f"{own}.key"))
        store = f"quotas://{self.above.front_ends['grpc']}"
        rules = RULES.replace("{ path: /api }", "{ path: /api }\n    on_store_error: deny")
        return self.serve(rules, {"store": store, "upstream": upstream})

    def test_a_zone_with_a_certificate_has_a_part(self):
        zone = self.zone("client")
        wait_for(lambda: Zones.status(zone)["connections"] == 1, "the connection")
        answer = Zones.ask(zone, path="/api", user="tls")
        self.assertEqual((answer["outcome"], answer["reason"]), ("allowed", "ok"))

    def test_the_status_of_a_zone_says_why_it_has_no_connection(self):
        expected = {
            (None, "ca"): "certificate",
            ("stranger", "ca"): "unknown ca",
            ("client", "other"): "certificate",
        }
        for (own, authority), why in expected.items():
            # A client learns only after the handshake that its certificate is not accepted.
            zone = self.zone(own, authority, deadline="100ms")
            line = "the server above is not connected"
            wait_for(lambda zone=zone, line=line: line in zone.log(), line)
            said = next(one for one in zone.log().splitlines() if line in one)
            self.assertIn(why, said)
            answer = Zones.ask(zone, path="/api", user="tls")
            self.assertEqual((answer["outcome"], answer["reason"]), ("denied", "fallback"))


class Handover(harness.ServerTest):
    """A process that another one succeeds, with a store of its own."""

    def test_the_new_process_assigns_after_the_stream_has_ended(self):
        bucket = {"path": "/api", "user": "handover"}
        config = {
            "listen": {"grpc": f"127.0.0.1:{harness.free_port()}"},
            "drain": {"handover": str(self.folder() / "handover.sock")},
        }
        old = self.serve(RULES, config)
        proxy = Stream(old)
        self.addCleanup(proxy.close)
        proxy.wait_for_rate(95, 100, report=500, **bucket)
        new = self.serve(RULES, config)
        self.assertEqual(proxy.status(), grpc.StatusCode.UNAVAILABLE)
        again = Stream(new)
        self.addCleanup(again.close)
        # Of a time before the stream: the proxy goes on with its assignment until it has another.
        again.report(500, 5, **bucket)
        wait_for(lambda: again.assignment(**bucket) is not None, "an assignment")
        self.assertGreaterEqual(again.rate(**bucket) or 0, 95)
        wait_for(lambda: new.admin_request("GET", "/v1/quota").json["proxies"] == 1, "the proxy")


class TwoServers(redis_harness.RedisTest):
    """Two servers on one Redis, each with a proxy."""

    BUCKET = {"path": "/api", "user": "two"}

    def start_store(self):
        return self.redis()

    def setUp(self):
        self.store = self.start_store()
        config = {
            "listen": {"grpc": "127.0.0.1:0"},
            "store": self.store.url,
            "quota": {"every": "100ms", "ttl": "3s"},
        }
        self.servers = [harness.Sluice(self.folder(), RULES, config) for _ in range(2)]
        for server in self.servers:
            self.addCleanup(server.stop)  # one of them may be killed
        self.proxies = [Stream(server) for server in self.servers]
        for proxy in self.proxies:
            self.addCleanup(proxy.close)

    def rates(self):
        return [proxy.rate(**self.BUCKET) or 0 for proxy in self.proxies]

    def wait_for_rates(self, demands, holds):
        """Reports these demands until the rates are right. They never exceed the limit."""

        def is_right():
            for proxy, demand in zip(self.proxies, demands):
                proxy.report(demand, **self.BUCKET)
            # What was lowered arrives before what is raised.
            rates = self.rates()
            self.assertLessEqual(sum(rates), 100.01, rates)
            return holds(*rates)

        wait_for(is_right, f"the rates for {demands}")

    def wait_for_failure(self):
        def has_failed():
            self.proxies[0].report(500, **self.BUCKET)
            document = self.servers[0].admin_request("GET", "/v1/quota").json
            return any("failure" in counter for counter in document["counters"])

        wait_for(has_failed, "a failure of the store")

    def test_they_divide_a_limit_and_follow_the_demand(self):
        self.wait_for_rates((500, 500), lambda a, b: a >= 45 and b >= 45)
        self.wait_for_rates((500, 10), lambda a, b: a >= 85 and 5 <= b <= 15)
        self.wait_for_rates((10, 500), lambda a, b: b >= 85 and 5 <= a <= 15)

    def test_proxies_have_the_parts_that_one_server_would_give(self):
        for server in (0, 1, 1):
            self.proxies.append(Stream(self.servers[server]))
            self.addCleanup(self.proxies[-1].close)
        # The third one needs 5, and the others 95 together: one at the first server, three at the
        # second one.
        demands = (500, 500, 5, 500, 500)
        self.wait_for_rates(demands, lambda a, b, small, c, d: small >= 5 and all(
            0.9 * 95 / 4 <= rate <= 1.1 * 95 / 4 for rate in (a, b, c, d)))

    def test_the_share_of_a_killed_server_is_free_when_its_parts_have_expired(self):
        self.wait_for_rates((500, 10), lambda a, b: a >= 85)
        self.servers[0].kill()
        killed = time.monotonic()

        def has_all():
            self.proxies[1].report(500, **self.BUCKET)
            return self.rates()[1] >= 95

        wait_for(has_all, "the whole limit for the other server")
        # The parts of the killed server could be used for the time to live.
        self.assertGreater(time.monotonic() - killed, 2)

    def test_a_proxy_of_a_server_that_ends_is_never_denied_by_the_other_one(self):
        self.wait_for_rates((500, 10), lambda a, b: a >= 85 and 5 <= b <= 15)
        self.assertEqual(self.servers[0].stop(), 0)
        moved = Stream(self.servers[1])
        self.addCleanup(moved.close)
        answers = []

        def has_part():
            moved.report(85, **self.BUCKET)
            self.proxies[1].report(10, **self.BUCKET)
            answers.append(moved.rule(**self.BUCKET))
            return (moved.rate(**self.BUCKET) or 0) >= 75

        wait_for(has_part, "the part of the proxy at the other server")
        self.assertEqual(set(answers), {None})

    def test_without_redis_nothing_is_renewed(self):
        self.wait_for_rates((500, 500), lambda a, b: a >= 45 and b >= 45)
        self.store.kill()
        self.wait_for_failure()
        self.assertLessEqual(sum(self.rates()), 100.01)


class TwoServersOnACluster(TwoServers):
    """The same with a Redis Cluster of three masters."""

    test_proxies_have_the_parts_that_one_server_would_give = None  # the script is the same

    def start_store(self):
        return self.cluster(replicas=0)

    def shares(self):
        """The Redis key of the shares."""
        [key] = [key for server in self.store.living() for key in server.command("KEYS", "*")
                 if b"q{}" in key]
        return key

    def test_without_redis_nothing_is_renewed(self):
        self.wait_for_rates((500, 500), lambda a, b: a >= 45 and b >= 45)
        owner = self.store.owner(redis_harness.slot_of(self.shares()))
        owner.kill()
        self.wait_for_failure()
        self.assertLessEqual(sum(self.rates()), 100.01)

    def test_the_shares_move_with_their_slot(self):
        self.wait_for_rates((500, 10), lambda a, b: a >= 85 and 5 <= b <= 15)
        slot = redis_harness.slot_of(self.shares())
        for demands in ((10, 500), (500, 10)):
            owner = self.store.owner(slot)
            self.store.move_slot(slot, next(s for s in self.store.servers if s is not owner),
                                 pause=0.2)  # some claims meet a slot that moves
            self.assertIsNot(self.store.owner(slot), owner)
            most = demands.index(500)
            self.wait_for_rates(demands, lambda *rates: rates[most] >= 85)
        shares = self.store.owner(slot).command("GET", self.shares()).decode().splitlines()
        self.assertEqual(len(shares), 2, shares)


class EnvoySettings(harness.ServerTest):
    """What a real Envoy does when an assignment has expired, by its settings for that (the table
    of docs/quota.md). Each user has other settings."""

    DENY = {"fallback_rate_limit": {"blanket_rule": "DENY_ALL"}}
    SETTINGS = {
        "fallback": {**DENY, "expired_assignment_behavior_timeout": "600s"},
        "untimed": DENY,
        "reuse": {"reuse_last_assignment": {}, "expired_assignment_behavior_timeout": "600s"},
        "short": {**DENY, "expired_assignment_behavior_timeout": "2s"},
    }

    def setUp(self):
        rules = RULES.replace("limit: 100, per: 1s", "limit: 2, per: 1s, share: { at_least: 50% }")
        config = {"listen": {"grpc": "127.0.0.1:0"}, "quota": {"ttl": "3s"}}
        self.server = harness.Sluice(self.folder(), rules, config)
        self.addCleanup(self.server.stop)  # it is killed
        app = harness.Application()
        self.addCleanup(app.stop)
        self.port = harness.free_port()
        config = yaml.safe_load((harness.ROOT / "deploy/envoy/quota.yaml").read_text("utf-8"))
        ports = {9901: harness.free_port(), 8000: self.port,
                 9000: int(app.address.rsplit(":", 1)[1]),
                 8081: int(self.server.front_ends["grpc"].rsplit(":", 1)[1])}
        self.change(config, ports)
        folder = self.folder()
        (folder / "envoy.yaml").write_text(yaml.safe_dump(config), "utf-8")
        argv = [os.environ["ENVOY_BINARY"], "-c", "envoy.yaml", "--disable-hot-restart"]
        self.start(argv, folder, "envoy", f"127.0.0.1:{self.port}")

    def change(self, node, ports):
        """Sets the ports, and a matcher for each user."""
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            if key == "port_value":
                node[key] = ports[value]
            elif key == "matchers":
                node[key] = [self.matcher(value[0], user) for user in self.SETTINGS]
            elif isinstance(value, (dict, list)):
                self.change(value, ports)

    def matcher(self, template, user):
        made = copy.deepcopy(template)
        made["predicate"]["single_predicate"]["value_match"] = {"exact": user}
        settings = made["on_match"]["action"]["typed_config"]
        settings["expired_assignment_behavior"] = self.SETTINGS[user]
        return made

    def admitted(self, user):
        """How many of ten requests; an assignment admits one or two a second."""
        return sum(harness.request(f"127.0.0.1:{self.port}", "GET", "/api",
                                   headers={"x-user": user}).status == 200 for _ in range(10))

    def test_the_settings_for_expired_assignments(self):
        for user in self.SETTINGS:
            wait_for(lambda user=user: self.admitted(user) < 5, f"an assignment of {user}")
        self.server.kill()
        wait_for(lambda: self.admitted("short") == 10, "the end of the timeout")
        for user in ("untimed", "reuse"):
            self.assertEqual(self.admitted(user), 10, user)
        self.assertEqual(self.admitted("fallback"), 0)


class Envoy(harness.ServerTest):
    """A real Envoy, and an application that counts the requests that reach it."""

    RATE = 20

    @classmethod
    def setUpClass(cls):
        rules = RULES.replace("limit: 100, per: 1s", f"limit: {cls.RATE}, per: 1s")
        cls.app = harness.Application()
        cls.addClassCleanup(cls.app.stop)
        cls.server = cls.serve(rules, {"listen": {"grpc": "127.0.0.1:0"}})
        folder, cls.port, admin = cls.folder(), harness.free_port(), harness.free_port()
        text = harness.replaced(
            (harness.ROOT / "deploy/envoy/quota.yaml").read_text("utf-8"),
            ("port_value: 9901", f"port_value: {admin}"),
            ("port_value: 8000", f"port_value: {cls.port}"),
            ("port_value: 9000", f"port_value: {cls.app.address.rsplit(':', 1)[1]}"),
            ("port_value: 8081", f"port_value: {cls.server.front_ends['grpc'].rsplit(':', 1)[1]}"),
        )
        (folder / "envoy.yaml").write_text(text, "utf-8")
        argv = [os.environ["ENVOY_BINARY"], "-c", "envoy.yaml", "--disable-hot-restart"]
        cls.start(argv, folder, "envoy", f"127.0.0.1:{cls.port}")

    def ask(self, **headers):
        return harness.request(f"127.0.0.1:{self.port}", "GET", "/api", headers=headers).status

    def part(self, user):
        document = self.server.admin_request("GET", "/v1/quota").json
        for counter in document["counters"]:
            for one in counter["parts"]:
                if one["bucket"]["user"] == user:
                    return one["part_per_second"]
        return None

    def test_requests_without_the_header_share_a_bucket(self):
        def are_limited():
            statuses = [self.ask(**{"x-user": ""}), *(self.ask() for _ in range(50))]
            return 429 in statuses and (self.part("nobody") or 0) > 0.8 * self.RATE

        wait_for(are_limited, "the whole limit for requests without a user")

    def test_requests_beyond_the_part_do_not_reach_the_application(self):
        # Envoy reports each 5 s; the first part is small.
        def is_limited():
            statuses = [self.ask(**{"x-user": "envoy"}) for _ in range(50)]
            return 429 in statuses and (self.part("envoy") or 0) > 0.8 * self.RATE

        wait_for(is_limited, "the whole limit for the only proxy")
        seen, began = len(self.app.seen), time.monotonic()
        asked = 0
        while len(self.app.seen) - seen < 5 * self.RATE:
            asked += 1
            self.ask(**{"x-user": "envoy"})
        took = time.monotonic() - began
        # At most the limit and the tokens of a full bucket.
        self.assertLessEqual(len(self.app.seen) - seen, self.RATE * (took + 1) + self.RATE)
        self.assertGreater(asked, len(self.app.seen) - seen)


if __name__ == "__main__":
    unittest.main()
