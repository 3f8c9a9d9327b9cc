"""The live page in a headless Chromium."""

import os
import re
import subprocess
import threading
import time
import unittest

from browser_harness import Browser
from harness import ROOT, ServerTest, Sluice, binary, wait_for

RULES = """
version: 1
rules:
  - name: login
    match: { path: /login }
    limits: [{ name: address, key: "{ip}", algorithm: fixed_window, limit: 2, per: 1h }]
  - name: order
    match: { path: /order }
    limits: [{ name: user, key: "{header.x-user}", algorithm: fixed_window, limit: 3, per: 1h }]
  - name: trial
    mode: shadow
    match: { path: /trial }
    limits: [{ name: all, algorithm: fixed_window, limit: 1, per: 1h }]
"""
TOKEN = "a-token-of-the-test-0123456789"


class Load(threading.Thread):
    """Sends requests until it is stopped, about 50 a second."""

    def __init__(self, server, *attributes):
        super().__init__(daemon=True)
        self.server, self.attributes, self.is_stopped = server, attributes, threading.Event()

    def run(self):
        while not self.is_stopped.wait(0.02):
            for attributes in self.attributes:
                self.server.check({"attributes": attributes})

    def stop(self):
        self.is_stopped.set()
        self.join()


class BrowserTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(cls.folder())
        cls.addClassCleanup(cls.browser.close)

    def serve_page(self, rules=RULES, config=None):
        server = Sluice(self.folder(), rules, config)
        self.addCleanup(server.stop)
        self.browser.errors()
        self.browser.open(server.admin)
        return server

    def put_load(self, server, *attributes):
        load = Load(server, *attributes)
        load.start()
        self.addCleanup(load.stop)
        return load

    def number(self, selector):
        text = self.browser.text(selector).replace(",", "")
        return float(text) if text not in ("", "–") else 0.0

    def assert_no_errors(self, *expected):
        """A server that does not count keys answers 404 to the first question for them."""
        messages = [one["message"] for one in self.browser.errors()]
        known = ("/v1/top?", *expected)
        self.assertEqual([one for one in messages if not any(word in one for word in known)], [])


class Page(BrowserTest):
    def test_numbers_move_under_load(self):
        server = self.serve_page()
        page = self.browser
        page.wait_for_text("#state", "live")
        self.put_load(
            server, {"path": "/login", "ip": "192.0.2.1"}, {"path": "/trial", "ip": "192.0.2.1"}
        )
        rate = lambda name: self.number(f"#rate-{name}")
        wait_for(lambda: rate("requests") > rate("denied") > 0 and rate("shadow") > 0, "numbers")
        login, order, trial = (row.text for row in page.all("#rules tr"))
        self.assertIn("login", login)
        self.assertNotIn("shadow", login)
        self.assertIn("shadow", trial)
        self.assertTrue(order.endswith("0 0"), order)
        page.wait_for_text("#latency", "check")
        page.wait_for_text("#latency", "µs")
        page.wait_for_text("#store-state", "memory")
        page.wait_for_text("#rules-source", str(server.rules_file))
        chart = "document.querySelector('#chart-total')"
        paths = f"return [...{chart}.querySelectorAll('path')].map(p => p.getAttribute('d'))"
        drawn = re.compile(r"M[\d.]+,[\d.]+L")
        wait_for(lambda: drawn.match(page.run(paths)[0]), what="a line in the chart")
        self.assertEqual(len(page.run(paths)), 3)
        self.assertIn("Requests a second", page.run(f"return {chart}.ariaLabel"))
        self.assert_no_errors()

    def test_a_change_of_the_rules_shows(self):
        server = self.serve_page()
        self.browser.wait_for_text("#rules", "login")
        new = RULES.replace("name: login", "name: sign-in")
        self.assertEqual(server.admin_request("PUT", "/v1/rules", new).status, 200)
        self.browser.wait_for_text("#rules", "sign-in")
        self.browser.wait_for_text("#rules-source", "Version 2 from PUT /v1/rules")
        self.assertNotIn("login", self.browser.text("#rules"))
        server.rules_file.write_text("version: 1\nrules: 7\n")
        self.browser.wait_for_text("#rules-errors", "earlier rules stay active")
        self.assert_no_errors()

    def test_names_with_markup_are_text(self):
        server = self.serve_page()
        name = '<img src=x onerror=alert(1)><script>document.title="pwned"</script>'
        new = RULES.replace("name: login", f"name: '{name}'")
        put = server.admin_request("PUT", "/v1/rules", new)
        self.assertEqual(put.status, 200, put)
        self.browser.wait_for_text("#rules", name)
        self.assertEqual(self.browser.all("main img, main script"), [])
        self.assertEqual(self.browser.driver.title, "Sluice")
        self.assert_no_errors()

    def test_it_connects_again_when_the_server_is_back(self):
        server = self.serve_page()
        self.browser.wait_for_text("#state", "live")
        address = server.admin
        server.stop()
        self.browser.wait_for_text("#state", "again")
        again = Sluice(self.folder(), RULES, {"listen": {"admin": address}})
        self.addCleanup(again.stop)
        self.browser.wait_for_text("#state", "live")

    def test_it_fits_a_narrow_window(self):
        self.addCleanup(self.browser.set_size, 1000, 800)
        self.browser.set_size(360, 700)
        server = self.serve_page()
        self.put_load(server, {"path": "/login", "ip": "192.0.2.1"})
        self.browser.wait_for_text("#latency", "check")
        self.assertEqual(self.browser.overflow(), 0)

    def test_it_follows_dark_mode(self):
        self.addCleanup(self.browser.set_dark, False)
        self.serve_page()
        self.browser.wait_for_text("#state", "live")
        colour = "return getComputedStyle(document.body).backgroundColor"
        self.browser.set_dark(False)
        light = self.browser.run(colour)
        self.browser.set_dark(True)
        dark = self.browser.run(colour)
        self.assertEqual((light, dark), ("rgb(255, 255, 255)", "rgb(15, 20, 25)"))

    def test_it_loads_nothing_from_elsewhere_and_runs_no_inline_script(self):
        server = self.serve_page()
        self.browser.wait_for_text("#state", "live")
        names = self.browser.run("return performance.getEntriesByType('resource').map(r => r.name)")
        self.assertGreater(len(names), 4)
        for name in names:
            self.assertTrue(name.startswith(f"http://{server.admin}/"), name)
        self.browser.run(
            "const s = document.createElementNS('http://www.w3.org/2000/svg', 'script');"
            "const text = document.createTextNode('document.title = \"pwned\"');"
            "s.append(text); document.body.append(s)"
        )
        self.assertEqual(self.browser.driver.title, "Sluice")


class Keys(BrowserTest):
    RULES = """
version: 1
rules:
  - name: login
    match: { path: /login }
    limits:
      - { name: address, key: "{ip}", algorithm: fixed_window, limit: 2, per: 1h,
          block: { after: 100, within: 1h, for: 1h } }
  - name: order
    match: { path: /order }
    limits: [{ name: user, key: "{header.x-user|ip}", algorithm: fixed_window, limit: 3, per: 1h }]
"""

    def check(self, server, **attributes):
        names = {name.replace("__", ".").replace("_", "-"): value for name, value in attributes.items()}
        return server.check({"attributes": names}).status

    def open_key(self, rule, value):
        page = self.browser
        page.wait_for_text("#rules", rule)
        page.click("Look up a key")
        page.choose("#key-rule", rule)
        page.fill("#key-attributes input", value)

    def test_a_key_is_looked_up_reset_blocked_and_unblocked(self):
        server = self.serve_page(self.RULES)
        page = self.browser
        statuses = [self.check(server, path="/login", ip="192.0.2.1") for _ in range(3)]
        self.assertEqual(statuses, [200, 200, 429])
        self.open_key("login", "192.0.2.1")
        page.click("Look")
        page.wait_for_text("#key-result", "192.0.2.1")
        self.assertRegex(page.text("#key-result"), r"remaining\s+0\b")
        page.click("Reset")
        page.wait_for_text("#key-message", "The counter is reset.")
        self.assertRegex(page.text("#key-result"), r"remaining\s+2\b")
        self.assertEqual(self.check(server, path="/login", ip="192.0.2.1"), 200)
        page.click("Block")
        page.wait_for_text("#key-message", "The key is blocked.")
        page.wait_for_text("#key-result", "blocked for")
        self.assertEqual(self.check(server, path="/login", ip="192.0.2.1"), 429)
        self.assertEqual(self.check(server, path="/login", ip="192.0.2.2"), 200)
        page.click("Unblock")
        page.wait_for_text("#key-message", "not blocked any more")
        self.assertEqual(self.check(server, path="/login", ip="192.0.2.1"), 200)
        page.fill("#key-for", "soon")
        page.click("Block")
        page.wait_for_text("#key-message.error", "soon")
        self.assert_no_errors("400", "404")

    def test_a_key_is_overridden(self):
        server = self.serve_page(self.RULES)
        page = self.browser
        self.open_key("order", "user 7/ü&=%")
        self.assertFalse(page.find("#key-block").is_displayed(), "the limit has no block")
        page.fill("#key-units", "1")
        page.click("Override")
        page.wait_for_text("#key-message", "The override is set.")
        page.wait_for_text("#key-result", "limit 1")
        statuses = [self.check(server, path="/order", header__x_user="user 7/ü&=%") for _ in range(2)]
        self.assertEqual(statuses, [200, 429])
        page.click("Remove the override")
        page.wait_for_text("#key-message", "The override is removed.")
        self.assertEqual(self.check(server, path="/order", header__x_user="user 7/ü&=%"), 200)
        page.choose("#key-kind", "a block")
        page.fill("#key-hours", "2")
        page.click("Override")
        page.wait_for_text("#key-result", "blocked true, until 2")
        self.assertEqual(self.check(server, path="/order", header__x_user="user 7/ü&=%"), 429)
        page.choose("#key-attributes select", "ip")
        page.fill("#key-attributes input", "192.0.2.1")
        page.click("Look")
        page.wait_for_text("#key-result", "ip=192.0.2.1")
        self.assert_no_errors("404")

    def test_the_dialog_works_by_keyboard(self):
        self.serve_page(self.RULES)
        page = self.browser
        page.wait_for_text("#rules", "login")
        page.run("document.querySelector('#find-key').focus()")
        page.press("ENTER")
        self.assertTrue(page.find("#key").is_displayed())
        self.assertEqual(page.focused(), "key-rule")
        outline = "return getComputedStyle(document.activeElement).outlineStyle"
        page.press("TAB")
        self.assertEqual((page.focused(), page.run(outline)), ("key-limit", "solid"))
        page.press("ESCAPE")
        self.assertFalse(page.find("#key").is_displayed())
        self.assertEqual(page.focused(), "find-key")

    def test_keys_with_markup_or_control_characters_are_shown_as_text(self):
        self.serve_page(self.RULES)
        page = self.browser
        self.open_key("order", "x")
        page.run(
            "document.querySelector('#key-attributes input').value = arguments[0]",
            "<b onclick=alert(1)>\u202eevil\u0007</b>",
        )
        page.click("Look")
        page.wait_for_text("#key-result", "<b onclick=alert(1)>\\u{202e}evil\\u{7}</b>")
        self.assertEqual(page.all("#key-result b"), [])
        self.assert_no_errors("404")


class TopKeys(BrowserTest):
    def ask(self, server, user, count):
        for _ in range(count):
            server.check({"attributes": {"path": "/order", "header.x-user": user}})

    def test_top_keys_are_text_and_can_be_opened(self):
        server = self.serve_page()
        page = self.browser
        self.ask(server, "user-7", 9)
        self.ask(server, "user-8", 5)
        self.ask(server, "<img src=x onerror=alert(1)>\u202e\u0007", 4)
        page.wait_for_text("#top-limits", "<img src=x onerror=alert(1)>\\u{202e}\\u{7}")
        self.assertEqual(page.all("main img"), [])
        page.wait_for_text("#top-limits", "user-8")
        counts = re.compile(r"order / user.*user-7\s+6\b.*user-8\s+2\b", re.DOTALL)
        wait_for(lambda: counts.search(page.text("#top-limits")), what="the denials of both")
        page.choose("#top-by", "asked")
        wait_for(
            lambda: re.search(r"user-7\s+9\b", page.text("#top-limits")), what="all requests of user-7"
        )
        page.click("Open", "#top-limits")
        page.wait_for_text("#key-result", "header.x-user=user-7")
        page.click("Reset")
        page.wait_for_text("#key-message", "The counter is reset.")
        self.assert_no_errors("404")

    def test_a_key_that_is_not_utf8_cannot_be_opened_as_another_key(self):
        limit, block = "limit: 3, per: 1h", "block: { after: 99, within: 1h, for: 1h }"
        server = self.serve_page(RULES.replace(limit, f"{limit}, {block}"))
        page = self.browser
        fields = {"X-Original-URI": "/order", "X-User": "mallory\xff"}
        self.ask(server, "mallory\ufffd", 5)
        for _ in range(7):
            server.get("/v1/auth", fields)
        page.wait_for_text("#top-limits", "mallory\ufffd (not UTF-8)")
        row = re.compile("mallory\ufffd\\s+2\\s+Open")
        wait_for(lambda: row.search(page.text("#top-limits")), what="a key with a button")
        names = "return [...document.querySelectorAll('#top-limits button')].map((b) => b.ariaLabel)"
        self.assertEqual(page.run(names), ["Open mallory\ufffd"])
        key = "rule=order&header.x-user=mallory%FF"
        self.assertEqual(server.admin_request("DELETE", f"/v1/keys?{key}").status, 200)
        self.assertEqual(server.get("/v1/auth", fields).status, 200, "the bytes name the key")
        self.assertEqual(server.admin_request("PUT", f"/v1/blocks?for=1h&{key}").status, 200)
        self.assertEqual(server.get("/v1/auth", fields).status, 429)
        self.assert_no_errors("404")

    def test_keys_that_the_log_hashes_are_hashes_without_buttons(self):
        server = self.serve_page(config={"log": {"keys": "hash"}})
        self.ask(server, "a-secret-user", 5)
        self.browser.wait_for_text("#top-note", "shown as hashes")
        hashed = re.compile(r"[0-9a-f]{16}\s+2\b")
        wait_for(lambda: hashed.search(self.browser.text("#top-limits")), what="a hash")
        self.assertEqual(self.browser.all("#top-limits button"), [])
        self.assertNotIn("a-secret-user", self.browser.driver.page_source)


class Editor(BrowserTest):
    def open_editor(self, rules=RULES, config=None):
        server = self.serve_page(rules, config)
        self.browser.wait_for_text("#rules-source", "Version 1")
        self.browser.click("Edit the rules")
        return server

    def edit(self, text):
        self.browser.run(
            "const field = document.querySelector('#editor-text'); field.value = arguments[0];"
            "field.dispatchEvent(new Event('input'))",
            text,
        )

    def shown(self):
        return self.browser.run("return document.querySelector('#editor-text').value")

    def test_rules_are_validated_compared_and_replaced(self):
        server = self.open_editor()
        page = self.browser
        wait_for(lambda: self.shown() == RULES, what="the active rules in the editor")
        replace = page.find("#editor-replace")
        self.assertFalse(replace.is_enabled(), "nothing is validated")
        self.edit(RULES.replace("limit: 3", "limit: many"))
        page.click("Validate")
        page.wait_for_text("#editor-message.error", "1 error")
        self.assertFalse(replace.is_enabled())
        page.find("#editor-list button").click()
        at = page.run("return document.querySelector('#editor-text').selectionStart")
        self.assertTrue(self.shown()[at:].startswith("many"), self.shown()[at:][:20])
        new = RULES.replace("limit: 3", "limit: 30").replace("name: trial", "name: <b>new</b>")
        self.edit(new)
        page.click("Validate")
        page.wait_for_text("#editor-list", "rule order, limit user: limit 3 → 30")
        page.wait_for_text("#editor-list", "+ rule <b>new</b>")
        page.wait_for_text("#editor-list", "− rule trial")
        page.click("Replace the active rules…")
        page.click("Cancel", "#confirm")
        self.assertEqual(server.admin_request("GET", "/v1/rules").body.decode(), RULES)
        page.click("Replace the active rules…")
        page.wait_for_text("#confirm-text", "3 differences")
        page.click("Replace", "#confirm")
        page.wait_for_text("#editor-message", "active as version 2")
        self.assertEqual(server.admin_request("GET", "/v1/rules").body.decode(), new)
        page.press("ESCAPE")
        page.wait_for_text("#rules", "<b>new</b>")
        self.assert_no_errors("400")

    def test_rules_that_have_changed_meanwhile_are_not_replaced(self):
        server = self.open_editor()
        wait_for(lambda: self.shown() == RULES, what="the active rules in the editor")
        other = RULES.replace("limit: 3", "limit: 4")
        self.assertEqual(server.admin_request("PUT", "/v1/rules", other).status, 200)
        self.browser.click("Validate")
        self.browser.wait_for_text("#editor-list", "limit 4 → 3")
        self.browser.click("Replace the active rules…")
        self.browser.click("Replace", "#confirm")
        self.browser.wait_for_text("#editor-message.error", "have changed since")
        self.assertEqual(server.admin_request("GET", "/v1/rules").body.decode(), other)
        self.assert_no_errors("412")

    def test_rules_in_several_files_are_only_shown(self):
        folder = self.folder()
        for name in ("a", "b"):
            rule = f"{{ name: {name}, match: {{ path: /{name} }}, action: deny }}"
            (folder / f"{name}.yaml").write_text(f"version: 1\nrules: [{rule}]\n")
        self.open_editor(rules=None, config={"rules": str(folder)})
        page = self.browser
        page.wait_for_text("#editor-message", "in 2 files")
        self.assertIn("name: a", self.shown())
        page.choose("#editor-files", str(folder / "b.yaml"))
        wait_for(lambda: "name: b" in self.shown(), what="the other file")
        self.assertFalse(page.find("#editor-replace").is_displayed())
        self.assertTrue(page.run("return document.querySelector('#editor-text').readOnly"))


@unittest.skipUnless("SLUICE_SCREENSHOTS" in os.environ, "SLUICE_SCREENSHOTS names no folder")
class Screenshots(BrowserTest):
    """Makes the pictures of docs/live-page.md and README.md in the folder that SLUICE_SCREENSHOTS
    names."""

    def save(self, name):
        self.assertTrue(self.browser.driver.save_screenshot(f"{os.environ['SLUICE_SCREENSHOTS']}/{name}"))

    def test_the_page_under_load(self):
        self.browser.set_size(960, 1080)
        server = self.serve_page()
        users = ({"path": "/order", "header.x-user": f"user-{i}"} for i in (7, 7, 7, 12, 3, 12))
        paths = ({"path": path, "ip": "192.0.2.1"} for path in ("/login", "/trial", "/trial"))
        self.put_load(server, *users, *paths)
        time.sleep(60)
        self.browser.set_dark(False)
        self.save("live-page.png")
        self.addCleanup(self.browser.set_dark, False)
        self.browser.set_dark(True)
        self.browser.set_size(360, 640)
        self.browser.click("Look up a key")
        self.browser.choose("#key-rule", "order")
        self.browser.fill("#key-attributes input", "user-7")
        self.browser.click("Look")
        self.browser.wait_for_text("#key-result", "user-7")
        self.assertEqual(self.browser.overflow(), 0)
        self.save("live-page-key.png")

    def test_the_report_of_a_replay(self):
        report = self.folder() / "replay.html"
        subprocess.run(
            [binary(), "replay", "--rules", "examples/rules/access-log.yaml", "--html", str(report),
             "examples/logs/access.log.gz"],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self.browser.set_dark(False)
        self.browser.set_size(960, 570)
        self.browser.driver.get(report.as_uri())
        self.browser.run("document.documentElement.style.overflow = 'hidden'")  # no scroll bar
        self.save("replay.png")


class Token(BrowserTest):
    def serve_with_token(self):
        file = self.folder() / "token"
        file.write_text(TOKEN)
        file.chmod(0o600)
        return self.serve_page(config={"admin": {"token_file": str(file)}})

    def test_the_page_asks_for_the_token_and_refuses_a_wrong_one(self):
        server = self.serve_with_token()
        page = self.browser
        page.wait_for_text("#login-message", "needs the token")
        self.assertFalse(page.find("#live").is_displayed())
        page.fill("#token", "wrong")
        page.find("#token").send_keys("\n")
        page.wait_for_text("#login-message", "The token is wrong")
        page.fill("#token", TOKEN)
        page.click("Open")
        page.wait_for_text("#state", "live")
        page.wait_for_text("#rules", "login")
        self.assertNotIn(TOKEN, page.driver.current_url)
        page.open(server.admin)
        page.wait_for_text("#state", "live")
        page.click("Forget the token")
        page.wait_for_text("#login-message", "forgotten")
        page.open(server.admin)
        page.wait_for_text("#login-message", "needs the token")
        self.assert_no_errors("401")
