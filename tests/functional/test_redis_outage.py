"""An outage as an operator lives it: Redis is killed, its rules are lost, a customer complains."""

import datetime
import itertools
import json
import re
import subprocess

from harness import PATIENCE, Sluice, binary, wait_for
from redis_harness import RedisTest

RULES = """
version: 1
rules:
  - name: login
    match: { path: /login }
    limits:
      - { name: address, key: "{ip}", algorithm: fixed_window, limit: 3, per: 1h, block: { after: 99, within: 1m, for: 1m } }
  - name: api
    limits: [ { name: customer, key: "{header.x-customer}", algorithm: gcra, limit: 2, per: 1h } ]
"""
LOGIN = {"attributes": {"path": "/login", "ip": "192.0.2.7"}}
CUSTOMER = {"attributes": {"path": "/v1/items", "header.x-customer": "42"}}


def sluice(*words, ends_with=0):
    done = subprocess.run(
        [binary(), *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    if done.returncode != ends_with:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def status(server):
    return server.admin_request("GET", "/v1/status").json


def patch(server, rule, **body):
    answer = server.admin_request("PATCH", f"/v1/rules/{rule}", json.dumps(body))
    if answer.status != 200:
        raise AssertionError(answer)
    return answer.json


def ask(server, body):
    answer = server.check(body)
    return answer.status, answer.json.get("reason")


class Outage(RedisTest):
    def setUp(self):
        self.server = self.redis()
        self.texts = self.folder()
        (self.texts / "rules.yaml").write_text(RULES)
        self.push()

    def tearDown(self):
        self.doClassCleanups()

    def push(self, name="rules.yaml"):
        return sluice("rules", "push", self.texts / name, "--store", self.server.url)

    def follow(self, **redis):
        return self.serve(config={"store": self.server.url, "rules": "redis", "redis": redis})

    def until_out(self, server):
        wait_for(lambda: "outage" in status(server), "the outage")
        wait_for(lambda: "refuses connections" in status(server)["outage"]["why"], "its cause")

    def test_redis_is_killed_at_night(self):
        # A question to Redis that was sent before its end begins the outage.
        began = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        servers = [self.follow(), self.follow()]
        for server in servers:
            self.assertNotIn("outage", status(server))
            self.assertEqual(ask(server, LOGIN), (200, "ok"))
        self.server.kill()
        # Nobody asks, and the outage shows nevertheless.
        for server in servers:
            self.until_out(server)
        outage = status(servers[0])["outage"]
        address = self.server.url.removeprefix("redis://").split("/")[0]
        self.assertEqual(outage["why"], f"Redis at {address} refuses connections")
        self.assertEqual(
            outage["rules"], [{"name": "login", "does": "allow"}, {"name": "api", "does": "allow"}]
        )
        since = datetime.datetime.fromisoformat(outage["since"])
        self.assertTrue(began <= since <= datetime.datetime.now(datetime.timezone.utc), since)

        for words, ends_with in ((("status",), 1), (("top", "--once"), 0)):
            said = sluice(*words, "--admin", servers[0].admin, ends_with=ends_with)
            self.assertIn("OUTAGE since ", said)
            self.assertIn(f"Redis at {address} refuses connections", said)

        # Both rules are open. The operator closes one on each server, for an hour.
        for server in servers:
            self.assertEqual(ask(server, LOGIN), (200, "fallback"))
        admins = [word for server in servers for word in ("--admin", server.admin)]
        said = sluice("rules", "set", "login", "on_store_error=deny", "--for", "1h", *admins)
        for server in servers:
            until = status(server)["temporary"][0]["until"]
            self.assertIn(
                f"{server.admin}:\n~ rule login: on_store_error allow -> deny\n"
                f"version 2 of this server, active until {until}\n",
                said,
            )
            wait_for(lambda s=server: ask(s, LOGIN) == (429, "fallback"), "the closed rule")
            self.assertEqual(ask(server, CUSTOMER), (200, "fallback"))
            self.assertEqual(
                status(server)["outage"]["rules"][0], {"name": "login", "does": "deny"}
            )
        for _ in range(10):  # the breaker is open now
            ask(servers[0], CUSTOMER)
        wait_for(lambda: "event=breaker_opened" in servers[0].log(), "the breaker")
        for change in (("--unblock",), ("--block", "1h"), ("--reset",), ("--set", "limit=9")):
            done = subprocess.run(
                [binary(), "key", "login", "ip=192.0.2.9", *change, *admins[:2]],
                capture_output=True, text=True, timeout=PATIENCE, check=False,
            )
            self.assertEqual(done.returncode, 1)
            self.assertIn("Redis cannot be reached, and nothing is changed", done.stderr)
        wait_for(lambda: status(servers[0])["outage"]["decided_without"] >= 10, "the count")
        self.assertRegex(
            servers[0].log(), rf'event=breaker_opened .*cause="Redis at {address} refuses connections"'
        )
        # Without `for`, it is until other rules are active; and says why it is not for the fleet.
        changed = patch(servers[0], "api", on_store_error="local")
        self.assertIn("refuses connections", changed["note"])
        self.assertEqual(changed["active_until"], "other rules are active, or the server stops")

        # A change for a time is on top of it, and it counts again afterwards.
        patch(servers[0], "api", on_store_error="deny", **{"for": "1s"})
        wait_for(lambda: "has ended rule=api" in servers[0].log(), "the end of the change")
        self.assertEqual(status(servers[0])["outage"]["rules"][1], {"name": "api", "does": "local"})
        said = sluice("status", *admins, ends_with=1).splitlines()[-1]
        until = status(servers[1])["temporary"][0]["until"]
        self.assertIn(f"have the same rules, except {servers[0].admin}: login (on_store_error deny until ", said)
        self.assertIn(f"), api (on_store_error local); {servers[1].admin}: login "
                      f"(on_store_error deny until {until})", said)

        # Redis is back, and has lost everything.
        self.server.start()
        for server in servers:
            wait_for(lambda s=server: "rules_lost" in status(s), "the lost rules")
            self.assertIn("there are no rules at sluice:rules", status(server)["rules_lost"]["why"])
            self.assertEqual(server.metrics()["sluice_rules_last_reload_successful"], 0)
            self.assertEqual(status(server)["rules"]["failures"], 1)
        wait_for(lambda: ask(servers[0], CUSTOMER)[1] == "ok", "the store decides again")
        wait_for(lambda: "outage" not in status(servers[0]), "the end of the outage")
        self.assertGreaterEqual(status(servers[0])["last_outage"]["decided_without"], 10)

        # A running server still has them, without what was changed for a time.
        text = servers[0].admin_request("GET", "/v1/rules").body.decode()
        self.assertEqual(text, RULES)
        (self.texts / "saved.yaml").write_text(text)
        self.push("saved.yaml")
        for server in servers:
            wait_for(lambda s=server: "rules_lost" not in status(s), "the rules")
            self.assertEqual(server.metrics()["sluice_rules_last_reload_successful"], 1)
            self.assertEqual([one["rule"] for one in status(server).get("temporary", [])], ["login"])
        sluice("rules", "set", "login", "--for", "0s", *admins)
        for server in servers:
            self.assertNotIn("temporary", status(server))
        # Now a change is for the fleet again, and in the history.
        self.assertEqual(patch(servers[0], "login", on_store_error="local")["where"], "all servers")
        wait_for(
            lambda: "on_store_error: local" in servers[1].admin_request("GET", "/v1/rules").body.decode(),
            "the change on the other server",
        )
        self.assertIn(
            "PATCH /v1/rules/login", sluice("rules", "history", "--store", self.server.url)
        )

        # A customer complains: their counter, and more for them.
        wait_for(lambda: ask(servers[0], CUSTOMER)[0] == 429, "the limit of the customer")
        place = "/v1/keys?rule=api&header.x-customer=42"
        limits = lambda: servers[1].admin_request("GET", place).json.get("limits")
        wait_for(limits, "the other server has reached Redis again")
        self.assertEqual((limits()[0]["limit"], limits()[0]["remaining"]), (2, 0))
        said = sluice("key", "api", "header.x-customer=42", "--admin", servers[1].admin)
        self.assertIn("customer", said)
        more = ("--set", "limit=100", "--for", "1h")
        command = ("key", "api", "header.x-customer=42", *more, "--admin", servers[1].admin)
        # Overrides have a connection of their own to Redis, which was away for a while.
        wait_for(
            lambda: subprocess.run(
                [binary(), *command], capture_output=True, timeout=PATIENCE, check=False
            ).returncode == 0,
            "the override",
        )
        wait_for(lambda: ask(servers[0], CUSTOMER)[0] == 200, "the override on the other server")

    def test_rules_that_went_back_are_on_top(self):
        server = self.follow()
        self.assertTrue(status(server)["rules"]["by"].startswith("the start, with push 1 to Redis by "))
        old = self.server.command("DUMP", "sluice:rules")
        (self.texts / "rules.yaml").write_text(RULES + "# changed")
        self.push()
        wait_for(lambda: "push 2 to Redis" in status(server)["rules"]["by"], "the push")
        self.server.command("RESTORE", "sluice:rules", 0, old, "REPLACE")  # as by an older dump
        wait_for(lambda: "rules_older" in status(server), "the older rules")
        self.assertEqual(server.metrics()["sluice_rules_last_reload_successful"], 0)
        said = sluice("status", "--admin", server.admin, ends_with=1)
        self.assertRegex(said, r"\ARULES WENT BACK since .*: Redis came back with push 1 to ")
        self.assertIn(", and push 2 to Redis by ", said)
        self.assertIn("error the rules went back", server.log())
        self.push()
        wait_for(lambda: "rules_older" not in status(server), "the newer rules")

    def test_a_redis_that_is_silent_is_an_outage_too(self):
        server, idle = self.follow(deadline="50ms"), self.follow(deadline="50ms")
        self.assertEqual(ask(server, LOGIN), (200, "ok"))
        self.server.pause()
        wait_for(lambda: ask(server, CUSTOMER) and "outage" in status(server), "the outage")
        said = r"does not answer|has not answered"
        wait_for(lambda: re.search(said, status(server).get("outage", {}).get("why", "")), "why")
        # A server that nobody asks says so, too, whatever becomes of its connections.
        wait_for(lambda: "the overrides in Redis cannot be read" in idle.log(), "a failed question")
        wait_for(lambda: re.search(said, status(idle).get("outage", {}).get("why", "")), "the same")
        # Overrides are known to the server, blocks are not.
        done = subprocess.run([binary(), "key", "export", "--admin", server.admin],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "the blocks cannot be read: .*; 0 lines are printed, and "
                                      "others are missing")
        self.server.resume()
        # Nobody asks, and the server sees nevertheless that Redis is back.
        for one in (server, idle):
            wait_for(lambda one=one: "outage" not in status(one), "its end")

    def test_a_connection_for_overrides_that_is_refused_is_no_outage(self):
        server = self.follow(deadline=f"{PATIENCE}s")
        self.assertEqual(ask(server, LOGIN), (200, "ok"))
        with self.server.connection() as redis:
            redis("CONFIG", "SET", "maxclients", 1)
            for line in redis("CLIENT", "LIST").decode().splitlines():
                if " name=sluice " in line and " cmd=hmget " in line:
                    redis("CLIENT", "KILL", "ID", line.split()[0].removeprefix("id="))
            wait_for(lambda: "the overrides in Redis cannot be read" in server.log(), "a refused connection")
            times = lambda: redis("INFO", "commandstats").decode().partition("cmdstat_time:calls=")[2].split(",")[0]
            seen = set()

            def is_asked():  # the connection that decides, three times
                self.assertNotIn("outage", status(server))
                seen.add(times())
                return len(seen) > 3

            wait_for(is_asked, "the questions")
            redis("CONFIG", "SET", "maxclients", 10000)
        wait_for(lambda: "the overrides in Redis can be read again" in server.log(), "the end")

    def test_a_change_of_one_server_without_an_end_needs_attention(self):
        servers = [self.follow(deadline="50ms"), self.follow(deadline="50ms")]
        admins = [word for server in servers for word in ("--admin", server.admin)]
        self.server.pause()
        wait_for(lambda: "outage" in status(servers[0]), "the outage")
        self.assertIn("note", patch(servers[0], "api", mode="shadow"))
        self.server.resume()
        for one in servers:
            wait_for(lambda one=one: "outage" not in status(one), "its end")
        said = sluice("status", *admins, ends_with=1).splitlines()[-1]
        same = "all servers that answered have the same rules"
        self.assertEqual(said, f"{same}, except {servers[0].admin}: api (mode shadow)")
        sluice("rules", "set", "api", "--for", "0s", *admins[:2])
        self.assertEqual(sluice("status", *admins).splitlines()[-1], same)

    def test_an_outage_counts_the_requests_before_the_breaker_opens(self):
        server = self.follow(deadline="500ms")
        total = lambda: server.admin_request("GET", "/v1/history").json["total"].get("failed", [])
        self.assertEqual(ask(server, CUSTOMER), (200, "ok"))
        self.server.pause()
        failed = 4
        for _ in range(failed):
            self.assertEqual(ask(server, CUSTOMER), (200, "fallback"))
        # They are in a second that has ended when the breaker opens.
        wait_for(lambda: sum(total()) == failed, "the count")
        for _ in range(6):
            self.assertEqual(ask(server, CUSTOMER), (200, "fallback"))
        failed += 6
        wait_for(lambda: "event=breaker_opened" in server.log(), "the breaker")
        count = lambda name: status(server).get(name, {}).get("decided_without")
        wait_for(lambda: count("outage") == failed, "the count during the outage")
        self.server.resume()
        wait_for(lambda: "outage" not in status(server), "the end of the outage")
        self.assertEqual(count("last_outage"), failed)

    def test_a_full_redis_is_on_top(self):
        server = self.follow()
        self.server.command("CONFIG", "SET", "maxmemory", "1mb")
        def asks():
            ask(server, {"attributes": {"path": "/login", "ip": f"192.0.2.{next(self.addresses)}"}})
            return status(server).get("full")
        self.addresses = itertools.cycle(range(256))
        wait_for(asks, "the full store")
        for words in (["status"], ["top", "--once", "--interval", "0.1"]):
            said = sluice(*words, "--admin", server.admin, ends_with=int(words[0] == "status"))
            self.assertRegex(said, r"\ASTORE FULL since .*: its memory is full\n  meanwhile, for keys "
                                   r"without a counter \(new clients\), everything passes: login, api\n")
        for words in (["key", "login", "ip=192.0.2.1"], ["try", "--server", "POST /login ip=192.0.2.1"]):
            done = subprocess.run([binary(), *words, "--admin", server.admin], capture_output=True, text=True,
                                  timeout=PATIENCE, check=True)
            self.assertRegex(done.stdout, r"\ASTORE FULL since .*\n  meanwhile, for keys without a counter")
        blocks = ("key", "login", "ip=192.0.2.1", "--block", "5m", "--admin", server.admin)
        for words, why in ((blocks, "the store is full"), (blocks[:3] + ("--set", "limit=9") + blocks[5:], "OOM")):
            done = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(why, done.stderr)
        self.server.command("CONFIG", "SET", "maxmemory", "0")

    def test_lost_overrides_are_on_top_until_they_are_set_again(self):
        server = self.follow()
        admin = ("--admin", server.admin)
        command = ("key", "api", "header.x-customer=42", "--set", "limit=100", *admin)
        wait_for(lambda: subprocess.run([binary(), *command], capture_output=True, timeout=PATIENCE,
                                        check=False).returncode == 0, "the override")
        sluice("key", "api", "header.x-customer=43", "--block", "2100-01-01T00:00:00Z", *admin)
        sluice("key", "api", "header.x-customer=44", "--unlimited", *admin)
        kept = sorted(sluice("key", "export", *admin).splitlines())
        self.assertEqual(sluice("key", "export", "--lost", *admin), "")
        self.server.kill()
        self.server.start()
        wait_for(lambda: "overrides_lost" in status(server), "the loss")
        self.push()
        self.assertRegex(sluice("status", *admin, ends_with=1),
                         r"OVERRIDES LOST \(3\) since .*: Redis came back without them; to set them again: "
                         r"sluice key export --lost \| sluice key import -\n"
                         r"  they are: default\|api\|customer\|header.x-customer=42, ")
        sluice("key", "export", *admin, ends_with=1)  # it would replace a good one
        self.assertEqual(sluice("key", "export", "--lost", *admin).splitlines(), kept)
        # One is set again, another one is not wanted any more.
        sluice("key", "api", "header.x-customer=42", "--set", "limit=7", *admin)
        lost = "default|api|customer|header.x-customer=44"
        self.assertEqual(sluice("key", "--unset", "--counter", lost, *admin), f"removed {lost}: unlimited\n")
        wait_for(lambda: f"lost override forgotten: {lost}" in server.log(), "the line in the log")
        sluice("key", "--unset", "--counter", lost, *admin, ends_with=1)
        self.assertEqual(status(server)["overrides_lost"]["count"], 1)
        (self.texts / "lost.jsonl").write_text(sluice("key", "export", "api", "--lost", *admin))
        self.assertEqual(sluice("key", "export", "other", "--lost", *admin), "")
        sluice("key", "import", self.texts / "lost.jsonl", *admin)
        self.assertNotIn("overrides_lost", status(server))
        self.assertEqual(sorted(sluice("key", "export", *admin).splitlines()),
                         [kept[0].replace("100", "7"), kept[1]])

    def test_a_change_for_a_time_ends_by_itself_and_the_log_says_so(self):
        server = self.follow()
        patch(server, "login", mode="shadow", **{"for": "1s"})
        said = "a temporary change of a rule has ended rule=login key=mode was=shadow"
        wait_for(lambda: said in server.log(), "the end of the change")
        self.assertNotIn("temporary", status(server))

    def test_a_server_starts_with_its_last_rules(self):
        folder = self.folder()
        config = {"store": self.server.url, "rules": "redis",
                  "redis": {"rules_cache": str(folder / "rules.cache")}}
        first = Sluice(folder, config=config)
        self.addCleanup(first.stop)
        self.assertEqual(first.stop(), 0)
        self.server.kill()
        second = Sluice(folder, config=config)
        self.addCleanup(second.stop)
        for said in ("waiting for the rules in Redis",
                     "the server starts with those that it had last"):
            wait_for(lambda said=said: said in second.log(), said)
        lost = status(second)["rules_lost"]["why"]
        self.assertIn(f"the rules of {folder}/rules.cache are active, pushed 20", lost)
        self.assertEqual(ask(second, LOGIN)[0], 200)
        self.server.start()
        self.push()
        wait_for(lambda: "rules_lost" not in status(second), "the rules in Redis")
        self.assertEqual(second.metrics()["sluice_rules_last_reload_successful"], 1)

    def test_a_server_that_starts_says_what_it_waits_for(self):
        self.server.command("DEL", "sluice:rules")
        with self.assertRaises(AssertionError) as ended:
            self.follow()
        self.assertRegex(
            str(ended.exception),
            'waiting for the rules in Redis why="there are no rules at sluice:rules.*at_most_s=5',
        )


if __name__ == "__main__":
    import unittest

    unittest.main()
