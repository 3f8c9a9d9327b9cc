"""Rules that allow and deny, through every front end and in a replay."""

import json
import subprocess

import envoy_harness
from harness import PATIENCE, ServerTest, binary, wait_for
from resp_harness import Resp

RULES = """
version: 1
domain: lists
rules:
  - { name: office, match: { ip: [10.0.0.0/8, "2001:db8::/32"] }, action: allow }
  - { name: trial, match: { path: /trial }, action: deny, mode: shadow }
  - name: scanner
    match: { path: /wp-admin/** }
    action: deny
    reject: { status: 404, body: "nothing here" }
  - { name: closed, match: { path: /closed }, action: deny }
  - name: all
    limits: [ { name: address, key: "{ip}", algorithm: fixed_window, limit: 2, per: 1d } ]
"""


class Actions(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.sluice = cls.serve(
            RULES,
            {
                "listen": {"resp": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
                "log": {"level": "info", "keys": "plain"},
                "trusted_proxies": ["127.0.0.1"],
            },
        )
        cls.resp = cls.sluice.front_ends["resp"]

    def check(self, ip, path="/", **more):
        return self.sluice.check({"attributes": {"ip": ip, "path": path}, **more})

    def test_allow_applies_no_limit(self):
        for ip in ("10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1"):
            for _ in range(3):
                answer = self.check(ip)
                self.assertEqual(answer.status, 200)
                self.assertEqual(
                    answer.json,
                    {"outcome": "allowed", "rule": "office", "reason": "ok", "limits": []},
                )
        # The costs of limits that do not apply are no mistake.
        self.assertEqual(self.check("10.1.2.3", costs={"address": 1}).status, 200)
        self.assertEqual([self.check("192.0.2.1").status for _ in range(3)], [200, 200, 429])

    def test_deny_has_the_status_of_the_rule_and_no_waits(self):
        answer = self.check("192.0.2.2", "/closed")
        self.assertEqual(answer.status, 403)
        self.assertEqual(
            answer.json,
            {"outcome": "denied", "rule": "closed", "reason": "deny_rule", "limits": []},
        )
        names = {name.lower() for name, _ in answer.fields}
        self.assertFalse({"retry-after", "ratelimit", "x-ratelimit-limit"} & names)
        self.assertEqual(self.check("192.0.2.2", "/wp-admin/x").status, 404)
        self.assertEqual(self.check("192.0.2.2", "/closed", wait_ms=500).status, 403)

    def test_auth_sends_the_body_of_the_rule(self):
        answer = self.sluice.auth("GET", "/wp-admin/setup.php", "192.0.2.3")
        self.assertEqual((answer.status, answer.body), (404, b"nothing here"))
        self.assertEqual(self.sluice.auth("GET", "/closed", "192.0.2.3").status, 403)
        self.assertEqual(self.sluice.auth("GET", "/closed", "2001:db8::3").status, 200)

    def test_resp(self):
        with Resp(self.resp) as resp:
            denied = resp.ask("RL.CHECK", "*", "ip", "192.0.2.4", "path", "/closed")
            fields = dict(zip(denied[::2], denied[1::2]))
            self.assertEqual(
                [fields[b] for b in (b"outcome", b"reason", b"rule", b"limits")],
                [b"denied", b"deny_rule", b"closed", []],
            )
            allowed = resp.ask("RL.CHECK", "*", "ip", "10.0.0.4", "path", "/closed")
            fields = dict(zip(allowed[::2], allowed[1::2]))
            self.assertEqual((fields[b"outcome"], fields[b"rule"]), (b"allowed", b"office"))
            by_name = resp.ask("RL.CHECK", "closed")
            self.assertEqual(dict(zip(by_name[::2], by_name[1::2]))[b"reason"], b"deny_rule")

    def test_grpc(self):
        rls = envoy_harness.messages()
        call = envoy_harness.caller(rls, envoy_harness.channel_to(self.sluice))

        def ask(**entries):
            message = rls.RateLimitRequest(domain="lists")
            descriptor = message.descriptors.add()
            for key, value in entries.items():
                descriptor.entries.add(key=key, value=value)
            return call(message, timeout=PATIENCE)

        over, ok = rls.RateLimitResponse.OVER_LIMIT, rls.RateLimitResponse.OK
        denied = ask(ip="192.0.2.5", path="/closed")
        self.assertEqual((denied.overall_code, denied.statuses[0].code), (over, over))
        for _ in range(3):
            self.assertEqual(ask(ip="10.0.0.5", path="/closed").overall_code, ok)

    def test_shadow_mode_only_counts(self):
        self.assertEqual(
            [self.check("192.0.2.6", "/trial").json["reason"] for _ in range(3)],
            ["shadow", "shadow", "limited"],
        )
        metrics = self.sluice.metrics()
        self.assertEqual(metrics['sluice_shadow_denials_total{rule="trial",limit=""}'], 3)

    def test_metrics_and_the_log_name_the_rule(self):
        self.check("192.0.2.7", "/closed")
        self.check("10.0.0.7")
        metrics = self.sluice.metrics()
        prefix = "sluice_requests_total"
        self.assertGreater(
            metrics[prefix + '{rule="closed",outcome="denied",reason="deny_rule"}'], 0
        )
        self.assertGreater(metrics[prefix + '{rule="office",outcome="allowed",reason="ok"}'], 0)
        wait_for(lambda: "denied rule=closed key=192.0.2.7 reason=deny_rule" in self.sluice.log(),
                 what="the line of the denial")

    def test_replay(self):
        folder = self.folder()
        (folder / "rules.yaml").write_text(RULES)
        stamp = "[21/Nov/2026:10:00:00 +0000]"
        paths = [("10.0.0.8", "/"), ("192.0.2.8", "/closed")] + [("192.0.2.8", "/")] * 3
        (folder / "access.log").write_text(
            "".join(f'{ip} - - {stamp} "GET {path} HTTP/1.1" 200 1\n' for ip, path in paths)
        )
        out = subprocess.run(
            [binary(), "replay", "--rules", "rules.yaml", "--json", "access.log"],
            cwd=folder,
            check=True,
            capture_output=True,
        ).stdout
        report = json.loads(out)
        rules = {rule["name"]: rule for rule in report["rules"]}
        self.assertEqual((rules["office"]["matched"], rules["office"]["denied"]), (1, 0))
        self.assertEqual((rules["closed"]["matched"], rules["closed"]["denied"]), (1, 1))
        self.assertEqual((rules["all"]["matched"], rules["all"]["denied"]), (3, 1))

    def test_replay_by_the_user_of_an_access_log(self):
        folder = self.folder()
        (folder / "rules.yaml").write_text("""
version: 1
rules:
  - name: users
    limits:
      - { name: user, key: "{header.x-user-id|ip}", algorithm: fixed_window, limit: 1, per: 1h }
""")
        rest = '[21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "curl"'
        (folder / "access.log").write_text(
            "".join(f"10.0.0.8 - {user} {rest}\n" for user in ("ann", "bob", "-", "ann"))
        )

        def replay(*options):
            out = subprocess.run(
                [binary(), "replay", "--rules", "rules.yaml", "--json", *options, "access.log"],
                cwd=folder, check=True, capture_output=True,
            ).stdout
            report = json.loads(out)
            return report["rules"][0]["limits"][0]["keys"], report["denied"], report["warnings"]

        option = "--field header.x-user-id=remote_user"
        keys, denied, warnings = replay()
        self.assertEqual((keys, denied, len(warnings)), (1, 3, 1))
        self.assertIn("no request has header.x-user-id; all 4 were counted by ip", warnings[0])
        self.assertIn(option, warnings[0])
        self.assertEqual(replay(*option.split()), (3, 1, []))


LISTS = """
version: 1
domain: lists
rules:
  - { name: office, match: { ip: { in: office.txt } }, action: allow }
  - name: partner
    match: { header.x-client: { network: [198.51.100.0/24] } }
    action: allow
  - { name: banned, match: { header.x-user: { in: banned.txt } }, action: deny }
  - name: all
    match: { not: { path: /health, method: [HEAD] } }
    limits: [ { name: address, key: "{ip}", algorithm: fixed_window, limit: 0, per: 1d } ]
"""


class Lists(ServerTest):
    def setUp(self):
        folder = self.folder()
        (folder / "office.txt").write_text("# office\n10.0.0.0/8\n2001:db8::/32\n")
        (folder / "banned.txt").write_text("mallory\n")
        (folder / "rules.yaml").write_text(LISTS)
        self.lists = folder
        config = {
            "listen": {"resp": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
            "rules": str(folder / "rules.yaml"),
        }
        self.sluice = self.serve(config=config)

    def rule(self, **attributes):
        attributes = {name.replace("_", "-"): value for name, value in attributes.items()}
        named = {n if n in ("ip", "path", "method") else f"header.{n}": v
                 for n, v in attributes.items()}
        return self.sluice.check({"attributes": {"ip": "192.0.2.1", **named}}).json["rule"]

    def replace(self, name, text):
        (self.lists / "fresh").write_text(text)
        (self.lists / "fresh").rename(self.lists / name)

    def test_networks_lists_and_not(self):
        self.assertEqual(self.rule(ip="10.1.2.3"), "office")
        self.assertEqual(self.rule(ip="2001:db8:5::1"), "office")
        self.assertEqual(self.rule(x_client="198.51.100.9"), "partner")
        self.assertEqual(self.rule(x_client="198.51.101.9"), "all")
        self.assertEqual(self.rule(x_user="mallory"), "banned")
        self.assertEqual(self.rule(x_user="mallory2"), "all")
        self.assertEqual(self.rule(path="/a", method="GET"), "all")
        self.assertIsNone(self.rule(path="/health", method="GET"))
        self.assertIsNone(self.rule(path="/a", method="HEAD"))

    def test_resp_and_grpc(self):
        with Resp(self.sluice.front_ends["resp"]) as resp:
            answer = resp.ask("RL.CHECK", "*", "ip", "192.0.2.1", "header.X-User", "mallory")
            self.assertEqual(dict(zip(answer[::2], answer[1::2]))[b"rule"], b"banned")
        rls = envoy_harness.messages()
        message = rls.RateLimitRequest(domain="lists")
        message.descriptors.add().entries.add(key="ip", value="10.0.0.1")
        call = envoy_harness.caller(rls, envoy_harness.channel_to(self.sluice))
        self.assertEqual(call(message, timeout=PATIENCE).overall_code, rls.RateLimitResponse.OK)

    def test_a_list_is_read_again_when_it_changes(self):
        self.replace("banned.txt", "mallory\neve\n")
        wait_for(lambda: self.rule(x_user="eve") == "banned", what="the new entry")
        self.replace("office.txt", "10.0.0.0/8\n192.0.2.0/24\n")
        wait_for(lambda: self.rule() == "office", what="the new network")

    def test_a_bad_line_keeps_the_old_list(self):
        networks = [f"10.{i >> 12 & 255}.{i >> 4 & 255}.{(i & 15) << 4}/28\n" for i in range(10**6)]
        networks[777_776] = "10.0.0.1/28\n"
        self.replace("office.txt", "".join(networks))
        line = "office.txt:777777:1: error: the network '10.0.0.1/28' has bits after its prefix"
        wait_for(lambda: line in self.sluice.log(), what="the error")
        self.assertIn("expected '10.0.0.0/28'", self.sluice.log())
        self.assertEqual(self.rule(ip="2001:db8:5::1"), "office")
        networks[777_776] = "192.0.2.0/24\n"
        self.replace("office.txt", "".join(networks))
        wait_for(lambda: self.rule() == "office", what="the corrected list")
        self.assertEqual(self.rule(ip="2001:db8:5::1"), "all")

    def test_rules_over_the_network_read_no_files(self):
        for method, target in (("PUT", "/v1/rules"), ("POST", "/v1/rules/validate")):
            answer = self.sluice.admin_request(method, target, LISTS)
            self.assertEqual(answer.status, 400)
            self.assertIn(b"these rules were not read from a file", answer.body)
        self.assertEqual(self.rule(ip="10.1.2.3"), "office")
        pushed = subprocess.run(
            [binary(), "rules", "push", "rules.yaml", "--store", "redis://127.0.0.1:1"],
            cwd=self.lists,
            capture_output=True,
            text=True,
        )
        self.assertEqual(pushed.returncode, 1)
        self.assertIn("these rules were not read from a file", pushed.stderr)
        subprocess.run([binary(), "rules", "check", "rules.yaml"], cwd=self.lists, check=True)
