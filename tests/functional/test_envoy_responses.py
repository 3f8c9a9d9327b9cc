"""Envoy itself counts by the response, with the routes in docs/envoy.md."""

import concurrent.futures
import json
import re
import unittest

from harness import ROOT, request, wait_for
from test_envoy_gateway import Gateway

SECTION = (ROOT / "docs/envoy.md").read_text("utf-8").split("## Counting by the response\n")[1]
TAKE_FIRST, LOOK_FIRST = re.findall(r"```yaml\n(.*?)```", SECTION, re.S)[:2]


class Responses(Gateway):
    """Envoy with one of these routes. X-Answer of a request is the status of its response."""

    route = ""

    @classmethod
    def serve_file(cls, limits, **envoy):
        file = cls.folder() / "shop.yaml"
        file.write_text(limits)
        super().start_sluice(envoy={"files": str(file), **envoy})

    @classmethod
    def configuration(cls):
        text = super().configuration()
        begin, end = text.index("                        - match: "), text.index("                http_filters:")
        return text[:begin] + cls.route + text[end:]

    def left(self, source):
        """Returns the units that this address has left."""
        entries = [{"key": "remote_address", "value": source}]
        body = {"domain": "shop", "descriptors": [{"entries": entries, "hitsAddend": 0}]}
        answer = request(self.sluice.http, "POST", "/json", json.dumps(body))
        return answer.json["statuses"][0].get("limitRemaining", 0)

    def log_in(self, status, source):
        return self.ask("/login", source, "POST", X_Answer=str(status)).status

    def wait_for_units(self, left, source):
        wait_for(lambda: self.left(source) == left, what=f"{left} units left")


class ByEnvoyFile(Responses):
    """Each request takes a unit. A login that does not fail gives it back."""

    route = TAKE_FIRST

    @classmethod
    def start_sluice(cls):
        cls.serve_file("""
domain: shop
descriptors: [ { key: remote_address, rate_limit: { unit: year, requests_per_unit: 3 } } ]
""")

    def test_only_failed_logins_count(self):
        source = "127.0.0.60"
        for status in (200, 302, 500):
            for _ in range(4):
                self.assertEqual(self.log_in(status, source), status)
                self.wait_for_units(3, source)
        self.assertEqual([self.log_in(401, source) for _ in range(2)], [401, 401])
        self.assertEqual(self.log_in(403, source), 403)
        seen = len(self.app.seen)
        self.assertEqual([self.log_in(200, source) for _ in range(3)], [429] * 3)
        self.assertEqual((len(self.app.seen), self.left(source)), (seen, 0))
        self.assertEqual(self.log_in(401, "127.0.0.61"), 401, "another address")

    def test_it_is_exact_for_concurrent_requests(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda _: self.log_in(401, "127.0.0.62"), range(50)))
        self.assertEqual((found.count(401), found.count(429)), (3, 47))


class ByNativeRules(ByEnvoyFile):
    @classmethod
    def start_sluice(cls):
        rules = {
            "version": 1, "domain": "shop",
            "plans": {"free": {"failures": {"limit": 3, "per": "365d"}}},
            "rules": [{
                "name": "login", "plan": {"default": "free"},
                "limits": [{"name": "failures", "key": "{remote_address}",
                            "algorithm": "fixed_window"}],
            }],
        }  # fmt: skip
        listen = {"grpc": f"127.0.0.1:{cls.grpc_port}"}
        cls.sluice = cls.serve(json.dumps(rules), {"listen": listen})

    def test_an_override_counts(self):
        attributes = {"remote_address": "127.0.0.63"}
        body = json.dumps({"attributes": attributes, "limit": 1})
        answer = self.sluice.admin_request("PUT", "/v1/overrides/login/failures", body)
        self.assertEqual(answer.status, 200, answer.body)
        found = [self.log_in(401, "127.0.0.63") for _ in range(3)]
        self.assertEqual(found, [401, 429, 429])


class ByCost(Responses):
    """Sluice looks before, and charges what the response says."""

    route = LOOK_FIRST

    @classmethod
    def start_sluice(cls):
        cls.serve_file("""
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { period: 365d, requests_per_unit: 10, algorithm: token_bucket }
""", compat="consume_on_reject")  # fmt: skip

    def test_costs_in_responses_are_charged(self):
        source = "127.0.0.70"
        for _ in range(3):
            self.assertEqual(self.ask("/", source).status, 200, "no X-Cost")
        for cost, left in ((4, 6), (0, 6), (1, 5), (9, 0)):
            self.assertEqual(self.ask("/", source, X_Cost=str(cost)).status, 200)
            self.wait_for_units(left, source)
        self.assertEqual(self.ask("/", source, X_Cost="1").status, 429)
        self.assertEqual(self.ask("/", "127.0.0.71", X_Cost="1").status, 200)


if __name__ == "__main__":
    unittest.main()
