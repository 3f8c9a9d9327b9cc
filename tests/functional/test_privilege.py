"""What a client may do at HTTP and gRPC: by its listener, its token, and the page it comes from."""

import contextlib
import os
import re

import grpc
from google.protobuf import json_format

from browser_harness import Browser
from envoy_harness import METHOD, address_of, caller, messages
from harness import PATIENCE, ServerTest, request, wait_for
from resp_harness import Resp

RULES = """
version: 1
domain: shop
rules:
  - name: page
    match: { path: /page }
    limits: [{ name: hour, key: "{ip}", algorithm: fixed_window, limit: 5, per: 1h }]
  - name: sized
    match: { path: /sized }
    limits: [{ key: "{ip}", algorithm: fixed_window, limit: 5, per: 1h, cost: "{query.size|2}" }]
  - name: login
    match: { path: /login }
    limits: [{ key: "{ip}", algorithm: fixed_window, limit: 5, per: 1h }]
"""
# What a page sends to charge another client. It hides as much of the browser as a page can.
PAGE = """
const headers = {"X-Original-URI": "/login", "X-Forwarded-For": "192.0.2.9", "Accept-Language": "",
                 "User-Agent": "gateway", "Sec-Sluice-Gateway": "1"};
const options = {method: arguments[1], headers, referrerPolicy: "no-referrer"};
return fetch(arguments[0], options).then((answer) => answer.status);
"""
EVERYWHERE = "0.0.0.0:0"
CLIENTS = [
    {"name": "web", "token_env": "WEB_TOKEN"},
    {"name": "batch", "role": "operate", "token_env": "BATCH_TOKEN"},
]
TOKENS = {"WEB_TOKEN": "web-0123456789abcdef", "BATCH_TOKEN": "batch-0123456789abcdef"}
PRIVILEGED = ({"verb": "refund"}, {"verb": "reset"}, {"cost": 2}, {"costs": {"hour": 2}})


def bearer(name):
    return {"Authorization": "Bearer " + TOKENS[name]}


def ask(ip, **more):
    return {"attributes": {"path": "/page", "ip": ip}, **more}


class OnTheNetwork(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.serve(RULES, {"listen": {"http": EVERYWHERE}, "clients": CLIENTS},
                               env={**os.environ, **TOKENS})
        cls.server.http = cls.server.http.replace("0.0.0.0", "127.0.0.1")

    def left(self, ip):
        return self.server.check(ask(ip, verb="peek", cost=0)).json["limits"][0]["remaining"]

    def test_checks_and_peeks_are_open(self):
        self.assertEqual(self.server.check(ask("192.0.2.1")).status, 200)
        self.assertEqual(self.server.check(ask("192.0.2.1", cost=0)).status, 200)
        self.assertEqual(self.server.check(ask("192.0.2.1", verb="peek", cost=5)).status, 429)

    def test_what_makes_room_or_takes_much_needs_a_client_that_operates(self):
        for _ in range(3):
            self.server.check(ask("192.0.2.2"))
        for more in PRIVILEGED:
            for headers in ({}, bearer("WEB_TOKEN")):
                answer = self.server.check(ask("192.0.2.2", **more), headers)
                self.assertEqual(answer.status, 403, more)
                self.assertIn("clients", answer.json["detail"])
                both = [ask("192.0.2.2"), ask("192.0.2.2", **more)]
                self.assertEqual(self.server.check(both, headers).status, 403, more)
        self.assertEqual(self.left("192.0.2.2"), 2)
        operate = bearer("BATCH_TOKEN")
        self.assertEqual(self.server.check(ask("192.0.2.2", cost=2), operate).status, 200)
        self.assertEqual(self.server.check(ask("192.0.2.2", verb="refund"), operate).status, 200)
        self.assertEqual(self.left("192.0.2.2"), 1)
        self.assertEqual(self.server.check(ask("192.0.2.2", verb="reset"), operate).status, 200)
        self.assertEqual(self.left("192.0.2.2"), 5)

    def test_costs_that_a_rule_says_are_open(self):
        for attributes, left in (({}, 3), ({"query.size": "3"}, 0)):
            sized = {"path": "/sized", "ip": "192.0.2.4", **attributes}
            answer = self.server.check({"attributes": sized})
            self.assertEqual(answer.json["limits"][0]["remaining"], left)

    def test_an_unknown_token_is_refused(self):
        answer = self.server.check(ask("192.0.2.3"), {"Authorization": "Bearer nobody"})
        self.assertEqual(answer.status, 401)
        self.assertEqual(answer["www-authenticate"], 'Bearer realm="sluice"')
        self.assertEqual(self.left("192.0.2.3"), 5)

    def test_a_token_for_the_application_behind_a_gateway_is_not_for_sluice(self):
        answer = self.server.auth("GET", "/page", Authorization="Bearer of-the-user")
        self.assertEqual(answer.status, 200)

    def test_json_needs_a_client_that_operates_to_give_back(self):
        body = '{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/page"},' \
               '{"key":"ip","value":"192.0.2.4"}]%s}]%s}'
        ask_json = lambda *more, headers=None: request(  # noqa: E731
            self.server.http, "POST", "/json", body % more, headers).status
        self.assertEqual(ask_json("", ""), 200)
        for more in ((',"isNegativeHits":true', ""), ("", ',"hitsAddend":3')):
            self.assertEqual(ask_json(*more), 403, more)
            self.assertEqual(ask_json(*more, headers=bearer("BATCH_TOKEN")), 200, more)

    def test_pages_of_other_sites_are_refused(self):
        for field in ({"Origin": "http://evil.example"}, {"Origin": "null"},
                      {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
            plain = {"Content-Type": "text/plain", **field}
            self.assertEqual(self.server.check(ask("192.0.2.5"), plain).status, 403, field)
            self.assertEqual(self.server.get("/metrics", field).status, 403, field)
            self.assertEqual(request(self.server.http, "POST", "/json", "{}", field).status, 403)
            for target in ("/healthz", "/readyz"):
                self.assertEqual(self.server.get(target, field).status, 200)
            name, value = next(iter(field.items()))
            self.assertEqual(self.server.auth("GET", "/page", **{name: value}).status, 200)
        self.assertEqual(self.left("192.0.2.5"), 5)

    def test_any_host_is_right(self):
        headers = {"Host": "sluice.example"}
        self.assertEqual(self.server.check(ask("192.0.2.6"), headers).status, 200)


class OnLoopback(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.serve(RULES, {"http": {"hosts": ["Sluice.internal"]}})

    def test_every_program_may_operate(self):
        for more in PRIVILEGED:
            self.assertEqual(self.server.check(ask("192.0.2.1", **more)).status, 200, more)

    def test_a_name_that_a_page_may_have_chosen_is_refused(self):
        for host, status in (("evil.example", 403), ("192.0.2.1", 403), ("localhost", 200),
                             ("[::1]:80", 200), ("sluice.internal:8080", 200)):
            headers = {"Host": host}
            self.assertEqual(self.server.check(ask("192.0.2.2"), headers).status, status, host)
            self.assertEqual(self.server.get("/metrics", headers).status, status, host)
            self.assertEqual(self.server.auth("GET", "/page", Host=host).status, 200, host)
            self.assertEqual(self.server.get("/healthz", headers).status, 200, host)

    def test_a_page_after_dns_rebinding_neither_checks_nor_reports(self):
        server = self.serve(RULES, {"trusted_proxies": ["127.0.0.1"]})
        names = "--host-resolver-rules=MAP evil.example 127.0.0.1"
        with contextlib.closing(Browser(self.folder(), names)) as browser:
            # A document of the server, under the name that the page has chosen.
            browser.open(server.http.replace("127.0.0.1", "evil.example"), "/healthz")
            for method in ("GET", "POST"):
                for target in ("/v1/auth", "/v1/report?status=401"):
                    status = browser.run(PAGE, target, method)
                    self.assertEqual(status, 403, (method, target))
        left = server.check({"attributes": {"path": "/login", "ip": "192.0.2.9"}, "cost": 0})
        self.assertEqual(left.json["limits"][0]["remaining"], 5)

    def test_a_browser_behind_a_gateway_is_checked(self):
        browser = {"Host": "shop.example", "Origin": "https://shop.example", "Accept-Language": "en",
                   "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
        refused = self.server.auth("GET", "/login", **browser)
        self.assertEqual(refused.status, 403)
        self.assertIn("expected a gateway that sets Sec-Sluice-Gateway: 1", refused.json["detail"])
        gateway = {**browser, "Sec-Sluice-Gateway": "1"}
        self.assertEqual(self.server.auth("GET", "/login", **gateway).status, 200)

    def test_the_administration_is_not_for_pages_of_other_sites(self):
        page = {"Origin": "http://evil.example"}
        for fields, status in (
            (page, 403), ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Host": "evil.example"}, 403),
            ({"Host": "sluice.internal"}, 200), ({"Sec-Fetch-Site": "none"}, 200), ({}, 200),
        ):
            for target in ("/metrics", "/v1/status"):
                answer = self.server.admin_request("GET", target, headers=fields)
                self.assertEqual(answer.status, status, (target, fields))
            health = self.server.admin_request("GET", "/healthz", headers=fields)
            self.assertEqual(health.status, 200, fields)


class Start(ServerTest):
    def test_the_log_says_that_nobody_may_operate(self):
        server = self.serve(RULES, {"listen": {"http": EVERYWHERE, "grpc": "127.0.0.1:0"}})
        wait_for(lambda: "http at 0.0.0.0:" in server.log(), what="the line about clients")
        self.assertIn("refuses refunds, resets and takes of several units", server.log())
        self.assertNotIn("grpc at", server.log())

    def test_a_weak_token_is_reported_once_for_all_listeners(self):
        server = self.serve(RULES, {"listen": {"grpc": "127.0.0.1:0"}, "clients": CLIENTS},
                            env={**os.environ, **TOKENS, "WEB_TOKEN": "short"})
        line = "the token of the client 'web'"
        wait_for(lambda: line in server.log(), what="the warning")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.log().count(line), 1)
        self.assertNotIn("the token of the client 'batch'", server.log())

    def test_a_missing_token_is_an_error(self):
        with self.assertRaisesRegex(AssertionError, "clients: environment variable WEB_TOKEN"):
            self.serve(RULES, {"clients": CLIENTS})


class Grpc(ServerTest):
    def test_several_hits_need_a_client_that_operates(self):
        config = {"listen": {"grpc": EVERYWHERE}, "clients": CLIENTS, "log": {"access": True}}
        server = self.serve(RULES, config, env={**os.environ, **TOKENS})
        rls = messages()
        channel = grpc.insecure_channel(address_of(server).replace("0.0.0.0", "127.0.0.1"))
        self.addCleanup(channel.close)
        call = caller(rls, channel)

        def code(hits, token=None, domain="shop"):
            entries = [{"key": "path", "value": "/page"}, {"key": "ip", "value": "192.0.2.1"}]
            body = {"domain": domain, "descriptors": [{"entries": entries}], "hits_addend": hits}
            message = json_format.ParseDict(body, rls.RateLimitRequest())
            metadata = [("authorization", "Bearer " + token)] if token else []
            try:
                call(message, metadata=metadata, timeout=PATIENCE)
            except grpc.RpcError as error:
                return error.code().name
            return "OK"

        self.assertEqual(code(1), "OK")
        self.assertEqual(code(2), "PERMISSION_DENIED")
        self.assertEqual(code(2, TOKENS["WEB_TOKEN"]), "PERMISSION_DENIED")
        self.assertEqual(code(2, TOKENS["BATCH_TOKEN"]), "OK")
        self.assertEqual(code(1, "nobody"), "UNAUTHENTICATED")
        self.assertEqual(code(1, domain=""), "INVALID_ARGUMENT")
        refused = "warning a request was not accepted method=POST target=" + METHOD
        for status, detail in ((7, "the role operate is"), (16, "the token is unknown;"), (3, "domain is empty;")):
            line = f'{refused} status={status} detail="{detail}'
            wait_for(lambda: line in server.log(), what=line)
        errors = 'sluice_request_errors_total{reason="not_accepted"}'
        self.assertEqual(server.metrics()[errors], 4)
        line = rf" info request method=POST target={METHOD} status=(\d+) peer=127.0.0.1:\d+ duration_us=\d+ front_end=grpc\n"
        wait_for(lambda: re.findall(line, server.log()) == ["0", "7", "7", "0", "16", "3"], what="a line for each call")


class RespOnTheNetwork(ServerTest):
    def test_several_units_need_a_user_that_operates(self):
        users = [{"name": "web", "password_env": "WEB_TOKEN"},
                 {"name": "old", "role": "check-only", "password_env": "WEB_TOKEN"},
                 {"name": "batch", "role": "operate", "password_env": "BATCH_TOKEN"}]
        server = self.serve(RULES, {"listen": {"resp": EVERYWHERE}, "resp": {"users": users}},
                            env={**os.environ, **TOKENS})
        address = server.front_ends["resp"]
        rule = ("RL.CHECK", "page", "ip", "192.0.2.1")
        several = ((*rule, "COST", 2), (*rule, "COST", "hour=2"), ("RL.LIMIT", "k", "gcra", 9, "1h", "COST", 2),
                   ("CL.THROTTLE", "k", 9, 9, 3600, 2), ("RL.RESET", "CHECK", *rule[1:]))
        with Resp(address.replace("0.0.0.0", "127.0.0.1")) as resp:
            for name in ("web", "old"):
                self.assertEqual(resp.ask("AUTH", name, TOKENS["WEB_TOKEN"]), "OK")
                self.assertIsInstance(resp.ask(*rule), list)
                self.assertIsInstance(resp.ask("RL.PEEK", "CHECK", *rule[1:], "COST", 2), list)
                for words in several:
                    self.assertTrue(str(resp.ask(*words)).startswith("NOPERM "), words)
            self.assertEqual(resp.ask("AUTH", "batch", TOKENS["BATCH_TOKEN"]), "OK")
            for words in several:
                self.assertIsInstance(resp.ask(*words), list, words)
