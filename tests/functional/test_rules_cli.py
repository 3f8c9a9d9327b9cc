"""`sluice rules set`, `history`, `diff` and `rollback` of a server with rules from files; and the standard streams of
commands."""

import http.server
import json
import os
import re
import subprocess
import threading
import unittest

from harness import PATIENCE, ServerTest, binary, wait_for

RULES = """version: 1
plans:
  free: { requests: { limit: 2, per: 1h } }
  pro: { requests: { limit: 5, per: 1h } }
rules:
  - name: api
    match: { path: "/api/**" }
    plan: { from: "{header.x-plan}", default: free }
    limits: [ { name: requests, key: "{ip}", algorithm: token_bucket } ]
  - name: a/b
    limits:
      - { name: all, key: "{ip}", algorithm: gcra, limit: 1, per: 1s }
      - { algorithm: fixed_window, limit: 1000, per: 1m }
"""


class RulesOfAServer(ServerTest):
    rules = RULES

    def setUp(self):
        self.sluice = self.serve(rules=self.rules)

    def run_rules(self, command, *words, text=None):
        return subprocess.run(
            [binary(), "rules", command, *map(str, words), "--admin", self.sluice.admin],
            capture_output=True, text=True, input=text, timeout=PATIENCE, check=False,
        )

    def run_ok(self, *words):
        done = self.run_rules(*words)
        undoes = words[0] in ("set", "rollback")
        said = re.sub(r"\Aundo[^:]*: .*\n\Z", "", done.stderr) if undoes else done.stderr
        self.assertEqual((done.returncode, said), (0, ""), done)
        return done.stdout

    def refused(self, *words, status=1):
        done = self.run_rules(*words)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done)
        return done.stderr


class ConnectionsOfOneRequest(RulesOfAServer):
    def setUp(self):
        self.sluice = self.serve(rules=self.rules, config={"bounds": {"requests_per_connection": 1}})

    def test_commands_connect_again_for_their_next_request(self):
        self.run_ok("set", "a%2Fb/all", "limit=20")
        self.run_ok("rollback", 1)
        self.assertIn("version 3, ", self.run_ok("history"))
        for words in (("status",), ("top", "--once", "--interval", "0.1"), ("key", "list"), ("key", "export"),
                      ("key", "a%2Fb/all", "ip=::1", "--block", "1h"), ("key", "a%2Fb/all", "ip=::1", "--unblock")):
            done = subprocess.run([binary(), *words, "--admin", self.sluice.admin],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done)


class NamesWithSlashesAndDots(RulesOfAServer):
    rules = """version: 1
plans: { free: { x/y: { limit: 2, per: 1h, prices: { m.1: { input: 5 } } } } }
prices: { m.1: { input: 7 } }
rules:
  - name: a/b
    plan: { default: free }
    limits:
      - { name: x/y, key: "{ip}", algorithm: gcra, cost: price.input, price: { of: "{body.model}" } }
      - { name: z/y, key: "{ip}", algorithm: gcra, limit: 1, per: 1s }
"""

    def test_the_undo_of_a_change_for_a_time_names_the_whole_of_a_limit_with_a_slash(self):
        for whole, limit in ("a%2Fb", "z/y"), ("plans/free", "x/y"):
            said = self.run_rules("set", f"{whole}/{limit}", "limit=20", "--for", "1h").stderr
            self.assertRegex(said, rf"\Aundo: sluice rules set {whole} --for 0s --admin \S+\n\Z")
            self.run_ok("set", whole, "--for", "0s")

    def test_the_price_of_a_plan_for_a_time_is_in_the_history_and_in_differences(self):
        self.run_ok("set", "plans/free/x/y", "prices.m.1.input=9", "--for", "1h")
        changed = r"~ rule a/b, limit x/y: plans\.free\.prices\.m\.1\.input 5 -> 9, until 20\S+Z"
        self.assertRegex(self.run_ok("history").splitlines()[2], rf"\A  {changed}\Z")
        self.assertRegex(self.run_rules("diff", 1, 2).stdout, rf"\A{changed}\n\Z")


class NamesOfDigits(RulesOfAServer):
    rules = """version: 1
rules:
  - name: num
    limits:
      - { name: "404", algorithm: gcra, limit: 1, per: 1s }
      - { algorithm: token_bucket, limit: 1, per: 1s, burst: 20 }
"""

    def test_a_name_counts_before_an_index(self):
        self.assertIn("~ rule num, limit 404: limit 1 -> 5\n", self.run_ok("set", "num/404", "limit=5"))
        self.assertIn("~ rule num, limit num/1: limit 1 -> 6\n", self.run_ok("set", "num/1", "limit=6"))
        self.assertIn("rule 'num' has no limit '7'; expected one of: 404, num/1",
                      self.refused("set", "num/7", "limit=6"))


class RunningServer(RulesOfAServer):
    def test_numbers_and_the_mode_are_changed_at_once(self):
        until = (" of this server, active until the rules files or their lists change, or the server reloads or "
                 "stops\n")
        self.assertEqual(self.run_ok("set", "a%2Fb/all", "limit=20", "burst=30"),
                         "~ rule a/b, limit all: burst 0 -> 30\n"
                         "~ rule a/b, limit all: limit 1 -> 20\nversion 2" + until)
        limits = self.sluice.check({"attributes": {"ip": "::1"}}).json["limits"]
        self.assertEqual((limits[0]["limit"], limits[1]["limit"]), (31, 1000))
        self.assertEqual(self.run_ok("set", "a%2Fb/1", "limit=7"),
                         "~ rule a/b, limit a/b/1: limit 1000 -> 7\nversion 3" + until)
        self.assertEqual(self.run_ok("set", "a%2Fb", "mode=shadow"),
                         "~ rule a/b: mode enforce -> shadow\nversion 4" + until)
        self.assertEqual(self.run_ok("set", "a%2Fb", "mode=shadow"), "the active rules say so already\n")

    def test_a_change_is_tried(self):
        warned = self.run_rules("set", "api", "mode=shadow", "--dry-run")
        self.assertEqual(warned.stdout, "~ rule api: mode enforce -> shadow\n")
        self.assertRegex(warned.stderr, r"\A\S+:\d+:\d+: warning: .*shadow.*\n\Z")
        self.run_ok("set", "a%2Fb", "mode=shadow", "--for", "1h")
        words = ("set", "a%2Fb/all", "limit=20", "burst=0", "--dry-run")
        for more in ((), ("--for", "1h")):
            self.assertEqual(self.run_ok(*words, *more), "~ rule a/b, limit all: limit 1 -> 20\n")
        self.assertEqual(self.run_ok("set", "a%2Fb", "mode=enforce", "--dry-run"),
                         "~ rule a/b: mode shadow -> enforce\n")
        self.assertEqual(self.run_ok("set", "a%2Fb", "mode=shadow", "--dry-run"),
                         "the active rules say so already\n")
        none = self.run_rules("set", "a%2Fb/all", "limit=0", "--dry-run")
        self.assertEqual((none.returncode, none.stdout),
                         (0, "~ rule a/b, limit all: limit 1 -> 0\n"), none)
        self.assertEqual(none.stderr, "")  # a rule in shadow mode denies nothing
        self.assertIn("rule 'a/b' has no limit 'every'",
                      self.refused("set", "a%2Fb/every", "limit=3", "--dry-run"))
        self.assertIn("expected it alone", self.refused("set", "a%2Fb", "--for", "0s", "--dry-run"))
        self.assertIn("version 2", self.run_ok("history", "--max", 1))

    def test_a_limit_of_0_is_said_and_how_to_undo_it(self):
        said = r"\A\S+: warning: limit 'all' of rule 'a/b' is 0, which denies every request; .*\n"
        self.assertRegex(self.run_rules("set", "a%2Fb/all", "limit=0", "--dry-run").stderr, said + r"\Z")
        for words, undo in [(("limit=0", "burst=5"), "a%2Fb/all limit=1 burst=0"),
                            (("limit=0", "--for", "1h"), "a%2Fb --for 0s")]:
            done = self.run_rules("set", "a%2Fb/all", *words)
            self.assertRegex(done.stderr, said + rf"undo: sluice rules set {undo} --admin \S+\n\Z")
            self.assertIn("limit 1 -> 0\n", done.stdout)
            self.run_ok("set", *undo.split())
        self.assertRegex(self.run_rules("rollback", "2", "--dry-run").stderr, said + r"\Z")
        self.assertRegex(self.run_rules("rollback", "2").stderr,
                         said + r"undo: sluice rules rollback 5 --admin \S+\n\Z")
        self.assertRegex(self.run_rules("rollback", "1").stderr,
                         r"\Aundo: sluice rules rollback 6 --admin \S+\n\Z")
        self.assertEqual(self.run_rules("rollback", "1").stderr, "")  # it changes nothing

    def test_each_change_says_how_to_undo_it(self):
        for place, change, undo in [("a%2Fb/all", "limit=30", "a%2Fb/all limit=1"),
                                    ("a%2Fb", "mode=shadow", "a%2Fb mode=enforce"),
                                    ("api", "on_store_error=deny", "api on_store_error=allow"),
                                    ("plans/free/requests", "limit=20", None)]:
            said = self.run_rules("set", place, change)
            undo = undo or f"{place} limit={re.search(r'limit ([0-9]+) ->', said.stdout)[1]}"
            self.assertRegex(said.stderr, rf"undo: sluice rules set {undo} --admin \S+\n\Z")
            self.assertEqual(self.run_rules("set", place, change).stderr, "")  # it changes nothing
            changed = re.search(r": \S+ (\S+) -> (\S+)\n", said.stdout)
            self.assertIn(f"{changed[2]} -> {changed[1]}\n", self.run_ok("set", *undo.split()))
        config = self.folder() / "other.yaml"
        config.write_text("version: 1\n")
        said = self.run_rules("set", "a%2Fb/all", "limit=31", "--config", config).stderr
        self.assertRegex(said, rf"undo: sluice rules set a%2Fb/all limit=\d+ --admin \S+ --config {config}\n\Z")
        said = self.run_rules("set", "a%2Fb/all", "limit=30", "--for", "1h").stderr
        self.assertRegex(said, r"undo: sluice rules set a%2Fb --for 0s --admin \S+\n\Z")
        again = self.run_rules("set", "a%2Fb/all", "limit=30", "--for", "2h")
        self.assertRegex(again.stdout, r"\Athe rules have these values already, and keep them for that time\n"
                                       r"version \d+ of this server, active until 20.*Z\n\Z")
        all_of = "undo (ends all changes for a time of a%2Fb):"
        self.assertEqual(again.stderr, said.replace("undo:", all_of))
        for words in (("a%2Fb", "--for", "0s"), ("a%2Fb/all", "limit=40", "--dry-run")):
            self.assertEqual(self.run_rules("set", *words).stderr, "")

    def test_the_undo_of_a_change_for_a_time_says_that_it_ends_earlier_ones(self):
        self.assertIn("warning: the shadow rule 'api'",
                      self.run_rules("set", "api", "mode=shadow", "--for", "1h").stderr)
        for place, number in ("a%2Fb/all", 30), ("plans/free/requests", 20):
            whole = place[:place.rindex("/")]
            undo = rf": sluice rules set {whole} --for 0s --admin \S+\n\Z"
            first = self.run_rules("set", place, f"limit={number}", "--for", "1h")
            self.assertRegex(first.stderr, r"\Aundo" + undo)
            second = self.run_rules("set", place, f"limit={number + 1}", "--for", "2h")
            self.assertRegex(second.stderr, rf"\Aundo \(ends all changes for a time of {whole}\)" + undo)
            self.run_ok("set", whole, "--for", "0s")
            again = self.run_rules("set", place, f"limit={number}", "--for", "1h")
            self.assertRegex(again.stderr, r"\Aundo" + undo)

    def test_temporary_changes_are_ended(self):
        self.run_rules("set", "api", "mode=shadow", "--for", "1h")
        self.assertEqual(self.run_ok("set", "api", "--for", "0s"),
                         "temporary changes of rule api ended: version 3\n")
        self.assertIn("rule 'api' has no temporary change; expected a rule of 'temporary' in GET ",
                      self.refused("set", "api", "--for", "0s"))
        other = self.serve(rules=self.rules)
        self.run_rules("set", "api", "mode=shadow", "--for", "1h")
        for status in (0, 1):  # the second time, there is nothing to end on both
            done = self.run_rules("set", "api", "--for", "0s", "--admin", other.admin)
            self.assertEqual(done.returncode, status, done)
            self.assertIn(f"{other.admin}: rule 'api' has no temporary change; ", done.stderr)
        self.assertIn("nothing is changed; expected NAME=VALUE after api, or --for 0s to end ",
                      self.refused("set", "api", status=2))
        self.assertIn("nothing is changed; expected NAME=VALUE after api/requests, or --for 0s to end ",
                      self.refused("set", "api/requests", status=2))

    def test_numbers_are_changed_for_a_time(self):
        self.assertRegex(self.run_ok("set", "a%2Fb/all", "limit=20", "--for", "1h"),
                         r"\A~ rule a/b, limit all: limit 1 -> 20\nversion 2 of this server, active until 20.*Z\n\Z")
        self.run_ok("set", "plans/free/requests", "limit=50", "--for", "1h")
        listed = subprocess.run([binary(), "status", "--admin", self.sluice.admin], timeout=PATIENCE,
                                capture_output=True, text=True, check=True).stdout
        self.assertRegex(listed, r"\ntemporary: rule a/b has all.limit 20 until 20.*Z\n"
                                 r"temporary: plans/free has requests.limit 50 until 20.*Z\n")
        self.assertIn("expected sluice rules set plans/free --for 0s",
                      self.refused("set", "plans/free/requests", "--for", "0s", status=2))
        self.assertEqual(self.run_ok("set", "plans/free", "--for", "0s"),
                         "temporary changes of plans/free ended: version 4\n")
        self.run_ok("set", "a%2Fb", "--for", "0s")
        limits = self.sluice.check({"attributes": {"ip": "::1"}}).json["limits"]
        self.assertEqual(limits[0]["limit"], 1)

    def test_numbers_of_a_plan_are_changed(self):
        self.assertIn("~ rule api, limit requests: plans.free.limit 2 -> 3\n",
                      self.run_ok("set", "plans/free/requests", "limit=3"))
        attributes = {"path": "/api/x", "ip": "::1"}
        self.assertEqual(self.sluice.check({"attributes": attributes}).json["limits"][0]["limit"], 3)
        self.assertIn("there is no plan 'gold'; expected free or pro",
                      self.refused("set", "plans/gold/requests", "limit=3"))
        self.assertIn("such as sluice rules set plans/free/requests limit=3 (PATCH /v1/plans/free)",
                      self.refused("set", "api/requests", "limit=3"))

    def test_what_is_no_change_is_refused(self):
        for words, error in [
            (("a%2Fb", "limit=3"), "has several limits; expected RULE/LIMIT, one of: all, a/b/1"),
            (("a%2Fb/all", "mode=shadow"), "'mode' belongs to a rule; expected RULE before it"),
            (("a%2Fb/all", "limt=3"), "did you mean 'limit'?"),
            (("a%2Fb/all", "limit"), "'limit' is no change; expected NAME=VALUE"),
            (("a%2Fb/all", "limit=3", "limit=4"), "'limit' is given twice; expected it once"),
            (("a%2Fb/all", "limit=-1"),
             "set: 'limit=-1'; expected a whole number from 0 to 9007199254740991\n"),
            (("a%2Fb/all", "burst=x"), "'burst=x'; expected a whole number from 0"),
            (("/all", "limit=3"), "'/all' names no rule; expected RULE, RULE/LIMIT"),
        ]:
            self.assertIn(error, self.refused("set", *words, status=2))
        for words, error in [
            (("api", "limit=3"), "such as sluice rules set plans/free/requests limit=3"),
            (("a%2Fb/every", "limit=3"), "rule 'a/b' has no limit 'every'; expected all or a/b/1"),
            (("apo/all", "limit=3"), "there is no rule 'apo'; expected one of: api, a/b"),
            (("a%2Fb/all", "per=1min"), "has an unknown unit 'min'"),
            (("a%2Fb/all", "limit=3", "--expect", "9"), "expected version 1"),
        ]:
            self.assertIn(error, self.refused("set", *words))

    def test_several_numbers_are_separated_by_commas_or_spaces(self):
        for words in (("limit=20,per=2h",), ("limit=21", "per=3h")):
            said = self.run_ok("set", "a%2Fb/all", *words)
            for changed in ("limit", "per"):
                self.assertRegex(said, rf"(?m)^~ rule a/b, limit all: {changed} \S+ -> \S+$")

    def test_the_history_says_what_each_version_changed(self):
        self.run_ok("set", "a%2Fb/all", "limit=20", "--by", "ann")
        self.run_ok("set", "a%2Fb", "mode=shadow")
        title, *lines = self.run_ok("history").splitlines()
        self.assertEqual(title, f"rules of the server at {self.sluice.admin} since its start")
        self.assertRegex(lines[0], r"\Aversion 3, 20\S+Z, by \S+@\S+ \(PATCH /v1/rules/a/b from ")
        self.assertEqual(lines[1], "  ~ rule a/b: mode enforce -> shadow")
        self.assertRegex(lines[2], r"\Aversion 2, 20\S+Z, by ann \(PATCH /v1/rules/a/b from ")
        self.assertEqual(lines[3], "  ~ rule a/b, limit all: limit 1 -> 20")
        self.assertRegex(lines[4], r"\Aversion 1, 20\S+Z, by the start\Z")
        self.assertEqual(lines[5:], ["  the first version whose rules are kept"])
        self.assertEqual(self.run_ok("history", "--max", 1).splitlines()[1:], lines[:2])
        rows = [json.loads(line) for line in self.run_ok("history", "--json").splitlines()]
        self.assertEqual([row["version"] for row in rows], [3, 2, 1])
        self.assertEqual(rows[1]["differences"],
                         [{"change": "changed", "rule": "a/b", "limit": "all", "key": "limit",
                           "old": "1", "new": "20"}])
        self.assertNotIn("differences", rows[2])

    def test_the_history_shows_changes_for_a_time(self):
        self.run_ok("set", "a%2Fb", "mode=shadow", "--for", "1h")
        self.run_ok("set", "plans/free/requests", "limit=50", "--for", "1h")
        self.run_ok("set", "a%2Fb", "--for", "0s")
        lines = self.run_ok("history").splitlines()[1:]
        self.assertEqual(lines[1], "  ~ rule a/b: mode shadow -> enforce")
        self.assertRegex(lines[3], r"\A  ~ rule api, limit requests: plans.free.limit 2 -> 50, "
                                   r"until 20\S+Z\Z")
        self.assertRegex(lines[5], r"\A  ~ rule a/b: mode enforce -> shadow, until 20\S+Z\Z")

    def test_the_status_and_the_log_say_what_differs_from_the_file_and_what_it_undoes(self):
        self.run_ok("set", "a%2Fb/all", "limit=20", "--by", "ann")
        shown = subprocess.run([binary(), "status", "--admin", self.sluice.admin], timeout=PATIENCE,
                               capture_output=True, text=True, check=True).stdout
        self.assertIn("\nthe active rules differ from those that were read; latest change by ann (PATCH ",
                      shown)
        self.assertIn("):\n  ~ rule a/b, limit all: limit 1 -> 20\n", shown)
        self.sluice.rules_file.write_text("# a comment\n" + RULES)
        wait_for(lambda: "the files have undone changes of the administration" in self.sluice.log(),
                 "a warning")
        self.assertIn('undone="a/b/all: limit 20 -> 1"', self.sluice.log())

    def test_the_rules_of_a_server_are_shown(self):
        self.run_ok("set", "a%2Fb/all", "limit=20", "--by", "ann")
        comment, text = self.run_ok("show").split("\n", 1)
        self.assertRegex(comment, rf"\A# {re.escape(str(self.sluice.rules_file))} \(version 2, "
                                  r"active since 20\S+Z by ann \(PATCH /v1/rules/a/b from ")
        self.assertEqual(text, RULES.replace("limit: 1,", "limit: 20,"))

    def test_versions_and_files_are_compared(self):
        self.run_ok("set", "a%2Fb/all", "limit=20")
        self.run_ok("set", "a%2Fb/all", "per=2s")
        path = self.folder() / "rules.yaml"
        path.write_text(RULES.replace("limit: 1,", "limit: 5,"))
        limit, per = ("~ rule a/b, limit all: ", "~ rule a/b, limit all: per ")
        for words, out in [
            ((1, 2), limit + "limit 1 -> 20\n"),
            ((1,), limit + "limit 1 -> 20\n" + per + "1s -> 2s\n"),
            ((3, 2), per + "2s -> 1s\n"),
            ((path,), limit + "limit 20 -> 5\n" + per + "2s -> 1s\n"),
            ((1, path), limit + "limit 1 -> 5\n"),
            ((path, 1), limit + "limit 5 -> 1\n"),
        ]:
            done = self.run_rules("diff", *words)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, out, ""), words)
        self.assertEqual(self.run_rules("diff", 3).returncode, 0)
        self.assertIn("the history has no push '7'; expected a version from 1 to 3",
                      self.refused("diff", 7, status=2))

    def test_changes_for_a_time_are_compared(self):
        self.run_ok("set", "a%2Fb", "mode=shadow", "--for", "1h")
        self.run_ok("set", "a%2Fb/all", "limit=20", "--for", "1h")
        shadow, limit = "~ rule a/b: mode enforce -> shadow, until ", "~ rule a/b, limit all: limit 1 -> 20, until "
        for words, begins in [((1, 2), [shadow]), ((1, 3), [shadow, limit]), ((1,), [shadow, limit]), ((2,), [limit])]:
            done = self.run_rules("diff", *words)
            self.assertEqual((done.returncode, done.stderr), (1, ""), words)
            self.assertEqual([re.sub(r"20\d\d-\S+Z$", "", line) for line in done.stdout.splitlines()], begins, words)
        self.assertEqual(self.run_rules("diff", 3, 2).stdout, "~ rule a/b, limit all: limit 20 -> 1\n")
        self.assertFalse(json.loads(self.run_rules("diff", 1, 3, "--json").stdout)["equal"])
        self.assertEqual(self.run_rules("diff", 3, self.sluice.rules_file).stdout.splitlines(),
                         ["~ rule a/b: mode shadow -> enforce", "~ rule a/b, limit all: limit 20 -> 1"])

    def test_rules_from_a_file_or_a_rollback_leave_changes_for_a_time(self):
        self.run_ok("set", "a%2Fb/all", "limit=20", "--for", "1h")
        on_top = (r"changes for a time stay on top; sluice rules set RULE --for 0s ends them\n"
                  r"temporary: rule a/b has all\.limit 20 until 20\S+Z\n\Z")
        path = self.folder() / "rules.yaml"
        for text, status, out in ((RULES, 0, ""), (RULES.replace("limit: 1,", "limit: 5,"), 1,
                                                   "~ rule a/b, limit all: limit 1 -> 5\n")):
            path.write_text(text)
            done = self.run_rules("diff", path)
            self.assertEqual((done.returncode, done.stdout), (status, out), done)
            self.assertRegex(done.stderr, r"\A" + on_top)
        self.assertRegex(self.run_ok("rollback", 1, "--dry-run"), "\nthe active rules say so already\n" + on_top)
        self.assertRegex(self.run_ok("rollback", 1), r"\Athe active rules say so already\n" + on_top)

    def test_an_earlier_version_is_made_active_again(self):
        self.run_ok("set", "a%2Fb/all", "limit=20")
        self.assertIn("expected version 2",
                      self.refused("rollback", 1, "--expect", 1))
        difference = "~ rule a/b, limit all: limit 20 -> 1\n"
        source = f"rules of the server at {self.sluice.admin} since its start\n"
        self.assertEqual(self.run_ok("rollback", 1, "--dry-run", "--expect", 2), source + difference)
        self.assertIn("the server has version 2 of the rules; expected version 1 there. Nothing was "
                      "changed", self.refused("rollback", 1, "--dry-run", "--expect", 1))
        self.assertEqual(self.run_ok("rollback", 2, "--dry-run"), source + "the active rules say so already\n")
        self.assertTrue(self.run_ok("rollback", 1, "--expect", 2, "--by", "ann")
                        .startswith(difference + "version 3 of this server, active until "))
        self.assertEqual(self.sluice.check({"attributes": {"ip": "::1"}}).json["limits"][0]["limit"],
                         1)
        self.assertIn("by ann (rollback to version 1 from ", self.run_ok("history", "--max", 1))
        self.assertEqual(self.run_ok("rollback", 1), "the active rules say so already\n")

    def test_a_flag_or_the_rules_of_the_configuration_override_the_store_of_the_environment(self):
        self.run_ok("set", "a%2Fb/all", "limit=20")
        folder = self.folder()
        (folder / "sluice.yaml").write_text(
            f"version: 1\nrules: rules.yaml\nlisten: {{ admin: '{self.sluice.admin}' }}\n")
        store = {"SLUICE_STORE": "redis://127.0.0.1:1"}
        quota = {"SLUICE_STORE": "quota://127.0.0.1:1"}  # not in Redis
        admin = {**store, "SLUICE_ADMIN": self.sluice.admin}

        def run(place, variables, *words):
            return subprocess.run(
                [binary(), "rules", *words], capture_output=True, text=True, timeout=PATIENCE,
                cwd=place, env={**os.environ, **variables}, check=False,
            )

        for place, variables in ((folder, store), (self.folder(), admin)):
            for words, out in ((("history", "--max", "1"), "version 2, "),
                               (("diff", "1"), "limit 1 -> 20"),
                               (("rollback", "2"), "the active rules say so already")):
                done = run(place, variables, *words)
                self.assertIn(out, done.stdout, done)
        for variables, words in ((store, ("--store", "redis://127.0.0.1:1")),
                                 (admin, ("--store", "redis://127.0.0.1:1")),
                                 (admin, ("--rules-key", "k")),
                                 ({**store, "SLUICE_RULES": "redis"}, ())):
            done = run(folder, variables, "history", *words)
            self.assertIn("redis://127.0.0.1:1 is not available", done.stderr, done)
        done = run(self.folder(), store, "history")
        self.assertIn("redis://127.0.0.1:1 is not available", done.stderr, done)
        (folder / "quota.yaml").write_text(
            f"version: 1\nstore: quota://127.0.0.1:1\nlisten: {{ admin: '{self.sluice.admin}' }}\n")
        for variables in quota, {}:
            done = run(self.folder(), variables, "history", "--config", folder / "quota.yaml")
            self.assertIn("version 2, ", done.stdout, done)
        (folder / "other.yaml").write_text(
            "version: 1\nrules: redis\nstore: redis://127.0.0.1:1\nlisten: { admin: '127.0.0.1:1' }\n")
        for words, out in (
            (("history", "--max", "1"), "version 2, "), (("diff", "1"), "limit 1 -> 20"),
            (("show",), "version 2, "), (("rollback", "2"), "say so already"),
            (("set", "a%2Fb/all", "limit=20"), "say so already"),
        ):
            done = run(folder, {"SLUICE_ADMIN": self.sluice.admin}, *words, "--config", "other.yaml")
            self.assertIn(out, done.stdout, done)

    def test_a_refusal_names_the_command_that_shows_the_history(self):
        class Server(http.server.BaseHTTPRequestHandler):  # whose Redis does not answer
            def do_PATCH(self):
                detail = "it is not known ...; expected a look at GET /v1/rules/history, which has the change"
                self.send_response(503)
                self.send_header("Content-Type", "application/problem+json")
                self.end_headers()
                self.wfile.write(json.dumps({"status": 503, "detail": detail}).encode())

            def log_message(self, *_):
                pass

        peer = http.server.HTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=peer.handle_request).start()
        address = f"127.0.0.1:{peer.server_address[1]}"
        done = subprocess.run([binary(), "rules", "set", "r/l", "limit=2", "--admin", address],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        peer.server_close()
        self.assertEqual((done.returncode, done.stderr),
                         (1, "sluice: rules set: it is not known ...; expected a look at sluice rules history "
                             f"--admin {address}, which has the change\n"))

    def test_without_a_server_the_error_names_its_address(self):
        for words in (("history",), ("show",), ("rollback", "1"), ("diff", "1"), ("set", "a/b", "limit=1")):
            done = subprocess.run([binary(), "rules", *words, "--admin", "127.0.0.1:1"],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("cannot connect to the administration at 127.0.0.1:1: ", done.stderr)


class Prices(RulesOfAServer):
    rules = """version: 1
prices: { meta/large: { in: 30 } }
rules:
  - name: models
    limits:
      - { name: spend, key: "{tenant}", algorithm: budget, limit: 1000, per: never,
          cost: "{tokens|1} * price.in", price: { of: "{model}", default: meta/large } }
"""

    def test_prices_of_a_model_are_changed(self):
        self.assertIn("~ rule models, limit spend: prices.meta/large.in 30 -> 40\n",
                      self.run_ok("set", "prices/meta/large", "in=40"))
        attributes = {"tenant": "a", "model": "meta/large", "tokens": "2"}
        limits = self.sluice.check({"attributes": attributes}).json["limits"]
        self.assertEqual([(one["name"], one["remaining"]) for one in limits][0], ("spend", 920))
        self.assertIn("there is no model 'large'; expected meta/large",
                      self.refused("set", "prices/large", "in=3"))
        self.assertIn("the model 'meta/large' has no price 'inn'; expected in",
                      self.refused("set", "prices/meta%2Flarge", "inn=3"))
        for words, error in [
            (("in=x",), "'in=x' is no price; expected NAME=NUMBER, such as input=4"),
            (("in=1", "in=2"), "'in' is given twice; expected it once"),
            ((), "nothing is changed; expected NAME=NUMBER after prices/m"),
            (("in=1", "--for", "1h"), "--for does not apply to prices; expected it with a rule"),
        ]:
            self.assertIn(error, self.refused("set", "prices/m", *words, status=2))


class NamesOfOtherPlaces(RulesOfAServer):
    rules = """version: 1
rules:
  - { name: prices, limits: [ { name: a, algorithm: gcra, limit: 3, per: 1h } ] }
  - { name: plans, limits: [ { name: b, algorithm: gcra, limit: 3, per: 1h } ] }
"""

    def test_a_rule_may_have_the_name_of_another_place(self):
        self.assertIn("there is no model 'a'", self.refused("set", "prices/a", "limit=5"))
        for place, rule in (("%70rices/a", "prices, limit a"), ("%70lans/b", "plans, limit b")):
            self.assertIn(f"~ rule {rule}: limit 3 -> 5\n", self.run_ok("set", place, "limit=5"))


class Try(ServerTest):
    def setUp(self):
        self.sluice = self.serve(rules=RULES)

    def try_it(self, *words):
        return subprocess.run(
            [binary(), "try", "--server", *words, "--admin", self.sluice.admin],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )

    def test_a_running_server_is_asked_and_counts_only_if_it_is_told(self):
        request = "GET /api/x ip=192.0.2.1 header.x-plan=free"
        for _ in range(3):
            looked = self.try_it(request)
            self.assertEqual((looked.returncode, looked.stderr), (0, ""))
            self.assertIn("rule api: matches; rules after it are not tried\n"
                          "limit api/requests: 2 per 1h (token_bucket), key '192.0.2.1'\n\n"
                          "would be allowed  ok", looked.stdout)
        many = self.try_it(request, "-n", "2000", "--consume")
        self.assertEqual(many.returncode, 2, many)
        self.assertIn("-n 2000 is too many for a server; expected at most 1000", many.stderr)
        taken = self.try_it("GET", "/api/x", "ip=192.0.2.1", "-n", "3", "--consume")
        self.assertIn("\n2  allowed  ok; requests 0 of 2 left\n3  denied  limited", taken.stdout)
        self.assertIn("\nHTTP status 429\n", taken.stdout)
        checked = self.sluice.check({"attributes": {"path": "/api/x", "ip": "192.0.2.1"}})
        self.assertEqual(checked.status, 429)
        wait_for(lambda: "requests tried: 3 taken" in self.sluice.log(), "the line in the log")


class PlansOfARow(RulesOfAServer):
    """What a plan has for budgets in a row: numbers of each, and prices of its own."""

    rules = """version: 1
prices: { big: { in: 3 } }
plans:
  free:
    month: { limit: 100, per: 1d, prices: { big: { in: 2 } } }
    credits: { limit: 5, per: never }
rules:
  - name: models
    plan: { default: free }
    limits:
      - { name: month, key: "{org}", algorithm: budget, cost: "{units} * price.in",
          price: { of: "{model}", default: big },
          overflow: { name: credits, key: "{org}", overflow: { name: reserve, key: "{org}", limit: 9, per: never } } }
"""

    def test_each_number_and_price_is_changed(self):
        for place, change, said in [
            ("plans/free/credits", "limit=6", "~ rule models, limit month: overflow.plans.free.limit 5 -> 6\n"),
            ("models/reserve", "limit=8", "~ rule models, limit month: overflow.overflow.limit 9 -> 8\n"),
            ("plans/free/month", "prices.big.in=4", "~ rule models, limit month: plans.free.prices.big.in 2 -> 4\n"),
        ]:
            self.assertIn(said, self.run_ok("set", place, change))
        answer = self.sluice.check({"attributes": {"org": "a", "units": "20"}}).json
        self.assertEqual([(one["limit"], one["remaining"]) for one in answer["limits"]],
                         [(100, 20), (6, 6), (8, 8)])  # fmt: skip
        self.run_ok("set", "plans/free/month", "prices.big.in=1", "--for", "1h")
        answer = self.sluice.check({"attributes": {"org": "a", "units": "1"}}).json
        self.assertEqual(answer["limits"][0]["remaining"], 19)
        self.run_ok("set", "plans/free", "--for", "0s")
        answer = self.sluice.check({"attributes": {"org": "a", "units": "1"}}).json
        self.assertEqual(answer["limits"][0]["remaining"], 15)

    def test_what_a_plan_does_not_have_is_refused_with_what_to_do(self):
        for place, change, error in [
            ("plans/free/reserve", "limit=7", "expected month or credits, or sluice rules set RULE/reserve for "),
            ("models/credits", "limit=3", "such as sluice rules set plans/free/credits limit=3"),
            ("models/month", "prices.big.in=3", "or plans/PLAN/month prices.big.in=3 for those of a plan"),
            ("plans/free/credits", "prices.big.in=3", "expected sluice rules set prices/big in=3 for the price "),
        ]:
            self.assertIn(error, self.refused("set", place, change))
        for change, error in [("prices.big.in=x", "expected a whole number, such as prices.big.in=4"),
                              ("prices.in=4", "mode, on_store_error or prices.MODEL.NAME")]:  # fmt: skip
            self.assertIn(error, self.refused("set", "plans/free/month", change, status=2))


class StandardStreams(unittest.TestCase):
    def test_input_that_cannot_be_read_is_no_empty_file(self):
        folder = os.open("/", os.O_RDONLY)
        self.addCleanup(os.close, folder)
        for words in (["ledger", "verify", "-"], ["ledger", "sum", "-"], ["rules", "check", "-"], ["decide"],
                      ["rules", "diff", "-", "-"], ["key", "import", "-", "--admin", "127.0.0.1:1"]):  # fmt: skip
            with self.subTest(words):
                ran = subprocess.run([binary(), *words], stdin=folder, capture_output=True, text=True,
                                     timeout=PATIENCE, check=False)  # fmt: skip
                self.assertIn("standard input cannot be read", ran.stderr)
                self.assertEqual(ran.returncode, 2 if "diff" in words else 1)

    def test_decide_fails_if_its_output_is_closed(self):
        limit = {"algorithm": "gcra", "limit": 1, "per": "1s"}
        line = json.dumps({"at_us": 0, "charges": [{"key": "a", "limit": limit}]}) + "\n"
        reading, writing = os.pipe()
        os.close(reading)
        try:
            ran = subprocess.run([binary(), "decide"], input=line, stdout=writing, stderr=subprocess.PIPE,
                                 text=True, timeout=PATIENCE, check=False)  # fmt: skip
        finally:
            os.close(writing)
        self.assertEqual(ran.returncode, 1, ran)


if __name__ == "__main__":
    unittest.main()
