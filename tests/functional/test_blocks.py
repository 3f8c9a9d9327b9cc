"""Blocks after repeated denials and by hand, over HTTP and RESP, on both stores."""

import datetime
import json
import re
import subprocess
import unittest

from harness import PATIENCE, ServerTest, binary, request
from redis_harness import RedisTest, Resp

RULES = """
version: 1
domain: shop
rules:
  - name: login
    match: { path: /login }
    limits:
      - { name: user, key: "{user|header.x-user}", algorithm: fixed_window, limit: 1, per: 1m,
          block: { after: 2, within: 10m, for: 15m, grow: 2, at_most: 24h } }
"""
QUARTER_MS = 15 * 60 * 1000


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

    def check(self, user, sluice=None, **more):
        body = {"attributes": {"path": "/login", "user": user}, **more}
        answer = request((sluice or self.sluice).http, "POST", "/v1/check", json.dumps(body))
        return answer.json

    def admin(self, method, user, more="", sluice=None):
        answer = request((sluice or self.sluice).admin, method,
                         f"/v1/blocks?rule=login&user={user}{more}")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["limits"][0]

    def block(self, user):
        """Denies a user until it is blocked. Returns the answer that says so."""
        self.assertEqual(self.check(user)["reason"], "ok")
        self.assertEqual(self.check(user)["reason"], "limited")
        return self.check(user)

    def assert_blocked(self, answer, most=QUARTER_MS):
        self.assertEqual((answer["outcome"], answer["reason"]), ("denied", "blocked"))
        self.assertLessEqual(answer["retry_after_ms"], most)
        self.assertGreater(answer["retry_after_ms"], most - 60_000)

    def test_repeated_denials_start_a_block(self):
        self.assert_blocked(self.block("a"))
        self.assert_blocked(self.check("a"))
        self.assert_blocked(self.check("a", verb="peek"))
        self.assertEqual(self.check("another")["reason"], "ok")
        with Resp(self.resp) as resp:
            reply = resp("RL.CHECK", "*", "path", "/login", "user", "a")
            self.assertIn(b"blocked", reply)

    def test_a_gateway_says_how_long(self):
        self.block("b")
        answer = self.sluice.auth("POST", "/login", **{"x-user": "b"})
        self.assertEqual(answer.status, 200, "another attribute is another key")
        for _ in range(2):
            answer = self.sluice.auth("POST", "/login", **{"x-user": "b"})
        self.assertEqual(answer.status, 429)
        self.assertGreater(int(answer["retry-after"]), 800)

    def test_a_reset_ends_it(self):
        self.block("c")
        self.check("c", verb="reset")
        self.assertEqual(self.check("c")["reason"], "ok")

    def test_blocks_by_hand(self):
        said = self.admin("PUT", "d", "&for=1h")
        self.assertTrue(said["blocked"])
        self.assert_blocked(self.check("d"), 3_600_000)
        self.assertTrue(self.admin("GET", "d")["blocked"])
        self.assertFalse(self.admin("DELETE", "d")["blocked"])
        self.assertEqual(self.check("d")["reason"], "ok")

    def test_blocks_by_hand_over_resp(self):
        key = ("login", "user", "user", "i")
        with Resp(self.resp) as resp:
            self.assertEqual(resp("RL.BLOCK", *key, "FOR", "1h"), "OK")
            self.assert_blocked(self.check("i"), 3_600_000)
            self.assertEqual(resp("RL.UNBLOCK", *key), 1)
            self.assertEqual(resp("RL.UNBLOCK", *key), 0)
        self.assertEqual(self.check("i")["reason"], "ok")

    def test_a_block_until_an_instant(self):
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        self.admin("PUT", "j", end.strftime("&until=%Y-%m-%dT%H:%M:%SZ"))
        self.assert_blocked(self.check("j"), 3_600_000)

    def test_all_blocks_are_listed(self):
        self.block("k 1")
        self.admin("PUT", "l", "&for=2h")
        self.check("m")
        found = request(self.sluice.admin, "GET", "/v1/blocks").json
        self.assertFalse(found["more"])
        until = {one["counter"]: one["until"] for one in found["blocks"]}
        place = "shop|login|user|user="
        self.assertIn(place + "k 1", until)
        self.assertNotIn(place + "m", until)
        end = datetime.datetime.fromisoformat(until[place + "l"].replace("Z", "+00:00"))
        left = end - datetime.datetime.now(datetime.timezone.utc)
        self.assertLessEqual(left, datetime.timedelta(hours=2))
        self.assertGreater(left, datetime.timedelta(minutes=110))
        self.admin("DELETE", "l")
        found = request(self.sluice.admin, "GET", "/v1/blocks").json["blocks"]
        self.assertNotIn(place + "l", [one["counter"] for one in found])
        one = request(self.sluice.admin, "GET", "/v1/blocks?count=1").json
        self.assertEqual(len(one["blocks"]), 1)

    def command(self, *words):
        return subprocess.run([binary(), "key", *words, "--admin", self.sluice.admin],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def test_blocks_on_the_command_line(self):
        place = ("login/user", "user=n n")
        counter = "shop|login|user|user=n n"
        done = self.command(*place, "--block", "1h")
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, rf"^{re.escape(counter)}: blocked until 20[-0-9T:]+Z\n$")
        self.assert_blocked(self.check("n n"), 3_600_000)
        self.assertIn(f"{counter}: blocked until 20", self.command("list").stdout)
        exported = [json.loads(line) for line in self.command("export").stdout.splitlines()]
        one = next(one for one in exported if one["counter"] == counter)
        self.assertEqual((one["blocked"], one["until"][:2]), (True, "20"))
        self.assertEqual(self.command(*place, "--unblock").stdout, f"{counter}: not blocked\n")
        self.assertNotIn(counter, self.command("list").stdout)
        self.assertEqual(self.check("n n")["reason"], "ok")
        # The export blocks it again, until the same time.
        done = subprocess.run([binary(), "key", "import", "-", "--admin", self.sluice.admin],
                              input=json.dumps(one), capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_blocked(self.check("n n"), 3_600_000)
        self.assertIn(f"{counter}: not blocked\n", self.command(*place, "--unblock").stdout)
        again = self.command(*place, "--unblock")
        self.assertEqual((again.returncode, again.stderr),
                         (1, "sluice: key: the key was not blocked; expected one of sluice key list\n"))
        network = self.command("login/user", "ip=192.0.2.0/24", "--block", "1h")
        self.assertEqual(network.returncode, 2)
        self.assertIn("'192.0.2.0/24' is a network, and a request has one address; expected an address "
                      "such as 192.0.2.0, or a rule with", network.stderr)
        wrong = self.command("login/usr", "user=n", "--block", "1h")
        self.assertEqual((wrong.returncode, wrong.stderr),
                         (1, "sluice: key: rule 'login' has no limit 'usr'; expected one "
                             "of: user; did you mean 'user'?\n"))

    def test_metrics_count_them(self):
        self.block("e")
        self.check("e")
        text = request(self.sluice.admin, "GET", "/metrics").body
        text = text if isinstance(text, str) else text.decode()
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] != "#")
        self.assertGreaterEqual(float(lines['sluice_blocks_total{rule="login",limit="user"}']), 1)
        name = ('sluice_decisions_total{rule="login",limit="user",outcome="denied",'
                'reason="blocked"}')
        self.assertGreaterEqual(float(lines[name]), 2)


class Memory(Tests, ServerTest):
    """With the memory store."""


class Redis(Tests, RedisTest):
    """With Redis, whose servers share blocks."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.redis()
        cls.config = {"store": cls.server.url, "redis": {"deadline": "5s"}}
        super().setUpClass()
        cls.other = cls.start()

    def test_another_server_knows_and_ends_a_block(self):
        self.assert_blocked(self.block("f"))
        self.assert_blocked(self.check("f", self.other))
        self.admin("DELETE", "f", sluice=self.other)
        self.assertEqual(self.check("f", self.other)["reason"], "limited", "by the limit alone")

    def test_a_blocked_key_costs_one_script_call(self):
        self.admin("PUT", "g", "&for=1h")
        self.check("g", verb="peek")

        def calls():
            return self.server.info("commandstats")["cmdstat_evalsha"]

        before = calls()
        self.assert_blocked(self.check("g", verb="peek"), 3_600_000)
        count = int(str(calls()).split("calls=")[1].split(",")[0])
        self.assertEqual(count - int(str(before).split("calls=")[1].split(",")[0]), 1)

    def test_keys_shows_blocks(self):
        self.block("h")
        shown = subprocess.run(
            [binary(), "key", "dump", "--store", self.server.url, "*user=h"],
            capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
        self.assertIn("blocked until 20", shown)


class Cluster(RedisTest):
    def test_blocks_of_every_master_are_listed(self):
        nodes = self.cluster(replicas=0)
        sluice = self.serve(RULES, {"store": nodes.url, "redis": {"deadline": "5s"}})
        users = {f"user-{i}" for i in range(30)}
        for user in users:
            answer = request(sluice.admin, "PUT", f"/v1/blocks?rule=login&user={user}&for=1h")
            self.assertEqual(answer.status, 200, answer)
        found = request(sluice.admin, "GET", "/v1/blocks").json
        self.assertFalse(found["more"])
        self.assertEqual({one["counter"] for one in found["blocks"]},
                         {f"shop|login|user|user={user}" for user in users})
        some = request(sluice.admin, "GET", "/v1/blocks?count=7").json
        self.assertEqual((len(some["blocks"]), some["more"]), (7, True))


if __name__ == "__main__":
    unittest.main()
