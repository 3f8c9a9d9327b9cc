"""The live page in a headless Chromium."""

import json
import math
import os
import re
import subprocess
import threading
import time
import unittest

import test_quota
from browser_harness import Browser, replay_example
from harness import ServerTest, Sluice, wait_for
from redis_harness import Redis

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
        cls.browser.set_size(1000, 900)  # the dialog of a key fits

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
        """A server that does not count keys, or has no ledger, answers the first question with an error."""
        messages = [one["message"] for one in self.browser.errors()]
        known = ("/v1/top?", "/v1/usage?", *expected)
        self.assertEqual([one for one in messages if not any(word in one for word in known)], [])


class Page(BrowserTest):
    def rows(self, selector="#rules"):
        """Returns the texts of the rows of a long table that are in sight."""
        script = "return [...document.querySelectorAll(arguments[0] + ' tr:not(.gap)')].map(r => r.innerText)"
        return self.browser.run(script, selector)

    def test_numbers_move_under_load(self):
        server = self.serve_page()
        page = self.browser
        page.wait_for_text("#state", "live")
        self.put_load(
            server, {"path": "/login", "ip": "192.0.2.1"}, {"path": "/trial", "ip": "192.0.2.1"}
        )
        rate = lambda name: self.number(f"#rate-{name}")
        wait_for(lambda: rate("requests") > rate("denied") > 0 and rate("shadow") > 0, "numbers")
        page.wait_for_text("#latency", "check")
        page.wait_for_text("#latency", "µs")
        page.wait_for_text("#store-state", "memory of this server")
        page.wait_for_text("#rules-source", str(server.rules_file))
        chart = "document.querySelector('#chart-total')"
        drawn = f"return {chart}.querySelector('path.line.denied')?.getAttribute('d') ?? ''"
        wait_for(lambda: re.match(r"M[\d.]+,[\d.]+L", page.run(drawn)), what="a line in the chart")
        self.assertIn("Requests a second", page.run(f"return {chart}.ariaLabel"))
        labels = page.run(f"return [...{chart}.querySelectorAll('text')].map(t => t.textContent)")
        self.assertTrue(any(re.match(r"\d\d:\d\d$", one) for one in labels), labels)
        self.assert_no_errors()

    def test_it_opens_with_a_past(self):
        server = Sluice(self.folder(), RULES)
        self.addCleanup(server.stop)
        for _ in range(4):
            server.check({"attributes": {"path": "/login", "ip": "192.0.2.1"}})
        past = lambda: server.admin_request("GET", "/v1/history?range=10m").json
        wait_for(lambda: sum(past()["total"].get("denied", [])) == 2, what="the past on the server")
        self.browser.errors()
        self.browser.open(server.admin)
        self.browser.wait_for_text("#share-denied", "50 %")
        path = "return document.querySelector('#chart-total path.line.asked').getAttribute('d')"
        wait_for(lambda: "L" in self.browser.run(path), what="a line of the past")
        login = next(row for row in self.rows() if row.startswith("login"))
        self.assertIn("2 per 1h", login)
        self.assertIn("by {ip}", login)
        self.assertIn("path '/login'", login)
        self.assertIn("50 %", login)
        self.assert_no_errors()

    def test_a_skipped_limit_shows(self):
        server = Sluice(self.folder(), RULES)
        self.addCleanup(server.stop)
        server.check({"attributes": {"path": "/order"}})
        past = lambda: server.admin_request("GET", "/v1/history").json["total"]
        wait_for(lambda: sum(past().get("skipped", [])) == 1, what="the past on the server")
        self.browser.open(server.admin)
        self.browser.wait_for_text("#rules", "order")
        headings = self.browser.run(
            "return [...document.querySelectorAll('#rules-head th')].map((cell) => cell.innerText)"
        )
        script = (
            "const row = [...document.querySelectorAll('#rules tr')].find((r) => r.innerText.startsWith('order'));"
            "return row.children[arguments[0]].innerText"
        )
        self.assertEqual(self.browser.run(script, headings.index("skipped")), "1")

    def choose_range(self, name):
        self.browser.run(f"document.querySelector('#range input[value=\"{name}\"]').click()")

    def test_ranges_and_the_values_under_the_pointer(self):
        server = self.serve_page()
        page = self.browser
        server.check({"attributes": {"path": "/login", "ip": "192.0.2.1"}})
        label = "return document.querySelector('#chart-total').ariaLabel ?? ''"
        wait_for(lambda: "10 minutes" in page.run(label), what="the chart")
        points = "return document.querySelector('#chart-total').plotted.past.times.length"
        wait_for(lambda: page.run(points) > 1, what="points of the chart")
        page.run(
            "const box = document.querySelector('#chart-total'); const at = box.getBoundingClientRect();"
            "box.dispatchEvent(new PointerEvent('pointermove', { clientX: at.right - 10, clientY: at.top + 9 }))"
        )
        page.wait_for_text("#tip", "asked")
        self.assertRegex(page.text("#tip"), r"^\d\d:\d\d:\d\d\n")
        page.run("document.querySelector('#chart-total').focus()")
        page.press("ARROW_LEFT")
        said = "return document.querySelector('#said').textContent"
        wait_for(lambda: "asked" in page.run(said), what="the values for a screen reader")
        self.choose_range("1d")
        wait_for(lambda: "24 hours" in page.run(label), what="a day")
        page.wait_for_text("#share-label", "24 hours")
        self.assert_no_errors()

    def test_rules_are_sorted_and_filtered(self):
        self.serve_page()
        page = self.browser
        page.wait_for_text("#rules", "login")
        names = lambda: [row.split()[0] for row in self.rows()]
        sort = "return [...document.querySelectorAll('#rules-head th')].map((c) => c.ariaSort).slice(0, 2)"
        for order, sorted_names in ("ascending", ["login", "order", "trial"]), ("descending", ["trial", "order", "login"]):
            # A click misses the button if the page moves it in that moment.
            wait_for(lambda: page.run(sort) == [order, None] or page.click("rule", "#rules-head"), what=order)
            wait_for(lambda: names() == sorted_names, what=f"the {order} names")
        page.fill("#rules-filter", "x-user")
        wait_for(lambda: names() == ["order"], what="the rule whose key matches")
        page.wait_for_text("#rules-more", "2 limits hidden by the filter")

    def test_a_rule_has_a_permalink(self):
        server = self.serve_page()
        page = self.browser
        server.check({"attributes": {"path": "/order", "header.x-user": "user-7"}})
        page.wait_for_text("#rules", "order")
        page.click("order", "#rules")
        page.wait_for_text("#chart-title", "Requests a second of order")
        page.wait_for_text("#rule-facts", "3 per 1h")
        self.assertTrue(page.driver.current_url.endswith("#rule=order"), page.driver.current_url)
        page.click("Show all rules")
        wait_for(lambda: page.text("#chart-title") == "Requests a second", what="all rules")
        page.open(server.admin, "/#rule=order&limit=user&key=user-7")
        page.driver.refresh()  # a change of the fragment alone would not load the page
        page.wait_for_text("#chart-title", "of order")
        page.wait_for_text("#key-result", "header.x-user=user-7")
        link = page.run("return document.querySelector('#key-link').hash")
        self.assertEqual(link, "#rule=order&limit=user&key=user-7")
        page.run("location.hash = '#rule=gone'")
        page.wait_for_text("#alert-link", "There is no rule gone.")
        self.assert_no_errors("404")

    def test_without_requests_it_shows_how_to_send_one(self):
        self.serve_page()
        self.browser.wait_for_text("#empty-command", "curl -i http://")
        sent = subprocess.run(
            self.browser.text("#empty-command") + " -sS", shell=True, capture_output=True, text=True, check=True
        )
        self.assertIn("200 OK", sent.stdout)
        wait_for(lambda: not self.browser.find("#empty").is_displayed(), what="the request")

    def test_a_change_of_the_rules_shows(self):
        server = self.serve_page()
        self.browser.wait_for_text("#rules", "login")
        new = RULES.replace("name: login", "name: sign-in")
        self.assertEqual(server.admin_request("PUT", "/v1/rules", new).status, 200)
        self.browser.wait_for_text("#rules", "sign-in")
        self.browser.wait_for_text("#rules-source", "Version 2 from PUT /v1/rules")
        names = lambda: {row.split()[0] for row in self.rows()}
        wait_for(lambda: names() == {"sign-in", "order", "trial"}, what="the end of the old rule")
        server.rules_file.write_text("version: 1\nrules: 7\n")
        self.browser.wait_for_text("#alerts", "the earlier rules stay active")
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

    def test_a_server_that_is_gone_is_not_shown_as_alive(self):
        server = self.serve_page()
        page = self.browser
        page.wait_for_text("#state", "live")
        address = server.admin
        server.stop()
        page.wait_for_text("#alert-gone", "Everything below is as of")
        self.assertRegex(page.text("#alert-gone"), r"as of \d\d:\d\d:\d\d")
        self.assertEqual(page.text("#state"), "gone")
        self.assertTrue(page.driver.title.startswith("⚠"))
        dim = "return getComputedStyle(document.querySelector('#numbers')).filter"
        self.assertEqual(page.run(dim), "grayscale(1)")
        again = Sluice(self.folder(), RULES, {"listen": {"admin": address}})
        self.addCleanup(again.stop)
        page.wait_for_text("#state", "live")
        self.assertEqual(page.text("#alerts"), "")
        self.assertEqual(page.run(dim), "none")

    def test_it_fits_a_narrow_window(self):
        self.addCleanup(self.browser.set_size, 1000, 900)
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
        self.assertEqual((light, dark), ("rgb(246, 247, 249)", "rgb(18, 21, 28)"))

    def test_it_loads_little_nothing_from_elsewhere_and_runs_no_inline_script(self):
        server = self.serve_page()
        self.browser.wait_for_text("#state", "live")
        self.browser.driver.execute_async_script("import('/page/quota.js').then(arguments[0])")
        found = "return performance.getEntriesByType('resource').map(r => [r.name, r.decodedBodySize])"
        sizes = dict(self.browser.run(found))
        self.assertGreater(len(sizes), 4)
        for name in sizes:
            self.assertTrue(name.startswith(f"http://{server.admin}/"), name)
        self.assertIn(f"http://{server.admin}/page/quota.js", sizes)
        files = sum(size for name, size in sizes.items() if "/page/" in name)
        self.assertLessEqual(files + len(server.admin_request("GET", "/").body), 80_000)
        self.browser.run(
            "const s = document.createElementNS('http://www.w3.org/2000/svg', 'script');"
            "const text = document.createTextNode('document.title = \"pwned\"');"
            "s.append(text); document.body.append(s)"
        )
        self.assertEqual(self.browser.driver.title, "Sluice")

    def test_a_viewer_holds_few_connections(self):
        # The browser also opens connections that it does not use. They end when they were idle.
        server = self.serve_page(config={"bounds": {"idle_timeout": "3s"}})
        self.browser.wait_for_text("#rules", "login")
        listeners = lambda: server.admin_request("GET", "/v1/status").json["listeners"]
        held = lambda: next(one["connections"] for one in listeners() if one["name"] == "admin")
        # The stream, one for questions, and the one of this question.
        wait_for(lambda: held() <= 3, what="the end of the connections that loaded the page")


CANNED = """
const read = JSON.parse;
JSON.parse = (text) => {
  const value = read(text);
  if (value?.store && window.canned) Object.assign(value, window.canned);
  return value;
};
window.sent = [];
const ask = window.fetch;
window.fetch = (target, options = {}) => {
  if (options.method === "PATCH") {
    window.sent.push([target, read(options.body)]);
    return Promise.resolve(new Response('{"version":2}', { status: 200 }));
  }
  const known = window.answers?.find(([start]) => target.startsWith(start));
  if (known) return Promise.resolve(new Response(known[1], { status: 200 }));
  return ask(target, options);
};
"""
OUTAGE = {
    "outage": {
        "since": "2026-11-26T23:10:04Z",
        "why": "Redis at 127.0.0.1:6379 refuses connections",
        "rules": [
            {"name": "login", "does": "local"},
            {"name": "order", "does": "allow"},
            {"name": "trial", "does": "allow"},
        ],
    }
}


class Canned(BrowserTest):
    """What a server says in rare states is added to its events in the browser."""

    def serve_canned(self, canned=None, rules=RULES, answers=()):
        values = f"window.canned = {json.dumps(canned)}; window.answers = {json.dumps(answers)};"
        command = {"source": CANNED + values}
        script = self.browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", command)
        self.addCleanup(
            self.browser.driver.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", script
        )
        return self.serve_page(rules)

    def test_an_outage_is_on_top_and_can_be_steered(self):
        store = {"kind": "redis", "at": "127.0.0.1:6379", "breaker_open": False}
        self.serve_canned({**OUTAGE, "store": store})  # without requests the breaker stays closed
        page = self.browser
        page.wait_for_text("#alert-outage", "Redis at 127.0.0.1:6379 refuses connections, since")
        page.wait_for_text("#alert-outage", "Let everything through: order, trial")
        page.wait_for_text("#store-state", "does not answer")
        page.wait_for_text("#alert-outage", "Limit by this server's own counters: login")
        top = page.run("return document.querySelector('#alert-outage').getBoundingClientRect().top")
        self.assertEqual(top, 0)
        self.assertTrue(page.driver.title.startswith("⚠"))
        lefts = "return [...document.querySelectorAll('#alert-outage strong, #alert-outage label')]"
        lefts = page.run(lefts + ".map((one) => one.getBoundingClientRect().left)")
        self.assertEqual(lefts[0], lefts[1])
        disabled = "return document.querySelector('#alert-outage button').disabled"
        self.assertTrue(page.run(disabled), "nothing is chosen")
        page.choose("#alert-outage select", "order")
        self.assertTrue(page.run(disabled), "only the rule is chosen")
        page.choose("#alert-outage label + select", "deny everything")
        command = "sluice rules set order on_store_error=deny --for 1h --admin A --admin B"
        page.wait_for_text("#alert-outage", f"on all: {command}")
        page.click("Do it on this server for 1 hour")
        page.wait_for_text("#alert-outage", "Rule order of this server: deny everything until")
        expected = ["/v1/rules/order", {"on_store_error": "deny", "for": "1h"}]
        self.assertEqual(page.run("return window.sent"), [expected])
        left = {"outage": {**OUTAGE["outage"], "rules": OUTAGE["outage"]["rules"][:1]}}
        page.run("window.canned = arguments[0]", left)
        wait_for(lambda: page.run(disabled), what="the end of the choice, with its rule")
        page.run("window.canned = null")
        wait_for(lambda: page.text("#alerts") == "", what="the end of the outage")

    def test_a_full_and_a_slow_store_are_shown_as_an_outage_is(self):
        rules = OUTAGE["outage"]["rules"]
        full = {"since": "2026-11-26T23:10:04Z", "why": "its memory is full", "rules": rules}
        self.serve_canned({"full": full, "slow": {**full, "why": "4 % of the requests take longer"}})
        page = self.browser
        page.wait_for_text("#alert-full", "Meanwhile, for keys without a counter (new clients):")
        page.wait_for_text("#alert-full", "Let everything through: order, trial")
        page.wait_for_text("#alert-full", "Do it on this server for 1 hour")
        page.wait_for_text("#alert-slow", "Meanwhile, without an answer in time:")
        page.wait_for_text("#alert-slow", "Limit by this server's own counters: login")

    def test_changes_for_a_time_are_shown(self):
        change = {"rule": "login", "key": "on_store_error", "value": "deny"}
        gone = {"rule": "old", "key": "mode", "value": "shadow", "effective": False}
        until = {"until": "2026-11-27T01:10:04Z"}
        self.serve_canned({"temporary": [{**change, **until}, gone]})
        page = self.browser
        page.wait_for_text("#alert-temporary", "Rules are changed for a time. On this server:")
        self.assertRegex(
            page.text("#alert-temporary"),
            r"Rule login: on_store_error deny until 2026-11-2\d \d\d:\d\d:04",
        )
        old = "Rule old: mode shadow until other rules are active, without effect on the active rules"
        self.assertIn(old, page.text("#alert-temporary"))
        self.assertFalse(page.driver.title.startswith("⚠"))

    def test_lost_rules_are_on_top(self):
        lost = {"since": "2026-11-26T23:10:04Z", "why": "there are no rules at sluice:rules"}
        gone = {**lost, "why": "import", "count": 12, "counters": [f"default|api|user|k={i}" for i in range(10)]}
        rules = {"version": 1, "sources": [], "busiest": [], "last_errors": [
            {"file": "a", "line": 1, "column": 1, "what": what} for what in (lost["why"], "it is wrong")]}
        page = self.browser
        self.serve_canned({"rules_lost": lost, "overrides_lost": gone, "rules": rules})
        page.wait_for_text("#alert-rules-errors", "Rules were refused; the earlier rules stay active.")
        self.assertEqual(page.text("#alert-rules-errors ul"), "a:1:1: it is wrong", "the other bar has one")
        page.wait_for_text("#alert-rules-lost", "there are no rules at sluice:rules, since")
        page.wait_for_text("#alert-overrides-lost", "Overrides are lost (12). import, since")
        self.assertRegex(page.text("#alert-overrides-lost ul"), r"(?s)^default\|api\|user\|k=0\n.*k=9\nand 2 more$")

    # Scrolls often within one task. The result: how many frames were asked for, and rows put in.
    SCROLL = """
        const [box, done] = [document.querySelector(arguments[0]), arguments[1]];
        let [frames, rows] = [0, 0];
        const ask = window.requestAnimationFrame;
        window.requestAnimationFrame = (draw) => { ++frames; return ask(draw); };
        new MutationObserver((all) => all.forEach((one) => { rows += one.addedNodes.length; }))
          .observe(box.querySelector('tbody'), { childList: true });
        for (let i = 0; i <= 100; ++i) {
          box.scrollTop = (box.scrollHeight * i) / 100;
          box.dispatchEvent(new Event('scroll'));
        }
        window.requestAnimationFrame = ask;
        ask(() => ask(() => done([frames, rows])));
    """

    def test_long_tables_have_few_elements_and_are_drawn_once_a_frame(self):
        keys = [{"key": f"user-{i}", "count": 10_000 - i, "error": 0} for i in range(10_000)]
        top = {"hashed": False, "limits": [{"rule": "r0", "limit": "all", "total": 1, "keys": keys}]}
        rule = "  - {{ name: r{0}, match: {{ path: /{0} }}, limits: [{{ name: all, algorithm: gcra, limit: 1, per: 1h }}] }}\n"
        rules = "version: 1\nrules:\n" + "".join(rule.format(i) for i in range(200))
        self.serve_canned(rules=rules, answers=[["/v1/top", json.dumps(top)]])
        page = self.browser
        page.wait_for_text("#top-keys", "user-0")
        page.wait_for_text("#rules", "r0")
        for box, last, total in (("#rules-box", "r", 200), ("#top-box", "user-9999", 10_000)):
            count = f"return document.querySelectorAll('{box} tbody tr').length"
            for part in range(11):
                page.run(f"const box = document.querySelector('{box}'); box.scrollTop = box.scrollHeight * {part} / 10")
                self.assertLess(page.run(count), 60)
            page.wait_for_text(box, last)
            page.run(f"document.querySelector('{box}').scrollTop = 0")
            page.wait_for_text(box, {"#rules-box": "r0", "#top-box": "user-0"}[box])
            frames, rows = page.driver.execute_async_script(self.SCROLL, box)
            self.assertEqual(frames, 1)
            self.assertTrue(0 < rows < 60, rows)
            widths = f"return [...document.querySelectorAll('{box} th')].map((one) => one.offsetWidth)"
            # The rows are there already, and get another order.
            page.run(f"document.querySelector('{box} thead button')?.click()")
            self.assertGreater(min(page.run(widths)), 40)
            rows = f"return Number(document.querySelector('{box} table').ariaRowCount)"
            self.assertEqual(page.run(rows), total + 1)
        page.fill("#top-filter", "user-777")
        page.wait_for_text("#top-keys", "user-7770")
        self.assertEqual(len(page.all("#top-keys tr:not(.gap)")), 11)


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
        page.click("Find a key")
        page.choose("#key-rule", rule)
        page.fill("#key-attributes input", value)

    def test_a_key_is_looked_up_reset_blocked_and_unblocked(self):
        server = self.serve_page(self.RULES)
        page = self.browser
        statuses = [self.check(server, path="/login", ip="192.0.2.1") for _ in range(3)]
        self.assertEqual(statuses, [200, 200, 429])
        self.open_key("login", "192.0.2.1")
        page.click("Look up")
        page.wait_for_text("#key-result", "192.0.2.1")
        self.assertRegex(page.text("#key-result"), r"remaining\s+0\b")
        page.click("Reset the counter")
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
        for typed, written in (("2001:DB8:0::5", "ip=2001:db8::5"), ("::ffff:192.0.2.7", "ip=192.0.2.7")):
            page.fill("#key-attributes input", typed)
            page.click("Look up")
            page.wait_for_text("#key-result", written)  # as a gateway writes it
        page.fill("#key-for", "soon")
        page.click("Block")
        page.wait_for_text("#key-message.error", "soon")
        self.assert_no_errors("400", "404")

    def test_a_key_is_overridden(self):
        server = self.serve_page(self.RULES)
        page = self.browser
        self.open_key("order", "user 7/ü&=%")
        page.fill("#key-units", "1")
        page.click("Set")
        page.wait_for_text("#key-message", "The key has its own limit.")
        page.wait_for_text("#key-result", "limit 1")
        statuses = [self.check(server, path="/order", header__x_user="user 7/ü&=%") for _ in range(2)]
        self.assertEqual(statuses, [200, 429])
        page.click("Remove its own limit")
        page.wait_for_text("#key-message", "The key has the limit of the rule again.")
        self.assertEqual(self.check(server, path="/order", header__x_user="user 7/ü&=%"), 200)
        page.click("Block")
        page.wait_for_text("#key-message", "The key is blocked.")
        page.wait_for_text("#key-result", "blocked true, until 2")
        self.assertEqual(self.check(server, path="/order", header__x_user="user 7/ü&=%"), 429)
        page.choose("#key-attributes select", "ip")
        page.fill("#key-attributes input", "192.0.2.1")
        page.click("Look up")
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
        page.click("Look up")
        page.wait_for_text("#key-result", "<b onclick=alert(1)>\\u{202e}evil\\u{7}</b>")
        self.assertEqual(page.all("#key-result b"), [])
        self.assert_no_errors("404")


BUDGETS = """
version: 1
rules:
  - name: models
    limits:
      - { name: team, key: "{header.x-team|ip}", algorithm: budget, limit: 1_000_000, per: never,
          cost: "{body.tokens|1}" }
"""


class Budgets(BrowserTest):
    def test_what_is_spent_held_and_left_of_budgets(self):
        self.expect_budgets({})

    def test_what_is_spent_held_and_left_of_budgets_in_redis(self):
        redis = Redis(self.folder()).start()
        self.addCleanup(redis.stop)
        self.expect_budgets({"store": redis.url, "redis": {"deadline": "5s"}})

    def expect_budgets(self, config):
        server = Sluice(self.folder(), BUDGETS, config)
        self.addCleanup(server.stop)
        self.addCleanup(self.browser.driver.get, "about:blank")  # or the page asks a stopped server
        self.browser.errors()
        teams = ({"header.x-team": "search"}, {"ip": "192.0.2.1"}, {"header.x-team": "<b>x</b>"})
        for attributes, tokens in zip(teams, ("250000", "1000000", "1")):
            server.check({"attributes": {**attributes, "body.tokens": tokens}})
        server.check({"attributes": {**teams[0], "body.tokens": "300000"}, "id": "call-1", "hold_ms": 3600000})
        top = lambda: server.admin_request("GET", "/v1/top?by=asked&over=day").json["limits"]
        wait_for(lambda: top() and len(top()[0]["keys"]) == 3, what="the keys")
        page = self.browser
        page.open(server.admin)
        page.wait_for_text("#budget-keys", "<b>x</b>")
        rows = [" ".join(row.text.split()) for row in page.all("#budget-keys tr")]
        self.assertEqual(rows, ["192.0.2.1 models / team 1,000,000 0 0",
                                "search models / team 250,000 300,000 450,000",
                                "<b>x</b> models / team 1 0 999,999"])
        bar = "return getComputedStyle(document.querySelectorAll('.used')[1]).getPropertyValue('--%s')"
        self.assertEqual([page.run(bar % part) for part in ("spent", "held")], ["25%", "55%"])
        page.set_size(360, 700)
        self.assertEqual(page.overflow(), 0)
        page.set_size(1000, 900)
        page.click("search", "#budget-keys")
        page.wait_for_text("#key-result", "250000")
        self.assert_no_errors()


class Spenders(BrowserTest):
    def test_the_keys_that_have_spent_most_by_the_ledger(self):
        ledger = {"to": f"file:{self.folder() / 'ledger.jsonl'}", "flush": "20ms"}
        server = Sluice(self.folder(), BUDGETS, {"ledger": ledger})
        self.addCleanup(server.stop)
        self.addCleanup(self.browser.driver.get, "about:blank")  # or the page asks a stopped server
        self.browser.errors()
        for i in range(6):
            for _ in range(3):
                server.check({"attributes": {"header.x-team": f"often-{i}", "body.tokens": str(i + 1)}})
        server.check({"attributes": {"header.x-team": "once", "body.tokens": "700000"}})
        usage = lambda: server.admin_request("GET", "/v1/usage").json["total"]
        wait_for(lambda: usage() == 700_000 + 3 * sum(range(1, 7)), what="the entries")
        top = lambda: server.admin_request("GET", "/v1/top?by=asked&over=day").json["limits"]
        wait_for(lambda: top() and len(top()[0]["keys"]) == 7, what="the keys")
        page = self.browser
        page.open(server.admin)
        page.wait_for_text("#budget-keys", "once")
        rows = [row.text.split()[0] for row in page.all("#budget-keys tr")]
        self.assertEqual(rows, ["once", "often-5", "often-4", "often-3", "often-2"])
        self.assert_no_errors()


class Quotas(BrowserTest):
    def test_the_parts_of_proxies(self):
        test_quota.setUpModule()
        server = Sluice(self.folder(), test_quota.RULES, config={"listen": {"grpc": "127.0.0.1:0"}})
        self.addCleanup(server.stop)
        page = self.browser
        page.errors()
        page.open(server.admin)
        page.wait_for_text("#state", "live")
        self.assertEqual(page.all("#quota"), [], "no proxy has a part")
        stream = test_quota.Stream(server)
        self.addCleanup(stream.close)
        stream.report(40, path="/api", user="ann")
        page.wait_for_text("#quota-parts", "ann")
        row = " ".join(page.all("#quota-parts tr")[0].text.split())
        self.assertRegex(row, r"\A127\.0\.0\.1:[0-9]+ api / requests, ann 40 [0-9,.]+ [0-9.]+ % [0-9.]+ s\Z")
        # The same bucket of another proxy, by the same connection.
        other = test_quota.Stream(server, stream.channel)
        self.addCleanup(other.close)
        other.report(30, path="/api", user="ann")
        wait_for(lambda: len(page.all("#quota-parts tr")) == 2, "a row for each proxy")
        page.set_size(360, 700)
        self.assertEqual(page.overflow(), 0)
        page.set_size(1000, 900)
        self.assert_no_errors()


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
        page.wait_for_text("#top-keys", "<img src=x onerror=alert(1)>\\u{202e}\\u{7}")
        self.assertEqual(page.all("main img"), [])
        page.wait_for_text("#top-keys", "user-8")
        counts = re.compile(r"user-7\s+order / user\s+6\b.*user-8\s+order / user\s+2\b", re.DOTALL)
        wait_for(lambda: counts.search(page.text("#top-keys")), what="the denials of both")
        page.choose("#top-by", "asked most")
        wait_for(
            lambda: re.search(r"user-7\s+order / user\s+9\b", page.text("#top-keys")), what="all requests of user-7"
        )
        page.click("Open", "#top-keys")
        page.wait_for_text("#key-result", "header.x-user=user-7")
        page.click("Reset the counter")
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
        page.wait_for_text("#top-keys", "mallory\ufffd (not UTF-8)")
        row = re.compile("mallory\ufffd\\s+order / user\\s+2\\s.*Open")
        wait_for(lambda: row.search(page.text("#top-keys")), what="a key with a button")
        names = "return [...document.querySelectorAll('#top-keys button')].map((b) => b.ariaLabel)"
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
        hashed = re.compile(r"[0-9a-f]{16}\s+order / user\s+2\b")
        wait_for(lambda: hashed.search(self.browser.text("#top-keys")), what="a hash")
        self.assertEqual(self.browser.all("#top-keys button"), [])
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
        page.click("Check")
        page.wait_for_text("#editor-message.error", "1 error")
        line = RULES.split("limit: 3")[0].count("\n") + 1
        self.assertEqual(page.text("#editor-lines .wrong"), str(line))
        self.assertIn("'limit' is 'many'", page.text("#editor-marks"))
        font = "return getComputedStyle(document.querySelector('#editor-text')).fontFamily"
        self.assertTrue(page.run(font).endswith("monospace"), page.run(font))
        self.assertFalse(replace.is_enabled())
        page.find("#editor-list button").click()
        at = page.run("return document.querySelector('#editor-text').selectionStart")
        self.assertTrue(self.shown()[at:].startswith("many"), self.shown()[at:][:20])
        new = RULES.replace("limit: 3", "limit: 30").replace("name: trial", "name: <b>new</b>")
        self.edit(new)
        page.click("Check")
        page.wait_for_text("#editor-list", "rule order, limit user: limit 3 → 30")
        page.wait_for_text("#editor-list", "+ rule <b>new</b>")
        page.wait_for_text("#editor-list", "− rule trial")
        page.click("Make them active…")
        page.click("Cancel", "#confirm")
        self.assertEqual(server.admin_request("GET", "/v1/rules").body.decode(), RULES)
        page.click("Make them active…")
        page.wait_for_text("#confirm-text", "3 differences")
        page.click("Make them active", "#confirm")
        page.wait_for_text("#editor-message", "active as version 2")
        self.assertEqual(server.admin_request("GET", "/v1/rules").body.decode(), new)
        page.press("ESCAPE")
        page.wait_for_text("#rules", "<b>new</b>")
        self.assert_no_errors("400")

    def test_the_latest_requests_are_decided_by_the_new_rules(self):
        server = self.open_editor()
        order = lambda: server.check({"attributes": {"path": "/order", "header.x-user": "user-7"}})
        replayed = lambda: server.admin_request("POST", "/v1/rules/validate", RULES).json["replayed"]
        wait_for(lambda: order() and replayed()["requests"] > 0, what="a request that is kept")
        while replayed()["requests"] < 5:
            order()
        kept = replayed()["requests"]
        self.assertEqual(replayed()["next"], kept - 3)
        self.edit(RULES.replace("limit: 3", "limit: 4"))
        self.browser.click("Check")
        text = f"the active rules deny {kept - 3}, the new ones {kept - 4}."
        self.browser.wait_for_text("#replay-text", text)
        self.browser.wait_for_text("#replay-text", f"Of the last {kept} requests")
        rows = self.browser.text("#replay-limits").split()
        self.assertEqual(rows, ["order", "/", "user", str(kept - 3), str(kept - 4), "1"])
        self.browser.click("Make them active…")
        self.browser.wait_for_text("#confirm-replay", text)

    def test_rules_that_have_changed_meanwhile_are_not_replaced(self):
        server = self.open_editor()
        wait_for(lambda: self.shown() == RULES, what="the active rules in the editor")
        other = RULES.replace("limit: 3", "limit: 4")
        self.assertEqual(server.admin_request("PUT", "/v1/rules", other).status, 200)
        self.browser.click("Check")
        self.browser.wait_for_text("#editor-list", "limit 4 → 3")
        self.browser.click("Make them active…")
        self.browser.click("Make them active", "#confirm")
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
    """Makes the pictures of docs/see.md and README.md in the folder that SLUICE_SCREENSHOTS
    names. The page shows a past that was made up, because a real one takes ten minutes."""

    RULES = """version: 1
rules:
  - name: login
    match: { path: /login }
    limits: [{ name: address, key: "{ip}", algorithm: fixed_window, limit: 5, per: 15m }]
  - name: order
    match: { path: /order }
    limits:
      - { name: user, key: "{header.x-user|ip}", algorithm: gcra, limit: 40, per: 1s, burst: 20 }
  - name: trial
    mode: shadow
    match: { path: /trial }
    limits: [{ name: all, algorithm: token_bucket, limit: 10, per: 1s }]
"""
    USERS = ("user-7", "user-7", "user-7", "user-12", "user-3", "user-12")
    AGENTS = ("python-requests/2.31", "curl/8.5", "Mozilla/5.0 Firefox/133.0")

    def setUp(self):
        self.addCleanup(self.browser.set_dark, False)
        self.addCleanup(self.browser.set_size, 1000, 900)
        self.browser.set_dark(False)

    # Whether charts have the width of their boxes, and rows of a narrow page name their limits.
    FITS = """
        const fits = [...document.querySelectorAll('.chart svg')].every((svg) =>
          !svg.parentElement.plotted || svg.parentElement.clientWidth === 0 ||
          svg.viewBox.baseVal.width === Math.max(svg.parentElement.clientWidth, 200));
        const small = document.querySelector('#rules-box tr[class] small, #rules-box tbody small');
        return fits && (!matchMedia('(max-width: 44rem)').matches || !small ||
                        small.textContent.includes(': '));
    """

    def save(self, name, width, height):
        self.browser.set_size(width, height)
        self.browser.run("document.documentElement.style.overflow = 'hidden'")  # no scroll bar
        wait_for(lambda: self.browser.run(self.FITS), "the page in its new size")
        self.assertEqual(self.browser.overflow(), 0)
        self.assertTrue(self.browser.driver.save_screenshot(f"{os.environ['SLUICE_SCREENSHOTS']}/{name}"))

    def past(self, server):
        value = server.admin_request("GET", "/v1/history?range=10m").json
        now = int(time.time() * 1000)
        asked = [140 + 25 * math.sin(i / 80) + 5 * math.sin(i / 3) for i in range(600)]
        denied = [(75 if 350 < i < 470 else 30) + 3 * math.sin(i / 3) for i in range(600)]
        value["ends_ms"] = [now - 1000 * (599 - i) for i in range(600)]
        value["took_ms"] = [1000] * 600
        count = lambda values, part: [round(one * part) for one in values]
        tens = lambda values: [sum(values[i : i + 10]) for i in range(0, 600, 10)]
        value["total"] = {"asked": count(asked, 1), "denied": count(denied, 1), "would_deny": count(denied, 0.2)}
        for rule, part in zip(value["rules"], (0.3, 0.5, 0.2)):
            rule["asked"] = tens(count(asked, part))
            sums = {"asked": sum(rule["asked"])}
            if not rule["shadow"]:
                rule["denied"] = tens(count(denied, part))
                sums["denied"] = sum(rule["denied"])
            rule["sums"] = sums
            for limit in rule["limits"]:
                limit["sums"] = {**sums, **({"would_deny": 2100} if rule["shadow"] else {"near": 14})}
        value["rules"][1]["limits"][0]["sums"]["skipped"] = 12
        return json.dumps(value)

    def open_with_past(self):
        server = Sluice(self.folder(), self.RULES)
        self.addCleanup(server.stop)
        agent = lambda i: {"header.user-agent": self.AGENTS[i % 3], "ip": f"198.51.100.{i}"}
        users = ({"path": "/order", "header.x-user": user, **agent(i)} for i, user in enumerate(self.USERS))
        paths = ({"path": path, **agent(i)} for i, path in enumerate(("/login", "/trial")))
        self.load = self.put_load(server, *users, *paths)
        wait_for(lambda: len(server.admin_request("GET", "/v1/history").json["took_ms"]) > 5)
        answers = json.dumps([["/v1/history", self.past(server)]])
        command = {"source": CANNED + f"window.answers = {answers};"}
        script = self.browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", command)
        remove = "Page.removeScriptToEvaluateOnNewDocument"
        self.addCleanup(self.browser.driver.execute_cdp_cmd, remove, script)
        self.browser.open(server.admin)
        self.browser.wait_for_text("#top-keys", "curl")
        return server

    def test_the_page_under_load(self):
        server = self.open_with_past()
        page = self.browser
        self.save("live-page.png", 960, 1180)
        page.set_dark(True)
        self.save("live-page-dark.png", 960, 560)
        page.set_size(360, 700)
        page.click("Find a key")
        page.choose("#key-rule", "order")
        page.fill("#key-attributes input", "user-7")
        page.click("Look up")
        page.wait_for_text("#key-result", "user-7")
        self.save("live-page-phone.png", 360, 700)
        page.press("ESCAPE")
        page.set_dark(False)
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 750))
        outage = {**OUTAGE["outage"], "since": since}
        page.run("window.canned = { outage: arguments[0] }", outage)
        page.wait_for_text("#alert-outage", "refuses connections")
        self.save("live-page-outage.png", 960, 460)
        page.run("window.canned = null")
        page.click("Edit the rules")
        wait_for(lambda: page.run("return document.querySelector('#editor-text').value") == self.RULES)
        page.run(
            "const field = document.querySelector('#editor-text');"
            "field.value = field.value.replace('limit: 40', 'limit: 30').replace('limit: 5', 'limit: 20');"
            "field.dispatchEvent(new Event('input'))"
        )
        page.click("Check")
        page.wait_for_text("#replay-text", "the active rules deny")
        self.save("live-page-edit.png", 960, 960)
        page.press("ESCAPE")
        self.load.stop()
        server.stop()
        page.wait_for_text("#alert-gone", "as of")
        self.save("live-page-gone.png", 960, 460)

    def test_the_page_without_requests(self):
        self.serve_page()
        self.browser.wait_for_text("#empty-command", "curl")
        self.save("live-page-empty.png", 960, 420)

    def test_budgets(self):
        server = Sluice(self.folder(), BUDGETS)
        self.addCleanup(server.stop)
        for team, spent, held in (("search", 612_340, 75_120), ("support", 981_004, 0), ("billing", 20_415, 7_512),
                                  ("mobile", 344_002, 18_009)):
            attributes = {"header.x-team": team, "body.tokens": str(spent)}
            server.check({"attributes": attributes})
            attributes["body.tokens"] = str(held)
            server.check({"attributes": attributes, "id": f"call-{team}", "hold_ms": 3600000})
        top = lambda: server.admin_request("GET", "/v1/top?by=asked&over=day").json["limits"]
        wait_for(lambda: top() and len(top()[0]["keys"]) == 4, what="the keys")
        self.browser.set_size(800, 1500)
        self.browser.open(server.admin)
        self.browser.wait_for_text("#budget-keys", "mobile")
        self.browser.find("#budgets").screenshot(f"{os.environ['SLUICE_SCREENSHOTS']}/live-page-budgets.png")

    def test_the_report_of_a_replay(self):
        self.browser.driver.get(replay_example(self.folder()).as_uri())
        self.save("replay.png", 960, 570)


class Token(BrowserTest):
    def serve_with_token(self):
        file = self.folder() / "token"
        file.write_text(TOKEN)
        file.chmod(0o600)
        return self.serve_page(config={"admin": {"token_file": str(file)}})

    def test_the_page_asks_for_the_token_and_refuses_a_wrong_one(self):
        server = self.serve_with_token()
        page = self.browser
        page.wait_for_text("#login-message", "needs its admin token")
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
        page.wait_for_text("#login-message", "needs its admin token")
        self.assert_no_errors("401")
