"""docs/openapi.json: what `sluice docs openapi` prints about the HTTP API."""

import json
import os
import subprocess
import sys

from harness import ROOT, ServerTest, request

FILE = ROOT / "docs/openapi.json"
# openapi-spec-validator, schemathesis and what they need.
PACKAGES = os.environ.get("SLUICE_OPENAPI", "")

RULES = """
version: 1
domain: shop
rules:
  - name: order
    match: { path: /order }
    limits: [{ name: user, key: "{ip}", algorithm: token_bucket, limit: 5, per: 1s }]
  - name: export
    match: { path: /export }
    limits: [{ name: slots, algorithm: concurrency, limit: 5, lease: 10s }]
  - name: answers
    match: { path: /answers }
    limits: [{ name: org, key: "{ip}", algorithm: budget, limit: 100, per: 1h }]
  - name: closed
    match: { path: /closed }
    action: deny
"""
CONFIG = """
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "412", "415"]
# The members of a body depend on each other, which the schema does not say.
[checks.positive_data_acceptance]
enabled = false

# A gateway asks with the method of its client.
[[operations]]
include-path-regex = "^/v1/(auth|report)$"
[operations.checks.unsupported_method]
enabled = false
[operations.checks.allow_header_conformance]
enabled = false
"""
# Of each operation and way of making requests. The seed is fixed, so a run can be repeated.
EXAMPLES = 30


def document():
    return json.loads(FILE.read_text("utf-8"))


class Document(ServerTest):
    def test_is_what_the_program_prints_and_valid_openapi_3_1(self):
        printed = subprocess.run([os.environ["SLUICE_BINARY"], "docs", "openapi"], check=True, capture_output=True)
        self.assertEqual(FILE.read_bytes(), printed.stdout)
        sys.path.insert(0, PACKAGES)
        import openapi_spec_validator  # pylint: disable=import-outside-toplevel,import-error

        broken = document()
        del broken["paths"]["/healthz"]["get"]["responses"]["200"]["description"]
        openapi_spec_validator.OpenAPIV31SpecValidator(document()).validate()
        self.assertTrue(list(openapi_spec_validator.OpenAPIV31SpecValidator(broken).iter_errors()))

    def test_every_operation_is_one_that_a_server_knows(self):
        server = self.serve(RULES)
        for path, item in document()["paths"].items():
            address = server.admin if "servers" in item else server.http
            target = path.replace("{", "").replace("}", "")
            wrong = request(address, "OPTIONS", target)
            self.assertIn(wrong.status, (400, 405), path)
            if wrong.status == 405:
                methods = {method.upper() for method in item if method != "servers"}
                self.assertEqual(set(wrong["allow"].split(", ")) - {"HEAD"}, methods, path)


class WithoutStore(ServerTest):
    def test_the_status_of_a_store_that_cannot_decide_is_in_the_file(self):
        export = {"attributes": {"path": "/export"}}
        permit = {"permit": self.serve(RULES).check(export).json["permit"]}
        limit = {"key": "a", "algorithm": "budget", "limit": 9, "per": "1h"}
        envoy = "domain: d\ndescriptors: [ { key: a, rate_limit: { unit: day, requests_per_unit: 1 } } ]\n"
        file = self.folder() / "envoy.yaml"
        file.write_text(envoy)
        descriptors = [{"entries": [{"key": "a", "value": "b"}]}]
        config = {"store": "redis+unix:///nonexistent/redis.sock", "envoy": {"files": str(file)}}
        server = self.serve(RULES, config)
        for path, body in (
            ("/v1/check", {"limit": limit}),
            ("/v1/settle", {"limit": limit, "id": "a", "actual": 1}),
            ("/v1/cancel", {"limit": limit, "id": "a"}),
            ("/v1/extend", {"limit": limit, "id": "a", "hold_ms": 1000}),
            ("/v1/extend", permit),
            ("/v1/release", permit),
            ("/json", {"domain": "d", "descriptors": descriptors}),
        ):
            self.assertEqual(request(server.http, "POST", path, json.dumps(body)).status, 503, path)
            self.assertIn("503", document()["paths"][path]["post"]["responses"], path)


class Requests(ServerTest):
    """Requests that schemathesis makes from the file, right ones and wrong ones."""

    def check(self, address, *selection):
        folder = self.folder()
        (folder / "schemathesis.toml").write_text(CONFIG, "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "--config-file", folder / "schemathesis.toml", "run", FILE,
             "--url", f"http://{address}", *selection, "--max-examples", str(EXAMPLES), "--seed", "1", "--no-color",
             "--phases", "coverage,fuzzing", "--suppress-health-check", "all", "--warnings", "off",
             "--continue-on-failure", "--request-timeout", "60"],
            cwd=folder, env={**os.environ, "PYTHONPATH": PACKAGES}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-2000:])
        self.assertIn("No issues found", done.stdout)

    def test_the_http_front_end_answers_as_the_file_says(self):
        self.check(self.serve(RULES).http, "--include-tag", "decisions")

    def test_the_administration_answers_as_the_file_says(self):
        # An answer of /v1/events has no end.
        self.check(self.serve(RULES).admin, "--include-tag", "administration", "--exclude-path", "/v1/events")
