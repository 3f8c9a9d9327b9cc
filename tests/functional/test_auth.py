"""GET /v1/auth over the wire, as gateways call it."""

import re
import socket
import subprocess
import unittest

from harness import PATIENCE, ServerTest, binary, exchange, request, wait_for

REJECTION = '{"code":429,"message":"请求过于频繁,请稍后再试","data":null}'
RULES = f"""
version: 1
domain: shop
rules:
  - name: send-code
    match: {{ method: POST, path: /send/code }}
    limits:
      - {{ name: ip, key: "{{ip}}", algorithm: fixed_window, limit: 1, per: 1h }}
    reject: {{ status: 429, body: '{REJECTION}' }}
  - name: strict
    match: {{ path: /strict }}
    limits: [{{ name: ip, key: "{{ip}}", algorithm: fixed_window, limit: 1, per: 1h }}]
    reject: {{ status: 503 }}
  - name: by-name
    match: {{ path: "/by/**", header.x-client: "*" }}
    limits: [{{ name: client, key: "{{header.x-client}}", algorithm: fixed_window, limit: 1, per: 1h }}]
  - name: by-cookie
    match: {{ path: /cookie }}
    limits: [{{ key: "{{cookie.session}}", algorithm: fixed_window, limit: 1, per: 1h, on_missing: deny }}]
  - name: by-query
    match: {{ path: /query }}
    limits: [{{ key: "{{query.q}}", algorithm: fixed_window, limit: 1, per: 1h }}]
  - name: by-host
    match: {{ host: "*.example.com" }}
    limits: [{{ key: "{{host}}", algorithm: fixed_window, limit: 1, per: 1h }}]
  - name: cost
    match: {{ path: /cost }}
    limits:
      - {{ name: plain, algorithm: fixed_window, limit: 50, per: 1h }}
      - {{ name: sized, algorithm: fixed_window, limit: 100, per: 1h, cost: request }}
  - name: trial
    match: {{ path: /trial }}
    mode: shadow
    limits: [{{ algorithm: fixed_window, limit: 0, per: 1h }}]
  - name: network
    match: {{ path: /network }}
    limits: [{{ key: "{{ip/64}}", algorithm: fixed_window, limit: 1, per: 1h }}]
  - name: wait
    match: {{ path: /wait }}
    limits: [{{ name: hour, key: "{{ip}}", algorithm: fixed_window, limit: 1, per: 1h }}]
    reject:
      body: '<p>Wait {{retry_after}} of {{limit}}, until {{reset_at}}.</p>'
      content_type: text/html
      headers: {{ X-Wait: "{{retry_after}}" }}
  - name: page
    match: {{ path: /page }}
    limits: [{{ name: hour, key: "{{ip}}", algorithm: fixed_window, limit: 2, per: 1h }}]
"""


class TrustedGateway(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.sluice = cls.serve(RULES, {"trusted_proxies": ["127.0.0.1", "::1", "10.0.0.0/8"]})

    def test_denies_with_the_numbers_in_body_and_headers(self):
        self.assertEqual(self.sluice.auth("GET", "/wait", ip="192.0.2.9").status, 200)
        answer = self.sluice.auth("GET", "/wait", ip="192.0.2.9")
        self.assertEqual(answer.status, 429)
        wait = answer["retry-after"]
        self.assertEqual(answer["x-wait"], wait)
        self.assertRegex(
            answer.body.decode(),
            rf"^<p>Wait {wait} of 1, until \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ\.</p>$",
        )

    def test_allows_with_an_empty_body_and_the_fields(self):
        answer = self.sluice.auth("GET", "/page?x=1", ip="192.0.2.1")
        self.assertEqual((answer.status, answer.body), (200, b""))
        self.assertEqual(answer["ratelimit-policy"], '"hour";q=2;w=3600')
        self.assertEqual(answer["x-ratelimit-remaining"], "1")

    def test_denies_with_429_and_retry_after_and_an_empty_body(self):
        for _ in range(2):
            self.assertEqual(self.sluice.auth("GET", "/page", ip="192.0.2.2").status, 200)
        answer = self.sluice.auth("GET", "/page", ip="192.0.2.2")
        self.assertEqual(answer.status, 429)
        self.assertTrue(3590 < int(answer["retry-after"]) <= 3600)
        self.assertRegex(answer["ratelimit"], r'^"hour";r=0;t=\d+$')
        self.assertEqual(answer.body, b"")

    def test_deny_403_overrides_the_status_of_the_rule(self):
        for uri in ("/page", "/strict"):
            for _ in range(3):
                answer = self.sluice.auth("GET", uri, ip="192.0.2.3", deny=403)
            self.assertEqual(answer.status, 403)
            self.assertTrue(answer["retry-after"])
            self.assertTrue(answer["ratelimit"])

    def test_a_rules_own_status_and_chinese_body_reach_the_client_byte_for_byte(self):
        self.sluice.auth("POST", "/send/code", ip="192.0.2.4")
        answer = self.sluice.auth("POST", "/send/code", ip="192.0.2.4")
        self.assertEqual(answer.status, 429)
        self.assertEqual(answer.body, REJECTION.encode("utf-8"))
        self.assertEqual(answer["content-type"], "application/json; charset=utf-8")
        self.sluice.auth("GET", "/strict", ip="192.0.2.4")
        self.assertEqual(self.sluice.auth("GET", "/strict", ip="192.0.2.4").status, 503)

    def test_the_method_is_that_of_x_original_method(self):
        for _ in range(3):
            self.assertEqual(self.sluice.auth("GET", "/send/code", ip="192.0.2.5").status, 200)

    def test_any_method_is_accepted_and_a_body_is_ignored(self):
        fields = {"X-Original-URI": "/trial", "X-Original-Method": "GET"}
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
            answer = request(self.sluice.http, method, "/v1/auth", "ignored", fields)
            self.assertEqual(answer.status, 200, method)

    def test_the_fields_of_traefik_and_caddy_have_the_same_meaning(self):
        fields = {
            "X-Forwarded-Method": "POST",
            "X-Forwarded-Uri": "/send/code?a=b",
            "X-Forwarded-Host": "shop.example.org",
            "X-Forwarded-For": "192.0.2.6",
        }
        self.assertEqual([self.sluice.get("/v1/auth", fields).status for _ in range(2)], [200, 429])

    def test_headers_cookies_query_and_host_are_attributes(self):
        def statuses(uri, **headers):
            return [self.sluice.auth("GET", uri, **headers).status for _ in range(2)]

        self.assertEqual(statuses("/by/name", X_Client="one"), [200, 429])
        self.assertEqual(statuses("/by/name", X_CLIENT="two"), [200, 429])
        self.assertEqual(statuses("/cookie", Cookie="a=b; session=s1"), [200, 429])
        self.assertEqual(statuses("/cookie", Cookie="session=s2"), [200, 429])
        self.assertEqual(statuses("/cookie"), [429, 429])
        self.assertEqual(statuses("/query?q=1&r=2"), [200, 429])
        self.assertEqual(statuses("/query?r=2&q=2"), [200, 429])
        self.assertEqual(statuses("/", Host="a.example.com"), [200, 429])
        self.assertEqual(statuses("/", Host="b.example.com"), [200, 429])

    def test_a_trusted_proxy_gives_the_cost_to_limits_that_ask_for_it(self):
        def left(cost):
            answer = self.sluice.auth("GET", "/cost", X_Sluice_Cost=cost)
            return answer.status, re.findall(r"r=([0-9]+)", answer["ratelimit"] or "")

        self.assertEqual(left("40"), (200, ["49", "60"]))
        self.assertEqual(left("0"), (200, ["48", "60"]))
        for wrong in ("-1", "x", "9007199254740992"):
            self.assertEqual(left(wrong)[0], 400)

    def test_other_spellings_of_a_path_are_the_same_path(self):
        spellings = [
            "/send/code",
            "/send/./code",
            "/x/../send/code",
            "/send/%63ode",
            "/%2e%2e/send/code",
            "/send/x/%2e%2e/code",
            "/send/code?x",
            "/send/code#x",
        ]
        for i, uri in enumerate(spellings):
            with self.subTest(uri=uri):
                ip = f"198.51.100.{i}"
                self.assertEqual(self.sluice.auth("POST", "/send/code", ip=ip).status, 200)
                self.assertEqual(self.sluice.auth("POST", uri, ip=ip).status, 429)

    def test_two_descriptions_of_a_request_or_none_are_refused(self):
        both = {"X-Original-URI": "/page", "X-Forwarded-Uri": "/trial"}
        for headers in (both, {}):
            answer = self.sluice.get("/v1/auth", headers)
            self.assertEqual(answer.status, 400)
            self.assertIn("X-Original-URI", answer.json["detail"])

    def test_a_shadow_rule_allows_the_request(self):
        self.assertEqual(self.sluice.auth("GET", "/trial").status, 200)

    def test_the_rightmost_untrusted_address_is_that_of_the_client(self):
        def status(chain):
            return self.sluice.auth("POST", "/send/code", ip=chain).status

        self.assertEqual(status("203.0.113.1"), 200)
        self.assertEqual(status("203.0.113.1"), 429)
        self.assertEqual(status("9.9.9.9, 203.0.113.1"), 429)
        self.assertEqual(status("9.9.9.9,203.0.113.1, 10.1.2.3"), 429)
        self.assertEqual(status("203.0.113.1, 9.9.9.9"), 200)
        self.assertEqual(status("::ffff:203.0.113.1"), 429)

    def test_repeated_x_forwarded_for_fields_are_one_list(self):
        head = (
            "GET /v1/auth HTTP/1.1\r\nHost: a\r\nX-Original-Method: POST\r\n"
            "X-Original-URI: /send/code\r\nX-Forwarded-For: {}\r\nX-Forwarded-For: {}\r\n\r\n"
        )
        once = head.format("203.0.113.9", "203.0.113.20")
        self.assertEqual(exchange(self.sluice.http, once).status, 200)
        again = head.format("203.0.113.10", "203.0.113.20")
        self.assertEqual(exchange(self.sluice.http, again).status, 429)

    def test_ipv6_networks_count_as_one(self):
        statuses = [
            self.sluice.auth("GET", "/network", ip=ip).status
            for ip in ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1")
        ]
        self.assertEqual(statuses, [200, 429, 200])


class Stranger(ServerTest):
    """Peers that are not listed as trusted."""

    @classmethod
    def setUpClass(cls):
        cls.sluice = cls.serve(RULES)

    def test_addresses_from_untrusted_peers_are_ignored(self):
        statuses = [
            self.sluice.auth(
                "POST",
                "/send/code",
                ip=f"192.0.2.{i}",
                X_Real_IP=f"192.0.2.{i}",
                Forwarded=f"for=192.0.2.{i}",
            ).status
            for i in range(2)
        ]
        self.assertEqual(statuses, [200, 429])
        # In the log once, or all clients would share one limit and nobody would know why.
        line = "the gateway is not in trusted_proxies, so that all its clients have its address"
        wait_for(lambda: line in self.sluice.log(), what="the warning")
        wait_for(lambda: "gateway=127.0.0.1 ignored=x-forwarded-for" in self.sluice.log(), what="its end")
        wait_for(lambda: self.sluice.log().count("denied rule=send-code") == 1, what="the line of the denial")
        self.assertEqual(self.sluice.log().count(line), 1, self.sluice.log())
        found = self.sluice.admin_request("GET", "/v1/status").json["gateway_not_trusted"]
        self.assertEqual(found["peer"], "127.0.0.1")
        command = [binary(), "status", "--admin", self.sluice.admin]
        status = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(status.returncode, 1, status)
        said = r"\AGATEWAY NOT TRUSTED since .*: 127\.0\.0\.1 says who its clients are; add it to trusted_proxies"
        self.assertRegex(status.stdout, said)


@unittest.skipUnless(socket.has_ipv6, "this Python has no IPv6")
class Ipv6(ServerTest):
    @classmethod
    def setUpClass(cls):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            raise unittest.SkipTest(f"there is no ::1 here: {error}")
        cls.sluice = cls.serve(RULES, {"listen": {"http": "[::1]:0"}, "trusted_proxies": ["::1"]})

    def test_listens_on_ipv6_and_reports_the_address(self):
        self.assertRegex(self.sluice.http, r"^\[::1\]:\d+$")
        self.assertEqual(self.sluice.get("/healthz").status, 200)

    def test_trusts_an_ipv6_proxy(self):
        statuses = [
            self.sluice.auth("POST", "/send/code", ip=f"192.0.2.{i}").status for i in (1, 2, 1)
        ]
        self.assertEqual(statuses, [200, 200, 429])


if __name__ == "__main__":
    unittest.main()
