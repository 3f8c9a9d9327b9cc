"""The quota client of the library, with a quota service that the test plays."""

import json
import os
import pathlib
import queue
import re
import subprocess
import tempfile
import time
import unittest
from concurrent import futures

import envoy_harness
import grpc
import harness
import tls_harness
from harness import wait_for

SERVICE = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"
HOUR = 3600


def setUpModule():
    global rlqs
    envoy_harness.messages()
    from envoy.service.rate_limit_quota.v3 import rlqs_pb2 as rlqs


class Service:
    """Keeps the reports of all streams, and sends what the test says to the newest stream."""

    def __init__(self, address="127.0.0.1:0", credentials=None):
        self.reports, self.answers, self.streams = queue.Queue(), None, 0
        self.largest = 0  # usages of one message
        handler = grpc.stream_stream_rpc_method_handler(
            self._stream,
            request_deserializer=rlqs.RateLimitQuotaUsageReports.FromString,
            response_serializer=rlqs.RateLimitQuotaResponse.SerializeToString,
        )
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(SERVICE, {"StreamRateLimitQuotas": handler})]
        )
        port = (
            self.server.add_secure_port(address, credentials)
            if credentials
            else self.server.add_insecure_port(address)
        )
        self.address = f"127.0.0.1:{port}"
        self.server.start()

    def _stream(self, requests, context):
        answers = self.answers = queue.Queue()
        self.streams += 1
        futures.ThreadPoolExecutor(1).submit(self._read, requests)
        if not context.add_callback(lambda: answers.put(None)):
            return  # the call has ended already, and nobody would end the wait
        yield from iter(answers.get, None)

    def _read(self, requests):
        try:
            for request in requests:
                self.largest = max(self.largest, len(request.bucket_quota_usages))
                for usage in request.bucket_quota_usages:
                    self.reports.put((request.domain, dict(usage.bucket_id.bucket), usage))
        except grpc.RpcError:
            pass

    def report(self, user, least=1):
        """Returns the sums of allowed and denied of the next reports that have that many."""
        allowed = denied = 0
        while allowed + denied < least:
            domain, attributes, usage = self.reports.get(timeout=60)
            if attributes == {"user": user}:
                assert domain == "shop"
                allowed += usage.num_requests_allowed
                denied += usage.num_requests_denied
        return allowed, denied

    def send(self, user, ttl=HOUR, **strategy):
        """Assigns the strategy to the bucket of a user, or one with these attributes."""
        response = rlqs.RateLimitQuotaResponse()
        action = response.bucket_action.add()
        action.bucket_id.bucket.update({"user": user} if isinstance(user, str) else user)
        if strategy:
            assignment = action.quota_assignment_action
            assignment.assignment_time_to_live.FromNanoseconds(int(ttl * 1e9))
            given = assignment.rate_limit_strategy
            if "blanket" in strategy:
                given.blanket_rule = strategy["blanket"]
            else:
                tokens, every = strategy["tokens"]
                given.token_bucket.max_tokens = tokens
                given.token_bucket.tokens_per_fill.value = tokens
                given.token_bucket.fill_interval.FromSeconds(every)
        else:
            action.abandon_action.SetInParent()
        self.answers.put(response)

    def stop(self):
        self.server.stop(None).wait()


class QuotaClient(unittest.TestCase):
    def serve(self, *words):
        service = Service(*words)
        self.addCleanup(service.stop)
        return service

    def start(self, address, fallback="allow", *words, domain="shop"):
        program = self.program = subprocess.Popen(
            [os.environ["SLUICE_QUOTA_CLIENT"], address, domain, fallback, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

        def stop():
            program.stdin.close()
            self.assertEqual(program.wait(60), 0)
            program.stdout.close()

        self.addCleanup(stop)

    def ask(self, *words):
        print(*words, file=self.program.stdin)
        return self.program.stdout.readline().strip()

    def stat(self, name):
        return int(re.search(rf"\b{name} (\d+)", self.ask("stats"))[1])

    def assigned(self, count):
        """Waits until that many assignments have arrived."""
        wait_for(lambda: self.stat("assignments") >= count, what="the assignment")

    def test_a_token_bucket_is_enforced_and_reported(self):
        service = self.serve()
        self.start(service.address)
        self.assertEqual(self.ask("take", "a", 3), "allowed 3 denied 0")
        self.assertEqual(service.report("a", 3), (3, 0))
        service.send("a", tokens=(5, HOUR))
        self.assigned(1)
        self.assertEqual(self.ask("units", "a", 6), "allowed 0 denied 6")
        self.assertEqual(self.ask("units", "a", 2), "allowed 2 denied 0")
        self.assertEqual(self.ask("take", "a", 20), "allowed 3 denied 17")
        self.assertEqual(service.report("a", 28), (5, 23))
        # Other buckets are not affected.
        self.assertEqual(self.ask("take", "b", 9), "allowed 9 denied 0")
        self.assertEqual(service.report("b", 9), (9, 0))

    def test_tokens_stay_when_the_numbers_change(self):
        service = self.serve()
        self.start(service.address)
        self.ask("take", "a", 1)
        service.report("a")
        service.send("a", tokens=(4, HOUR))
        self.assigned(1)
        self.assertEqual(self.ask("take", "a", 3), "allowed 3 denied 0")
        service.send("a", tokens=(4, HOUR))
        self.assigned(2)
        self.assertEqual(self.ask("take", "a", 4), "allowed 1 denied 3")
        service.send("a", tokens=(8, HOUR))
        self.assigned(3)
        self.assertEqual(self.ask("take", "a", 1), "allowed 0 denied 1")
        service.send("a", blanket=1)
        self.assigned(4)
        service.send("a", tokens=(8, HOUR))
        self.assigned(5)
        self.assertEqual(self.ask("take", "a", 3), "allowed 3 denied 0")
        service.send("a", tokens=(2, HOUR))
        self.assigned(6)
        self.assertEqual(self.ask("take", "a", 4), "allowed 2 denied 2")

    def test_many_buckets_are_reported_in_several_messages(self):
        service = self.serve()
        self.start(service.address)
        users = {f"user-{number}" for number in range(1000)}
        for user in users:
            self.ask("take", user, 1)
        seen = set()
        while seen != users:
            seen.add(service.reports.get(timeout=60)[1]["user"])
        # All of them together would be more than the service takes as one message.
        wait_for(lambda: service.largest == 200, what="a report of all buckets")

    def test_a_report_of_many_long_ids_does_not_end_the_stream(self):
        service = self.serve()
        self.start(service.address)
        users = {f"{number:04}" + 4000 * "x" for number in range(1200)}  # 5 MB
        for user in users:
            self.ask("take", user, 1)
        for _ in range(3):  # the service may know some before the first report of all
            seen = set()
            while seen != users:
                seen.add(service.reports.get(timeout=60)[1]["user"])
        self.assertEqual(service.streams, 1)

    def test_blanket_rules_and_abandoned_buckets(self):
        service = self.serve()
        self.start(service.address, "deny")
        self.assertEqual(self.ask("take", "a", 2), "allowed 0 denied 2")
        self.assertEqual(service.report("a", 2), (0, 2))
        service.send("a", blanket=0)
        self.assigned(1)
        self.assertEqual(self.ask("take", "a", 2), "allowed 2 denied 0")
        service.send("a", blanket=1)
        self.assigned(2)
        self.assertEqual(self.ask("take", "a", 2), "allowed 0 denied 2")
        service.send("a", blanket=0)
        self.assigned(3)
        service.send("a")
        wait_for(lambda: self.ask("assigned", "a") == "no", what="the end of the assignment")
        self.assertEqual(self.ask("take", "a", 1), "allowed 0 denied 1")

    def test_an_assignment_ends(self):
        service = self.serve()
        self.start(service.address, "deny")
        self.ask("take", "a", 1)
        service.report("a")
        service.send("a", ttl=0.01, blanket=0)
        self.assigned(1)
        wait_for(lambda: self.ask("assigned", "a") == "no", what="the end of the assignment")
        self.assertEqual(self.ask("take", "a", 1), "allowed 0 denied 1")

    def test_a_lost_service_leaves_assignments_and_is_found_again(self):
        service = self.serve()
        self.start(service.address)
        self.ask("take", "a", 1)
        service.report("a")
        service.send("a", tokens=(3, HOUR))
        self.assigned(1)
        service.stop()
        wait_for(lambda: self.stat("connected") == 0, what="the loss of the service")
        self.assertNotEqual(self.ask("stats").split("error ")[1], "")
        self.assertEqual(self.ask("take", "a", 5), "allowed 3 denied 2")
        again = self.serve(service.address)
        self.assertEqual(again.report("a", 5), (3, 2))
        self.assertGreaterEqual(self.stat("connects"), 2)

    def test_a_service_that_refuses_is_named(self):
        server = grpc.server(futures.ThreadPoolExecutor(1))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        began = time.monotonic()
        self.start(f"127.0.0.1:{port}")
        wait_for(lambda: "grpc-status 12" in self.ask("stats"), what="the refusal")
        # It is never connected, and tries again less and less often: half of 0.1 s, 0.2 s, ... 1.6 s.
        wait_for(lambda: self.stat("connects") >= 6, what="more attempts")
        self.assertGreater(time.monotonic() - began, 1.55)
        self.assertEqual(self.stat("connected"), 0)

    def test_tls(self):
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            for name in ("ca", "other"):
                tls_harness.authority(folder, name)
            tls_harness.certificate(folder, "server", names="IP:127.0.0.1,IP:::1")
            tls_harness.certificate(folder, "named", names="DNS:other.example")

            def start(name, authority, address="127.0.0.1"):
                pair = [(folder / f"{name}.{end}").read_bytes() for end in ("key", "crt")]
                service = self.serve(f"{address}:0", grpc.ssl_server_credentials([pair]))
                port = service.address.rsplit(":", 1)[1]
                self.start(f"{address}:{port}", "allow", str(folder / f"{authority}.crt"))
                return service

            def refused(why):
                text = f"TLS: the server's certificate is not accepted: {why}"
                wait_for(lambda: text in self.ask("stats"), what="the refusal")

            start("server", "other")
            refused("")
            start("named", "ca")
            refused("IP address mismatch")
            for address in ("127.0.0.1", "[::1]"):
                service = start("server", "ca", address)
                self.ask("take", "a", 1)
                self.assertEqual(service.report("a"), (1, 0))

    def test_wrong_options(self):
        for address, domain, *authorities, message in (
            ("nowhere", "shop", 'QuotaOptions::address is "nowhere"; expected HOST:PORT or unix:/PATH'),
            ("127.0.0.1:1", "", "QuotaOptions::domain is empty; expected that of the rules"),
            ("127.0.0.1:1", "shop", "/nowhere/ca.crt",
             "cannot use the authorities in '/nowhere/ca.crt': No such file or directory"),
        ):
            done = subprocess.run(
                [os.environ["SLUICE_QUOTA_CLIENT"], address, domain, "allow", *authorities],
                input="", capture_output=True, text=True,
            )  # fmt: skip
            self.assertEqual((done.returncode, done.stdout), (1, f"error {message}\n"))


class Zone(harness.ServerTest):
    """A server whose limits another one divides, which the test plays."""

    RULES = """
version: 1
domain: shop
defaults: { on_store_error: deny }
rules:
  - name: api
    match: { path: /api }
    limits: [ { name: requests, key: "{user}", algorithm: token_bucket, limit: 40, per: 1s } ]
"""

    def setUp(self):
        self.service = Service()
        self.addCleanup(self.service.stop)

    def start(self, rules=RULES, deadline="60s"):
        store = {"store": f"quota://{self.service.address}", "upstream": {"deadline": deadline}}
        self.zone = self.serve(rules, store)

    def ask(self, path="/api", user="a", **members):
        return self.zone.check({"attributes": {"path": path, "user": user}, **members}).json

    def first(self, tokens, **request):
        """Assigns tokens to the bucket of the first request. Returns its attributes, and the answer."""
        with futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self.ask, **request)
            bucket = self.service.reports.get(timeout=60)[1]
            self.service.send(bucket, tokens=tokens)
            return bucket, answer.result()

    def status(self):
        return json.loads(self.zone.admin_request("GET", "/v1/status").body)["store"]

    def buckets(self):
        return self.status()["buckets"]

    def test_a_counter_that_the_service_abandons_is_forgotten(self):
        self.start()
        bucket, answer = self.first((5, HOUR))
        self.assertEqual(answer["reason"], "ok")
        self.assertEqual(self.buckets(), 1)
        self.service.send(bucket)
        wait_for(lambda: self.buckets() == 0, "room for other counters")

    def test_its_first_request_waits_for_the_connection(self):
        # This service accepts a stream with its first message.
        self.start()
        self.assertEqual(self.first((5, HOUR))[1]["reason"], "ok")

    def test_what_it_lacks_is_decided_by_on_store_error(self):
        self.start(self.RULES.replace("on_store_error: deny", "on_store_error: allow"))
        self.first((5, HOUR))
        for members in ({"wait_ms": 60_000}, {"verb": "reserve", "max_wait_ms": 1000}):
            answer = self.ask(**members)
            self.assertEqual((answer["outcome"], answer["reason"]), ("allowed", "fallback"))
        self.assertEqual(self.ask(verb="reset")["reason"], "store_error")

    def test_a_large_cost_is_never_admitted_only_if_the_part_is_the_whole_limit(self):
        self.start(self.RULES.replace("limit: 40, per: 1s", "limit: 600, per: 1m"))
        bucket, _ = self.first((25, 5))
        self.assertEqual(self.ask(cost=100)["reason"], "limited")
        for number, (tokens, cost, reason) in enumerate((
            (50, 51, "never"),  # 600 per 1m, all
            (45, 50, "limited"),  # it may be 50 later
            (45, 51, "never"),
            (100, 700, "limited"),  # it is raised above
            (25, 700, "limited"),  # it may be
        )):
            with self.subTest(tokens=tokens, cost=cost):
                self.service.send(bucket, tokens=(tokens, 5))
                wait_for(lambda n=number: self.status()["assignments"] == n + 2, "the assignment")
                answer = self.ask(cost=cost)
                self.assertEqual(answer["reason"], reason)
                self.assertEqual("retry_after_ms" in answer, reason == "limited")

    def test_max_new_keys_bounds_its_counters(self):
        self.start(self.RULES.replace("limits:", "max_new_keys: 1\n    limits:"), "1ms")
        checks = [{"attributes": {"path": "/api", "user": str(n)}} for n in range(50)]
        self.zone.check(checks)
        self.assertLess(self.buckets(), 50)
        refused = self.zone.admin_request("GET", "/metrics").body.decode()
        self.assertRegex(refused, r"sluice_new_counters_refused_total\S* [1-9]")

    def test_an_override_with_numbers_is_refused(self):
        self.start()
        counter = "shop|api|requests|user=a"
        body = {"attributes": {"user": "a"}}
        for given, status in (({"limit": 3}, 400), ({"unlimited": True}, 200), ({"blocked": True}, 200)):
            for method, path, said in (
                ("PUT", "/v1/overrides/api/requests", {**body, **given}),
                ("POST", "/v1/overrides", {"counter": counter, **given}),
            ):
                answer = self.zone.admin_request(method, path, json.dumps(said))
                self.assertEqual(answer.status, status, answer.body)
                self.assertEqual(b"expected 'limit' in that server" in answer.body, status == 400)

    def test_a_limit_of_zero_denies(self):
        self.start(self.RULES.replace("limit: 40", "limit: 0"))
        bucket, answer = self.first((5, HOUR))
        self.assertEqual((answer["outcome"], answer["reason"]), ("denied", "never"))
        self.assertEqual(self.ask(cost=0)["outcome"], "allowed")
        self.assertEqual(self.ask(verb="take_at_most", cost=5)["outcome"], "denied")


if __name__ == "__main__":
    unittest.main()
