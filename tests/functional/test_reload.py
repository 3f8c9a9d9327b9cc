"""Changes of the rules at run time: SIGHUP, files, a ConfigMap's links, administration."""

import os
import shutil
import signal
import unittest

from harness import ServerTest, wait_for

RULES = """
version: 1
domain: shop
rules:
  - name: page
    match: {{ path: /page }}
    limits: [{{ name: user, key: "{{ip}}", algorithm: fixed_window, limit: {limit}, per: 1h }}]
"""
OTHER = """
version: 1
domain: shop
rules:
  - name: other
    match: { path: /other }
    limits: [{ name: user, key: "{ip}", algorithm: fixed_window, limit: 1, per: 1h }]
"""
BAD = RULES.format(limit=5).replace("fixed_window", "fixed_windw")


def rules(limit):
    return RULES.format(limit=limit)


class Reload(ServerTest):
    def limit_and_left(self, ip="192.0.2.1", verb="peek"):
        body = {"attributes": {"path": "/page", "ip": ip}, "verb": verb, "cost": 0}
        limits = self.sluice.check(body).json["limits"]
        return (limits[0]["limit"], limits[0]["remaining"]) if limits else None

    def use(self, times, ip="192.0.2.1"):
        for _ in range(times):
            self.assertEqual(
                self.sluice.check({"attributes": {"path": "/page", "ip": ip}}).status, 200
            )

    def wait_for_limit(self, limit):
        wait_for(lambda: self.limit_and_left()[0] == limit, what=f"the limit {limit}")

    def status(self):
        return self.sluice.admin_request("GET", "/v1/status").json["rules"]

    def write(self, text):
        """Replaces the file atomically."""
        fresh = self.sluice.folder / "fresh"
        fresh.write_text(text)
        os.replace(fresh, self.sluice.rules_file)


class LargeLogs(Reload):
    """A limit whose log does not fit into memory.max_log_bytes."""

    LOG = rules(300).replace("fixed_window", "sliding_window_log")

    def setUp(self):
        self.sluice = self.serve(self.LOG, {"memory": {"max_log_bytes": 4096}, "watch": False})

    def test_they_deny_at_the_limit_and_are_counted(self):
        request = {"attributes": {"path": "/page", "ip": "192.0.2.1"}}
        statuses = [self.sluice.check(request).status for _ in range(310)]
        self.assertEqual(statuses, [200] * 300 + [429] * 10)
        metrics = self.sluice.metrics()
        self.assertGreater(float(metrics["sluice_store_merged_logs_total"]), 0)

    def test_they_are_warned_about_at_the_start_and_after_a_reload(self):
        warning = "rules.yaml:7:79: warning: a log of {} units can need "
        wait_for(lambda: warning.format(300) in self.sluice.log(), "the warning")
        self.write(self.LOG.replace("300", "400"))
        self.sluice.signal(signal.SIGHUP)
        wait_for(lambda: warning.format(400) in self.sluice.log(), "the warning")


class ByFilesAndSignals(Reload):
    def setUp(self):
        self.sluice = self.serve(rules(5), {"watch": False})

    def test_sighup_reloads_the_rules_and_keeps_the_counters(self):
        self.use(3)
        self.assertEqual(self.limit_and_left(), (5, 2))
        self.write(rules(10))
        self.sluice.signal(signal.SIGHUP)
        self.wait_for_limit(10)
        self.assertEqual(self.limit_and_left(), (10, 7))
        self.write(rules(4))
        self.sluice.signal(signal.SIGHUP)
        self.wait_for_limit(4)
        self.assertEqual(self.limit_and_left(), (4, 1))

    def test_a_bad_file_changes_nothing_and_is_reported(self):
        self.use(3)
        self.write(BAD)
        self.sluice.signal(signal.SIGHUP)
        wait_for(lambda: self.status()["failures"] == 1, what="the failure in /v1/status")
        self.assertEqual(self.limit_and_left(), (5, 2))
        status = self.status()
        self.assertEqual(status["version"], 1)
        [error] = status["last_errors"]
        self.assertEqual((error["file"], error["line"]), (str(self.sluice.rules_file), 7))
        self.assertIn("fixed_windw", error["what"])
        metrics = self.sluice.metrics()
        self.assertEqual(metrics["sluice_rules_reload_failures_total"], 1)
        self.assertEqual(metrics["sluice_rules_last_reload_successful"], 0)
        wait_for(lambda: "rules.yaml:7:" in self.sluice.log(), what="the line number in the log")

        self.write(rules(6))
        self.sluice.signal(signal.SIGHUP)
        self.wait_for_limit(6)
        self.assertEqual(self.limit_and_left(), (6, 3))
        self.assertEqual(self.status()["last_errors"], [])
        self.assertEqual(self.sluice.metrics()["sluice_rules_last_reload_successful"], 1)

    def test_a_missing_file_changes_nothing(self):
        self.sluice.rules_file.unlink()
        self.sluice.signal(signal.SIGHUP)
        wait_for(lambda: self.status()["failures"] == 1)
        self.assertEqual(self.limit_and_left(), (5, 5))

    def test_without_watching_a_change_waits_for_the_signal(self):
        self.write(rules(7))
        self.sluice.signal(signal.SIGHUP)
        self.wait_for_limit(7)
        self.assertEqual(self.status()["reloads"], 1)

    def test_the_server_survives_a_hundred_signals(self):
        for _ in range(100):
            self.sluice.signal(signal.SIGHUP)
        self.assertEqual(self.limit_and_left(), (5, 5))


class ByWatching(Reload):
    def test_a_file_that_changes_is_read(self):
        self.sluice = self.serve(rules(5))
        self.use(3)
        self.write(rules(10))
        self.wait_for_limit(10)
        self.assertEqual(self.limit_and_left(), (10, 7))
        self.sluice.rules_file.write_text(rules(8))  # in place
        self.wait_for_limit(8)
        self.write(BAD)
        wait_for(lambda: self.status()["failures"] >= 1)
        self.assertEqual(self.limit_and_left(), (8, 5))
        self.write(rules(9))
        self.wait_for_limit(9)

    def test_changed_links_of_a_configmap_are_followed(self):
        mount = self.folder()

        def publish(name, text):
            (mount / name).mkdir()
            (mount / name / "rules.yaml").write_text(text)
            os.symlink(name, mount / "..data_tmp")
            os.replace(mount / "..data_tmp", mount / "..data")

        publish("..2026_1", rules(5))
        os.symlink("..data/rules.yaml", mount / "rules.yaml")
        self.sluice = self.serve(config={"rules": [str(mount)]})
        self.use(3)
        publish("..2026_2", rules(10))
        shutil.rmtree(mount / "..2026_1")
        self.wait_for_limit(10)
        self.assertEqual(self.limit_and_left(), (10, 7))
        self.assertEqual(self.status()["rules"], 1)

    def test_a_file_added_to_a_directory_is_read(self):
        folder = self.folder()
        (folder / "a.yaml").write_text(rules(5))
        self.sluice = self.serve(config={"rules": [str(folder)]})
        (folder / "b.yaml").write_text(OTHER)
        wait_for(lambda: self.status()["rules"] == 2, what="two rules")


class ByAdministration(Reload):
    def setUp(self):
        self.sluice = self.serve(rules(5))

    def put(self, text, headers=None):
        return self.sluice.admin_request("PUT", "/v1/rules", text, headers)

    def test_put_rules_are_active_and_keep_the_counters(self):
        self.use(3)
        before = self.sluice.admin_request("GET", "/v1/rules")
        self.assertEqual(before.body.decode(), rules(5))
        answer = self.put(rules(10))
        self.assertEqual((answer.status, answer.json["rules"], answer.json["limits"]), (200, 1, 1))
        self.assertEqual(self.limit_and_left(), (10, 7))
        self.assertEqual(self.sluice.admin_request("GET", "/v1/rules").body.decode(), rules(10))
        self.assertEqual(self.sluice.metrics()["sluice_rules_version"], 2)

    def test_bad_rules_are_refused_with_line_numbers(self):
        self.use(3)
        answer = self.put(BAD)
        self.assertEqual(answer.status, 400)
        self.assertIn(":7:", answer.json["detail"])
        self.assertIn("fixed_windw", answer.json["detail"])
        self.assertEqual(self.limit_and_left(), (5, 2))

    def test_if_match_prevents_overwriting_a_concurrent_change(self):
        tag = self.sluice.admin_request("GET", "/v1/rules")["etag"]
        self.assertEqual(self.put(rules(6), {"If-Match": tag}).status, 200)
        self.assertEqual(self.put(rules(7), {"If-Match": tag}).status, 412)
        self.assertEqual(self.limit_and_left(), (6, 6))

    def test_a_counter_is_found_and_reset(self):
        self.use(3)
        key = "/v1/keys?rule=page&ip=192.0.2.1"
        self.assertIn(
            "shop|page|user|ip=192.0.2.1", self.sluice.admin_request("GET", key).body.decode()
        )
        self.assertEqual(self.sluice.admin_request("DELETE", key).status, 200)
        self.assertEqual(self.limit_and_left(), (5, 5))

    def test_administration_and_public_endpoints_are_separate(self):
        for path in ("/v1/rules", "/v1/status", "/v1/keys"):
            self.assertEqual(self.sluice.get(path).status, 404)
        self.assertEqual(self.sluice.admin_request("POST", "/v1/check", "{}").status, 404)


class WithAToken(Reload):
    def test_the_token_is_required_and_sighup_reloads_it(self):
        folder = self.folder()
        token = folder / "token"
        token.write_text("s3cret-s3cret-s3cret\n")
        token.chmod(0o600)
        self.sluice = self.serve(rules(5), {"admin": {"token_file": str(token)}})

        def status(presented):
            headers = {"Authorization": presented} if presented else {}
            return self.sluice.admin_request("GET", "/v1/status", headers=headers).status

        for wrong in (
            None,
            "Bearer wrong",
            "Bearer s3cret",
            "Basic s3cret-s3cret-s3cret",
            "Bearer ",
        ):
            self.assertEqual(status(wrong), 401, wrong)
        self.assertEqual(status("Bearer s3cret-s3cret-s3cret"), 200)
        self.assertEqual(self.sluice.admin_request("PUT", "/v1/rules", rules(6)).status, 401)
        token.write_text("")
        mine = {"Authorization": "Bearer s3cret-s3cret-s3cret"}
        answer = self.sluice.admin_request("POST", "/v1/rules/reload", headers=mine)
        self.assertEqual(answer.status, 409)
        error = answer.json["errors"][0]
        self.assertEqual(error["file"], str(token))
        self.assertIn("the token is unchanged: ", error["what"])
        self.assertEqual(status("Bearer s3cret-s3cret-s3cret"), 200)
        token.write_text("an0ther-an0ther-an0ther\n")
        self.sluice.signal(signal.SIGHUP)
        wait_for(lambda: status("Bearer an0ther-an0ther-an0ther") == 200, what="the new token")
        self.assertEqual(status("Bearer s3cret-s3cret-s3cret"), 401)
        self.assertNotIn("s3cret", self.sluice.log())


if __name__ == "__main__":
    unittest.main()
