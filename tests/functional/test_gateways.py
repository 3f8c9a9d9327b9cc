"""The files of deploy/, used as docs/gateway.md describes, with the real gateways and the real
program. The tests replace only ports, sockets and temporary folders."""

import base64
import concurrent.futures
import os
import re
import signal
import subprocess
import time
import unittest

from harness import (
    PATIENCE,
    ROOT,
    Application,
    ServerTest,
    free_port,
    replaced,
    request,
    tool,
    wait_for,
)

DEPLOY = ROOT / "deploy"
REJECTED = '{"code":429,"message":"too many requests, try again later","data":null}'
QUEUES = "include sluice.conf; include sluice_queue.conf;"
QUEUE = """
  - name: mail
    match: { path: /mail }
    limits:
      - { name: pace, algorithm: leaky_bucket, limit: 5, per: 1s, burst: 4, mode: queue }
"""
DEGRADES = """
version: 1
rules:
  - name: chat
    match: { path: /api/order/chat }
    limits: [{ key: "{ip}", algorithm: fixed_window, limit: 6, per: 1h }]
    degrade: { at: 50%, headers: { x-model: small } }
"""
FORGED = {
    "X-Original-URI": "/free",
    "X-Original-Method": "GET",
    "X-Forwarded-Uri": "/free",
    "X-Forwarded-Method": "GET",
    "X-Forwarded-Host": "other.example",
    "X-Real-IP": "9.9.9.9",
    "Forwarded": "for=9.9.9.9",
    "X-Sluice-Cost": "0",
}

BROWSER = {
    "Host": "shop.example",
    "Origin": "http://shop.example",
    "Sec-Fetch-Site": "same-origin",
    "Sec-Fetch-Mode": "cors",
    "Accept-Language": "en",
}


def rules():
    """Returns the rules of the page. The cost of a code is that of X-Sluice-Cost."""
    text = (DEPLOY / "nginx/rules.yaml").read_text("utf-8")
    blocked = "rules:\n  - { name: blocked, match: { path: /api/order/blocked }, action: deny }\n"
    return replaced(
        text, ("rules:\n", blocked), ("limit: 3, per: 60s }", "limit: 3, per: 60s, cost: request }")
    )


def loaded_lines(file):
    """Returns the lines of nginx.conf that the comment of a file asks for."""
    return "".join(re.findall(r"^#   (load_module .*\n)", file.read_text("utf-8"), re.M))


class Recipe:
    """A gateway and Sluice. `gateway` is the gateway's address; start_gateway() starts it."""

    is_patient = False  # whether it waits for Sluice longer than its files say

    @classmethod
    def patient(cls, *timeouts):
        """Returns the replacements of timeouts."""
        return timeouts if cls.is_patient else ()

    @classmethod
    def setUpClass(cls):
        cls.app = Application()
        cls.addClassCleanup(cls.app.stop)
        cls.clock = cls.stopped_clock()  # of Sluice
        cls.gateway = f"127.0.0.1:{free_port()}"
        # Kept across a restart, so that sluice gets the same port.
        cls.sluice_address = f"127.0.0.1:{free_port()}"
        cls.start_sluice()
        cls.start_gateway()
        cls.settle()

    @classmethod
    def start_sluice(cls):
        config = {"trusted_proxies": ["127.0.0.1"], "listen": {"http": cls.sluice_address}}
        cls.sluice = cls.serve(rules() + QUEUE, config, clock=cls.clock)

    @classmethod
    def settle(cls):
        """Waits until the gateway uses sluice."""

    def ask(self, method, target, user=None, body=None, **headers):
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if user:
            fields["X-User-Id"] = user
        return request(self.gateway, method, target, body, fields)

    def send_code(self, **headers):
        """Requests a code. The limit is 3 requests in 60 s for each network."""
        return self.ask("POST", "/send/code", body="email=a", **headers)


class Recipes(Recipe):
    """Tests of every recipe."""

    is_patient = True  # a gateway decides without a late answer, and a busy machine is late

    def counter_of(self, **attributes):
        """Returns the remaining units of each limit of the rule `order`."""
        wish = {"attributes": {"method": "GET", **attributes}, "cost": 0}
        limits = self.sluice.check(wish).json["limits"]
        return {limit["name"]: limit["remaining"] for limit in limits}

    def until_denied(self, ask, most=40):
        for i in range(most):
            answer = ask()
            if answer.status != 200:
                return i, answer
        self.fail(f"{most} requests passed")

    def test_an_allowed_request_reaches_the_application_and_has_limit_fields(self):
        answer = self.ask("GET", "/api/order/1?x=1&y=%2F", user="fields")
        self.assertEqual(
            (answer.status, answer.body), (200, b"application: GET /api/order/1?x=1&y=%2F\n")
        )
        self.assertIn('"user";q=10;w=', answer["ratelimit-policy"])
        self.assertIn('"global"', answer["ratelimit-policy"])
        self.assertTrue(answer["ratelimit"].startswith('"user";r=9'), answer)
        self.assertEqual(answer["x-ratelimit-limit"], "10")
        self.assertEqual(answer["x-ratelimit-remaining"], "9")
        self.assertEqual(len(answer.all("ratelimit")), 1)
        self.assertIsNone(answer["retry-after"])

    def test_a_request_of_a_browser_is_asked_about(self):
        """The gateway forwards the fields of the browser and the host of the site."""
        answer = self.ask("GET", "/api/order/1", user="browser", **BROWSER)
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer["ratelimit"].startswith('"user";r=9'), answer)

    def test_a_rule_that_denies_is_no_lack_of_quota(self):
        answer = self.ask("GET", "/api/order/blocked")
        self.assertEqual((answer.status, answer["retry-after"]), (403, None))
        self.assertNotIn(b"application", answer.body)

    def test_a_denied_request_gets_429_and_does_not_reach_the_application(self):
        passed, answer = self.until_denied(lambda: self.ask("GET", "/api/order/1", user="denied"))
        self.assertEqual(passed, 10)
        self.assertEqual(answer.status, 429)
        self.assertEqual(answer["retry-after"], "1")
        self.assertIn('"user";r=0', answer["ratelimit"])
        self.assertEqual(answer["x-ratelimit-remaining"], "0")
        seen = [one for one in self.app.seen if one[2].get("x-user-id") == "denied"]
        self.assertEqual(len(seen), passed)
        self.clock.advance(1)
        self.assertEqual(
            self.ask("GET", "/api/order/1", user="denied").status, 200, "after the wait"
        )

    def test_each_user_has_a_separate_limit(self):
        self.until_denied(lambda: self.ask("GET", "/api/order/1", user="greedy"))
        self.assertEqual(self.ask("GET", "/api/order/1", user="modest").status, 200)

    def test_a_denied_request_consumes_nothing_of_the_api_and_global_limits(self):
        self.until_denied(lambda: self.ask("GET", "/api/order/all-or-nothing", user="alone"))
        before = self.sluice.metrics()
        left = self.counter_of(path="/api/order/all-or-nothing", ip="9.9.9.9")
        for _ in range(5):
            self.assertEqual(self.ask("GET", "/api/order/all-or-nothing", user="alone").status, 429)
        after = self.counter_of(path="/api/order/all-or-nothing", ip="9.9.9.9")
        self.assertEqual((after["api"], after["global"]), (left["api"], left["global"]))
        name = 'sluice_requests_total{rule="order",outcome="denied",reason="limited"}'
        self.assertEqual(self.sluice.metrics()[name] - before[name], 5)

    def test_the_second_route_has_its_own_limit_despite_forged_headers(self):
        self.clock.advance(60)  # no earlier code counts
        answers = [
            self.send_code(X_Forwarded_For=f"198.51.100.{i}", User_Agent=f"agent {i}")
            for i in range(4)
        ]
        self.assertEqual([answer.status for answer in answers], [200, 200, 200, 429])
        self.assertEqual(answers[3]["retry-after"], "60")
        self.assertEqual(self.ask("POST", "/send/code", body="x", **FORGED).status, 429)
        seen = len(self.app.seen)
        for spelling in (
            "/send/./code",
            "/x/../send/code",
            "/send/%63ode",
            "//send//code",
            "/api/order/../../send/code",
            "/api/order/%2e%2e/%2e%2e/send/code",
        ):
            self.assertIn(self.ask("POST", spelling, body="x").status, (400, 429), spelling)
        self.assertEqual(self.app.seen[seen:], [])

    def test_the_body_of_the_request_reaches_the_application(self):
        body = "a" * 100_000
        self.ask("POST", "/api/order/body", user="body", body=body)
        [got] = [one for one in self.app.seen if one[1] == "/api/order/body"]
        self.assertEqual(got[3], body.encode())

    def test_an_error_of_the_application_is_unchanged(self):
        for status in (403, 404, 429, 500, 503):
            answer = self.ask("GET", "/api/order/own", user=f"own{status}", X_Answer=str(status))
            self.assertEqual(
                (answer.status, answer.body), (status, b"application: GET /api/order/own\n")
            )

    def test_a_shadow_rule_allows_and_is_counted(self):
        name = 'sluice_shadow_denials_total{rule="crawlers",limit="agent"}'
        before = self.sluice.metrics()[name]
        for i in range(6):
            answer = self.ask(
                "GET", "/api/order/1", user=f"crawler{i}", User_Agent="ExampleBot/1.0"
            )
            self.assertEqual(answer.status, 200)
        self.assertGreaterEqual(self.sluice.metrics()[name] - before, 4)

    def test_without_sluice_one_route_is_open_and_the_other_closed(self):
        self.assertEqual(self.sluice.stop(), 0)
        try:
            wait_for(lambda: self.send_code().status == 503, what="503 of the closed route")
            seen = len(self.app.seen)
            for _ in range(15):
                answer = self.ask("POST", "/api/order/1", user="open", body="b")
                self.assertEqual(answer.status, 200)
                self.assertIsNone(answer["ratelimit"])
            self.assertEqual([one[3] for one in self.app.seen[seen:]], [b"b"] * 15)
            answer = self.send_code()
            self.assertEqual((answer.status, answer["retry-after"]), (503, "1"))
            self.assertEqual(len(self.app.seen), seen + 15)
        finally:
            type(self).start_sluice()
            self.settle()
        wait_for(
            lambda: self.ask("GET", "/api/order/1", user="again")["ratelimit"], what="limits again"
        )


class Hangs(Recipe):
    """A gateway with the timeouts of its files, in front of a Sluice that hangs."""

    def test_a_sluice_that_hangs_is_soon_treated_as_unavailable(self):
        self.sluice.pause()
        try:
            self.assertEqual(self.ask("GET", "/api/order/1", user="hangs").status, 200)
            self.assertEqual(self.send_code().status, 503)
        finally:
            self.sluice.signal(signal.SIGCONT)
        wait_for(
            lambda: self.ask("GET", "/api/order/1", user="again")["ratelimit"], what="limits again"
        )


class Reports:
    """Tests of recipes that report the status of responses."""

    def login(self, status, **headers):
        return self.ask("POST", "/login", body="password=x", X_Answer=str(status), **headers).status

    def test_failed_logins_are_counted_and_others_are_not(self):
        for _ in range(8):
            self.assertEqual(self.login(200), 200)
        for i in range(5):
            browser = BROWSER if i == 0 else {}
            self.assertEqual(self.login(401, X_Sluice_Response_X="1", **browser), 401)
        # A report can arrive after the client has its response.
        denied = wait_for(lambda: self.login(200) == 429, what="429")
        self.assertTrue(denied)
        wish = {"attributes": {"method": "POST", "path": "/login", "ip": "127.0.0.1"}, "cost": 0}
        self.assertEqual(self.sluice.check(wish).json["limits"][0]["remaining"], 0)

    def test_without_sluice_nobody_logs_in(self):
        self.assertEqual(self.sluice.stop(), 0)
        try:
            seen = len(self.app.seen)
            answer = self.ask("POST", "/login", body="password=x")
            self.assertEqual((answer.status, answer["retry-after"]), (503, "1"))
            self.assertEqual(len(self.app.seen), seen)
        finally:
            type(self).start_sluice()
            self.settle()
        wait_for(lambda: self.login(200) == 200, what="logins again")


class Waits:
    """For the recipes that wait for the turn of a request that a queue admitted."""

    def test_a_request_that_a_queue_admits_waits_for_its_turn(self):
        self.clock.advance(10)
        self.assertEqual(self.turn(), 0)
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(self.ask, "POST", "/mail", body="m") for _ in range(3)]
        self.assertEqual([one.result().status for one in asked], [200] * 3)
        self.assertGreaterEqual(time.monotonic() - begin, 0.38, "the third waits for two turns")

    def turn(self):
        wish = {"attributes": {"method": "POST", "path": "/mail"}, "cost": 0}
        return self.sluice.check(wish).json["limits"][0]["reset_after_ms"]


class Plans(Recipe):
    """Tests of the plans of docs/recipes.md: an API key says the plan and the user, and no client does."""

    is_patient = True

    @classmethod
    def start_sluice(cls):
        text = block("docs/recipes.md", "yaml", "plans:")
        cls.sluice = cls.serve(
            text,
            {"trusted_proxies": ["127.0.0.1"], "listen": {"http": cls.sluice_address}},
            clock=cls.clock,
        )

    @classmethod
    def settle(cls):
        wait_for(
            lambda: request(cls.gateway, "GET", "/api/order/settle", headers={"X-Api-Key": "key-of-bob"})[
                "ratelimit"
            ],
            what="the health check",
        )

    def limit(self, **headers):
        """Returns the capacity of the limit that a request meets, and what is left."""
        answer = self.ask("GET", "/api/order/1", **headers)
        return int(answer["x-ratelimit-limit"]), int(answer["x-ratelimit-remaining"])

    def test_a_client_cannot_choose_its_plan_or_user(self):
        self.clock.advance(3600)
        self.assertEqual(self.limit(X_Plan="pro", X_User_Id="a"), (60, 59))
        self.assertEqual(self.limit(X_Plan="pro", X_User_Id="b", X_Api_Key="wrong"), (60, 58))
        self.assertEqual(self.limit(X_Api_Key="key-of-anna", X_Plan="free"), (6000, 5999))
        self.assertEqual(self.limit(X_Api_Key="key-of-anna", X_User_Id="b"), (6000, 5998))

    def test_the_application_gets_the_plan_and_the_user_of_the_gateway(self):
        anna = {"X_Api_Key": "key-of-anna"}
        for claimed in {}, {"X_Plan": "pro", "X_User_Id": "bob"}:
            for headers, expected in ((anna, ("pro", "anna")), ({}, ("free", ""))):
                self.assertEqual(self.ask("GET", "/api/order/1", **headers, **claimed).status, 200)
                self.assertEqual(self.application_got(), expected)

    def test_without_sluice_the_application_gets_no_header_of_the_client(self):
        self.assertEqual(self.sluice.stop(), 0)
        try:
            wait_for(lambda: not self.ask("GET", "/api/order/1")["ratelimit"], what="no limits")
            claimed = {"X_Plan": "pro", "X_User_Id": "bob"}
            self.assertEqual(self.ask("GET", "/api/order/1", **claimed).status, 200)
            self.assertEqual(self.application_got(), ("free", ""))
        finally:
            type(self).start_sluice()
            self.settle()

    def application_got(self):
        """Returns the plan (by default `free`) and the user that the application last got."""
        fields = self.app.seen[-1][2]
        return fields.get("x-plan") or "free", fields.get("x-user-id") or ""


class Degraded(Recipe):
    """Tests of the header of `degrade` on its way to the application."""

    is_patient = True

    @classmethod
    def start_sluice(cls):
        cls.sluice = cls.serve(
            DEGRADES,
            {"trusted_proxies": ["127.0.0.1"], "listen": {"http": cls.sluice_address}},
            clock=cls.clock,
        )

    def test_the_application_sees_the_header_of_sluice_and_not_that_of_the_client(self):
        self.clock.advance(3600)
        models = []
        for _ in range(3):
            self.assertEqual(self.ask("GET", "/api/order/chat", X_Model="huge").status, 200)
            models.append(self.app.seen[-1][2].get("x-model") or "")
        self.assertEqual(models, ["", "", "small"])


def block(page, language, begin):
    """Returns the first block of a page whose text contains `begin`."""
    text = (ROOT / page).read_text("utf-8")
    return next(
        found for found in re.findall(rf"```{language}\n(.*?)```", text, re.S) if begin in found
    )


class NginxRecipe:
    has_queue = True  # which needs nginx's Lua module
    changed = {}  # replacements in the files of Sluice, by their names

    @classmethod
    def configured(cls):
        """Returns what else a reader changes in nginx.conf."""
        return ()

    @classmethod
    def start_gateway(cls):
        folder = cls.folder()
        for file in (DEPLOY / "nginx").glob("*.conf"):
            text = replaced(file.read_text("utf-8"), *cls.changed.get(file.name, ()))
            (folder / file.name).write_text(text, "utf-8")
        asked = folder / "sluice_request.conf"
        timeouts = cls.patient(("timeout 250ms;", "timeout 20s;"), ("timeout 500ms;", "timeout 20s;"))
        asked.write_text(replaced(asked.read_text("utf-8"), *timeouts), "utf-8")
        http = folder / "sluice_http.conf"
        http.write_text(replaced(http.read_text(), ("127.0.0.1:8080", cls.sluice_address)))
        main = folder / "nginx.conf"
        temporary = "".join(
            f"    {name}_temp_path {folder}/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        main.write_text(
            replaced(
                main.read_text("utf-8"),
                ("listen 8000;", f"listen {cls.gateway};"),
                ("server 127.0.0.1:9000;", f"server {cls.app.address};"),
                ("listen 127.0.0.1:9000;", f"listen 127.0.0.1:{free_port()};"),
                ("/tmp/sluice-example-nginx.pid", f"{folder}/nginx.pid"),
                ("daemon off;\n", "daemon off;\n" + loaded_lines(folder / "sluice_queue.conf")),
                ("http {\n", "http {\n" + temporary),
                *([("include sluice.conf;", QUEUES)] if cls.has_queue else []),
                *cls.configured(),
            ),
            "utf-8",
        )
        cls.nginx = cls.start(
            [tool("nginx"), "-e", "stderr", "-p", str(folder), "-c", "nginx.conf"],
            folder,
            "nginx",
            cls.gateway,
        )


class NotAccepted(NginxRecipe, Recipe):
    """Requests of nginx that Sluice answers with 4xx."""

    has_queue = False
    is_patient = True

    def test_the_answer_the_log_and_the_metrics_say_so(self):
        for target in "/api/order/1", "/other":
            answer = self.ask("GET", target)
            self.assertEqual(answer.status, 503)
            self.assertEqual(answer["content-type"], "application/problem+json")
            self.assertEqual(answer.json["detail"], "the rate limiter did not accept the request")
        errors = 'sluice_request_errors_total{reason="not_accepted"}'
        wait_for(lambda: self.sluice.metrics()[errors] == 2, what="the count of two requests")
        wait_for(lambda: self.sluice.log().count(self.line) == 2, what="two lines in the log")


class NginxWithoutUri(NotAccepted, ServerTest):
    changed = {"sluice_request.conf": [("proxy_set_header X-Original-URI $request_uri;\n", "")]}
    line = (
        'warning a request was not accepted method=GET target="/v1/auth?deny=403" status=400 '
        'detail="X-Original-URI and X-Forwarded-Uri are both missing; expected a gateway that sets '
        'one of them" peer=127.0.0.1'
    )


class NginxWithWrongPath(NotAccepted, ServerTest):
    changed = {"sluice.conf": [("/v1/auth?deny=403", "/v1/aut?deny=403")]}
    line = (
        'warning a request was not accepted method=GET target="/v1/aut?deny=403" status=404 '
        'detail="unknown path; expected /v1/check, /v1/auth, '
    )


class NginxHangs(NginxRecipe, Hangs, ServerTest):
    pass


class NginxReports(NginxRecipe, Reports, Recipe, ServerTest):
    has_queue = False
    is_patient = True


class NginxPlans(NginxRecipe, Plans, ServerTest):
    has_queue = False

    @classmethod
    def configured(cls):
        http = block("docs/recipes.md", "nginx", "map $http_x_api_key")
        server = block("docs/recipes.md", "nginx", "set $sluice_plan")
        own = "        set $sluice_user $http_x_user_id;\n        include sluice.conf;\n"
        return (("    include sluice_http.conf;\n", "    include sluice_http.conf;\n" + http), (own, server))


class NginxDegraded(NginxRecipe, Degraded, ServerTest):
    has_queue = False

    @classmethod
    def configured(cls):
        include = "        include sluice.conf;\n"
        return ((include, include + block("docs/gateway.md", "nginx", "$sluice_model")),)


class NginxAccess(NginxRecipe, Recipe, ServerTest):
    """How other checks of nginx meet that of Sluice, as docs/gateway.md says."""

    has_queue = False
    is_patient = True

    @classmethod
    def configured(cls):
        passwords = cls.folder() / "passwords"
        passwords.write_text("ann:{PLAIN}right\n", "utf-8")
        password = f"auth_basic shop; auth_basic_user_file {passwords}; "
        verified = password + "set $sluice_user $remote_user; "
        locations = "".join(
            f"        location /api/order/{name} {{ {access}proxy_pass http://application; }}\n"
            for name, access in (
                ("own", "auth_request /own; "),
                ("password", verified),
                ("any", "satisfy any; " + password),
                ("claimed", "set $sluice_user $remote_user; "),
            )
        )
        include = "        set $sluice_user $http_x_user_id;\n        include sluice.conf;\n"
        own = "        location = /own { internal; auth_request off; return 204; }\n"
        return ((include, "        include sluice.conf;\n" + own + locations),)

    def user_has_left(self, target, credentials=""):
        """Returns the status, and what is left of the ten requests of the user, if Sluice was asked."""
        fields = {}
        if credentials:
            fields["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
        answer = self.ask("GET", "/api/order/" + target, user="forged", **fields)
        left = re.search(r'"user";r=(\d+)', answer["ratelimit"] or "")
        return answer.status, int(left[1]) if left else None

    def test_an_auth_request_of_a_location_replaces_that_of_sluice(self):
        self.assertEqual([self.user_has_left("own") for _ in range(12)], [(200, None)] * 12)

    def test_a_wrong_password_is_not_asked_about(self):
        self.assertEqual([self.user_has_left("password", "ann:wrong")[0] for _ in range(12)], [401] * 12)
        self.assertEqual(self.user_has_left("password", "ann:right"), (200, 9))
        self.assertEqual(self.user_has_left("password", "ann:right"), (200, 8))

    def test_satisfy_any_lets_in_whom_sluice_allows(self):
        self.assertEqual(self.user_has_left("any")[0], 200)

    def test_without_a_password_file_the_user_is_what_the_client_claims(self):
        claims = [self.user_has_left("claimed", f"user{i}:x") for i in range(12)]
        self.assertEqual(claims, [(200, 9)] * 12)


class Nginx(NginxRecipe, Recipes, Waits, ServerTest):
    def test_a_denial_has_the_body_configured_in_nginx(self):
        # Not the type that nginx has for the extension of the path.
        _, answer = self.until_denied(lambda: self.ask("GET", "/api/order/1.html", user="problem"))
        self.assertEqual(answer["content-type"], "application/problem+json")
        self.assertEqual(answer.json["status"], 429)
        _, answer = self.until_denied(self.send_code)
        self.assertEqual((answer.status, answer.body), (429, REJECTED.encode()))
        self.assertEqual(answer["content-type"], "application/json; charset=utf-8")

    def test_a_location_that_disables_limits_is_not_limited(self):
        for _ in range(15):
            answer = self.ask("GET", "/status.html")
            self.assertEqual((answer.status, answer["ratelimit"]), (200, None))

    def test_a_path_without_rules_is_allowed_without_fields(self):
        answer = self.ask("GET", "/other")
        self.assertEqual((answer.status, answer["ratelimit"]), (200, None))

    def test_requests_that_sluice_refuses_are_not_allowed(self):
        # With the fields that nginx adds, this header exceeds the bound of sluice.
        long = {f"X-Long-{i}": "x" * 8000 for i in range(4)}
        answer = self.ask("GET", "/api/order/1", user="long", **long)
        self.assertIn(answer.status, (200, 400, 503))
        if answer.status == 200:
            self.assertTrue(answer["ratelimit"], "it passed without being asked about")

    def test_connections_to_sluice_are_kept(self):
        name = "sluice_connections_accepted_total"
        before = self.sluice.metrics()[name]
        for i in range(50):
            self.ask("GET", "/api/order/1", user=f"kept{i}")
        self.assertLessEqual(self.sluice.metrics()[name] - before, 10)


def any_host(address):
    """Returns the begin of a site of Caddy at this address."""
    ip, port = address.split(":")
    return f"http://:{port} {{\n\tbind {ip}"


class CaddyRecipe:
    @classmethod
    def configured(cls):
        """Returns what else a reader changes in the Caddyfile."""
        return ()

    @classmethod
    def start_gateway(cls):
        folder = cls.folder()
        text = replaced(
            (DEPLOY / "caddy/Caddyfile").read_text("utf-8"),
            *cls.configured(),
            ("http://:8000 {", any_host(cls.gateway)),
            ("127.0.0.1:8080", cls.sluice_address),
            ("http://:9000", f"http://:{free_port()}"),
            ("127.0.0.1:9000", cls.app.address),
            *cls.patient(("timeout 250ms", "timeout 20s"), ("timeout 500ms", "timeout 20s")),
        )
        (folder / "Caddyfile").write_text(text, "utf-8")
        home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        caddy = ["env", *(f"{name}={value}" for name, value in home.items()), tool("caddy")]
        cls.start(
            [*caddy, "run", "--adapter", "caddyfile", "--config", "Caddyfile"],
            folder,
            "caddy",
            cls.gateway,
        )


class CaddyHangs(CaddyRecipe, Hangs, ServerTest):
    pass


class Caddy(CaddyRecipe, Recipes, Reports, ServerTest):
    pass


class CaddyPlans(CaddyRecipe, Plans, ServerTest):
    @classmethod
    def configured(cls):
        site = block("docs/gateway.md", "caddy", "plan_of_key")
        return (
            ("http://:8000 {\n", "http://:8000 {\n" + site),
            ("{header.X-User-Id}", "{vars.user}"),
        )


class CaddyDegraded(CaddyRecipe, Degraded, ServerTest):
    @classmethod
    def configured(cls):
        allowed = "\t\thandle_response @allowed {\n"
        return ((allowed, allowed + block("docs/gateway.md", "caddy", "X-Model")),)


class CaddyForwardAuth(ServerTest):
    """The plain directive from the page."""

    @classmethod
    def setUpClass(cls):
        cls.app = Application()
        cls.addClassCleanup(cls.app.stop)
        cls.sluice = cls.serve(rules(), {"trusted_proxies": ["127.0.0.1"]}, clock=cls.stopped_clock())
        page = (ROOT / "docs/gateway.md").read_text("utf-8")
        directive = re.search(r"^request_header .*?^forward_auth .*?^}$", page, re.M | re.S).group(0)
        cls.gateway = f"127.0.0.1:{free_port()}"
        folder = cls.folder()
        (folder / "Caddyfile").write_text(
            "{\nadmin off\nauto_https off\n}\n"
            + any_host(cls.gateway)
            + "\n"
            + replaced(directive, ("127.0.0.1:8080", cls.sluice.http))
            + f"\nreverse_proxy {cls.app.address}\n}}\n",
            "utf-8",
        )
        cls.start(
            [
                "env",
                f"HOME={folder}",
                f"XDG_DATA_HOME={folder}",
                tool("caddy"),
                "run",
                "--adapter",
                "caddyfile",
                "--config",
                "Caddyfile",
            ],
            folder,
            "caddy",
            cls.gateway,
        )

    def test_allows_and_denies_with_429_and_retry_after(self):
        answers = [
            request(self.gateway, "POST", "/send/code?a=b", "body", FORGED if i % 2 else BROWSER)
            for i in range(4)
        ]
        self.assertEqual([answer.status for answer in answers][:2], [200, 200])
        self.assertEqual(answers[3].status, 429)
        self.assertEqual(answers[3]["retry-after"], "60")
        self.assertIn(b"body", [one[3] for one in self.app.seen])

    def test_a_client_cannot_choose_its_plan_or_user(self):
        for i in range(11):
            claimed = {"X-Plan": "pro", "X-User-Id": f"user{i}"}
            answer = request(self.gateway, "GET", "/api/order/1", headers=claimed)
        self.assertEqual(answer.status, 429, "all share the limit of their address")
        fields = self.app.seen[-1][2]
        self.assertEqual((fields.get("x-plan"), fields.get("x-user-id")), (None, None))


class HaProxyRecipe:
    @classmethod
    def configured(cls, folder):  # pylint: disable=unused-argument
        """Returns what else a reader changes in haproxy.cfg."""
        return ()

    @classmethod
    def start_gateway(cls):
        folder = cls.folder()
        script = (DEPLOY / "haproxy/sluice.lua").read_text("utf-8")
        timeout = cls.patient(("timeout_ms = 500", "timeout_ms = 20000"))
        (folder / "sluice.lua").write_text(replaced(script, *timeout))
        text = replaced(
            (DEPLOY / "haproxy/haproxy.cfg").read_text("utf-8"),
            ("bind :8000", f"bind {cls.gateway}"),
            ("127.0.0.1:8080", cls.sluice_address),
            ("bind 127.0.0.1:9000", f"bind 127.0.0.1:{free_port()}"),
            ("server one 127.0.0.1:9000", f"server one {cls.app.address}"),
            *cls.configured(folder),
            *cls.patient(
                ("    option httpchk", "    timeout check 20s\n    option httpchk"),
                ("fall 2", "fall 4"),
            ),
        )
        (folder / "haproxy.cfg").write_text(text)
        cls.start([tool("haproxy"), "-f", "haproxy.cfg"], folder, "haproxy", cls.gateway)

    @classmethod
    def settle(cls):
        wait_for(
            lambda: request(
                cls.gateway,
                "GET",
                "/api/order/settle",
                headers={"X-User-Id": f"settle{time.monotonic()}"},
            )["ratelimit"],
            what="the health check",
        )


class HaProxyHangs(HaProxyRecipe, Hangs, ServerTest):
    pass


class HaProxyPlans(HaProxyRecipe, Plans, ServerTest):
    @classmethod
    def configured(cls, folder):
        lines = block("docs/gateway.md", "haproxy", "sluice_plan")
        for name, line in (("plans", "key-of-anna pro\n"), ("users", "key-of-anna anna\nkey-of-bob bob\n")):
            (folder / f"{name}.map").write_text(line)
        own = "    http-request set-var(txn.user) req.hdr(x-user-id)\n"
        return ((own, lines.replace("/etc/haproxy", str(folder))),)


class HaProxyDegraded(HaProxyRecipe, Degraded, ServerTest):
    @classmethod
    def configured(cls, folder):
        script = folder / "sluice.lua"
        first = "local fields = {\n"
        script.write_text(replaced(script.read_text(), (first, first + '  ["x-model"] = "txn.model",\n')))
        last = "    http-request lua.sluice open txn.user unless sends_text\n"
        return ((last, last + block("docs/gateway.md", "haproxy", "X-Model")),)

    @classmethod
    def settle(cls):
        wait_for(
            lambda: request(cls.gateway, "GET", "/api/order/chat")["ratelimit"], what="the health check"
        )


class HaProxy(HaProxyRecipe, Recipes, Waits, ServerTest):
    pass


class Files(unittest.TestCase):
    def test_the_rules_are_valid(self):
        done = subprocess.run(
            [os.environ["SLUICE_BINARY"], "rules", "check", DEPLOY / "nginx/rules.yaml"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("ok, 4 rules, 6 limits", done.stdout)

    def test_the_page_names_files_that_exist(self):
        page = (ROOT / "docs/gateway.md").read_text("utf-8")
        named = {name for name in re.findall(r"deploy/[\w./-]*\w", page) if "/target/" not in name}
        self.assertTrue(named)
        self.assertEqual([name for name in named if not (ROOT / name).exists()], [])


if __name__ == "__main__":
    unittest.main()
