"""The structured fields of responses, read by an independent parser (npm: structured-headers).

STRUCTURED_HEADERS is a folder with check.mjs and its installed package.
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ServerTest  # noqa: E402

RULES = r"""
version: 1
rules:
  - name: three
    match: { path: /three }
    limits:
      - { name: api, algorithm: token_bucket, limit: 100, per: 1s, burst: 1000 }
      - { name: user, key: "{ip}", algorithm: fixed_window, limit: 2, per: 1500ms }
      - { name: year, algorithm: sliding_window_log, limit: 50, per: 366d }
  - name: odd
    match: { path: /odd }
    limits:
      - { name: '用户 "a\b" 100%', algorithm: gcra, limit: 3, per: 1h }
      - { algorithm: leaky_bucket, limit: 4294967295, per: 366d }
  - name: trial
    match: { path: /twice }
    mode: shadow
    continue: true
    limits: [ { name: user, algorithm: gcra, limit: 0, per: 1s } ]
  - name: first
    match: { path: /twice }
    continue: true
    limits: [ { name: user, algorithm: gcra, limit: 5, per: 1h } ]
  - name: first/second
    match: { path: /twice }
    limits: [ { name: user, algorithm: gcra, limit: 9, per: 1h } ]
  - name: banned
    match: { path: /banned }
    limits: [ { algorithm: token_bucket, limit: 0, per: 1s } ]
  - name: job
    match: { path: /job }
    limits: [ { algorithm: concurrency, limit: 4, lease: 30s } ]
  - name: spend
    match: { path: /spend }
    limits:
      - { name: day, algorithm: budget, limit: 9007199254740991, per: day, zone: UTC }
      - { name: card, algorithm: budget, limit: 10, per: never }
  - name: login
    match: { path: /login }
    limits: [ { name: user, key: "{header.x-user}", algorithm: fixed_window, limit: 5, per: 1h } ]
"""


def understood(name, value, policies=None):
    """Returns the items of a field. Fails if the independent parser fails."""
    line = json.dumps({"name": name, "value": value, "policies": policies})
    ran = subprocess.run(["node", "check.mjs"], cwd=os.environ["STRUCTURED_HEADERS"], text=True,
                         input=line + "\n", capture_output=True, timeout=60)
    if ran.returncode != 0:
        raise AssertionError(ran.stderr)
    return json.loads(ran.stdout)


class StructuredFields(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.sluice = cls.serve(RULES, {"trusted_proxies": ["127.0.0.1/32"]})

    def fields(self, path, policies, front_end="check"):
        """Checks and returns RateLimit-Policy and RateLimit of one response with these policies."""
        if front_end == "auth":
            answer = self.sluice.auth("GET", path)
        else:
            answer = self.sluice.check({"attributes": {"path": path, "ip": "192.0.2.7"}})
        return [understood(name, answer[name], policies)
                for name in ("RateLimit-Policy", "RateLimit")]

    def test_lists_of_several_limits_are_valid_on_both_front_ends(self):
        for front_end in ("check", "auth"):
            policy, left = self.fields("/three", ["user", "year", "api"], front_end)
            self.assertEqual(policy, [{"name": "user", "q": 2, "w": 2},
                                      {"name": "year", "q": 50, "w": 31622400},
                                      {"name": "api", "q": 1000, "w": 10}])
            self.assertIn(left[0]["r"], (0, 1))
            self.assertIn(left[0]["t"], (1, 2))

    def test_names_in_any_language_are_encoded_in_ascii(self):
        policy, _ = self.fields("/odd", ['%E7%94%A8%E6%88%B7 "a\\b" 100%25', "odd/1"])
        self.assertEqual(policy[1]["q"], 4294967295)

    def test_limits_of_the_same_name_are_distinguished(self):
        self.fields("/twice", ["first/user", "first%2Fsecond/user"])

    def test_the_fields_of_a_denial_are_valid(self):
        _, left = self.fields("/banned", ["banned/0"])
        self.assertEqual(left, [{"name": "banned/0", "r": 0}])

    def test_permits_have_their_unit(self):
        policy, left = self.fields("/job", ["job/0"])
        self.assertEqual(policy, [{"name": "job/0", "q": 4, "qu": "concurrent-requests", "w": 30}])
        self.assertEqual(left, [{"name": "job/0", "r": 3, "t": 30}])

    def test_a_budget_that_does_not_renew_has_no_times(self):
        policy, left = self.fields("/spend", ["card", "day"])
        self.assertEqual(policy, [{"name": "card", "q": 10},
                                  {"name": "day", "q": 999999999999999, "w": 86400}])
        self.assertEqual(left[0], {"name": "card", "r": 9})
        self.assertEqual(left[1]["r"], 999999999999999)
        self.assertLessEqual(left[1]["t"], 86400)

    def test_a_block_without_an_end_has_no_time(self):
        query = "rule=login&header.x-user=anna&for=forever"
        blocked = self.sluice.admin_request("PUT", "/v1/blocks?" + query)
        self.assertEqual(blocked.status, 200, blocked.body)
        answer = self.sluice.check({"attributes": {"path": "/login", "header.x-user": "anna"}})
        self.assertEqual(answer.status, 429)
        self.assertEqual(understood("RateLimit-Policy", answer["RateLimit-Policy"]),
                         [{"name": "user", "q": 5, "w": 3600}])
        self.assertEqual(understood("RateLimit", answer["RateLimit"]), [{"name": "user", "r": 0}])

    def test_the_parser_accepts_what_is_optional(self):
        for name, value in (("RateLimit", '"user";r=1'),
                            ("RateLimit", '"user";r=1;pk=:YQ==:;t=5'),
                            ("RateLimit-Policy", '"user";q=1'),
                            ("RateLimit-Policy", '"user";w=9;qu="content-bytes";q=1;pk=:YQ==:')):
            with self.subTest(value=value):
                understood(name, value)

    def test_the_parser_refuses_malformed_fields(self):
        for value in ('user;r=1;t=1', '"user";t=1', '"user";r=-1;t=1', '"a";r=1;t=1.5',
                      '"a";r=1;t=1,', '"用";r=1;t=1', '"a";r=1;t=1, "a";r=1;t=1',
                      '"a";r=1000000000000000;t=1', '"a";r=1;w=1', '"a";r=1;pk="b"', ''):
            with self.subTest(value=value), self.assertRaises(AssertionError):
                understood("RateLimit", value)
        for value in ('"a";w=1', '"a";q=1;w=0', '"a";q=1;qu="seconds"', '"a";q=1;qu=requests'):
            with self.subTest(value=value), self.assertRaises(AssertionError):
                understood("RateLimit-Policy", value)


if __name__ == "__main__":
    unittest.main()
