"""How many instructions a request takes, counted by valgrind: unlike times, counts repeat.

A request that takes over 5 % more than its figure fails. If it takes over 10 % less, the figure is
to be corrected. Figures hold for one compiler, one system and one model of processors, for which the
C library chooses its functions. Elsewhere the tests are skipped and print what they have counted;
without optimization they count nothing.
"""

import json
import os
import pathlib
import platform
import re
import subprocess
import unittest

import envoy_harness
import harness
import resp_harness

# The build, compiler and processor as CMake names them, the system, and the model of the processor.
FIGURES = {
    "Release unity GNU 12.2.0 x86_64 debian 12 GenuineIntel 6 207": {
        "a take from a store in memory": 396,
        "a hold of a budget in memory, and its settlement": 2_523,
        "POST /v1/check, 16 in one write": 12_210,
        "CL.THROTTLE, 16 in one write": 2_330,
        "ShouldRateLimit, one at a time": 24_790,
    },
    **dict.fromkeys(
        (
            "Release unity GNU 12.2.0 x86_64 debian 12 AuthenticAMD 25 1",
            "Release unity GNU 12.2.0 x86_64 debian 12 AuthenticAMD 25 17",
        ),
        {
            "a take from a store in memory": 389,
            "a take from three limits in memory": 1_402,
            "a hold of a budget in memory, and its settlement": 2_450,
            "POST /v1/check, 16 in one write": 12_360,
            "POST /v1/check with a limit, 16 in one write": 13_000,
            "CL.THROTTLE, 16 in one write": 2_375,
            "ShouldRateLimit, one at a time": 25_300,
        },
    ),
}
REQUESTS, PIPELINE, ROUNDS = 1_600, 16, 3
RULES = """
version: 1
domain: native
rules:
  - name: api
    limits:
      - { name: per-user, key: "{user}", algorithm: gcra, limit: 1000000, per: 1s }
"""


def build():
    system = platform.freedesktop_os_release()
    of_cpu = dict(re.findall(r"^([^\t:]+)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M))
    model = " ".join(of_cpu.get(key, "") for key in ("vendor_id", "cpu family", "model"))
    return f"{os.environ['SLUICE_BUILD']} {system['ID']} {system.get('VERSION_ID', '')} {model}"


def setUpModule():
    global rls
    if not build().startswith("Release "):
        raise unittest.SkipTest("counts instructions of optimized programs only")
    rls = envoy_harness.messages()


class Instructions(harness.ServerTest):
    def callgrind(self, file):
        return [harness.tool("valgrind"), "--tool=callgrind", f"--callgrind-out-file={file}"]

    def assert_costs(self, what, counted):
        figure = FIGURES.get(build(), {}).get(what)
        if figure is None:
            self.skipTest(f"{what} takes {counted:.0f} instructions; no figure for {build()}")
        self.assertLessEqual(counted, figure * 1.05, f"{what} became more expensive")
        self.assertGreaterEqual(counted, figure * 0.9, f"correct the figure of {what} in this test")


class Take(Instructions):
    def count(self, what, calls):
        file = self.folder() / "instructions"
        subprocess.run([*self.callgrind(file), os.environ["SLUICE_TAKE_CLIENT"], what, str(calls)],
                       check=True, capture_output=True)  # fmt: skip
        return int(re.search(r"^summary: (\d+)", file.read_text(), re.MULTILINE)[1])

    def each(self, what, few, many):
        return (self.count(what, many) - self.count(what, few)) / (many - few)

    def test_a_take_from_a_store_in_memory(self):
        self.assert_costs("a take from a store in memory", self.each("bucket", 10_000, 60_000))

    def test_a_take_from_three_limits_over_a_take(self):
        three = self.each("three", 10_000, 60_000)
        self.assert_costs("a take from three limits in memory", three)
        # 3.62, with the 5 % of the figures: the secret of a store changes a count by up to 1 %.
        self.assertLessEqual(three / self.each("bucket", 10_000, 60_000), 3.8)

    def test_a_hold_and_its_settlement_over_a_take(self):
        both = self.each("hold", 10_000, 110_000)
        self.assert_costs("a hold of a budget in memory, and its settlement", both)
        self.assertLessEqual(both / self.each("budget", 10_000, 110_000), 2.5)


class Server(Instructions):
    def setUp(self):
        self.counts = self.folder() / "instructions"
        listen = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "resp": "127.0.0.1:0"}
        self.server = self.serve(
            RULES, {"listen": listen, "threads": 1}, under=self.callgrind(self.counts)
        )

    def count(self, send):
        """Returns the instructions of the server for one of REQUESTS requests, after a warm-up.

        Of several rounds the least counts: the timers of a slow machine add to a round.
        """
        send(PIPELINE * 10)
        counted = []
        for number in range(1, ROUNDS + 1):
            self.control("zero")
            send(REQUESTS)
            self.control("dump")
            dump = self.counts.with_name(f"{self.counts.name}.{number}").read_text()
            totals = re.findall(r"^totals: (\d+)", dump, re.MULTILINE)
            counted.append(sum(map(int, totals)) / REQUESTS)
        return min(counted)

    def control(self, command):
        subprocess.run([harness.tool("vgdb"), f"--pid={self.server.pid}", command],
                       check=True, capture_output=True)  # fmt: skip

    def count_checks(self, request):
        body = json.dumps(request).encode()
        message = (
            "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        with harness.Raw(self.server.http) as raw:

            def send(count):
                for _ in range(count // PIPELINE):
                    raw.send(message * PIPELINE)
                    for _ in range(PIPELINE):
                        self.assertEqual(raw.answer().status, 200)

            return self.count(send)

    def test_http_check(self):
        counted = self.count_checks({"attributes": {"user": "u1"}})
        self.assert_costs("POST /v1/check, 16 in one write", counted)

    def test_http_check_with_a_limit(self):
        limit = {"key": "u1", "algorithm": "gcra", "limit": 1, "per": "1s", "burst": 1_000_000}
        counted = self.count_checks({"limit": limit})
        self.assert_costs("POST /v1/check with a limit, 16 in one write", counted)

    def test_cl_throttle(self):
        message = resp_harness.frame("CL.THROTTLE", "u1", 1_000_000, 1_000_000, 1)
        with resp_harness.Resp(self.server.front_ends["resp"]) as client:

            def send(count):
                for _ in range(count // PIPELINE):
                    client.send(message * PIPELINE)
                    for _ in range(PIPELINE):
                        self.assertEqual(client.reply()[0], 0)

            self.assert_costs("CL.THROTTLE, 16 in one write", self.count(send))

    def test_should_rate_limit(self):
        question = rls.RateLimitRequest(domain="native")
        question.descriptors.add().entries.add(key="user", value="u1")
        with envoy_harness.channel_to(self.server) as channel:
            call = envoy_harness.caller(rls, channel)

            def send(count):
                for _ in range(count):
                    self.assertEqual(call(question).overall_code, rls.RateLimitResponse.OK)

            self.assert_costs("ShouldRateLimit, one at a time", self.count(send))
