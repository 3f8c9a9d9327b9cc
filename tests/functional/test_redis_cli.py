"""`sluice key dump` and `sluice decide` with a store in Redis."""

import json
import subprocess

from harness import PATIENCE, binary
from redis_harness import RedisTest

ALGORITHMS = ("fixed_window", "sliding_window_log", "sliding_window_counter",
              "sliding_window_hybrid", "leaky_bucket", "token_bucket", "gcra")


def sluice(*words, text=""):
    return subprocess.run([binary(), *map(str, words)], input=text, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


def line(key, algorithm="gcra", at_us=1_700_000_000_000_000, cost=1, **numbers):
    limit = {"algorithm": algorithm, "limit": 10, "per": "1h", **numbers}
    return json.dumps({"at_us": at_us, "charges": [{"key": key, "cost": cost, "limit": limit}]}) + "\n"


class Decide(RedisTest):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.redis()

    def decide(self, text, *more):
        done = sluice("decide", "--store", self.server.url, *more, text=text)
        return done, [json.loads(one) for one in done.stdout.splitlines()]

    def test_counters_continue_from_one_run_to_the_next(self):
        for remaining in (9, 8):
            done, answers = self.decide(line("on", "fixed_window"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(answers[0]["limits"][0]["remaining"], remaining)
        _, answers = self.decide(line("on", "fixed_window"), "--prefix", "other:")
        self.assertEqual(answers[0]["limits"][0]["remaining"], 9)

    def test_reports_a_foreign_value_for_its_line_and_continues(self):
        self.decide(line("own"))
        key = self.server.command("KEYS", "sluice:*own")[0]
        self.server.command("SET", key, "theirs")
        done, answers = self.decide(line("own") + line("next"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(answers[0]["line"], 1)
        self.assertIn("the store could not decide: foreign_value", answers[0]["error"])
        self.assertEqual(answers[1]["outcome"], "allowed")
        self.assertEqual(self.server.command("GET", key), b"theirs")

    def test_reports_a_missing_server_in_one_line(self):
        done = sluice("decide", "--store", "redis+unix:///nonexistent/redis.sock", text=line("a"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("the store is not available: ", done.stderr)

    def test_logs_in_with_a_password_from_a_file(self):
        self.server.command("ACL", "SETUSER", "sluice", "on", ">s3cret word", "~*", "+@all")
        file = self.folder() / "password"
        file.write_text("s3cret word\n")
        url = f"redis://sluice@{self.server.address}"
        done = sluice("decide", "--store", url, "--password-file", file, text=line("acl"))
        self.assertEqual(done.returncode, 0, done.stderr)
        file.write_text("wrong\n")
        done = sluice("decide", "--store", url, "--password-file", file, text=line("acl"))
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("wrong\n", done.stderr)


class Keys(RedisTest):
    def setUp(self):
        self.server = self.redis()

    def tearDown(self):
        self.doClassCleanups()

    def decide(self, *lines, url=None):
        done = sluice("decide", "--store", url or self.server.url, text="".join(lines))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def keys(self, *words, status=0, url=None):
        done = sluice("key", "dump", "--store", url or self.server.url, *words)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def json_keys(self, *words, url=None):
        return [json.loads(one) for one in self.keys("--json", *words, url=url).splitlines()]

    def test_lists_a_counter_of_every_algorithm(self):
        self.decide(*(line("a|" + a, a, cost=3) for a in ALGORITHMS))
        found = {one["algorithm"]: one for one in self.json_keys()}
        self.assertEqual(sorted(found), sorted(ALGORITHMS))
        for algorithm, one in found.items():
            self.assertEqual(one["key"], "a|" + algorithm)
            self.assertTrue(one["state"], one)
            self.assertLessEqual(one["ttl_ms"], 86_400_000)
            self.assertGreater(one["ttl_ms"], 86_000_000)
        lines = self.keys().splitlines()
        self.assertEqual(len(lines), len(ALGORITHMS))
        for text in lines:
            self.assertRegex(text, r"^[a-z_]+ a\|[a-z_]+: .+; expires in ")

    def test_shows_budgets(self):
        for verb in ({"verb": "hold", "id": "call 1", "ttl": "60s"}, {"verb": "settle", "id": "call 2"}):
            one = json.loads(line("a|budget", "budget", cost=5))
            self.decide(json.dumps({**one, **verb}) + "\n")
        self.assertRegex(self.keys(), r"\Abudget a\|budget: 5 units spent, 5 held by 1 hold, "
                                      r"1 settled call; expires ")
        [one] = self.json_keys("a|budget")
        self.assertEqual((one["algorithm"], one["redis_key"]), ("budget", "sluice:u{}a|budget"))
        self.assertNotIn("foreign", one)

    def test_finds_keys_by_a_pattern(self):
        self.decide(line("shop|a"), line("shop|b"), line("other|a"), line("[x]*"))
        names = [one["key"] for one in self.json_keys("shop|*")]
        self.assertEqual(sorted(names), ["shop|a", "shop|b"])
        self.assertEqual([one["key"] for one in self.json_keys(r"\[x]\*")], ["[x]*"])
        self.assertEqual(self.json_keys("nothing*"), [])

    def test_shows_one_key_in_full_and_reports_a_missing_key(self):
        self.decide(line("one", "token_bucket", cost=2), line("one two"))
        text = self.keys("one")
        self.assertRegex(text, r"\Akey         one\n")
        self.assertIn("\nalgorithm   token_bucket\n", text)
        self.assertIn("\nin Redis    sluice:t{}one\n", text)
        self.assertIn("\nchanged     2023-11-14T22:13:20", text)
        self.assertIn("there is no counter with this key", self.keys("none", status=1))

    def test_reports_values_that_are_not_counters(self):
        self.server.command("SET", "sluice:t{}text", "abc")
        self.server.command("RPUSH", "sluice:g{}list", "a")
        self.server.command("SET", "sluice:whatever", "a")
        self.server.command("SET", "elsewhere", "a")
        self.server.command("HSET", "sluice:rules", "a", "b")
        self.server.command("HSET", "sluice:{overrides}", "a", "b")
        self.server.command("XADD", "sluice:{overrides}:changes", "1-0", "a", "b")
        self.server.command("HSET", "sluice:{overrides}:head", "number", "1")
        found = {one["redis_key"]: one["foreign"] for one in self.json_keys()}
        self.assertEqual(found, {
            "sluice:t{}text": "a string that is not the state of a counter",
            "sluice:g{}list": "a list, not a counter",
            "sluice:whatever": "a string under a key that is not a counter's",
        })

    def test_reports_an_error_of_redis_and_no_values(self):
        self.decide(line("a"))
        self.server.command("ACL", "SETUSER", "default", "-type")
        self.assertIn("NOPERM", self.keys(status=1))

    def test_keys_that_are_not_utf8_differ_in_json(self):
        for key in (b"\xfe", b"\xff"):
            self.server.command("SET", b"sluice:other" + key, "a")
        self.assertEqual(sorted(one["redis_key"] for one in self.json_keys()),
                         ["sluice:other%FE", "sluice:other%FF"])

    def test_reports_that_there_are_more_keys(self):
        self.decide(*(line(f"k{i}") for i in range(2500)))
        done = sluice("key", "dump", "--store", self.server.url)
        self.assertEqual(len(done.stdout.splitlines()), 1000)
        self.assertEqual(done.stderr, "sluice: key dump: there are more than 1000; --max N shows more\n")
        self.assertEqual(len(set(self.keys("--max", 9999).splitlines())), 2500)

    def test_escapes_control_characters(self):
        self.decide(line("a\x1b[31m\nb"))
        self.assertIn(r"gcra a\x1b[31m\x0ab: ", self.keys())

    def test_lists_the_keys_of_all_masters_of_a_cluster(self):
        cluster = self.cluster(replicas=0)
        self.decide(*(line(f"k{i}") for i in range(50)), url=cluster.url)
        found = [one["key"] for one in self.json_keys(url=cluster.url)]
        self.assertEqual(sorted(found), sorted(f"k{i}" for i in range(50)))

    def test_reads_counters_that_were_stored_without_scripts(self):
        folder = self.folder()
        (folder / "sluice.yaml").write_text(
            f"version: 1\nstore: {self.server.url}\nredis: {{ scripting: off }}\n")
        text = line("plain", "fixed_window", align="clock") + line("{odd}", "sliding_window_counter")
        done = sluice("decide", "--config", folder / "sluice.yaml", text=text)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = {one["key"]: one for one in self.json_keys() if "algorithm" in one}
        self.assertEqual(sorted(found), ["plain", "{odd}"])
        self.assertTrue(found["plain"]["state"].startswith("1 units in slice "), found)
