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
        self.assertEqual(left, [{"name": "banned/0", "r": 0, "t": 0}])

    def test_the_parser_refuses_malformed_fields(self):
        for value in ('user;r=1;t=1', '"user";r=1', '"user";r=-1;t=1', '"a";r=1;t=1.5',
                      '"a";r=1;t=1,', '"用";r=1;t=1', '"a";r=1;t=1, "a";r=1;t=1',
                      '"a";r=1000000000000000;t=1', ''):
            with self.subTest(value=value), self.assertRaises(AssertionError):
                understood("RateLimit", value)


if __name__ == "__main__":
    unittest.main()
