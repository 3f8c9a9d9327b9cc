"""`sluice key`: one key of a server, and files of overrides of many."""

import contextlib
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time
import unittest

from harness import PATIENCE, ServerTest, binary, request, wait_for
from redis_harness import RedisTest

RULES = """
version: 1
plans:
  free: { requests: { limit: 2, per: 1h } }
  pro: { requests: { limit: 5, per: 1h } }
rules:
  - name: api
    plan: { from: "{header.x-plan}", default: free }
    limits: [ { name: requests, key: "{header.x-customer}", algorithm: token_bucket } ]
  - name: a/b
    match: { path: /none }
    limits: [ { name: all, key: "{ip}", algorithm: gcra, limit: 1, per: 1s } ]
"""
COUNTER = "default|api|requests|header.x-customer="


def key(server, *words, text=None):
    return subprocess.run(
        [binary(), "key", *words, "--admin", server.admin],
        capture_output=True, text=True, input=text, timeout=PATIENCE, check=False,
    )


def lines_of(numbers):
    return "".join(
        json.dumps({"counter": COUNTER + str(i), "limit": i % 1000 + 10}) + "\n" for i in numbers
    )


class Budgets(RedisTest):
    def test_what_is_spent_and_held_is_said_in_words(self):
        self.expect_words({})

    def test_what_is_spent_and_held_in_redis(self):
        self.expect_words({"store": self.redis().url})

    def expect_words(self, config):
        sluice = self.serve(config=config, rules="""version: 1
rules:
  - name: models
    limits: [ { name: team, key: "{header.x-team}", algorithm: budget, limit: 1000, per: never } ]
""")
        attributes = {"header.x-team": "search"}

        def spent():
            done = key(sluice, "models", "header.x-team=search")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            return done.stdout.splitlines()[:2]

        self.assertEqual(spent(), ["models/team, key search: 1000 of 1000 left",
                                   "  spent     0, and nothing is held"])
        sluice.check({"attributes": attributes, "cost": 49})
        sluice.check({"attributes": attributes, "cost": 700, "id": "call-1", "hold_ms": 3600000})
        self.assertEqual(spent(), [
            "models/team, key search: 251 of 1000 left",
            "  spent     49, and 700 are held by calls that are not settled"])
        body = json.dumps({"attributes": attributes, "id": "call-1", "actual": 1200})
        request(sluice.http, "POST", "/v1/settle", body, {"Content-Type": "application/json"})
        self.assertEqual(spent(), ["models/team, key search: nothing of 1000 left",
                                   "  spent     1249, and nothing is held"])


class Commands(ServerTest):
    def setUp(self):
        self.sluice = self.serve(rules=RULES)

    def run_ok(self, *words, **options):
        done = key(self.sluice, *words, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout

    def limit_of(self, customer):
        body = {"attributes": {"header.x-customer": customer}, "verb": "peek"}
        return self.sluice.check(body).json["limits"][0]["limit"]

    def test_one_is_set_listed_and_removed(self):
        place = ("api/requests", "header.x-customer=a b")
        line = COUNTER + "a b: limit 100, per 2m, burst 7"
        set_one = (*place, "--set", "limit=100,per=2m", "--set", "burst=7")
        self.assertEqual(self.run_ok(*set_one), line + "; was 2 per 1h\n")
        self.assertEqual(self.limit_of("a b"), 7)
        self.assertEqual(self.run_ok("list"), line + "\n")
        self.assertEqual(self.run_ok("list", "a/b"), "")
        self.change(*place, "--plan", "pro")
        self.assertEqual(self.limit_of("a b"), 5)
        self.run_ok("a%2Fb/all", "ip=::1", "--unlimited", "--until", "2100-01-01T00:00:00Z")
        self.assertIn("ip=::1: unlimited until 2100", self.run_ok("list", "a/b"))
        self.assertEqual(self.change(*place, "--unset")[0], f"removed {COUNTER}a b: plan pro\n")
        self.assertEqual(self.limit_of("a b"), 2)
        self.run_ok(*place, "--set", "limit=100")
        for _ in range(3):
            self.sluice.check({"attributes": {"path": "/api/x", "header.x-customer": "a b"}})
        self.assertRegex(self.change(*place, "--unset")[0],
                         f"removed {re.escape(COUNTER)}a b: limit 100\n"
                         "api/requests: nothing of 2 left.*; --reset fills it\n")
        again = key(self.sluice, *place, "--unset")
        self.assertEqual(again.returncode, 1)
        self.assertEqual(
            again.stderr, f"sluice: key: there is no override of {COUNTER}a b\n"
        )
        other = self.serve(rules=RULES)
        self.run_ok(*place, "--set", "limit=100")
        for status in (0, 1):  # the second time, both have none
            done = key(self.sluice, *place, "--unset", "--admin", other.admin)
            self.assertEqual(done.returncode, status, done)
            self.assertIn(f"sluice: key: {other.admin}: there is no override of ", done.stderr)

    def test_a_limit_of_0_is_said(self):
        place = ("api/requests", "header.x-customer=7")
        said = key(self.sluice, *place, "--set", "limit=0")
        self.assertEqual(said.stdout, f"{COUNTER}7: limit 0; was 2 per 1h\n")
        self.assertEqual(said.stderr, "warning: the limit 0 denies every request of this key; expected at "
                                      "least 1, or --block TIME\n")
        self.assertNotIn("warning", self.change(*place, "--set", "limit=1")[1])

    def change(self, *words):
        done = key(self.sluice, *words)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout, done.stderr

    def test_an_earlier_override_can_be_set_again(self):
        place = ("api", "header.x-customer=it's 4")
        admin = f" --admin {self.sluice.admin}\n"
        undo = "undo: sluice key api 'header.x-customer=it'\\''s 4' "
        lost = "This replaces an override without an end. When this ends, the rule's numbers count again.\n"

        def undone(stderr):
            command = stderr.splitlines()[-1].removeprefix("undo: ")
            subprocess.run(["sh", "-c", command.replace("sluice", binary(), 1)], check=True,
                           capture_output=True, timeout=PATIENCE)
            return self.run_ok("list").removeprefix(COUNTER + "it's 4: ")

        self.run_ok(*place, "--set", "limit=200,per=2m,burst=9")
        given = "--set limit=200,per=2m,burst=9"
        token = self.folder() / "token"
        token.write_text("s3cret-s3cret-s3cret\n")
        stderr = self.change(*place, "--set", "limit=3", "--token-file", token)[1]
        self.assertEqual(stderr, undo + given + admin[:-1] + f" --token-file {token}\n")
        self.assertIn("limit 200", undone(stderr))
        for words in (("--set", "limit=500", "--for", "1h"), ("--plan", "pro", "--for", "1h"),
                      ("--unlimited", "--for", "1h"), ("--block", "15m")):
            _, stderr = self.change(*place, *words)
            self.assertEqual(stderr, lost + undo + given + admin)
            self.assertEqual(undone(stderr), "limit 200, per 2m, burst 9\n")
        for words in (("--block", "forever"), ("--unset",)):
            _, stderr = self.change(*place, *words)
            self.assertEqual(stderr, undo + given + admin)
            self.assertEqual(undone(stderr), "limit 200, per 2m, burst 9\n")
        for before, text in ((("--plan", "pro", "--until", "2100-01-01T00:00:00Z"),
                              "plan pro, until 2100-01-01T00:00:00Z\n"),
                             (("--unlimited",), "unlimited\n"),
                             (("--block", "forever"), "blocked\n")):
            self.change(*place, *before)
            _, stderr = self.change(*place, "--set", "limit=3", "--for", "1h")
            self.assertIn("until 2100" if "until" in text else "without an end", stderr)
            self.assertEqual(undone(stderr), text)
        # A shorter block replaces a longer one; a longer one loses nothing.
        _, stderr = self.change("api/*", *place[1:], "--block", "15m")
        self.assertEqual(stderr, lost + undo.replace("api", "api/requests") + "--block forever" + admin)
        self.run_ok(*place, "--block", "1h")
        # An end after that of the earlier one is no loss.
        self.change(*place, "--set", "limit=3", "--for", "1h")
        self.assertNotIn("replaces", self.change(*place, "--set", "limit=4", "--for", "2h")[1])

    def test_a_key_is_shown_and_reset(self):
        place = ("api", "header.x-customer=a b")
        self.assertEqual(self.run_ok(*place), "api/requests, key a b: 2 of 2 left\n"
                         "  limit     2 per 1h (token_bucket)\n  plan      free\n"
                         f"  counter   {COUNTER}a b\n")
        body = {"attributes": {"header.x-customer": "a b"}, "cost": 2}
        self.assertEqual(self.sluice.check(body).json["outcome"], "allowed")
        shown = self.run_ok(*place)
        self.assertRegex(shown, "nothing of 2 left; the next passes in (30m|29m 5[0-9]s)\n")
        self.assertRegex(shown, "\n  full in   (1h|59m 5[0-9]s)\n")
        answer = json.loads(self.run_ok(*place, "--json"))
        self.assertEqual(answer["limits"][0]["remaining"], 0)
        self.assertIn(": 2 of 2 left\n", self.run_ok(*place, "--reset"))
        self.assertEqual(self.sluice.check(body).json["outcome"], "allowed")
        for words in (("api",), ("api", "--json"), ("api", "header.x-customer=")):
            self.assertEqual(self.error_of(*words), "sluice: key: the key of the limit api/requests "
                             "needs header.x-customer; expected NAME=VALUE\n")
        self.assertEqual(self.error_of("apj"), "sluice: key: there is no rule 'apj'; expected one "
                                               "of: api, a/b; did you mean 'api'?\n")

    def test_any_limit_is_blocked(self):
        place = ("api", "header.x-customer=c")
        body = {"attributes": {"header.x-customer": "c"}}
        self.run_ok(*place, "--set", "limit=7")
        self.assertRegex(self.change(*place, "--block", "15m")[0],
                         f"^{re.escape(COUNTER)}c: blocked until 20[-0-9T:]+Z; this "
                         "replaced: limit 7\n$")
        answer = self.sluice.check(body).json
        self.assertEqual((answer["outcome"], answer["reason"]), ("denied", "blocked"))
        self.assertIn(", key c: blocked until 20", self.run_ok(*place))
        self.assertRegex(self.run_ok("list"), f"^{re.escape(COUNTER)}c: blocked until 20.*\n$")
        self.assertEqual(self.run_ok(*place, "--unblock"), f"{COUNTER}c: not blocked\n")
        self.assertEqual(self.sluice.check({**body, "cost": 2}).json["outcome"], "allowed")
        # The end of a block does not fill the limit, and says so.
        self.run_ok(*place, "--block", "15m")
        self.assertRegex(self.run_ok(*place, "--unblock"),
                         f"^{re.escape(COUNTER)}c: not blocked\napi/requests: nothing of 2 left; "
                         "the next passes in [0-9ms ]+; --reset fills it\n$")
        self.run_ok(*place, "--block", "2100-01-01T00:00:00Z")
        self.assertIn("blocked until 2100", self.run_ok("list"))
        self.assertEqual(self.change(*place, "--block", "forever")[0], f"{COUNTER}c: blocked\n")
        self.assertIn(", key c: blocked\n", self.run_ok(*place))
        self.run_ok(*place, "--unblock")
        self.assertEqual(self.run_ok("list"), "")
        place = ("api/*", "header.x-customer=c")
        self.assertEqual(self.run_ok(*place, "--block", "forever"), f"{COUNTER}c: blocked\n")
        self.run_ok(*place, "--unblock")
        self.assertEqual(self.run_ok("list"), "")

    def test_what_is_given_ends(self):
        self.run_ok("api", "header.x-customer=d", "--set", "limit=9", "--for", "1h")
        self.assertIn(": limit 9, until 20", self.run_ok("list"))
        shown = self.run_ok("api", "header.x-customer=d")
        self.assertIn("  limit     9 per 1h (token_bucket)\n  plan      free\n  override  limit 9, until 20", shown)

    def test_the_plan_of_an_override_that_is_gone_has_no_effect(self):
        server = self.serve(rules=RULES)
        key(server, "api", "header.x-customer=1", "--plan", "pro")
        server.admin_request("PUT", "/v1/rules", RULES.replace("pro:", "gold:"))
        self.assertIn("  plan      free\n  override  plan pro, without effect on the active rules\n",
                      key(server, "api", "header.x-customer=1").stdout)

    def test_a_list_is_sorted_and_ends_at_its_maximum(self):
        for i in range(12):
            self.run_ok("api", f"header.x-customer={i}", "--set", "limit=9")
        done = key(self.sluice, "list", "--max", "2")
        self.assertEqual((len(done.stdout.splitlines()), done.stderr),
                         (2, "sluice: key list: there may be more; --max N shows more\n"))
        lines = self.run_ok("list", "--max", "12").splitlines()
        self.assertEqual((len(lines), lines), (12, sorted(lines)))

    def test_an_export_is_imported_by_another_server(self):
        self.run_ok("api/requests", 'header.x-customer=a,"b"', "--set", "limit=7")
        self.run_ok("a%2Fb/all", "ip=::1", "--unlimited")
        for flags in ([], ["--csv"]):
            exported = self.run_ok("export", *flags)
            other = self.serve(rules=RULES)
            done = key(other, "import", "-", *flags, text=exported)
            self.assertEqual(done.stdout, "-: set 2 overrides, 2 of them new\n", done)
            again = key(other, "export", *flags).stdout
            self.assertEqual(sorted(again.splitlines()), sorted(exported.splitlines()))

    def test_a_csv_of_customers_is_imported_and_survives_a_restart(self):
        file = self.sluice.folder / "customers.csv"
        file.write_text("rule,limit_name,header.x-customer,limit,plan\n"
                        "api,requests,42,100,\napi,requests,43,,pro\n")
        self.assertEqual(self.run_ok("import", str(file), "--dry-run"),
                         f"{file}: ok, 2 overrides, 2 of them new\n")
        self.assertEqual(self.limit_of("42"), 2)
        self.run_ok("import", str(file))
        self.assertEqual((self.limit_of("42"), self.limit_of("43")), (100, 5))
        self.sluice.stop()
        self.sluice = self.serve(flags=["--rules", str(self.sluice.rules_file)])
        self.assertEqual((self.limit_of("42"), self.limit_of("43")), (100, 5))

    def test_a_wrong_line_applies_nothing(self):
        file = self.sluice.folder / "many.jsonl"
        self.assertEqual(key(self.sluice, "a%2Fb", "ip=192.0.2.1", "--plan", "pro").stderr,
                         "sluice: key: the rule 'a/b' has no plans; expected --set limit=N, --block "
                         "TIME or --unlimited\n")
        wrong = json.dumps({"counter": COUNTER + "1", "plan": "prp"})
        file.write_text(lines_of(range(50_000)) + "\n" + wrong + "\n" + lines_of(range(9)))
        done = key(self.sluice, "import", str(file))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(
            done.stderr,
            f"{file}:50002: there is no plan 'prp'; expected one of: free or pro\n",
        )
        self.assertEqual(self.run_ok("list"), "")

    def test_several_servers_are_asked(self):
        other = self.serve(rules=RULES)
        self.run_ok("api/requests", "header.x-customer=7", "--set", "limit=100")
        words = ["api/requests", "header.x-customer=7", "--admin", other.admin]
        done = key(self.sluice, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        others, mine = done.stdout.split(self.sluice.admin + ":\n")
        self.assertTrue(others.startswith(other.admin + ":\napi/requests"), others)
        self.assertIn("override  limit 100", mine)
        self.assertNotIn("override", others)
        other.stop()
        done = key(self.sluice, *words)
        self.assertEqual(done.returncode, 1)
        self.assertIn("override  limit 100", done.stdout)
        self.assertIn(f"sluice: key: {other.admin}: cannot connect", done.stderr)

    def test_a_server_that_does_not_answer_is_named(self):
        address = self.sluice.admin
        self.sluice.stop()
        done = key(self.sluice, "list")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot connect to the administration at {address}: ", done.stderr)

    def test_a_server_that_hangs_is_left_and_may_still_act(self):
        self.sluice.signal(signal.SIGSTOP)
        self.addCleanup(self.sluice.signal, signal.SIGCONT)
        place = ("api/requests", "header.x-customer=7", "--timeout", "0.5")
        done = key(self.sluice, *place, "--set", "limit=5")
        self.assertEqual(done.returncode, 1)
        may = "; it may still take effect: look before you repeat it"
        self.assertTrue(done.stderr.endswith(may + "\n"), done.stderr)
        self.assertNotIn(may, key(self.sluice, *place).stderr)

    def test_every_address_of_a_name_is_tried(self):
        hosts = self.sluice.folder / "hosts"
        hosts.write_text("::1 localhost\n127.0.0.1 localhost\n")
        port = self.sluice.admin.rsplit(":", 1)[1]
        command = f"{binary()} key list --admin localhost:{port}"
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", f"mount --bind {hosts} /etc/hosts || exit 77; {command}"],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest("a file cannot be put over /etc/hosts: " + done.stderr)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)

    def test_the_token_is_sent(self):
        folder = self.folder()
        token = folder / "token"
        token.write_text("a-token-of-this-test\n")
        token.chmod(0o600)
        self.sluice = self.serve(rules=RULES, config={"admin": {"token_file": str(token)}})
        refused = key(self.sluice, "list")
        self.assertEqual(refused.returncode, 1)
        expected = "; expected --token-file with the file of its token, or --config with the configuration file of the server\n"
        self.assertEqual(
            refused.stderr,
            f"sluice: key list: the administration at {self.sluice.admin} requires a token"
            + expected,
        )
        self.run_ok("list", "--token-file", str(token))
        other = folder / "other"
        other.write_text("another-token-of-this-test\n")
        other.chmod(0o600)
        refused = key(self.sluice, "list", "--token-file", str(other))
        self.assertTrue(refused.stderr.endswith(" refused the token" + expected), refused)

    def error_of(self, *words, status=1, text=None, server=None):
        done = key(server or self.sluice, *words, text=text)
        self.assertEqual(done.returncode, status, done)
        return done.stderr

    def test_a_misspelled_column_is_named(self):
        file = self.sluice.folder / "c.csv"
        unread = "the key of the limit 'requests' does not read the attribute "
        file.write_text("rule,limit_name,header.x-customer,limt\napi,requests,42,100\n")
        self.assertEqual(
            self.error_of("import", str(file)),
            f"{file}:1: {unread}'limt'; expected header.x-customer; did you mean 'limit'?\n",
        )
        file.write_text("rule,limit_name,header.x-custmer,limit\napi,requests,42,100\n")
        self.assertEqual(
            self.error_of("import", str(file)),
            f"{file}:1: {unread}'header.x-custmer'; expected header.x-customer; did you mean "
            "'header.x-customer'?\n",
        )

    def test_attributes_are_checked(self):
        place = ("api/requests", "header.x-customer=1")
        self.assertEqual(
            self.error_of(*place, "header.x-customer=2", "--block", "forever", status=2),
            "sluice: key: the attribute 'header.x-customer' is given twice; expected it "
            "once\n",
        )
        self.assertEqual(
            self.error_of(*place, "limt=2", "--block", "forever"),
            "sluice: key: the key of the limit 'requests' does not read the attribute "
            "'limt'; expected header.x-customer\n",
        )
        self.assertEqual(
            self.error_of(*place, "x", "--block", "forever", status=2),
            "sluice: key: 'x' is not an attribute; expected NAME=VALUE\n",
        )
        self.assertEqual(
            self.error_of("api", "ip=127.0.0.300", status=2),
            "sluice: key: '127.0.0.300' is not an address; expected one such as 192.0.2.1\n",
        )

    def test_an_address_is_that_of_a_gateway(self):
        rules = """version: 1
rules: [ { name: login, limits: [ { name: address, key: "{ip}", algorithm: gcra, limit: 9, per: 1h,
                                    block: { after: 9, within: 1m, for: 1m } } ] } ]
"""
        server = self.serve(rules=rules, config={"trusted_proxies": ["127.0.0.1"]})

        def status(address):
            return server.auth("GET", "/", ip=address).status

        for written, address in (("2001:DB8:0::5", "2001:db8::5"), ("::ffff:192.0.2.55", "192.0.2.55")):
            said = f"ip={written} is {address} at a gateway, and is used so (docs/keys.md)\n"
            for words, expected in ((("--block", "5m"), 429), (("--unblock",), 200)):
                done = key(server, "login", "ip=" + written, *words)
                self.assertEqual((done.returncode, done.stderr), (0, said), done)
                self.assertIn(f"default|login|address|ip={address}: ", done.stdout)
                self.assertEqual(status(address), expected)
            looked = key(server, "login", "ip=" + written)
            self.assertIn(f"login/address, key {address}: 8 of 9 left", looked.stdout)
            self.assertIn(": 9 of 9 left", key(server, "login", "ip=" + written, "--reset").stdout)
            changed = key(server, "login", "ip=" + written, "--set", "limit=1")
            self.assertIn(f"ip={address}: limit 1", changed.stdout)
            self.assertEqual([status(address), status(address)], [200, 429])
            self.assertIn(f"ip={address}: limit 1", key(server, "login", "ip=" + written, "--unset").stdout)
        for other in ("notanip", "192.0.2.1 "):
            done = key(server, "login", "ip=" + other, "--block", "5m")
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(done.stderr, f"warning: 'ip={other}' is not an address: it is the key "
                             "only of requests to /v1/check with exactly this text\n")
        self.assertEqual(key(server, "login", "ip=2001:db8::5").stderr, "")

    def test_blocks_of_a_rule_whose_name_is_escaped_in_counters_are_listed(self):
        rules = """version: 1
rules: [ { name: b=1, limits: [ { name: all, key: "{ip}", algorithm: gcra, limit: 1, per: 1h,
                                  block: { after: 1, within: 1m, for: 1h } } ] } ]
"""
        server = self.serve(rules=rules)
        for _ in range(3):
            server.check({"attributes": {"ip": "192.0.2.1"}})
        listed = key(server, "list", "b=1").stdout
        self.assertRegex(listed, r"\Adefault\|b%3D1\|all\|ip=192\.0\.2\.1: blocked until 20\S+\n\Z")
        self.assertEqual(key(server, "list").stdout, listed)
        self.assertIn("default|b%3D1|all|ip=192.0.2.1", key(server, "export", "b=1").stdout)
        # The limit blocks no more.
        without = re.sub(r",\s+block: {[^}]*}", "", rules)
        self.assertEqual(server.admin_request("PUT", "/v1/rules", without).status, 200)
        self.assertEqual(key(server, "list").stdout, listed.rstrip() + ", without effect on the active rules\n")
        self.assertEqual(key(server, "export").stdout, "")

    def test_an_export_has_the_override_of_a_blocked_key(self):
        rules = """version: 1
rules: [ { name: login, limits: [ { name: address, key: "{ip}", algorithm: gcra, limit: 10, per: 1h,
                                    block: { after: 1, within: 1m, for: 1h } } ] } ]
"""
        server, place = self.serve(rules=rules), ("login", "ip=192.0.2.1")
        key(server, *place, "--set", "limit=500")
        key(server, *place, "--block", "15m")
        exported = key(server, "export").stdout
        other = self.serve(rules=rules)
        done = key(other, "import", "-", text=exported)
        self.assertEqual(done.stdout, "-: set 2 overrides, 1 of them new\n", done)
        self.assertIn(": blocked until 20", key(other, *place).stdout)
        self.assertIn("  override  limit 500\n", key(other, *place).stdout)

    def test_the_time_of_a_block_is_checked(self):
        self.assertEqual(
            self.error_of("api/requests", "header.x-customer=1", "--block", "15min", status=2),
            "sluice: key: --block: '15min' has an unknown unit 'min'; expected a whole number and "
            "its unit (ms, s, m, h or d), such as 15m, an instant such as 2027-10-01T00:00:00Z, or "
            "forever\n",
        )
        for instant in "2027-01-01", "2027-01-01T00:00:00+24:00":
            self.assertEqual(
                self.error_of("api/requests", "header.x-customer=1", "--block", instant, status=2),
                f"sluice: key: --block '{instant}' is no instant; expected one such as 2027-10-01T00:00:00Z\n")

    def test_a_rule_in_shadow_mode_blocks_nothing_and_says_so(self):
        server = self.serve(rules=RULES.replace("name: api", "name: api\n    mode: shadow"))
        place = ("api", "header.x-customer=1")
        for words in ((), ("--block", "15m"), ("--block", "forever")):
            self.assertEqual(key(server, *place, *words).stderr.splitlines()[-1],
                             "The rule api is in shadow mode, so that it denies nothing.")

    def test_overrides_of_a_rule_that_is_gone_can_be_moved_and_removed(self):
        self.run_ok("a%2Fb/all", "ip=::1", "--unlimited")
        self.run_ok("api/requests", "header.x-customer=1", "--set", "limit=7")
        self.sluice.stop()
        rules = self.sluice.rules_file
        rules.write_text(RULES.replace("name: a/b", "name: c"))
        self.sluice = self.serve(flags=["--rules", str(rules)])
        gone = "default|a/b|all|ip=::1"
        self.assertEqual(self.run_ok("list", "a/b"), f"{gone}: unlimited\n")
        self.assertIn("there is no rule 'a/c', and no override of it",
                      self.error_of("list", "a/c"))
        exported = sorted(self.run_ok("export").splitlines())
        self.assertIn(gone, exported[0])
        text = "\n".join(exported) + "\n"
        self.assertEqual(
            self.error_of("import", "-", text=text),
            "-:1: there is no rule 'a/b'; expected one of: api or c; --skip-unknown leaves out "
            "such lines\n",
        )
        self.assertEqual(
            self.run_ok("import", "-", "--skip-unknown", text=text),
            "-: set 1 overrides, 0 of them new; 1 left out, of rules or limits that are not there "
            "(line 1)\n",
        )
        self.assertEqual(self.run_ok("--unset", "--counter", gone), f"removed {gone}: unlimited\n")
        self.assertEqual(len(self.run_ok("list").splitlines()), 1)

    def test_keys_that_are_not_utf8_survive_an_export(self):
        path = "/v1/overrides?counter="
        counter = COUNTER + "a%FFb%25"
        line = json.dumps({"counter": counter, "limit": 7}) + "\n"
        self.run_ok("import", "-", text=line)
        for flags in ([], ["--csv"]):
            exported = self.run_ok("export", *flags)
            self.assertIn(counter, exported)
            self.assertEqual(self.run_ok("import", "-", *flags, text=exported),
                             "-: set 1 overrides, 0 of them new\n")
        self.assertEqual(self.run_ok("--unset", "--counter", counter),
                         f"removed {counter}: limit 7\n")
        self.assertEqual(self.sluice.admin_request("DELETE", path + "x").status, 400)

    def test_an_empty_file_is_refused(self):
        none = "-: there are no overrides; expected at least one\n"
        self.assertEqual(self.error_of("import", "-", text=""), none)
        self.assertEqual(self.error_of("import", "-", "--csv", text="counter,limit\n"), none)

    def test_a_peer_that_is_not_sluice_is_named(self):
        class Other(http.server.BaseHTTPRequestHandler):
            answer = b"<html>"

            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(self.answer)

            do_PUT = do_DELETE = do_GET

            def do_POST(self):
                self.send_error(404)

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
            thread = threading.Thread(target=other.serve_forever)
            thread.start()
            with contextlib.ExitStack() as stack:
                stack.callback(thread.join)
                stack.callback(other.shutdown)
                address = f"127.0.0.1:{other.server_port}"
                peer = type("Peer", (), {"admin": address})
                for words in (("list",), ("import", "-"), ("--unset", "--counter", "a|b|c"),
                              ("a/b", "c=1", "--block", "forever")):
                    self.assertEqual(
                        self.error_of(*words, text=lines_of([1]), server=peer),
                        f"sluice: key{' list' if words[0] == 'list' else ''}: {address} did not answer like the "
                        "administration of Sluice\n" if words[0] != "import" else
                        f"-: {address} did not answer like the administration of Sluice\n",
                    )
                Other.answer = b"{}"
                for words in ((), ("--json",), ("--reset",), ("--block", "5m"), ("--unblock",),
                              ("--set", "limit=1")):
                    self.assertEqual(
                        self.error_of("api", "header.x-customer=1", *words, server=peer),
                        f"sluice: key: {address} did not answer like the administration of Sluice\n")

    def test_an_import_that_fails_says_which_lines_may_be_set(self):
        file = self.sluice.folder / "many.jsonl"
        file.write_text("\n" + lines_of(range(50_000)))
        in_the_way = self.sluice.folder / "overrides.txt.tmp"
        in_the_way.mkdir()
        self.addCleanup(in_the_way.rmdir)
        error = self.error_of("import", str(file))
        self.assertIn("overrides.txt.tmp: File exists; some lines up to line 50001 may be set; "
                      "expected another import of the file\n", error)
        self.assertEqual(error.count("."), error.replace("..", "").count("."))

    def test_very_many_lines_are_imported_and_exported(self):
        count = 1_000_000 if os.environ.get("SLUICE_LONG_TESTS") else 60_000
        file = self.sluice.folder / "many.jsonl"
        file.write_text(lines_of(range(count)))
        began = time.monotonic()
        self.assertEqual(self.run_ok("import", str(file)),
                         f"{file}: set {count} overrides, {count} of them new\n")
        took = time.monotonic() - began
        began = time.monotonic()
        self.assertEqual(len(self.run_ok("export").splitlines()), count)
        print(f"{count} lines: imported in {took:.1f} s, exported in {time.monotonic() - began:.1f} s")
        self.assertEqual(self.limit_of("59999"), 1009)


class Fleet(RedisTest):
    def test_a_block_ends_once_for_all_servers_of_a_redis(self):
        rules = """version: 1
rules:
  - name: shared
    match: { path: /shared }
    limits: [ { name: hour, key: "{ip}", algorithm: fixed_window, limit: 1, per: 1d } ]
  - name: login
    limits: [ { name: hour, key: "{ip}", algorithm: fixed_window, limit: 1, per: 1d,
                block: { after: 9, within: 1m, for: 1m } } ]
"""
        store = {"store": self.redis().url}
        first, second = (self.serve(rules=rules, config=store) for _ in range(2))
        both = ("--admin", second.admin)  # and the first, which is asked last
        spent = "/hour: nothing of 1 left; the next passes in "
        for rule in ("shared", "login"):
            first.check({"attributes": {"path": "/" + rule, "ip": "192.0.2.1"}})
            line = f"default|{rule}|hour|ip=192.0.2.1: not blocked\n"
            key(first, rule, "ip=192.0.2.1", "--block", "5m", *both)
            done = key(first, rule, "ip=192.0.2.1", "--unblock", *both)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            self.assertNotIn("blocked until", done.stdout)
            self.assertEqual(done.stdout.count(line), 2, done)
            self.assertIn(f"{second.admin}:\n{line}{rule}{spent}", done.stdout)
            again = key(first, rule, "ip=192.0.2.1", "--unblock", *both)
            self.assertEqual(again.returncode, 1)
            self.assertEqual(again.stderr, "sluice: key: the key was not blocked; expected one of "
                             "sluice key list\n")

    def test_every_server_follows_an_import(self):
        redis = self.redis()
        first, second = (self.serve(rules=RULES, config={"store": redis.url}) for _ in range(2))
        count = 30_000
        began = time.monotonic()
        done = key(first, "import", "-", text=lines_of(range(count)))
        self.assertEqual(done.stdout, f"-: set {count} overrides, {count} of them new\n", done)
        print(f"{count} in Redis: imported in {time.monotonic() - began:.1f} s")
        for server in (first, second):
            wait_for(
                lambda server=server: server.admin_request("GET", "/v1/overrides?count=1").json["total"]
                == count,
                what="all overrides",
            )


if __name__ == "__main__":
    unittest.main()
