"""Load while the rules reload every second: no request is lost and no resource leaks. Runs only if
SLUICE_LONG_TESTS is set, for SLUICE_SOAK_SECONDS (default 600)."""

import os
import re
import subprocess
import time
import unittest

from harness import ServerTest, tool

SECONDS = int(os.environ.get("SLUICE_SOAK_SECONDS", "600"))
WARM_UP_SECONDS = min(60, max(5, SECONDS // 5))
MOST_GROWTH = 16 << 20
RULES = """
version: 1
rules:
  - name: order
    match: {{ path: /api/order/** }}
    limits:
      - {{ name: global, algorithm: token_bucket, limit: {limit}, per: 1s, burst: 1000000 }}
      - {{ name: user, key: "{{header.x-user-id}}", algorithm: gcra, limit: 5, per: 1s, burst: 5 }}
"""
SCRIPT = """
local at = 0
request = function()
  at = (at + 1) % 20000
  return wrk.format("GET", "/v1/auth", {
    ["X-Original-URI"] = "/api/order/" .. at % 10, ["X-Original-Method"] = "GET",
    ["X-User-Id"] = "u" .. at })
end
local threads = {}
setup = function(thread) threads[#threads + 1] = thread end
-- A global of each thread: those answers that are neither 200 nor 429.
odd = 0
response = function(status) if status ~= 200 and status ~= 429 then odd = odd + 1 end end
done = function(summary)
  local sum = 0
  for _, thread in ipairs(threads) do sum = sum + thread:get("odd") end
  local e = summary.errors
  io.write(string.format("result requests=%d odd=%d socket=%d\\n", summary.requests, sum,
    e.connect + e.read + e.write + e.timeout))
end
"""


@unittest.skipUnless(os.environ.get("SLUICE_LONG_TESTS"), "SLUICE_LONG_TESTS is not set")
class Soak(ServerTest):
    def load(self, seconds):
        """Runs wrk for `seconds` while the rules change every second."""
        folder = self.sluice.folder
        (folder / "load.lua").write_text(SCRIPT)
        wrk = subprocess.Popen(
            [
                tool("wrk"),
                "-t1",
                "-c50",
                f"-d{seconds}s",
                "--timeout",
                "5s",
                "-s",
                str(folder / "load.lua"),
                f"http://{self.sluice.http}",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            while wrk.poll() is None:
                self.limit += 1
                fresh = folder / "fresh"
                fresh.write_text(RULES.format(limit=self.limit))
                os.replace(fresh, self.sluice.rules_file)
                time.sleep(1)
            text = wrk.communicate()[0]
        finally:
            wrk.kill()
            wrk.wait()
            wrk.stdout.close()
        found = re.search(r"result requests=(\d+) odd=(\d+) socket=(\d+)", text)
        self.assertTrue(found, text)
        requests, odd, socket_errors = map(int, found.groups())
        self.assertEqual((odd, socket_errors), (0, 0), text)
        self.assertGreater(requests, 100 * seconds)

    def test_nothing_is_lost_and_nothing_leaks(self):
        self.limit = 100_000
        self.sluice = self.serve(RULES.format(limit=self.limit))
        self.load(WARM_UP_SECONDS)
        memory, descriptors = self.sluice.resident_bytes(), self.sluice.descriptors()
        self.load(SECONDS)
        self.assertGreaterEqual(self.sluice.metrics()["sluice_rules_reloads_total"], SECONDS * 0.6)
        self.assertEqual(self.sluice.metrics()["sluice_rules_reload_failures_total"], 0)
        self.assertLess(self.sluice.resident_bytes() - memory, MOST_GROWTH)
        self.assertEqual(self.sluice.descriptors(), descriptors)


if __name__ == "__main__":
    unittest.main()
