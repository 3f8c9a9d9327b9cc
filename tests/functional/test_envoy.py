"""Envoy's rate limit service with gRPC's own client and the messages of proto/."""

import json
import os
import re
import subprocess
import unittest

import grpc

import envoy_harness
import harness
from envoy_harness import ROOT

LIMITS = """
domain: shop
descriptors:
  - key: user
    rate_limit: { name: user, unit: day, requests_per_unit: 3 }
  - key: path
    value: "/api/*"
    share_threshold: true
    rate_limit: { unit: year, requests_per_unit: 2 }
  - key: free
    rate_limit: { unlimited: true }
"""
RULES = """
version: 1
domain: native
rules:
  - name: user
    match: { user: "**" }
    limits: [ { key: "{user}", algorithm: fixed_window, limit: 1, per: 1d, align: clock } ]
  - name: tokens
    match: { tokens: "**" }
    limits: [ { algorithm: fixed_window, limit: 1000, per: 1d, cost: "{tokens}" } ]
"""


def setUpModule():
    global rls
    rls = envoy_harness.messages()


def request(*descriptors, domain="shop", hits=0):
    """Each descriptor is a dict of its entries."""
    out = rls.RateLimitRequest(domain=domain, hits_addend=hits)
    for entries in descriptors:
        descriptor = out.descriptors.add()
        for key, value in entries.items():
            descriptor.entries.add(key=key, value=value)
    return out


class Envoy(harness.ServerTest):
    @classmethod
    def setUpClass(cls):
        folder = cls.folder()
        cls.files = folder / "envoy"
        cls.files.mkdir()
        (cls.files / "shop.yaml").write_text(LIMITS)
        config = {"listen": {"grpc": "127.0.0.1:0"}, "envoy": {"files": str(cls.files)}}
        cls.server = cls.serve(RULES, config, clock=cls.stopped_clock())
        channel = envoy_harness.channel_to(cls.server)
        cls.addClassCleanup(channel.close)
        cls.call = envoy_harness.caller(rls, channel)

    def ask(self, *descriptors, **options):
        return type(self).call(request(*descriptors, **options), timeout=harness.PATIENCE)

    def test_fills_in_every_status(self):
        answer = self.ask({"user": "status"}, {"free": ""}, {"unknown": "x"})
        self.assertEqual(answer.overall_code, rls.RateLimitResponse.OK)
        user, free, unknown = answer.statuses
        self.assertEqual(user.current_limit.requests_per_unit, 3)
        self.assertEqual(user.current_limit.unit, rls.RateLimitResponse.RateLimit.DAY)
        self.assertEqual(user.current_limit.name, "user")
        self.assertEqual(user.limit_remaining, 2)
        self.assertEqual(user.duration_until_reset.seconds, 86400 - harness.Clock.START % 86400)
        self.assertEqual(free.limit_remaining, 2**32 - 1)
        self.assertFalse(unknown.HasField("current_limit"))

    def test_a_request_takes_all_limits_or_none(self):
        self.assertEqual(
            self.ask({"path": "/api/a"}, {"path": "/api/b"}).overall_code, rls.RateLimitResponse.OK
        )
        answer = self.ask({"user": "whole"}, {"path": "/api/c"})
        self.assertEqual(answer.overall_code, rls.RateLimitResponse.OVER_LIMIT)
        self.assertEqual(answer.statuses[0].limit_remaining, 3)

    def test_refuses_invalid_requests(self):
        for wrong in (request({"user": "x"}, domain=""), request(), request({"": "x"})):
            with self.assertRaises(grpc.RpcError) as raised:
                type(self).call(wrong, timeout=harness.PATIENCE)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("expected", raised.exception.details())

    def test_uses_native_rules_for_other_domains(self):
        codes = [self.ask({"user": "n"}, domain="native").overall_code for _ in range(2)]
        self.assertEqual(codes, [rls.RateLimitResponse.OK, rls.RateLimitResponse.OVER_LIMIT])

    def test_a_value_that_is_no_cost_is_denied(self):
        """With an error, Envoy would let the request of a client that sends it pass."""
        for tokens in ("many", "-1", "99999999999999999999"):
            answer = self.ask({"tokens": tokens}, {"other": "x"}, domain="native")
            self.assertEqual(answer.overall_code, rls.RateLimitResponse.OVER_LIMIT)
            self.assertEqual(len(answer.statuses), 2)
        answer = self.ask({"tokens": "7"}, domain="native")
        self.assertEqual(answer.statuses[0].limit_remaining, 993)

    def test_json_and_grpc_share_counters(self):
        self.ask({"user": "twin"}, hits=2)
        body = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "twin"}]}]}
        answers = [
            harness.request(self.server.http, "POST", "/json", json.dumps(body)) for _ in range(2)
        ]
        self.assertEqual([answer.status for answer in answers], [200, 429])
        self.assertEqual(answers[1].json["overallCode"], "OVER_LIMIT")
        self.assertEqual(harness.request(self.server.http, "POST", "/json", "x").status, 400)

    def test_invalid_utf_8_is_not_logged(self):
        """Protobuf would log each such request to standard error."""
        said = self.server.log()
        with envoy_harness.channel_to(self.server) as channel:
            call = channel.unary_unary(envoy_harness.METHOD)
            right = request({"user": "AB"}).SerializeToString()
            for domain in (b"\x04shop", b"\x01\xff"):
                wrong = right.replace(b"\x04shop", domain).replace(b"AB", b"\xff\xfe")
                self.assertTrue(call(wrong, timeout=harness.PATIENCE).startswith(b"\x08\x01"))
        for body in (b'{"domain":"\xff"}', b'{"domain":"\\ud800"}', b"\xff", b"{'domain':'x'}"):
            answer = harness.request(self.server.http, "POST", "/json", body)
            self.assertEqual(answer.status, 400)
        # The log may still get the denial of another test, and names what Sluice itself has refused.
        more = self.server.log().removeprefix(said).splitlines()
        own = re.compile(" info denied rule=| warning a request was not accepted ")
        self.assertEqual([line for line in more if not own.search(line)], [])

    def test_requests_are_counted_in_metrics(self):
        for _ in range(4):
            self.ask({"user": "metric"})
        name = 'sluice_envoy_decisions_total{descriptor="shop/user",outcome="over_limit"}'
        self.assertGreaterEqual(self.server.metrics()[name], 1)

    def test_files_are_reloaded(self):
        new = self.files / "new.yaml"
        new.write_text("domain: new\ndescriptors: [ { key: a, rate_limit: { unit: day } } ]\n")
        self.addCleanup(os.unlink, new)

        def banned():
            code = self.ask({"a": ""}, domain="new").overall_code
            return code == rls.RateLimitResponse.OVER_LIMIT

        harness.wait_for(banned, what="the new file")
        (self.files / "wrong.yaml").write_text("domain: ''\n")
        harness.wait_for(lambda: "wrong.yaml:1:9: error" in self.server.log(), what="the error")
        (self.files / "wrong.yaml").unlink()
        self.assertTrue(banned())


class Settings(harness.ServerTest):
    """The settings in `envoy:` of the server's configuration."""

    def serve_envoy(self, **envoy):
        file = self.folder() / "shop.yaml"
        file.write_text(LIMITS)
        config = {"listen": {"grpc": "127.0.0.1:0"}, "envoy": {"files": str(file), **envoy}}
        server = self.serve(RULES, config, clock=self.stopped_clock())
        channel = envoy_harness.channel_to(server)
        self.addCleanup(channel.close)
        call = envoy_harness.caller(rls, channel)
        return lambda *descriptors, **options: call(request(*descriptors, **options), timeout=harness.PATIENCE)

    def test_compat_consume_on_reject_charges_denied_requests(self):
        ask = self.serve_envoy(compat="consume_on_reject")
        self.assertEqual(ask({"path": "/api/a"}, hits=2).overall_code, rls.RateLimitResponse.OK)
        answer = ask({"user": "anna"}, {"path": "/api/b"})
        self.assertEqual(answer.overall_code, rls.RateLimitResponse.OVER_LIMIT)
        self.assertEqual([one.limit_remaining for one in answer.statuses], [2, 0])
        for hits in (3, 1):
            answer = ask({"user": "anna"}, hits=hits)
            self.assertEqual(answer.overall_code, rls.RateLimitResponse.OVER_LIMIT)

    def test_shadow_mode_admits_all_requests(self):
        ask = self.serve_envoy(shadow_mode=True)
        answer = ask({"user": "anna"}, hits=4)
        self.assertEqual(answer.overall_code, rls.RateLimitResponse.OK)
        self.assertEqual(answer.statuses[0].code, rls.RateLimitResponse.OVER_LIMIT)

    def test_headers_are_configurable(self):
        ask = self.serve_envoy(headers=True, limit_header="X-Limit")
        headers = ask({"user": "anna"}).response_headers_to_add
        values = {header.key: header.value for header in headers}
        self.assertEqual(values.pop("X-Limit"), "3")
        self.assertEqual(values.pop("RateLimit-Remaining"), "2")
        self.assertEqual(int(values["RateLimit-Reset"]), 86400 - harness.Clock.START % 86400)


class Convert(unittest.TestCase):
    def test_convert_prints_valid_rules(self):
        sluice = harness.binary()
        converted = subprocess.run(
            [sluice, "rules", "convert", ROOT / "deploy/envoy/ratelimit.yaml"],
            capture_output=True, text=True, check=True,
        )
        self.assertIn("note: shop/user_partner-*: limited to 4294967295 per second", converted.stderr)
        checked = subprocess.run(
            [sluice, "rules", "check", "-"], input=converted.stdout, capture_output=True, text=True
        )
        self.assertEqual(checked.stdout, "-: ok, 7 rules, 7 limits\n")


if __name__ == "__main__":
    unittest.main()
