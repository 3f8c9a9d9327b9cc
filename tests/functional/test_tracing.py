"""The denial log names the trace of each denied request, over every front end."""

import unittest

import envoy_harness
from harness import PATIENCE, ServerTest, request, wait_for
from resp_harness import Resp

RULES = """
version: 1
domain: shop
rules:
  - { name: all, limits: [{ name: none, algorithm: fixed_window, limit: 0, per: 1s }] }
"""
CHECK = {"attributes": {"path": "/"}}


def trace(number):
    return f"00-{number:032x}-{number:016x}-01"


class Tracing(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.rls = rls = envoy_harness.messages()
        config = {"listen": {"grpc": "127.0.0.1:0", "resp": "127.0.0.1:0"}}
        config["log"] = {"denials_per_second": 1000}
        cls.sluice = cls.serve(RULES, config)
        cls.ask = rls.RateLimitRequest(domain="shop")
        cls.ask.descriptors.add().entries.add(key="path", value="/")

    def assert_logged(self, number):
        ids = f"trace_id={number:032x} span_id={number:016x}"
        wait_for(lambda: ids in self.sluice.log(), what=f"a line with {ids}")

    def test_header_of_http(self):
        self.sluice.check(CHECK, {"Traceparent": trace(1)})
        self.assert_logged(1)
        self.sluice.auth("GET", "/", traceparent=trace(2))
        self.assert_logged(2)
        body = '{"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/"}]}]}'
        request(self.sluice.http, "POST", "/json", body, {"traceparent": trace(3)})
        self.assert_logged(3)

    def test_attributes_come_first(self):
        own = {"path": "/", "traceparent": trace(4)}
        forwarded = {"path": "/", "header.traceparent": trace(5)}
        self.sluice.check([{"attributes": own}, {"attributes": forwarded}], {"traceparent": trace(9)})
        self.assert_logged(4)
        self.assert_logged(5)
        self.assertNotIn(trace(9), self.sluice.log())

    def test_metadata_of_grpc(self):
        with envoy_harness.channel_to(self.sluice) as channel:
            call = envoy_harness.caller(self.rls, channel)
            call(self.ask, timeout=PATIENCE, metadata=[("traceparent", trace(6))])
        self.assert_logged(6)

    def test_attribute_of_resp(self):
        address = self.sluice.front_ends["resp"]
        with Resp(address) as resp:
            resp.ask("RL.CHECK", "*", "path", "/", "traceparent", trace(7))
        self.assert_logged(7)

    def test_a_wrong_one_is_not_logged(self):
        for wrong in (trace(0), trace(8).upper().replace("8", "F"), "ff" + trace(8)[2:], "x y=z"):
            self.sluice.check({"attributes": {"path": "/", "traceparent": wrong}})
        self.sluice.check({"attributes": {"path": "/", "traceparent": trace(10)}})
        self.assert_logged(10)
        self.assertNotIn(f"{0:032x}", self.sluice.log())
        self.assertNotIn("y=z", self.sluice.log())
        self.assertNotIn(f"{8:032x}", self.sluice.log())


if __name__ == "__main__":
    unittest.main()
