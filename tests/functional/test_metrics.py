"""/metrics is well-formed and correct, and clients cannot add series."""

import subprocess
import unittest
from pathlib import Path

from harness import PATIENCE, Raw, ServerTest, request, tool

RULES = """
version: 1
domain: shop
rules:
  - name: trial
    match: { path: /page }
    limits: [{ name: none, algorithm: fixed_window, limit: 0, per: 1h }]
    mode: shadow
    continue: true
  - name: page
    match: { path: /page }
    limits: [{ name: hour, key: "{ip}", algorithm: fixed_window, limit: 2, per: 1h }]
  - name: 'quo"te\\n日'
    match: { path: /odd }
    limits: [{ name: hour, algorithm: fixed_window, limit: 2, per: 1h }]
"""


def page(ip):
    return {"attributes": {"path": "/page", "ip": ip}}


class Metrics(ServerTest):
    def setUp(self):
        self.sluice = self.serve(RULES)

    def test_promtool_reports_no_problem(self):
        self.sluice.check([page("192.0.2.1")] * 5 + [{"attributes": {"path": "/odd"}}] * 3)
        answer = self.sluice.get("/metrics")
        self.assertTrue(answer["content-type"].startswith("text/plain; version=0.0.4"))
        done = subprocess.run(
            [tool("promtool"), "check", "metrics"],
            input=answer.body,
            capture_output=True,
            timeout=PATIENCE,
        )
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, b""))

    def test_no_event_loop_writes_the_text(self):
        rules = "version: 1\nrules:\n" + "".join(
            f"  - name: r{i}\n    limits: [{{ name: a, algorithm: gcra, limit: 2, per: 1h }}]\n"
            for i in range(2000))
        server = self.serve(rules)

        def processor_times():
            """Returns the nanoseconds of the threads by nice value: 10 once the writer has begun."""
            times = {10: 0}
            for task in Path(f"/proc/{server.pid}/task").iterdir():
                nice = int((task / "stat").read_text().rpartition(")")[2].split()[16])
                took = int((task / "schedstat").read_text().split()[0])
                times[nice] = times.get(nice, 0) + took
            return times

        before = processor_times()
        for address in (server.http, server.admin):
            for _ in range(10):
                self.assertEqual(request(address, "GET", "/metrics").status, 200)
            after = processor_times()
            self.assertGreater(after[10] - before[10], after[0] - before[0], address)
            before = after

    def test_counts_requests_and_decisions(self):
        for _ in range(5):
            self.sluice.check(page("192.0.2.1"))
        self.sluice.auth("GET", "/nowhere")
        self.sluice.check({"attributes": {"path": "/nowhere"}})
        metrics = self.sluice.metrics()

        def requests(rule, outcome, reason):
            name = f'sluice_requests_total{{rule="{rule}",outcome="{outcome}",reason="{reason}"}}'
            return metrics.get(name, 0)

        self.assertEqual(
            requests("page", "allowed", "ok")
            + requests("page", "allowed", "shadow")
            + requests("trial", "allowed", "shadow"),
            2,
            metrics,
        )
        self.assertEqual(requests("page", "denied", "limited"), 3)
        self.assertEqual(requests("", "allowed", "ok"), 2)
        self.assertEqual(metrics['sluice_shadow_denials_total{rule="trial",limit="none"}'], 5)
        self.assertEqual(
            metrics[
                'sluice_decisions_total{rule="page",limit="hour",outcome="denied",reason="limited"}'
            ],
            3,
        )
        self.assertEqual(metrics['sluice_request_duration_seconds_count{front_end="check"}'], 6)
        self.assertEqual(metrics['sluice_request_duration_seconds_count{front_end="auth"}'], 1)
        self.assertEqual(metrics["sluice_store_keys"], 1)
        self.assertEqual(metrics["sluice_rules_version"], 1)
        self.assertEqual(metrics["sluice_ready"], 1)

    def test_counts_connections(self):
        before = self.sluice.metrics()
        with Raw(self.sluice.http) as other, Raw(self.sluice.http) as raw:
            other.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").answer()
            raw.send("NONSENSE\r\n\r\n").answer()
            during = self.sluice.metrics()
            self.assertGreaterEqual(during['sluice_connections{listener="http"}'], 2)
            self.assertEqual(
                during["sluice_connections_accepted_total"],
                before["sluice_connections_accepted_total"] + 3,
            )
            self.assertEqual(during['sluice_request_errors_total{reason="bad_request"}'], 1)

    def test_clients_cannot_add_series(self):
        self.sluice.check(page("192.0.2.1"))
        self.sluice.auth("GET", "/page")
        self.sluice.get("/unknown")
        before = set(self.sluice.metrics())
        self.sluice.check(
            [{"attributes": {"path": f"/p{i}", "ip": str(i), f"a{i}": "x"}} for i in range(1000)]
        )
        self.sluice.check([page(f"10.0.{i // 250}.{i % 250}") for i in range(1000)])
        for i in range(100):
            self.sluice.auth(f"M{i}", f"/page/{i}", ip=f"192.0.2.{i}")
            self.sluice.get(f"/unknown/{i}")
        self.assertEqual(set(self.sluice.metrics()), before)


if __name__ == "__main__":
    unittest.main()
