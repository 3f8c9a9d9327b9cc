"""`ledger: file:PATH`: every change of a budget is in the file, whatever ends the server, and
`sluice ledger` checks it and adds it up. `ledger: redis`: the same next to the counters in Redis."""

import json
import os
import re
import resource
import signal
import subprocess
import threading
import time
import unittest
from random import Random

from harness import PATIENCE, Raw, ServerTest, Sluice, binary, free_port, request, wait_for
from redis_harness import RedisTest
from resp_harness import Resp, RespError, frame, pairs

RULES = """
version: 1
rules:
  - name: models
    match: { path: /v1/chat }
    limits:
      - { name: org, key: "{header.x-org}", algorithm: budget, limit: 1000000, per: day, cost: "{body.tokens|10}" }
      - { name: agent, key: "{header.x-org} {header.x-agent}", algorithm: budget, limit: 1000000, per: never,
          on_expiry: release, cost: "{body.tokens|10}" }
"""
NOON = 1_795_000_000 - 1_795_000_000 % 86_400 + 43_200


def sluice(*arguments, given=None):
    return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True,
                          input=given, timeout=PATIENCE, check=False)  # fmt: skip


class Calls:
    def post(self, server, path, org="acme", agent="a1", tokens=10, status=200, **more):
        body = {"attributes": {"path": "/v1/chat", "header.x-org": org, "header.x-agent": agent,
                               "body.tokens": str(tokens)}, **more}  # fmt: skip
        answer = request(server.http, "POST", path, json.dumps(body))
        self.assertEqual(answer.status, status, answer.body)
        return answer.json


    def usage(self, server, query=""):
        """The answer of GET /v1/usage when it knows of the last call: key to spent, and the total."""
        answer = request(server.admin, "GET", f"/v1/usage?limit=org{query}")
        self.assertEqual(answer.status, 200, answer.body)
        return {one["key"]: one["spent"] for one in answer.json["usage"]}, answer.json["total"]


class Ledger(Calls, ServerTest):
    def start_server(self, config=None, folder=None, **options):
        self.home = folder or self.folder()
        self.file = self.home / "ledger.jsonl"
        config = {"ledger": {"to": f"file:{self.file}", "flush": "20ms"}, **(config or {})}
        server = Sluice(self.folder(), RULES, config, **options)
        self.addCleanup(server.stop)
        return server

    def lines(self, name="ledger.jsonl"):
        return [json.loads(line) for line in (self.home / name).read_text("utf-8").splitlines()]

    def entries(self, name="ledger.jsonl"):
        return [line for line in self.lines(name) if line["kind"] not in ("start", "stop", "gap")]

    def verify(self, *files, warns=(), status=0):
        ran = sluice("ledger", "verify", *(files or [self.file]))
        self.assertEqual(ran.returncode, status, ran.stderr)
        found = ran.stderr.splitlines()
        self.assertEqual(len(found), len(warns), ran.stderr)
        for line, wanted in zip(found, warns):
            self.assertIn(wanted, line)
        return ran.stdout

    def sums(self, *flags):
        ran = sluice("ledger", "sum", "--csv", *flags, self.file)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout.splitlines()[1:]

    def test_every_change_and_who_spent_it(self):
        clock = self.stopped_clock()
        clock.set(NOON * 1_000_000)
        server = self.start_server(clock=clock)
        self.post(server, "/v1/check", id="call", hold_ms=60_000, tokens=700)
        self.post(server, "/v1/check", id="call", hold_ms=60_000, tokens=700)  # repeated
        self.post(server, "/v1/settle", id="call", actual=512)
        self.post(server, "/v1/check", org="other", tokens=5)
        self.post(server, "/v1/check", id="lost", hold_ms=60_000, tokens=30)
        clock.advance(120)
        self.post(server, "/v1/check", tokens=3)
        clock.advance(86_400)
        self.post(server, "/v1/check", tokens=2)
        self.assertEqual(server.stop(), 0)
        lines = self.lines()
        self.assertEqual([line["n"] for line in lines], list(range(1, len(lines) + 1)))
        self.assertEqual((lines[0]["kind"], lines[-1]["kind"]), ("start", "stop"))
        org = [line for line in self.entries() if line["limit"] == "org"]
        self.assertEqual([(line["kind"], line["key"], line["spent"], line["held"]) for line in org],
                         [("hold", "acme", 0, 700), ("settle", "acme", 512, -700),
                          ("take", "other", 5, 0), ("hold", "acme", 0, 30),
                          ("charged", "acme", 30, -30), ("take", "acme", 3, 0),
                          ("take", "acme", 2, 0)])  # fmt: skip
        self.assertEqual([line["spent_after"] for line in org], [0, 512, 5, 512, 542, 545, 2])
        self.assertEqual([line.get("id") for line in org], ["call", "call", None, "lost"] + 3 * [None])
        self.assertEqual((org[0]["hash"], org[3]["hash"]), (org[1]["hash"], org[4]["hash"]))
        self.assertEqual(org[4]["at"], org[3]["ends"])
        self.assertIn("14 entries of 4 counters: every balance agrees", self.verify())
        day = [line["at"][:10] for line in (org[0], org[-1])]
        self.assertEqual(self.sums("--by", "limit,key"),
                         ["agent,acme a1,517", "agent,other a1,5", "org,acme,547", "org,other,5"])  # fmt: skip
        self.assertEqual(self.sums("--by", "day,limit"), [f"{day[0]},agent,520", f"{day[0]},org,550",
                                                          f"{day[1]},agent,2", f"{day[1]},org,2"])  # fmt: skip
        self.assertEqual(self.sums("--by", "limit", "--from", day[1]), ["agent,2", "org,2"])
        self.assertEqual(self.sums("--by", "limit", "--to", day[1]), ["agent,520", "org,550"])
        # Noon in UTC is the next day on Kiritimati, 14 hours ahead.
        self.assertEqual(self.sums("--by", "day,limit", "--zone", "Pacific/Kiritimati")[0],
                         f"{day[1]},agent,520")  # fmt: skip

    def test_the_server_says_who_has_spent_what(self):
        server = self.start_server()
        self.post(server, "/v1/check", id="call", hold_ms=60_000, tokens=700)
        self.post(server, "/v1/settle", id="call", actual=512)
        self.post(server, "/v1/check", org="other", tokens=5)
        spent = ({"acme": 512, "other": 5}, 517)
        wait_for(lambda: self.usage(server) == spent, what="the entries in the file")
        self.assertEqual(self.usage(server, "&rule=models&from=2000-01-01"), spent)
        self.assertEqual(self.usage(server, "&to=2000-01-01"), ({}, 0))
        with open(self.file, "ab") as file:
            file.truncate(257 << 20)
        answer = request(server.admin, "GET", "/v1/usage")
        self.assertEqual(answer.status, 409)
        self.assertIn("more than 268435456; expected: sluice ledger sum", answer.json["detail"])

    def test_without_a_ledger_there_is_no_usage(self):
        answer = request(self.serve(RULES).admin, "GET", "/v1/usage")
        self.assertEqual(answer.status, 409)
        self.assertIn("this server has no ledger; expected `ledger: file:PATH`", answer.json["detail"])

    def test_a_change_of_a_line_is_found(self):
        server = self.start_server()
        for i in range(4):
            self.post(server, "/v1/check", tokens=5 + i)
        self.post(server, "/v1/check", id="call")
        server.stop()
        text = self.file.read_text()
        changed = self.home / "changed.jsonl"
        changed.write_text(text.replace('"spent":6,', '"spent":7,', 1))
        said = sluice("ledger", "verify", changed)
        self.assertEqual(said.returncode, 1)
        self.assertIn("not every balance agrees", said.stdout)
        name = "'default|models|org|header.x-org=acme'"
        self.assertRegex(said.stderr, rf"changed.jsonl:\d: {re.escape(name)}: its balance before; "
                         r"expected spent 5 and held 0, found spent 4 and held 0\n")  # fmt: skip
        changed.write_text("".join(text.splitlines(keepends=True)[:3] + text.splitlines(keepends=True)[4:]))
        self.verify(changed, warns=["expected n 4, found 5"], status=1)
        changed.write_text(text + "{}\n")
        self.verify(changed, warns=["'n'"], status=1)
        changed.write_text(text[:-5])
        self.verify(changed, warns=["warning: the last line is not finished"])
        changed.write_text(text.replace('"key":"acme"', '"key":"other"'))
        self.verify(changed, warns=["expected rule 'models', limit 'org' and key 'acme', found rule "
                                    "'models', limit 'org' and key 'other'"], status=1)  # fmt: skip
        changed.write_text("".join(text.splitlines(keepends=True)[:5]))
        self.verify(changed, warns=["changed.jsonl:5: warning: the last line is no stop: the server was "
                                    "killed, or later lines are missing"])  # fmt: skip
        changed.write_text(text.replace('"id":"call"', '"id":"other"', 1))
        self.verify(changed, warns=["its id 'other' has another hash; expected "], status=1)
        lines = text.splitlines(keepends=True)
        changed.write_text("".join(lines[3:]))
        gap = "changed.jsonl:1: warning: a gap: lines before n 4 are in an earlier file, or missing"
        self.verify(changed, warns=[gap])
        self.assertIn(gap, sluice("ledger", "sum", changed).stderr)
        self.assertEqual(sluice("ledger", "verify", "-", given=text).returncode, 0)
        self.assertIn("cannot be read", sluice("ledger", "verify", self.home / "none").stderr)
        self.assertEqual(sluice("ledger", "verify", self.home).returncode, 1)
        wrong = sluice("ledger", "sum", "--by", "keys", self.file)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("expected key, rule, limit, day or month, separated by commas; did you mean "
                      "'key'?", wrong.stderr)  # fmt: skip
        self.assertEqual(sluice("ledger", "sum", "--zone", "Mars", self.file).returncode, 2)
        self.assertEqual(sluice("ledger", "sum", "--from", "soon", self.file).returncode, 2)
        for first, end in ("2027-01-01", "2026-01-01"), ("2027-01-01", "2027-01-01"):
            done = sluice("ledger", "sum", "--from", first, "--to", end, self.file)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done)
            self.assertIn(f"--to {end} is not after --from {first}", done.stderr)

    def test_a_file_without_entries_says_so(self):
        server = self.start_server()
        server.stop()
        self.assertEqual(self.verify(), "no entry\n")
        self.file.write_text("")
        nothing = "ledger.jsonl: warning: there is no line of a ledger"
        self.assertEqual(self.verify(warns=[nothing]), "no entry\n")
        self.file.write_text('{"n":1,"at"')
        self.assertEqual(self.verify(warns=["the last line is not finished"]), "no entry\n")
        self.file.write_bytes(bytes(range(11, 256)))
        self.assertEqual(self.verify(warns=["ledger.jsonl:1: it is no line of a ledger"], status=1), "no entry\n")
        self.assertEqual(sluice("ledger", "sum", self.file).returncode, 1)

    def test_complete_after_sigterm_with_many_clients(self):
        server = self.start_server()
        counts = [0] * 4

        def ask(i):
            with Raw(server.http) as raw:
                body = json.dumps([{"attributes": {"path": "/v1/chat", "header.x-org": f"o{j % 3}",
                                                   "header.x-agent": "a"}} for j in range(50)])  # fmt: skip
                head = f"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
                for _ in range(10):
                    counts[i] += len(raw.send(head + body).answer().json)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(counts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(sum(counts), 2000)
        self.assertEqual(len(self.entries()), 2 * sum(counts))
        self.verify()

    def test_a_killed_server_leaves_what_was_written(self):
        server = self.start_server()
        self.post(server, "/v1/check")
        wait_for(lambda: server.metrics()["sluice_ledger_entries_total"] == 2)
        server.kill()
        with open(self.file, "a", encoding="utf-8") as file:
            file.write('{"n":4,"at"')
        again = self.start_server(folder=self.home)
        said = "without memory.snapshot each budget begins at 0 after a restart"
        wait_for(lambda: said in again.log(), said)
        self.post(again, "/v1/check")
        self.assertEqual(again.stop(), 0)
        self.assertIn("the ledger does not say that its server has stopped", again.log())
        self.assertEqual([line["kind"] for line in self.lines()],
                         ["start", "take", "take", "start", "take", "take", "stop"])  # fmt: skip
        self.assertEqual(self.lines()[3]["cut"], '{"n":4,"at"')
        self.verify(warns=["the line before was cut", "a start without a stop before it"])

    def test_a_snapshot_goes_on_with_the_balances(self):
        memory = {"memory": {"snapshot": str(self.folder() / "counters")}}
        first = self.start_server(memory)
        self.post(first, "/v1/check", tokens=7)
        self.post(first, "/v1/check", id="call", hold_ms=60_000, tokens=70)
        self.assertEqual(first.stop(), 0)
        second = self.start_server(memory, folder=self.home)
        self.post(second, "/v1/settle", id="call", actual=50)
        self.assertEqual(second.stop(), 0)
        self.assertNotIn("without memory.snapshot", second.log())
        self.assertEqual(self.entries()[-1]["spent_after"], 57)
        self.verify()
        self.assertEqual(self.sums("--by", "limit"), ["agent,57", "org,57"])

    def test_what_a_crash_undoes_does_not_count(self):
        snapshot = self.folder() / "counters"
        memory = {"memory": {"snapshot": str(snapshot), "snapshot_interval": "20ms"}}
        first = self.start_server(memory)
        self.post(first, "/v1/check", tokens=1)
        self.post(first, "/v1/check", org="quiet", tokens=3)
        self.post(first, "/v1/check", id="call", hold_ms=3_600_000, tokens=5)
        asked = time.time()
        wait_for(lambda: first.metrics()["sluice_snapshot_timestamp_seconds"] > asked)
        saved = snapshot.read_bytes()
        self.post(first, "/v1/check", tokens=7)
        self.post(first, "/v1/check", org="quiet", tokens=4)
        self.post(first, "/v1/settle", id="call", actual=20)
        wait_for(lambda: first.metrics()["sluice_ledger_entries_total"] == 12)
        first.kill()
        snapshot.write_bytes(saved)  # as if the server had made no other one
        second = self.start_server(memory, folder=self.home)
        settled = self.post(second, "/v1/settle", id="call", actual=20)
        self.assertNotIn("repeated", settled)
        self.assertEqual([1_000_000 - one["remaining"] for one in settled["limits"]], [21, 21])
        wait_for(lambda: self.usage(second) == ({"acme": 21, "quiet": 3}, 24), what="the sums")
        self.assertEqual(second.stop(), 0)
        warnings = ["a start without a stop before it",
                    "6 entries after the snapshot were undone by a crash"]  # fmt: skip
        self.verify(warns=warnings)
        self.assertEqual(self.sums("--by", "limit,key"), ["agent,acme a1,21", "agent,quiet a1,3",
                                                          "org,acme,21", "org,quiet,3"])  # fmt: skip
        piped = subprocess.run(f"cat {self.file} | {binary()} ledger sum --csv --by limit -", shell=True,
                               capture_output=True, text=True, timeout=PATIENCE, check=True)  # fmt: skip
        self.assertEqual(piped.stdout.splitlines()[1:], ["agent,24", "org,24"])

    def test_a_server_that_takes_over_goes_on_in_the_file(self):
        config = {"listen": {"http": f"127.0.0.1:{free_port()}"},
                  "drain": {"handover": str(self.folder() / "handover.sock")},
                  "memory": {"snapshot": str(self.folder() / "counters")}}  # fmt: skip
        for with_snapshot in (True, False):
            if not with_snapshot:
                del config["memory"]
            old = self.start_server(config)
            self.post(old, "/v1/check", tokens=7)
            new = self.start_server(config, folder=self.home)
            self.assertEqual(old.wait(), 0)
            self.post(new, "/v1/check", tokens=5)
            self.assertEqual(new.stop(), 0)
            self.assertEqual([line["kind"] for line in self.lines()],
                             ["start", "take", "take", "stop", "start", "take", "take", "stop"])  # fmt: skip
            self.assertEqual(self.entries()[-1]["spent_after"], 12 if with_snapshot else 5)
            self.verify()

    def test_servers_that_end_before_their_predecessor_write_their_entries(self):
        config = {"listen": {"http": f"127.0.0.1:{free_port()}"}, "bounds": {"body_timeout": "600s"},
                  "drain": {"handover": str(self.folder() / "handover.sock"), "timeout": "600s"}}  # fmt: skip
        old = self.start_server(config)
        self.post(old, "/v1/check", tokens=7)
        with Raw(old.http) as client:
            client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
                        "Expect: 100-continue\r\n\r\n")  # fmt: skip
            self.assertIn(b" 100 ", client.reader.readline())
            servers = [old]
            for tokens in (5, 3):
                servers.append(self.start_server(config, folder=self.home))
                wait_for(lambda: "handed over" in servers[-2].log(), what="the handover")
                self.post(servers[-1], "/v1/check", tokens=tokens)
            servers[-1].signal(signal.SIGTERM)
            for server in servers[1:]:
                wait_for(lambda one=server: "stopped" in one.log(), what="its last connection")
        self.assertEqual([server.wait() for server in servers], [0, 0, 0])
        self.assertEqual([line["kind"] for line in self.lines()], 3 * ["start", "take", "take", "stop"])
        self.assertEqual([line["spent"] for line in self.entries()], [7, 7, 5, 5, 3, 3])
        self.verify()

    def test_goes_on_in_another_file_after_a_rotation(self):
        server = self.start_server()
        self.post(server, "/v1/check", tokens=7)
        wait_for(lambda: server.metrics()["sluice_ledger_entries_total"] == 2)
        os.rename(self.file, f"{self.file}.1")
        server.signal(signal.SIGHUP)
        wait_for(lambda: self.file.exists() and self.file.stat().st_size > 0)
        self.post(server, "/v1/check", tokens=8)
        self.assertEqual(server.stop(), 0)
        self.verify(f"{self.file}.1", self.file)
        self.verify(self.file, warns=["a gap: lines before n 5 are in an earlier file"])
        usage = request(self.start_server(folder=self.home).admin, "GET", "/v1/usage?limit=org").json
        self.assertEqual((usage["total"], usage["gap"]), (8, True))
        self.assertEqual(self.entries()[-1]["spent_after"], 15)

    def test_goes_on_in_another_file_after_a_rotation_before_a_handover(self):
        home = self.folder()
        config = {"listen": {"http": f"127.0.0.1:{free_port()}"},
                  "drain": {"handover": str(home / "handover.sock")},
                  "memory": {"snapshot": str(home / "counters")},
                  "ledger": {"to": f"file:{home / 'ledger.jsonl'}", "flush": "1m"}}  # fmt: skip
        old = self.start_server(config, folder=home)
        self.post(old, "/v1/check", tokens=7)
        os.rename(self.file, f"{self.file}.1")
        new = self.start_server(config, folder=home)
        self.assertEqual(old.wait(), 0)
        self.post(new, "/v1/check", tokens=5)
        self.assertEqual(new.stop(), 0)
        self.assertEqual([line["spent_after"] for line in self.entries()], [7, 7, 12, 12])
        self.verify(f"{self.file}.1", self.file)

    def test_a_full_disk_stops_no_decision(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

        server = self.start_server(preexec_fn=limit)
        for _ in range(40):
            self.post(server, "/v1/check")
        waiting = "the ledger cannot be written; its entries wait in memory"
        wait_for(lambda: waiting in server.log(), waiting)
        self.assertGreater(server.metrics()["sluice_ledger_errors_total"], 0)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE,
                         (resource.RLIM_INFINITY, resource.RLIM_INFINITY))  # fmt: skip
        wait_for(lambda: server.metrics()["sluice_ledger_entries_total"] == 80)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(self.entries()), 80)
        self.verify()

    def test_goes_on_in_another_file_after_a_rotation_between_two_servers(self):
        config = {"memory": {"snapshot": str(self.folder() / "counters")}}
        old = self.start_server(config)
        self.post(old, "/v1/check", tokens=7)
        self.assertEqual(old.stop(), 0)
        os.rename(self.file, f"{self.file}.1")
        new = self.start_server(config, folder=self.home)
        self.post(new, "/v1/check", tokens=8)
        wait_for(lambda: new.metrics()["sluice_ledger_entries_total"] == 2)
        usage = request(new.admin, "GET", "/v1/usage?limit=org").json
        self.assertEqual((usage["total"], usage.get("gap")), (8, True))
        self.assertEqual(new.stop(), 0)
        self.verify(f"{self.file}.1", self.file)
        self.verify(self.file, warns=["a gap: lines before n 1 are in an earlier file"])

    def test_what_cannot_be_a_ledger_is_an_error_at_the_start(self):
        rules = self.folder() / "rules.yaml"
        rules.write_text(RULES)
        none = [f"--{name}=off" for name in ("grpc", "resp", "admin")]

        def refused(*flags):
            ran = sluice("serve", "--rules", rules, "--http", "127.0.0.1:0", *none, *flags)
            self.assertNotEqual(ran.returncode, 0)
            return ran.stderr

        self.assertIn("cannot write the ledger /nowhere/ledger: No such file or directory",
                      refused("--ledger", "file:/nowhere/ledger"))  # fmt: skip
        self.assertIn("its last line is not of a ledger", refused("--ledger", f"file:{rules}"))
        self.assertIn("expected file:PATH", refused("--ledger", "none"))
        self.assertIn("needs a store in Redis", refused("--ledger", "redis"))
        self.assertIn("the store is in Redis",
                      refused("--ledger", "file:x", "--store", "redis://127.0.0.1:1"))  # fmt: skip
        server = self.start_server()
        self.post(server, "/v1/check")
        self.assertIn("another server writes the ledger", refused("--ledger", f"file:{self.file}"))


def spends(command, reply):
    """What a command of Crashes has spent, by its own words, if its reply says that it counted."""
    said = pairs(reply)
    if said["outcome"] != "allowed" or "repeated" in said:
        return 0
    word = {"RL.SETTLE": "ACTUAL", "RL.CHECK": "COST"}.get(command[0])
    return command[command.index(word) + 1] if word else 0


class Crashes(ServerTest):
    """A server in memory that is killed again and again, with snapshots and a ledger: after each
    start, what a budget has spent is what the ledger adds up to, and what the answers add up to."""

    RULES = """
version: 1
rules:
  - name: models
    limits:
      - { name: org, key: "{header.x-org}", algorithm: budget, limit: 9007199254740991, per: never }
"""
    ORGS = [f"org-{i}" for i in range(20)]
    STARTS, CALLS = 40, 25_000  # 10^6 calls

    def command(self, random):
        """One call: most are new, and each fifth is an earlier one again, perhaps from before a crash."""
        if self.sent and random.random() < 0.2:
            return random.choice(self.sent)
        of = ("CHECK", "models", "header.x-org", random.choice(self.ORGS))
        kind = random.random()
        if kind < 0.4 or not self.held:
            self.number += 1
            command = ("RL.HOLD", *of, "COST", random.randrange(1, 1000), "TTL", "24h",
                       "ID", f"call-{self.number}")  # fmt: skip
            self.held.append((of, command[-1]))
        elif kind < 0.75:
            # A settlement may be that of a hold which a crash has undone, and then it is late.
            of, name = self.held.pop(random.randrange(len(self.held)))
            command = ("RL.SETTLE", *of, "ACTUAL", random.randrange(2000), "ID", name)
        elif kind < 0.85:
            of, name = self.held.pop(random.randrange(len(self.held)))
            command = ("RL.CANCEL", *of, "ID", name)
        else:
            self.number += 1
            command = ("RL.CHECK", *of[1:], "COST", random.randrange(1, 100), "ID", f"call-{self.number}")
        if len(self.sent) > 4000:
            del self.sent[:2000]
        self.sent.append(command)
        return command

    def spent(self, server):
        found = {}
        for org in self.ORGS:
            keys = request(server.admin, "GET", f"/v1/keys?rule=models&attribute.header.x-org={org}")
            found[org] = keys.json["limits"][0]["spent"]
        return found

    def ask(self, client, commands):
        """Sends the commands at once. Returns what their answers have spent: (org, id) to amount."""
        commands = list(commands)
        client.send(b"".join(frame(*command) for command in commands))
        answered = {}
        for command in commands:
            reply = client.reply()
            self.assertNotIsInstance(reply, RespError)
            amount = spends(command, reply)
            if amount:
                org = command[command.index("header.x-org") + 1]
                self.assertNotIn((org, command[-1]), answered)
                answered[org, command[-1]] = amount
        return answered

    def last_server(self, file):
        """What the lines of the last server say: (org, id) to amount."""
        found = {}
        for text in file.read_text("utf-8").splitlines():
            line = json.loads(text)
            if line["kind"] == "start":
                found = {}
            elif line.get("spent") and "id" in line:
                self.assertNotIn((line["key"], line["id"]), found)
                found[line["key"], line["id"]] = line["spent"]
        return found

    def test_balances_are_sums_after_a_million_calls_and_crashes(self):
        random = Random(7)
        self.sent, self.held, self.number = [], [], 0
        file, snapshot = self.folder() / "ledger.jsonl", self.folder() / "counters"
        config = {"ledger": {"to": f"file:{file}", "flush": "20ms"},
                  "memory": {"snapshot": str(snapshot), "snapshot_interval": "100ms"},
                  "listen": {"resp": f"127.0.0.1:{free_port()}"}}  # fmt: skip
        for start in range(self.STARTS):
            server = Sluice(self.folder(), self.RULES, config)
            self.addCleanup(server.stop)
            before, answered = self.spent(server), {}
            with Resp(config["listen"]["resp"]) as client:
                for _ in range(self.CALLS // 500):
                    answers = self.ask(client, (self.command(random) for _ in range(500)))
                    self.assertFalse(answers.keys() & answered.keys(), "counted twice")
                    answered.update(answers)
                # What came while the last snapshot was made is known at the next change of a key.
                for org in self.ORGS:
                    client.ask("RL.CHECK", "models", "header.x-org", org, "COST", 1)
            spent = self.spent(server)
            for org in self.ORGS:
                before[org] += 1 + sum(amount for (of, _), amount in answered.items() if of == org)
            self.assertEqual(spent, before)
            if start % 4 == 3:
                self.assertEqual(server.stop(), 0)
                self.assertEqual(self.last_server(file), answered)
                said = sluice("ledger", "sum", "--csv", "--by", "key", file).stdout.splitlines()[1:]
                self.assertEqual({key: int(sum) for key, sum in (line.split(",") for line in said)}, spent)
                continue
            with Resp(config["listen"]["resp"]) as client:  # what is not in the file yet, or in no snapshot
                client.send(b"".join(frame(*self.command(random)) for _ in range(500)))
                for _ in range(500):
                    client.reply()
                server.kill()
        verified = sluice("ledger", "verify", file)
        self.assertEqual(verified.returncode, 0, verified.stderr)


class RedisCrashes(RedisTest):
    """A Redis that stores each change at once and is killed again and again. Clients repeat a call
    with its id until it is answered: each counts once, and the ledger agrees."""

    RULES = """
version: 1
rules:
  - name: models
    on_store_error: deny
    limits:
      - { name: org, key: "{header.x-org}", algorithm: budget, limit: 9007199254740991, per: never, holds: 65535 }
"""
    ORGS = [f"org-{i}" for i in range(4)]
    KILLS = 60 if os.environ.get("SLUICE_LONG_TESTS") else 4

    def repeat(self, client, command, *words):
        """Sends a command until Redis has answered. Returns the answer."""
        while True:
            reply = client.ask(command, "CHECK", "models", *words)
            if isinstance(reply, RespError):
                self.repeated += 1
                continue
            said = pairs(reply)
            if said["reason"] in ("ok", "over", "conflict"):
                return said
            self.assertEqual(said["outcome"], "denied", said)
            self.repeated += 1

    def call(self, client, random, number):
        org, name = random.choice(self.ORGS), f"{threading.get_ident()}-{number}"
        of, cost, kind = ("header.x-org", org), random.randrange(1, 1000), random.random()
        # A hold may end before the answer to it comes: then the same id is a conflict, and has counted.
        ends = kind < 0.1
        held = self.repeat(client, "RL.HOLD", *of, "COST", cost, "TTL", "1s" if ends else "24h", "ID", name)
        if held["outcome"] != "allowed":
            self.assertTrue(ends, held)
        if ends or kind < 0.2:
            return org, cost if ends else 0, 0 if ends else cost
        actual = random.randrange(2000)
        last = ("RL.CANCEL",) if kind < 0.3 else ("RL.SETTLE", "ACTUAL", actual)
        for _ in range(2 if kind > 0.9 else 1):  # an answer that is lost
            said = self.repeat(client, last[0], *of, *last[1:], "ID", name)
            self.assertEqual((said["outcome"], said.get("late")), ("allowed", None), said)
        return org, actual if len(last) > 1 else 0, 0

    def client(self, address, seed, ends):
        random, number = Random(seed), 0
        try:
            with Resp(address) as client:
                while not ends.is_set():
                    number += 1
                    org, spent, held = self.call(client, random, number)
                    with self.lock:
                        self.calls += 1
                        self.expected[org][0] += spent
                        self.expected[org][1] += held
        except Exception as why:  # also a failed assertion
            self.failures.append(repr(why))

    def test_each_call_counts_once(self):
        store = self.redis({"appendonly": "yes", "appendfsync": "always"})
        address = f"127.0.0.1:{free_port()}"
        server = self.serve(self.RULES, {"store": store.url, "ledger": "redis", "listen": {"resp": address}})
        self.lock, self.calls, self.repeated, self.failures = threading.Lock(), 0, 0, []
        self.expected = {org: [0, 0] for org in self.ORGS}
        ends = threading.Event()
        threads = [threading.Thread(target=self.client, args=(address, i, ends)) for i in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(self.KILLS):
                seen = self.calls
                wait_for(lambda seen=seen: self.calls > seen + 50 or self.failures, what="answers")
                store.kill()
                store.start()
        finally:
            ends.set()
            for thread in threads:
                thread.join(PATIENCE)
        self.assertEqual(self.failures, [])
        self.assertGreater(self.repeated, 0)

        def balances():
            found = {}
            for org in self.ORGS:
                answer = request(server.admin, "GET", f"/v1/keys?rule=models&attribute.header.x-org={org}")
                if answer.status != 200:  # Redis was killed just now
                    return None
                found[org] = [answer.json["limits"][0][name] for name in ("spent", "held")]
            return found

        def ended():  # the last holds of a second
            found = balances()
            held = {org: held for org, (_, held) in self.expected.items()}
            return found and {org: held for org, (_, held) in found.items()} == held and found

        self.assertEqual(wait_for(ended, what="the end of holds"), self.expected)
        ran = sluice("ledger", "verify", "--store", store.url)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        ran = sluice("ledger", "sum", "--csv", "--by", "key", "--store", store.url)
        sums = dict(line.split(",") for line in ran.stdout.splitlines()[1:])
        self.assertEqual(sums, {org: str(spent) for org, (spent, _) in self.expected.items()})


class InRedis(Calls, RedisTest):
    def server(self, store, rules=RULES, **config):
        return self.serve(rules, {"store": store.url, "redis": {"deadline": "5s"}, **config})

    def verify(self, store, status=0):
        ran = sluice("ledger", "verify", "--store", store.url)
        self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
        return ran.stdout if status == 0 else ran.stderr

    def test_every_change_of_several_servers(self):
        store = self.redis()
        one, other = (self.server(store, ledger="redis") for _ in range(2))
        self.post(one, "/v1/check", id="call", hold_ms=60_000, tokens=700)
        self.post(other, "/v1/check", id="call", hold_ms=60_000, tokens=700)  # repeated
        self.post(other, "/v1/settle", id="call", actual=512)
        self.post(one, "/v1/check", org="other", tokens=5)
        self.assertEqual(self.verify(store),
                         "6 entries of 4 counters: every balance agrees\n")  # fmt: skip
        ran = sluice("ledger", "sum", "--csv", "--by", "limit,key", "--store", store.url)
        self.assertEqual(ran.stdout.splitlines(),
                         ["limit,key,spent", "agent,acme a1,512", "agent,other a1,5",
                          "org,acme,512", "org,other,5"])  # fmt: skip
        self.assertNotIn("foreign", sluice("key", "dump", "--store", store.url).stdout)
        self.assertEqual(self.usage(one), ({"acme": 512, "other": 5}, 517))
        without = request(self.server(store).admin, "GET", "/v1/usage")
        self.assertEqual(without.status, 409, without.body)

    def test_what_contradicts_an_entry_is_found(self):
        store = self.redis()
        server = self.server(store, ledger="redis")
        for _ in range(3):
            self.post(server, "/v1/check", tokens=7)
        stream = next(key for key in store.command("KEYS", "sluice:e*") if "|org|" in str(key))
        entries = store.command("XRANGE", stream, "-", "+")
        store.command("XDEL", stream, entries[1][0])
        self.assertIn("expected spent 7 and held 0, found spent 14 and held 0",
                      self.verify(store, status=1))  # fmt: skip
        store.command("FLUSHALL")
        self.post(server, "/v1/check", tokens=7)
        self.post(self.server(store), "/v1/check", tokens=7)
        said = self.verify(store, status=1)
        self.assertEqual(said.count("changed without its ledger; expected spent 7 "), 2, said)

    def test_a_key_of_another_program_is_named(self):
        store = self.redis()
        server = self.server(store, ledger="redis")
        self.post(server, "/v1/check", tokens=7)
        store.command("SET", "sluice:eru{}mine", "1")
        named = r"the key 'sluice:eru\{\}mine', of a ledger by its name: .*WRONGTYPE"
        self.assertRegex(self.verify(store, status=1), named)
        answer = request(server.admin, "GET", "/v1/usage")
        self.assertEqual(answer.status, 409)
        self.assertRegex(answer.json["detail"], named)

    def test_entries_that_are_gone_are_a_gap(self):
        store = self.redis()
        server = self.server(store, ledger="redis")
        for _ in range(3):
            self.post(server, "/v1/check", tokens=7)
        stream = next(key for key in store.command("KEYS", "sluice:e*") if "|org|" in str(key))
        self.assertNotIn("gap", request(server.admin, "GET", "/v1/usage").json)
        store.command("XTRIM", stream, "MAXLEN", 2)
        answer = request(server.admin, "GET", "/v1/usage?limit=org").json
        self.assertEqual((answer["total"], answer["more"], answer["gap"]), (14, False, True))
        self.assertNotIn("gap", request(server.admin, "GET", "/v1/usage?limit=agent").json)
        ran = sluice("ledger", "verify", "--store", store.url)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stderr, "1 of 2 streams: warning: a gap: their first entries are gone, because a "
                         "stream keeps about ledger.keep of them; what those have spent does not count\n")  # fmt: skip
        # Redis evicts a counter, but not its stream.
        for key in store.command("KEYS", "sluice:ru*"):
            store.command("DEL", key)
        self.post(server, "/v1/check", tokens=5)
        ran = sluice("ledger", "verify", "--store", store.url)
        self.assertEqual((ran.returncode, ran.stderr.count("spent 21 and held 0")), (0, 2), ran.stderr)

    def test_a_cluster_takes_back_what_a_slot_has_denied(self):
        nodes = self.cluster(replicas=0)
        rules = RULES.replace('x-agent}", algorithm: budget, limit: 1000000',
                              'x-agent}", algorithm: budget, limit: 20')  # fmt: skip
        server = self.server(nodes, rules, ledger={"to": "redis", "keep": 1000})
        for org in ("a", "b", "c", "d"):
            self.post(server, "/v1/check", org=org, tokens=15)
            self.post(server, "/v1/check", org=org, tokens=15, status=429)
        wait_for(lambda: "16 entries of 8 counters: every" in self.verify(nodes))


if __name__ == "__main__":
    unittest.main()
