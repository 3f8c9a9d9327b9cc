"""`sluice serve --record`: what is written, its bound, and what happens if it cannot be written."""

import contextlib
import json
import os
import re
import resource
import signal
import stat
import subprocess
import unittest

import envoy_harness
from harness import PATIENCE, ServerTest, binary, wait_for
from resp_harness import Resp

RULES = """
version: 1
domain: shop
trusted: body.model
rules:
  - name: order
    match: { path: /order }
    limits:
      - { name: calls, key: "{header.x-user|ip}", algorithm: gcra, limit: 1, per: 1h, burst: 1 }
      - { name: tokens, key: "{body.model}", algorithm: gcra, limit: 100, per: 1h, cost: request }
  - name: remote
    match: { remote_address: "*" }
    limits: [{ name: calls, key: "{remote_address}", algorithm: gcra, limit: 1, per: 1h, burst: 0 }]
"""
LINE = r'\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z","attributes":\{.*\},.*"outcome":"\w+"\}'


class Recording(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.rls = envoy_harness.messages()

    def record(self, record=None, **options):
        folder = self.folder()
        self.file = folder / "requests.jsonl"
        config = {
            "listen": {"grpc": "127.0.0.1:0", "resp": "127.0.0.1:0"},
            "trusted_proxies": ["127.0.0.1"],
            "threads": 1,  # so that lines are in order
            "record": {"file": str(self.file), **(record or {})},
            **options.pop("config", {}),
        }
        server = self.serve(RULES, config, **options)
        self.resp = server.front_ends["resp"]
        return server

    def lines(self, count):
        """Returns the recorded requests after checking the form of each line."""

        def text():
            found = self.file.read_text("utf-8").splitlines()
            return found if len(found) >= count else None

        found = wait_for(text, what=f"{count} recorded requests")
        self.assertEqual(len(found), count)
        for line in found:
            self.assertTrue(re.fullmatch(LINE, line), line)
        return [json.loads(line) for line in found]

    def test_all_front_ends(self):
        sluice = self.record()
        secret = {"Authorization": "Bearer top", "Cookie": "session=secret", "X-User": "u1"}
        sluice.get("/v1/auth", {"X-Original-URI": "/order?key=secret", "X-Original-Method": "PUT",
                                "X-Forwarded-For": "192.0.2.7", **secret})  # fmt: skip
        body = {"path": "/order", "ip": "192.0.2.8", "body.model": "m", "body.text": "secret"}
        sluice.check({"attributes": body, "cost": 3, "costs": {"tokens": 12}})
        with Resp(self.resp) as resp:
            for _ in range(3):
                resp.ask("RL.CHECK", "*", "path", "/order", "header.X-User", "ü\n\xff".encode("latin-1"))
            resp.ask("RL.PEEK", "CHECK", "*", "path", "/order", "ip", "secret")
        request = self.rls.RateLimitRequest(domain="shop")
        descriptor = request.descriptors.add()
        descriptor.entries.add(key="remote_address", value="192.0.2.9")
        descriptor.entries.add(key="token", value="secret")
        with envoy_harness.channel_to(sluice) as channel:
            envoy_harness.caller(self.rls, channel)(request, timeout=PATIENCE)
        found = self.lines(6)
        self.assertNotIn("secret", json.dumps(found))
        self.assertEqual(
            [(line["attributes"], line["outcome"]) for line in found[:2]],
            [
                ({"method": "PUT", "path": "/order", "ip": "192.0.2.7", "header.x-user": "u1",
                  "host": found[0]["attributes"]["host"]}, "allowed"),
                ({"path": "/order", "ip": "192.0.2.8", "body.model": "m"}, "denied"),
            ],
        )  # fmt: skip
        self.assertEqual((found[1]["cost"], found[1]["costs"]), (3, {"tokens": 12}))
        user = {"path": "/order", "header.x-user": "\ufffd\n\ufffd"}
        self.assertEqual([line["attributes"] for line in found[2:5]], [user] * 3)
        self.assertEqual([line["outcome"] for line in found[2:5]], ["allowed"] * 2 + ["denied"])
        self.assertEqual(found[5]["attributes"], {"remote_address": "192.0.2.9"})
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)
        self.assertEqual(sluice.metrics()["sluice_recorded_requests_total"], 6)

    def test_a_replay_decides_like_the_server(self):
        sluice = self.record()
        for i in range(24):
            body = {"path": "/order", "header.x-user": f"u{i % 6}", "body.model": "m"}
            sluice.check({"attributes": body, "costs": {"tokens": 9 + i % 4}})
        denied = [line["outcome"] for line in self.lines(24)].count("denied")
        self.assertTrue(6 <= denied <= 18, denied)
        rules = self.file.with_name("replayed.yaml")
        rules.write_text(RULES)
        replay = subprocess.run(
            [binary(), "replay", "--rules", str(rules), "--json", str(self.file)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual((replay.returncode, replay.stderr), (0, ""))
        report = json.loads(replay.stdout)
        self.assertEqual((report["parsed"], report["denied"]), (24, denied))

    def test_requests_without_rules_are_recorded_apart_and_not_replayed(self):
        limits = self.folder() / "envoy.yaml"
        limits.write_text("""
domain: files
descriptors: [ { key: user, rate_limit: { unit: minute, requests_per_unit: 1 } } ]
""")
        sluice = self.record(config={"envoy": {"files": str(limits)}})
        with Resp(self.resp) as resp:
            resp.ask("CL.THROTTLE", "t", 15, 30, 60)
            resp.ask("RL.LIMIT", "l", "fixed_window", 1, "1h", "COST", 2)
            resp.ask("RL.PEEK", "LIMIT", "l", "fixed_window", 1, "1h")
        limit = {"key": "h", "algorithm": "token_bucket", "limit": 5, "per": "1m", "burst": 7}
        sluice.check({"limit": limit})
        request = self.rls.RateLimitRequest(domain="files", hits_addend=3)
        request.descriptors.add().entries.add(key="user", value="u1")
        request.descriptors.add().entries.add(key="token", value="secret")
        with envoy_harness.channel_to(sluice) as channel:
            envoy_harness.caller(self.rls, channel)(request, timeout=PATIENCE)
        sluice.check({"attributes": {"path": "/order", "header.x-user": "u1"}})

        def text():
            found = self.file.read_text("utf-8").splitlines()
            return found if len(found) >= 5 else None

        lines = [json.loads(line) for line in wait_for(text, what="5 recorded requests")]
        own = [(line["without_rules"], line.get("cost"), line["outcome"]) for line in lines[:4]]
        numbers = {"limit": 1, "capacity": 1, "algorithm": "fixed_window"}
        self.assertEqual(own, [
            ({"key": "t", "algorithm": "gcra", "limit": 30, "per": "1m", "capacity": 16}, None,
             "allowed"),
            ({"key": "l", "per": "1h", **numbers}, 2, "denied"),
            ({"key": "h", "algorithm": "token_bucket", "limit": 5, "per": "1m", "capacity": 7}, None,
             "allowed"),
            ({"domain": "files", "key": "files||user=u1", "per": "1m", **numbers}, 3, "denied"),
        ])  # fmt: skip
        self.assertIn("attributes", lines[4])
        rules = self.file.with_name("replayed.yaml")
        rules.write_text(RULES)
        replay = [binary(), "replay", "--rules", str(rules), str(self.file)]
        ran = subprocess.run(replay, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertRegex(ran.stdout, r"requests +1\n")
        self.assertRegex(ran.stdout, "not replayed +4 +requests that name their limits themselves")

    def test_stays_in_its_bound(self):
        bound = 16 << 20
        sluice = self.record({"max_bytes": bound, "attributes": ["filler"]})
        request = {"attributes": {"path": "/", "filler": "x" * 60000}}
        files = (self.file, self.file.with_name(self.file.name + ".1"))
        for _ in range(32):
            self.assertEqual(sluice.check([request] * 16).status, 200)
            size = 0
            for file in files:
                with contextlib.suppress(FileNotFoundError):  # it is being renamed
                    size += file.stat().st_size
            self.assertLessEqual(size, bound)
        wait_for(lambda: sluice.metrics()["sluice_recorded_requests_total"]
                 + sluice.metrics()["sluice_recorded_dropped_total"] == 512)  # fmt: skip
        self.assertGreaterEqual(sluice.metrics()["sluice_recorded_rotations_total"], 1)
        self.assertIn("is full; a new one begins", sluice.log())

    def test_full_disk_costs_lines_but_no_decision(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))

        sluice = self.record({"attributes": ["filler"]}, preexec_fn=limit)
        request = {"attributes": {"path": "/", "filler": "x" * 1000}}
        for _ in range(4):
            self.assertEqual(sluice.check([request] * 30).status, 200)
        wait_for(lambda: sluice.metrics()["sluice_recorded_dropped_total"] > 0)
        wait_for(lambda: "requests are not recorded" in sluice.log())
        self.assertEqual(sluice.log().count("requests are not recorded"), 1, sluice.log())
        for line in self.file.read_text().splitlines():
            self.assertTrue(re.fullmatch(LINE, line), line)

    def test_hashes_and_samples(self):
        sluice = self.record({"share": 50, "hash": ["ip"]})
        for i in range(200):
            sluice.check({"attributes": {"path": "/", "ip": f"192.0.2.{i // 2}"}})
        wait_for(lambda: self.file.stat().st_size > 60 * 100)
        sluice.stop()
        lines = self.file.read_text().splitlines()
        clients = [json.loads(line)["attributes"]["ip"] for line in lines]
        self.assertNotIn("192.0.2", "".join(clients))
        self.assertEqual(clients[::2], clients[1::2])
        self.assertGreater(len(clients), 60)
        self.assertLess(len(clients), 140)

    def test_follows_reloads_and_a_renamed_file(self):
        sluice = self.record()
        sluice.check({"attributes": {"path": "/a", "later": "1"}})
        self.lines(1)
        os.rename(self.file, str(self.file) + ".old")
        sluice.rules_file.write_text(RULES.replace("{body.model}", "{later}"), "utf-8")
        sluice.signal(signal.SIGHUP)
        wait_for(lambda: sluice.metrics()["sluice_rules_version"] == 2)
        sluice.check({"attributes": {"path": "/a", "later": "2"}})
        wait_for(self.file.exists)
        self.assertEqual(self.lines(1)[0]["attributes"], {"path": "/a", "later": "2"})

    def test_a_file_that_cannot_be_written_is_an_error(self):
        rules = self.folder() / "rules.yaml"
        rules.write_text(RULES)
        done = subprocess.run(
            [binary(), "serve", "--rules", rules, "--record", "/nowhere/requests.jsonl",
             "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off"],
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot record in /nowhere/requests.jsonl: No such file", done.stderr)


if __name__ == "__main__":
    unittest.main()
