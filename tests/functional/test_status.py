"""`sluice status`, and the first lines of `sluice top`, in good times and in an outage."""

import json
import subprocess
import unittest

from harness import PATIENCE, ServerTest, binary, wait_for
from redis_harness import RedisTest

RULES = """
version: 1
rules:
  - name: api
    match: { path: /api/** }
    on_store_error: allow
    limits:
      - { name: requests, key: "{header.x-user}", algorithm: token_bucket, limit: 2, per: 1h, burst: 3 }
  - name: login
    match: { path: /login }
    on_store_error: local
    limits: [ { algorithm: fixed_window, limit: 5, per: 1m } ]
  - name: trial
    mode: shadow
    limits: [ { name: all, algorithm: fixed_window, limit: 1, per: 1h } ]
"""
GUARDED = """
  - name: guarded
    limits:
      - { name: user, key: "{header.x-user}", algorithm: fixed_window, limit: 5, per: 1m,
          block: { after: 5, within: 10m, for: 15m } }
"""


def sluice(server, *words):
    return subprocess.run([binary(), *words, "--admin", server.admin], capture_output=True,
                          text=True, timeout=PATIENCE, check=False)


def row_of(text, name):
    """Returns the cells of the row of a rule or limit, after the name and the limit in words."""
    line = next(line for line in text.splitlines() if line.startswith(name))
    return line.replace(" %", "%").split()[-6:]


class Status(ServerTest):
    def setUp(self):
        self.sluice = self.serve(RULES)

    def check(self, path, times, **attributes):
        for _ in range(times):
            self.sluice.check({"attributes": {"path": path, **attributes}})

    def test_shows_what_each_limit_is_and_what_it_did(self):
        self.check("/api/a", 4, **{"header.x-user": "a"})
        self.check("/api/a", 2)
        self.check("/other", 3)
        done = sluice(self.sluice, "status")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        text = done.stdout
        self.assertRegex(text, r"\Asluice [0-9.]+, up [^,]+, store memory, rules version 1; clients: http \d+")
        self.assertIn(f"\nrules of {self.sluice.rules_file}, 3 rules and 3 limits, changed 20", text)
        self.assertIn(" by the start\n", text)
        self.assertIn(f"\nlistens: http {self.sluice.http}", text)
        self.assertEqual(row_of(text, "api "), ["6", "1", "16.7%", "0", "0", "0"])
        self.assertIn("\n  requests       2 per 1h, burst 3  ", text)
        self.assertEqual(row_of(text, "  requests"), ["4", "1", "25.0%", "0", "0", "2"])
        self.assertIn("\ntrial            shadow mode ", text)
        self.assertIn("\nlogin            on_store_error: local  ", text)
        self.assertEqual(row_of(text, "  all"), ["3", "0", "0.0%", "0", "2", "0"])
        self.assertEqual(row_of(text, "login"), ["0", "0", "-", "0", "0", "0"])
        self.assertIn("\n  login/0        5 per 1m ", text)

    def test_shows_what_is_changed_for_a_time(self):
        sluice(self.sluice, "rules", "set", "login", "mode=shadow", "--for", "1h")
        self.assertRegex(sluice(self.sluice, "status").stdout,
                         r"\ntemporary: rule login has mode shadow until 20.*Z\n")

    def test_counts_overrides_and_blocks(self):
        server = self.serve(RULES + GUARDED)
        self.assertNotIn("\nkeys: ", sluice(server, "status").stdout)
        sluice(server, "key", "api", "header.x-user=a", "--set", "limit=9")
        sluice(server, "key", "api", "header.x-user=b", "--block", "forever")
        sluice(server, "key", "guarded", "header.x-user=c", "--block", "15m")
        self.assertIn("\nkeys: 2 overrides, 1 block (sluice key list)\n",
                      sluice(server, "status").stdout)
        self.assertIn("key blocked: default|api|requests|header.x-user=b", server.log())

    def test_prints_one_object(self):
        self.check("/api/a", 4, **{"header.x-user": "a"})
        status = json.loads(sluice(self.sluice, "status", "--json").stdout)
        api = status["limits"][0]
        self.assertEqual((api["rule"], api["asked"], api["denied"]), ("api", 4, 1))
        self.assertEqual(api["limits"][0]["numbers"], "2 per 1h, burst 3")
        self.assertEqual(api["limits"][0]["denied"], 1)
        self.assertTrue(status["ready"])

    def test_the_first_warning_about_the_rules_is_shown(self):
        limit = 'limits: [ { name: x, key: "{ip}", algorithm: fixed_window, limit: 0, per: 1h } ]'
        names = ["a", "b"]
        server = self.serve("version: 1\nrules:\n" + "".join(
            f"  - {{ name: {name}, continue: true, {limit} }}\n" for name in names))  # fmt: skip
        said = sluice(server, "status").stdout
        self.assertIn(f"\n2 warnings about the rules, the first: {server.rules_file}:3: limit 'x' of rule 'a' is 0, "
                      "which denies every request; the log has all\n", said)
        for name in names:
            line = f"limit 'x' of rule '{name}' is 0, which denies"
            wait_for(lambda line=line: line in server.log(), line)

    def test_refused_rules_are_a_failure(self):
        self.sluice.rules_file.write_text("version: 9\nrules: []\n")
        wait_for(lambda: self.sluice.admin_request("GET", "/v1/status").json["rules"]["last_errors"],
                 what="the refusal")
        done = sluice(self.sluice, "status")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.startswith(f"RULES REFUSED: {self.sluice.rules_file}:1: "), done)

    def test_several_servers_are_shown_one_after_the_other(self):
        other = self.serve(RULES)
        gone = f"unix:{other.rules_file}.sock"
        words = [word for admin in (self.sluice.admin, gone, other.admin) for word in ("--admin", admin)]
        show = lambda *more: subprocess.run([binary(), "status", *words, *more], timeout=PATIENCE,
                                            capture_output=True, text=True, check=False)
        listed = [json.loads(line)["admin"] for line in show("--json").stdout.splitlines()]
        self.assertEqual(listed, [self.sluice.admin, other.admin])
        done = show()
        self.assertEqual(done.returncode, 1, done)
        first, second = done.stdout.split(f"{gone}:\n")
        self.assertTrue(first.startswith(f"{self.sluice.admin}:\nsluice "), first)
        self.assertTrue(second.startswith(f"{other.admin}:\nsluice "), second)
        self.assertIn(f"sluice: status: {gone}: cannot connect to the administration at ", done.stderr)
        # The harness has the rules of each server in a file of its own.
        said = done.stdout.splitlines()[-1]
        self.assertEqual(said, "all servers that answered have the same rules")
        other.rules_file.write_text("# Only a comment, and another spelling.\n" + RULES.replace("per: 1h", "per: 60m"))
        show_status = lambda: other.admin_request("GET", "/v1/status").json["rules"]
        wait_for(lambda: show_status()["version"] == 2, what="the other texts")
        self.assertEqual(show().stdout.splitlines()[-1], said)
        sluice(other, "rules", "set", "login", "mode=shadow", "--for", "1h")
        self.assertRegex(show().stdout.splitlines()[-1],
                         rf"\A{said}, except {other.admin}: login \(mode shadow until 20.*Z\)\Z")
        sluice(other, "rules", "set", "login", "--for", "0s")
        other.rules_file.write_text(RULES.replace("limit: ", "limit: 7", 1))
        wait_for(lambda: show().stdout.splitlines()[-1].startswith("the servers have different rules "),
                 what="the other rules")

    def test_rules_in_several_files_are_compared(self):
        def with_files(limit):
            folder = self.folder()
            for name in "ab":
                (folder / f"{name}.yaml").write_text(
                    f"version: 1\nrules: [ {{ name: {name}, limits: [ {{ algorithm: gcra, limit: {limit}, "
                    "per: 1s } ] } ]\n")  # fmt: skip
            return self.serve(config={"rules": [str(folder / "a.yaml"), str(folder / "b.yaml")]}).admin

        one, same, other = with_files(5), with_files(5), with_files(6)
        for second, said in ((same, "all servers that answered have the same rules"),
                             (other, "the servers have different rules (")):  # fmt: skip
            done = subprocess.run([binary(), "status", "--admin", one, "--admin", second], timeout=PATIENCE,
                                  capture_output=True, text=True, check=True)  # fmt: skip
            self.assertTrue(done.stdout.splitlines()[-1].startswith(said), done.stdout)

    def test_a_server_that_does_not_answer_is_a_failure(self):
        self.sluice.stop()
        done = sluice(self.sluice, "status")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("sluice: status: cannot connect to the administration at ", done.stderr)


class Outage(RedisTest):
    def test_is_in_the_first_lines(self):
        redis = self.redis()
        server = self.serve(RULES, {"store": redis.url})
        server.check({"attributes": {"path": "/login"}})
        done = sluice(server, "status")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"\Asluice .*, store redis with \d+ connections, rules version ")
        redis.kill()

        def fails():
            server.check({"attributes": {"path": "/login"}})
            done = sluice(server, "status")  # first, that a connection broke
            return done.returncode == 1 and "refuses connections" in done.stdout

        wait_for(fails, what="the outage")
        for words in (["status"], ["top", "--once", "--interval", "0.1"]):
            first, second, third = sluice(server, *words).stdout.splitlines()[:3]
            self.assertRegex(first, r"^OUTAGE since 20.*: Redis at ")
            self.assertRegex(second, "^  meanwhile everything passes: api, trial; local limits: login"
                             r"(; \d+ requests? w\w+ decided without the store)?$")
            self.assertTrue(third.startswith("sluice "), third)
        self.assertGreater(int(row_of(sluice(server, "status").stdout, "login")[3]), 0)

        def opens():
            server.check({"attributes": {"path": "/login"}})
            return server.admin_request("GET", "/v1/status").json["store"]["breaker_open"]

        wait_for(opens, what="the open circuit breaker")
        redis.start()
        wait_for(lambda: sluice(server, "status").returncode == 0, what="the end of the outage")
        self.assertRegex(sluice(server, "status").stdout,
                         r"\nlast outage: 20\S+Z to 20\S+Z \(\d+ s\): Redis at \S+ .*\n")
        self.assertRegex(server.log(), r"event=breaker_closed lasted_ms=\d+")


if __name__ == "__main__":
    unittest.main()
