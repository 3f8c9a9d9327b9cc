"""Rules in Redis: servers follow a push, and keep their rules if they cannot."""

import concurrent.futures
import json
import os
import re
import subprocess

from harness import PATIENCE, Sluice, binary, free_port, wait_for
from redis_harness import RedisTest, slot_of

RULES = """
version: 1
rules:
  - name: {name}
    limits: [ {{ name: all, algorithm: {algorithm}, limit: {limit}, per: 1h }} ]
"""


def rules(name, limit=5, algorithm="sliding_window_counter"):
    return RULES.format(name=name, limit=limit, algorithm=algorithm)


def sluice(*words, **options):
    return subprocess.run(
        [binary(), *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, check=False,
        **options,
    )


class RedisRules(RedisTest):
    def setUp(self):
        self.server = self.redis()
        self.texts = self.folder()

    def tearDown(self):
        self.doClassCleanups()

    def push(self, text, *more, name="rules.yaml"):
        file = self.texts / name
        file.write_text(text)
        return sluice("rules", "push", name, "--store", self.server.url, *more, cwd=self.texts)

    def pushed(self, text, *more, **options):
        done = self.push(text, *more, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def follow(self, **redis):
        return self.serve(config={"store": self.server.url, "rules": "redis",
                                  "redis": {"deadline": "5s", **redis}})

    def times_asked(self):
        """Returns how often servers have looked for pushed rules."""
        lines = self.server.info("commandstats")
        names = ("cmdstat_hget", "cmdstat_hgetall")
        return sum(int(lines[name].split("calls=")[1].split(",")[0]) for name in names if name in lines)

    @staticmethod
    def limit_of(server):
        return server.check({"attributes": {}}).json["limits"][0]["limit"]

    @staticmethod
    def names(server):
        status = server.admin_request("GET", "/v1/status").json
        return status["rules"]["sources"], status["rules"]["version"]

    def test_two_servers_follow_a_push(self):
        out = self.pushed(rules("one", 5))
        self.assertEqual(out, "sluice:rules: version 1, 1 rule, 1 limit; before no rules\n")
        servers = [self.follow(), self.follow()]
        self.assertEqual([self.limit_of(s) for s in servers], [5, 5])
        self.pushed(rules("one", 7))
        for server in servers:
            wait_for(lambda s=server: self.limit_of(s) == 7, what="the push")

    def test_flags_name_the_store_and_its_rules(self):
        self.pushed(rules("one", 5))
        server = self.serve(flags=("--store", self.server.url, "--rules", "redis"))
        self.assertEqual(self.limit_of(server), 5)
        self.assertEqual(self.names(server), (["redis:rules.yaml"], 1))

    def test_servers_share_the_counters_of_pushed_rules(self):
        self.pushed(rules("shared", 20))
        servers = [self.follow(), self.follow()]
        allowed = sum(s.check({"attributes": {}}).status == 200 for s in servers * 15)
        self.assertEqual(allowed, 20)

    def test_a_server_keeps_its_rules_if_it_cannot_use_the_pushed_ones(self):
        self.pushed(rules("one", 5))
        fine, without_scripts = self.follow(), self.follow(scripting="off")
        self.pushed(rules("two", 7, "gcra"))
        wait_for(lambda: self.limit_of(fine) == 7, what="the push")
        wait_for(lambda: "cannot be stored without scripts" in without_scripts.log(), what="the refusal")
        self.assertIn("redis:rules.yaml:5:", without_scripts.log())
        self.assertEqual(self.limit_of(without_scripts), 5)
        self.pushed(rules("three", 9))
        for server in (fine, without_scripts):
            wait_for(lambda s=server: self.limit_of(s) == 9, what="the next push")

    def test_rules_stay_active_while_redis_is_away_and_follow_it_later(self):
        self.pushed(rules("one", 5))
        server = self.follow()
        self.server.kill()
        wait_for(lambda: "the rules in Redis cannot be read" in server.log(), what="the warning")
        answer = server.check({"attributes": {}})
        self.assertEqual(answer.status, 200, "by on_store_error")
        self.assertEqual(self.names(server)[1], 1)
        self.server.start()
        self.pushed(rules("two", 7))  # version 1 again: Redis has lost all data
        wait_for(lambda: self.limit_of(server) == 7, what="the push after the restart")

    def test_a_server_does_not_start_without_rules_or_without_redis(self):
        def start(url, key):
            redis = {"rules_key": key, "deadline": f"{PATIENCE}s"}
            with self.assertRaises(AssertionError) as failed:
                Sluice(self.folder(), config={"store": url, "rules": "redis", "redis": redis})
            return str(failed.exception)

        self.server.command("SET", "others", "x")
        url, nobody = self.server.url, f"redis://127.0.0.1:{free_port()}"
        with concurrent.futures.ThreadPoolExecutor() as pool:  # each server waits for 5 s
            missing, wrong, away = pool.map(start, (url, url, nobody), ("missing", "others", "rules"))
        self.assertIn("there are no rules at missing; publish them with sluice rules push", missing)
        self.assertIn("WRONGTYPE", wrong)
        self.assertIn(f"no rules could be read from {nobody}: ", away)

    def test_a_server_waits_for_the_first_push(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            def push_late():
                wait_for(lambda: self.times_asked() > 0, "a server that asks for the rules")
                self.pushed(rules("late", 3))

            pushed = pool.submit(push_late)
            server = self.follow()
            pushed.result()
        self.assertEqual(self.limit_of(server), 3)

    def test_rules_put_by_the_administration_are_active_until_the_next_push(self):
        self.pushed(rules("one", 5))
        server = self.follow()
        put = server.admin_request("PUT", "/v1/rules", rules("put", 6))
        self.assertEqual(put.status, 200, put)
        asked = self.times_asked()
        wait_for(lambda: self.times_asked() > asked + 1, "another look at the rules in Redis")
        self.assertEqual(self.limit_of(server), 6)
        self.pushed(rules("two", 7))
        wait_for(lambda: self.limit_of(server) == 7, what="the push")

    def test_concurrent_pushes_are_never_lost_silently(self):
        for i in range(24):
            (self.texts / f"{i}.yaml").write_text(rules(f"rule-{i}"))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            done = list(pool.map(
                lambda i: sluice("rules", "push", f"{i}.yaml", "--store", self.server.url,
                                 cwd=self.texts), range(24)))
        taken = [d for d in done if d.returncode == 0]
        versions = sorted(int(d.stdout.split("version ")[1].split(",")[0]) for d in taken)
        self.assertEqual(versions, list(range(1, len(taken) + 1)))
        for refused in (d for d in done if d.returncode != 0):
            self.assertIn("other rules were pushed at the same time", refused.stderr)
        self.assertEqual(self.server.command("HGET", "sluice:rules", "version").decode(),
                         str(len(taken)))

    def test_a_push_may_require_the_previous_version(self):
        self.assertEqual(self.push(rules("a"), "--expect", 1).returncode, 1)
        self.pushed(rules("a"), "--expect", 0)
        refused = self.push(rules("b"), "--expect", 0)
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(refused.stderr, "sluice: rules push: sluice:rules has version 1; expected "
                                         "version 0 there. Nothing was pushed\n")
        self.pushed(rules("b"), "--expect", 1)

    def test_invalid_unchanged_and_dry_run_rules_are_not_pushed(self):
        wrong = self.push("version: 1\nrules: 7\n")
        self.assertEqual(wrong.returncode, 1)
        self.assertTrue(wrong.stderr.startswith("rules.yaml:2:8: error: "), wrong.stderr)
        self.assertIn("would become version 1", self.pushed(rules("a"), "--dry-run"))
        self.assertEqual(self.server.command("EXISTS", "sluice:rules"), 0)
        self.pushed(rules("a"))
        self.assertEqual(self.pushed(rules("a")),
                         "sluice:rules: version 1 already has these rules\n")

    def test_a_push_says_what_it_changes(self):
        self.assertNotIn("rule", self.pushed(rules("a"), "--dry-run").split("\n", 1)[1])
        self.pushed(rules("a"))
        for text, line, more in [
            (rules("b", 6), "1 rule, 1 limit", "+ rule b\n- rule a\n"),
            ("version: 1\nrules: []\n", "0 rules, 0 limits",
             "- rule a\nthese rules have no limit; before there were 1\n"),
        ]:  # fmt: skip
            self.assertEqual(self.pushed(text, "--dry-run"),
                             f"sluice:rules: would become version 2, {line}; before version 1\n{more}")
        self.assertEqual(self.pushed(rules("b", 6)),
                         "sluice:rules: version 2, 1 rule, 1 limit; before version 1\n"
                         "+ rule b\n- rule a\n")

    def test_shows_the_pushed_rules(self):
        empty = sluice("rules", "show", "--store", self.server.url)
        self.assertEqual(empty.returncode, 1)
        self.assertIn("there are no rules at sluice:rules", empty.stderr)
        self.pushed(rules("a"), "--rules-key", "other", name="a.yaml")
        shown = sluice("rules", "show", "--store", self.server.url, "--rules-key", "other")
        self.assertRegex(shown.stdout,
                         r"\A# a\.yaml \(version 1, pushed 20..-..-..T..:..:..Z by \S+@\S+\)\n")
        self.assertTrue(shown.stdout.endswith(rules("a")))

    def test_pushes_without_scripts_if_configured(self):
        (self.texts / "sluice.yaml").write_text(
            f"version: 1\nstore: {self.server.url}\nredis: {{ scripting: off }}\n")
        self.server.command("ACL", "SETUSER", "default", "-@scripting")
        (self.texts / "a.yaml").write_text(rules("a"))
        refused = sluice("rules", "push", "a.yaml", "--store", self.server.url, cwd=self.texts)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("NOPERM", refused.stderr)
        done = sluice("rules", "push", "a.yaml", "--config", "sluice.yaml", cwd=self.texts)
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.texts / "a.yaml").write_text(rules("a", algorithm="gcra"))
        wrong = sluice("rules", "push", "a.yaml", "--config", "sluice.yaml", cwd=self.texts)
        self.assertIn("cannot be stored without scripts (scripting: off)", wrong.stderr)


class History(RedisTest):
    KEY = "sluice:rules:history{sluice:rules}"

    def setUp(self):
        self.server = self.redis()
        self.texts = self.folder()

    def tearDown(self):
        self.doClassCleanups()

    def run_rules(self, *words):
        return sluice("rules", *words, "--store", self.server.url, cwd=self.texts)

    def push(self, limit, *more):
        (self.texts / "a.yaml").write_text(rules("a", limit))
        done = self.run_rules("push", "a.yaml", *more)
        self.assertEqual(done.returncode, 0, done.stderr)

    def history(self):
        done = self.run_rules("history", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_pushes_are_listed_with_who_and_when(self):
        none = self.run_rules("history")
        self.assertEqual(none.returncode, 1)
        self.assertEqual(none.stderr, "sluice: rules history: there is no history of sluice:rules; "
                                      "it begins with the next sluice rules push\n")
        self.push(1)
        self.push(2, "--by", "deploy 17")
        latest, first = self.history()
        self.assertEqual((latest["version"], latest["by"], latest["files"]), (2, "deploy 17", 1))
        self.assertEqual(first["version"], 1)
        self.assertRegex(first["by"], r"\A\S+@\S+\Z")
        self.assertRegex(first["pushed_at"], r"\A20..-..-..T..:..:..Z\Z")
        self.assertEqual(latest["differences"],
                         [{"change": "changed", "rule": "a", "limit": "all", "key": "limit",
                           "old": "1", "new": "2"}])
        self.assertNotIn("differences", first)
        title, *lines = self.run_rules("history").stdout.splitlines()
        self.assertEqual(title, f"rules in Redis, sluice:rules at {self.server.url}")
        self.assertEqual(lines[0], f"version 2, {latest['pushed_at']}, by deploy 17")
        self.assertEqual(lines[1], "  ~ rule a, limit all: limit 1 -> 2")
        self.assertTrue(lines[2].startswith("version 1, "), lines)
        self.assertEqual(lines[3:], ["  the first version whose rules are kept"])

    def test_a_configuration_with_rules_in_redis_says_where_the_history_is(self):
        self.push(1)
        (self.texts / "sluice.yaml").write_text("version: 1\nstore: redis://127.0.0.1:1\nrules: redis\n")
        environment = {**os.environ, "SLUICE_STORE": self.server.url}
        for words in ((), ("--config", "sluice.yaml")):
            done = sluice("rules", "history", *words, cwd=self.texts, env=environment)
            self.assertRegex(done.stdout, r"\Arules in Redis, .*\nversion 1, ")

    def test_pushes_are_compared_by_their_versions(self):
        self.push(1)
        self.push(2)
        self.push(3)
        for words, out in [((1, 2), "1 -> 2"), ((3, 1), "3 -> 1"), ((1,), "1 -> 3"),
                           (("redis", 1), "3 -> 1"), (("a.yaml", 2), "3 -> 2")]:
            done = self.run_rules("diff", *words)
            self.assertEqual((done.returncode, done.stdout),
                             (1, f"~ rule a, limit all: limit {out}\n"), done)
        self.assertEqual(self.run_rules("diff", "a.yaml").returncode, 0)

    def test_a_name_of_several_lines_is_refused(self):
        (self.texts / "a.yaml").write_text(rules("a"))
        refused = self.run_rules("push", "a.yaml", "--by", "a\nb")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("expected 1 to 128 bytes without control characters", refused.stderr)

    def test_a_rollback_pushes_the_old_rules_as_a_new_version(self):
        for limit in (5, 6, 7):
            self.push(limit)
        server = self.serve(config={"store": self.server.url, "rules": "redis"})
        done = self.run_rules("rollback", 1, "--by", "ann")
        self.assertEqual(done.stdout, "~ rule a, limit all: limit 7 -> 5\n"
                         "sluice:rules: version 4, 1 rule, 1 limit; before version 3\n", done)
        wait_for(lambda: RedisRules.limit_of(server) == 5, what="the rollback")
        self.assertEqual(self.history()[0]["by"], "ann (rollback to version 1)")
        self.assertEqual(done.stderr, f"undo: sluice rules rollback 3 --store {self.server.url}\n")
        sluice = [binary(), "rules", "set", "a", "mode=shadow", "--for", "1h", "--admin", server.admin]
        subprocess.run(sluice, check=True, capture_output=True, timeout=PATIENCE)
        said = subprocess.run([binary(), "status", "--admin", server.admin], capture_output=True, text=True,
                              check=True, timeout=PATIENCE).stdout
        self.assertRegex(said, r"by \S+ \(PATCH .*\), for a time; source: push 4 to Redis by ann \(")
        by_id = self.run_rules("rollback", self.history()[-2]["id"])
        self.assertEqual(by_id.returncode, 0, by_id.stderr)
        wait_for(lambda: RedisRules.limit_of(server) == 6, what="the rollback by id")

    def test_a_rollback_to_a_limit_of_0_says_that_it_denies(self):
        (self.texts / "a.yaml").write_text(rules("a", 0))
        said = r"\Aa.yaml:\d+:\d+: warning: limit 'all' of rule 'a' is 0, which denies every request; .*\n\Z"
        self.assertRegex(self.run_rules("push", "a.yaml").stderr, said)
        self.push(5)
        undo = rf"undo: sluice rules rollback %d --store {re.escape(self.server.url)}\n\Z"
        self.assertRegex(self.run_rules("rollback", 1, "--dry-run").stderr, said)
        self.assertRegex(self.run_rules("rollback", 1).stderr, said.removesuffix(r"\Z") + undo % 2)
        self.assertRegex(self.run_rules("rollback", 2).stderr, r"\A" + undo % 3)

    def test_a_change_by_two_servers_is_one(self):
        self.push(5)
        servers = [self.serve(config={"store": self.server.url, "rules": "redis"}) for _ in range(2)]
        for before, limit in enumerate(range(6, 12), 5):
            words = [binary(), "rules", "set", "a/all", f"limit={limit}"]
            for server in servers:
                words += ["--admin", server.admin]
            done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
            undo = f"undo: sluice rules set a/all limit={before} --admin {servers[0].admin}\n"
            self.assertEqual((done.returncode, done.stderr), (0, undo), done)
            self.assertIn(f"{servers[1].admin}:\nthe active rules say so already\n", done.stdout)

    def test_a_rollback_that_is_tried_shows_what_would_change(self):
        self.push(5)
        self.push(6)
        self.assertEqual(self.run_rules("rollback", 1, "--dry-run").stdout,
                         f"rules in Redis, sluice:rules at {self.server.url}\n"
                         "~ rule a, limit all: limit 6 -> 5\nsluice:rules: would become version "
                         "3, 1 rule, 1 limit; before version 2\n")
        self.assertEqual(len(self.history()), 2)

    def test_a_change_by_a_server_prints_the_version_of_the_history(self):
        self.push(5)
        self.push(6)
        server = self.serve(config={"store": self.server.url, "rules": "redis"})
        done = sluice("rules", "set", "a/all", "limit=8", "--admin", server.admin)
        self.assertEqual(done.stdout, "~ rule a, limit all: limit 6 -> 8\n"
                         "version 3 in Redis, active until other rules are pushed\n", done)
        self.assertEqual(self.history()[0]["version"], 3)
        again = sluice("rules", "set", "a/all", "limit=8", "--admin", server.admin)
        self.assertEqual(again.stdout, "the active rules say so already\n", again)

    def test_a_rollback_by_a_server_names_the_push(self):
        self.push(5)
        server = self.serve(config={"store": self.server.url, "rules": "redis"})
        self.push(6)
        wait_for(lambda: RedisRules.limit_of(server) == 6, what="the second push")
        done = sluice("rules", "rollback", "1", "--by", "ann", "--admin", server.admin)
        self.assertEqual(done.stderr, f"undo: sluice rules rollback 2 --admin {server.admin}\n")
        self.assertRegex(self.history()[0]["by"],
                         r"\Aann \(rollback to version 1 of a server, push 1 from 127\.0\.0\.1\)\Z")

    def test_rules_that_redis_has_lost_are_published_again(self):
        self.push(5)
        server = self.serve(config={"store": self.server.url, "rules": "redis"})
        self.server.command("FLUSHALL")
        status = ("status", "--admin", server.admin)
        wait_for(lambda: "RULES LOST" in sluice(*status).stdout, what="the loss of the rules")
        done = sluice("rules", "rollback", "1", "--admin", server.admin)
        self.assertEqual(done.stdout,
                         "version 2 in Redis, active until other rules are pushed\n", done)
        self.assertEqual(done.stderr, "")  # the same rules were active
        wait_for(lambda: "RULES LOST" not in sluice(*status).stdout, what="the rules in Redis")
        self.assertEqual(self.history()[0]["version"], 2)

    def test_an_unknown_push_and_another_version_are_refused(self):
        self.push(5)
        self.push(6)
        unknown = self.run_rules("rollback", 7)
        self.assertEqual(unknown.returncode, 1)
        self.assertEqual(unknown.stderr,
                         "sluice: rules rollback: the history has no push '7'; expected a version "
                         "from 1 to 2, or an id of sluice rules history\n")
        other = self.run_rules("rollback", 1, "--expect", 1)
        self.assertEqual(other.returncode, 1)
        self.assertIn("expected version 1 there. Nothing was pushed", other.stderr)

    def test_damaged_rules_are_not_pushed(self):
        self.push(5)
        self.push(6)
        self.server.command("HSET", self.KEY, "rules." + self.history()[1]["id"], "1:a1:b")
        damaged = self.run_rules("rollback", 1)
        self.assertEqual(damaged.returncode, 1)
        self.assertIn("version 1: damaged rules", damaged.stderr)
        self.assertEqual(len(self.history()), 2)

    def test_a_file_is_compared_with_the_rules_in_redis(self):
        none = self.run_rules("diff", "redis", "redis")
        self.assertEqual(none.returncode, 2)
        self.assertIn("there are no rules at sluice:rules", none.stderr)
        self.push(5)
        self.assertEqual(self.run_rules("diff", "redis", "a.yaml").returncode, 0)
        (self.texts / "a.yaml").write_text(rules("a", 6))
        different = self.run_rules("diff", "redis", "a.yaml")
        self.assertEqual((different.returncode, different.stdout),
                         (1, "~ rule a, limit all: limit 5 -> 6\n"), different)

    def test_a_change_of_one_rule_is_pushed_to_all_servers(self):
        self.push(5)
        servers = [self.serve(config={"store": self.server.url, "rules": "redis"})
                   for _ in range(2)]
        body = '{"limits":{"all":{"limit":8}}}'
        changed = servers[0].admin_request("PATCH", "/v1/rules/a", body)
        self.assertEqual(changed.status, 200, changed)
        self.assertEqual(changed.json["active_until"], "other rules are pushed")
        for server in servers:
            wait_for(lambda s=server: RedisRules.limit_of(s) == 8, what="the change")
        self.assertRegex(self.history()[0]["by"], r"\APATCH /v1/rules/a from ")
        shown = self.run_rules("show").stdout
        self.assertTrue(shown.endswith(rules("a", 8)), shown)
        again = servers[1].admin_request("PATCH", "/v1/rules/a", '{"limits":{"all":{"limit":9}}}')
        self.assertEqual(again.status, 200, again)
        wait_for(lambda: RedisRules.limit_of(servers[0]) == 9, what="the second change")
        self.assertEqual(self.run_rules("rollback", 1).returncode, 0)
        for server in servers:
            wait_for(lambda s=server: RedisRules.limit_of(s) == 5, what="the rollback")

    def test_the_last_fifty_pushes_are_kept(self):
        for limit in range(1, 54):
            self.push(limit)
        self.assertEqual([push["version"] for push in self.history()], list(range(53, 3, -1)))
        self.assertEqual(self.server.command("HLEN", self.KEY), 51)
        self.assertEqual(self.run_rules("rollback", 3).returncode, 1)
        self.assertEqual(self.run_rules("rollback", 4).returncode, 0)

    def test_a_push_that_is_refused_is_not_in_the_history(self):
        self.push(1)
        self.server.command("DEL", self.KEY)
        self.server.command("SET", self.KEY, "x")
        (self.texts / "a.yaml").write_text(rules("a", 2))
        refused = self.run_rules("push", "a.yaml")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("WRONGTYPE", refused.stderr)
        self.assertEqual(self.server.command("HGET", "sluice:rules", "version"), b"1")


class ClusterRules(RedisTest):
    def test_rules_are_pushed_to_a_cluster_followed_and_shown(self):
        cluster = self.cluster(replicas=0)
        texts = self.folder()
        (texts / "a.yaml").write_text(rules("a"))
        for version in (1, 2):
            (texts / "a.yaml").write_text(rules("a", version))
            done = sluice("rules", "push", "a.yaml", "--store", cluster.url, cwd=texts)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"version {version}, ", done.stdout)
        shown = sluice("rules", "show", "--store", cluster.url)
        self.assertTrue(shown.stdout.endswith(rules("a", 2)), shown)
        server = self.serve(config={"store": cluster.url, "rules": "redis"})
        self.assertEqual(RedisRules.limit_of(server), 2)
        (texts / "a.yaml").write_text(rules("a", 3))
        sluice("rules", "push", "a.yaml", "--store", cluster.url, cwd=texts)
        wait_for(lambda: RedisRules.limit_of(server) == 3, what="the push")
        done = sluice("rules", "rollback", 1, "--store", cluster.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_for(lambda: RedisRules.limit_of(server) == 1, what="the rollback")

    def test_a_push_loses_no_rules_while_their_slot_moves_away(self):
        cluster = self.cluster(replicas=0)
        texts = self.folder()

        def push(version, *names):
            for name in names:
                (texts / name).write_text(rules(name[0], version))
            done = sluice("rules", "push", *names, "--store", cluster.url, cwd=texts)
            self.assertEqual(done.returncode, 0, done.stderr)

        push(1, "a.yaml", "b.yaml")
        slot = slot_of("sluice:rules")
        source = cluster.owner(slot)
        to = next(server for server in cluster.servers if server is not source)
        source_id, to_id = (server.command("CLUSTER", "MYID") for server in (source, to))
        to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to_id)
        push(2, "a.yaml")
        shown = sluice("rules", "show", "--store", cluster.url)
        self.assertTrue(shown.stdout.endswith(rules("a", 2)), shown)
        self.assertNotIn("name: b", shown.stdout)
        fields = source.command("HKEYS", "sluice:rules")
        self.assertIn(b"text.0", fields)
        self.assertNotIn(b"text.1", fields)
