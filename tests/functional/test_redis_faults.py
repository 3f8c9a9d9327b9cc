"""What callers observe while the Redis of a Sluice server crashes, stops, or is slow, and that the
store decides again afterwards without a restart of Sluice."""

import concurrent.futures
import os
import signal
import time
import unittest

from gate import SteeredGate
from harness import PATIENCE, free_port, wait_for
from redis_harness import Redis
from redis_load import SHORT, Client, Callers, FaultTest, ask, question


PROBES = 'sluice_store_events_total{event="breaker_probing"}'


class Test(FaultTest):
    @staticmethod
    def wait_for_probes(server, count):
        """Waits until the open breaker has probed Redis this many more times."""
        before = server.metrics()[PROBES]
        wait_for(lambda: server.metrics()[PROBES] >= before + count, "probes of Redis")


class AProcess(Test):
    def test_callers_recover_from_kill_9_of_a_redis_without_persistence(self):
        redis = self.redis()
        server = self.serve_store(redis.url, deadline=SHORT)
        with Callers(self, server, forgets=True) as callers:
            redis.kill()
            callers.wait_for_all("fallback")
            redis.start()
            began_anew = time.monotonic()
            callers.wait_for_all("ok")
        for caller in callers.callers:  # units admitted from now on are counted
            admitted = sum(s.outcome == "allowed" for s in caller.said if s.at > began_anew)
            self.assertGreaterEqual(self.used(server, caller.user), admitted)

    def test_kill_9_and_restart_of_a_redis_that_writes_every_command_loses_nothing(self):
        redis = self.redis({"appendonly": "yes", "appendfsync": "always"})
        server = self.serve_store(redis.url, deadline=SHORT)
        with Callers(self, server) as callers:
            redis.kill()
            callers.wait_for_all("fallback")
            redis.start()
            callers.wait_for_all("ok")

    def test_a_limit_is_exact_across_kill_9_and_restart(self):
        redis = self.redis({"appendonly": "yes", "appendfsync": "always"})
        server = self.serve_store(redis.url)
        self.assertEqual(self.take(server, "/refuse", "u", 12), 12)
        redis.kill()
        said = [ask(server, "/refuse", "u") for _ in range(20)]
        self.assertEqual({(s.status, s.reason) for s in said}, {(429, "fallback")})
        redis.start()
        self.wait_until_decided(server)
        self.assertEqual(self.take(server, "/refuse", "u", 20), 8)

    def test_callers_recover_from_a_redis_that_stops(self):
        redis = self.redis()
        server = self.serve_store(redis.url, deadline=SHORT)
        with Callers(self, server) as callers:
            redis.pause()
            callers.wait_for_all("fallback")
            wait_for(lambda: server.metrics()["sluice_store_breaker_open"], "an open breaker")
            before = self.asked(server)
            self.wait_for_probes(server, 2)
            asked, probes, not_asked = (a - b for a, b in zip(self.asked(server), before))
            redis.resume()
            callers.wait_for_all("ok")
        self.assertLessEqual(asked, probes + 1, "only probes wait with an open breaker")
        self.assertGreater(not_asked, 0)

    @staticmethod
    def asked(server):
        """Returns the requests to Redis, the probes among them, and the requests without Redis."""
        metrics = server.metrics()
        return [metrics[name] for name in ("sluice_store_asked_total", PROBES,
                                           "sluice_store_not_asked_total")]

    def test_a_server_may_start_before_its_redis(self):
        redis = Redis(self.folder())
        redis.port = free_port()
        server = self.serve_store(redis.url, wait=False)
        self.assertEqual(server.get("/healthz").status, 200)
        self.assertEqual(ask(server, "/refuse", "early").reason, "fallback")
        self.started(redis)
        self.wait_until_decided(server)
        self.assertEqual(self.take(server, "/refuse", "early", 25), 20)


class GateTest(Test):
    def setUp(self):
        self.store = self.redis()
        self.gate = SteeredGate(self.store.address)
        self.addClassCleanup(self.gate.stop)

    def serve_gate(self, **redis):
        return self.serve_store(self.gate.url, **{"deadline": SHORT, **redis})

    def spoil(self, order, what):
        before = self.gate.spoiled()
        order(what)
        wait_for(lambda: self.gate.spoiled() > before, "a spoiled reply")


class TheWayThere(GateTest):
    def test_callers_recover_from_connections_that_end_within_a_reply(self):
        server = self.serve_gate()
        with Callers(self, server) as callers:
            for size in (0, 1, 3, 11):
                self.spoil(self.gate.cut_replies, size)
                callers.wait_for_all("ok")
            self.gate.cut_replies(times=0)
            callers.wait_for_all("fallback")
            self.gate.open()
            callers.wait_for_all("ok")

    def test_callers_recover_from_a_black_hole(self):
        server = self.serve_gate()
        with Callers(self, server) as callers:
            self.gate.swallow()
            callers.wait_for_all("fallback")
            self.wait_for_probes(server, 2)
            self.gate.open()
            callers.wait_for_all("ok")

    def test_callers_recover_from_refused_connections(self):
        server = self.serve_gate()
        with Callers(self, server) as callers:
            self.gate.refuse()
            callers.wait_for_all("fallback")
            self.wait_for_probes(server, 2)
            self.gate.open()
            callers.wait_for_all("ok")

    def test_callers_recover_from_connections_that_end_repeatedly(self):
        server = self.serve_gate()
        with Callers(self, server) as callers:
            for _ in range(10):
                before = self.gate.accepted()
                self.gate.end_connections()
                wait_for(lambda: self.gate.accepted() > before, "another connection")  # noqa: B023
            callers.wait_for_all("ok")

    def test_latency_beyond_the_deadline_causes_fallback(self):
        server = self.serve_gate()
        with Callers(self, server) as callers:
            self.gate.open(latency=0.2)
            callers.wait_for_all("fallback")
            self.wait_for_probes(server, 2)
            self.gate.open()
            callers.wait_for_all("ok")

    def test_latency_within_the_deadline_only_delays_answers(self):
        server = self.serve_gate(deadline=f"{PATIENCE}s")
        with Callers(self, server) as callers:
            self.gate.open(latency=0.2)
            since = time.monotonic()
            callers.wait_for_all("ok")
        self.assertEqual(set(callers.reasons(since)), {"ok"})
        self.assertGreaterEqual(min(s.seconds for s in callers.said(since)), 0.15)

    @unittest.skipUnless(os.environ.get("SLUICE_LONG_TESTS"), "./dev test --long runs it")
    def test_most_requests_are_decided_with_one_percent_packet_loss(self):
        server = self.serve_gate()
        with Callers(self, server, pause=0.01) as callers:
            since = time.monotonic()
            self.gate.open(loss=0.01)
            time.sleep(15)  # dozens of losses, so that the share depends little on chance
            reasons = callers.reasons(since)
            self.gate.open()
            callers.wait_for_all("ok")
        # A lost segment delays all later ones by 200 to 400 ms. Five failures in a row open the
        # breaker for up to a second. The policy answers all requests in these periods.
        self.assertEqual(set(reasons), {"ok", "fallback"})
        self.assertGreater(reasons["ok"], 0.3 * sum(reasons.values()), reasons)


class Garbage(GateTest):
    def test_callers_recover_from_garbage_replies(self):
        server = self.serve_gate()
        garbage = [  # no error replies: these are valid even if they replace several replies
            b"\x16\x03\x01 HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 100, b"\r\n", b"+OK\r\n",
            b":1\r\n", b"*0\r\n", b"*-1\r\n", b"$-1\r\n", b"*2\r\n:1\r\n$1\r\nx\r\n",
            b"$999999999999\r\n", b"*2147483647\r\n", b"*1\r\n" * 50, b"%1\r\n+a\r\n:1\r\n",
            b"+" + b"x" * 100_000 + b"\r\n", b"$5\r\nab\r\n\r\n\r\n",
        ]
        with Callers(self, server) as callers:
            for one in garbage:
                callers.note = one[:40]
                self.spoil(self.gate.garble_replies, one)
                callers.wait_for_all("ok")
            self.gate.garble_replies(times=0)
            callers.wait_for_all("fallback")
            self.gate.open()
            callers.wait_for_all("ok")


class WhileOthersWait(FaultTest):
    """Other requests wait for a Redis that does not answer; long deadline, one thread."""

    def start(self, deadline):
        self.store = self.redis()
        self.addCleanup(self.store.resume)
        self.server = self.serve_store(self.store.url, threads=1, deadline=deadline,
                                       config={"drain": {"timeout": f"{PATIENCE}s"}})
        self.pool = concurrent.futures.ThreadPoolExecutor(30)
        self.addCleanup(self.pool.shutdown)
        self.store.pause()

    def ask_many(self):
        """Returns twenty requests, which wait with a long deadline."""
        return [self.pool.submit(ask, self.server, "/allow", f"u{i}") for i in range(20)]

    def wait_for_pending(self, count):
        wait_for(lambda: self.server.metrics()["sluice_store_pending"] >= count, "waiting requests")

    def test_endpoints_without_the_store_answer_at_once(self):
        self.start(f"{PATIENCE}s")
        waiting = self.ask_many()
        waiting.append(self.pool.submit(
            self.server.admin_request, "GET", "/v1/keys?rule=allow&header.x-user=u1"))
        self.wait_for_pending(20)
        for _ in range(10):
            self.assertEqual(self.server.get("/healthz").status, 200)
            self.assertEqual(self.server.get("/metrics").status, 200)
            self.assertEqual(self.server.admin_request("GET", "/v1/status").status, 200)
        self.assertFalse(any(one.done() for one in waiting))
        self.store.resume()
        self.assertEqual({one.result().status for one in waiting}, {200})
        self.assertEqual({one.result().reason for one in waiting[:-1]}, {"ok"})

    def test_a_client_that_disconnects_does_not_affect_others(self):
        self.start(f"{PATIENCE}s")
        client = Client(self.server.http)
        client.send(question("/allow", "leaves"))
        waiting = self.ask_many()
        self.wait_for_pending(21)
        client.raw.close()
        self.assertFalse(any(one.done() for one in waiting))
        self.store.resume()
        self.assertEqual({one.result().reason for one in waiting}, {"ok"})
        self.assertEqual(ask(self.server, "/allow", "stays").reason, "ok")

    def test_a_server_that_stops_answers_the_waiting_requests(self):
        def answered_or_waiting():
            metrics = self.server.metrics()
            return metrics["sluice_store_asked_total"] + metrics["sluice_store_not_asked_total"]

        self.start("1s")
        before = answered_or_waiting()
        waiting = self.ask_many()
        wait_for(lambda: answered_or_waiting() >= before + 20, "all requests")
        self.server.signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(), 0)
        self.assertEqual({(one.result().status, one.result().reason) for one in waiting},
                         {(200, "fallback")})


class ThePolicies(FaultTest):
    """The policies of rules while the store is unavailable."""

    @classmethod
    def setUpClass(cls):
        cls.store = cls.redis()
        cls.gate = SteeredGate(cls.store.address)
        cls.addClassCleanup(cls.gate.stop)
        # The store fails by a refused connection, so no deadline can fail on a busy machine.
        cls.server = cls.serve_store(cls.gate.url, nodes=4)

    def setUp(self):
        self.gate.open()
        self.wait_until_decided(self.server)

    def lose_store(self):
        self.gate.refuse()
        self.wait_for_fallback(self.server)

    def test_allow_admits_and_reports_the_fallback(self):
        self.lose_store()
        said = [ask(self.server, "/allow", "allow") for _ in range(50)]
        self.assertEqual({(s.status, s.outcome, s.reason) for s in said},
                         {(200, "allowed", "fallback")})

    def test_deny_denies_and_reports_the_fallback(self):
        self.lose_store()
        said = [ask(self.server, "/refuse", "deny") for _ in range(50)]
        self.assertEqual({(s.status, s.outcome, s.reason) for s in said},
                         {(429, "denied", "fallback")})

    def test_local_admits_the_share_of_this_server(self):
        self.lose_store()
        said = [ask(self.server, "/local", "local") for _ in range(50)]
        self.assertEqual({s.reason for s in said}, {"fallback"})
        self.assertEqual([s.status for s in said], [200] * 5 + [429] * 45)

    def test_a_failed_refund_or_reset_is_reported(self):
        self.assertEqual(self.take(self.server, "/allow", "back", 3), 3)
        self.lose_store()
        for verb in ("refund", "reset"):
            said = ask(self.server, "/allow", "back", verb=verb)
            self.assertEqual(said.outcome, "denied", said)
            # On a busy machine the deadline may pass before the lost connection is noticed.
            self.assertIn(said.reason, ("store_error", "store_timeout"), said)
        self.gate.open()
        self.wait_until_decided(self.server)
        self.assertEqual(ask(self.server, "/allow", "back", cost=0).remaining, 17)

    def test_units_used_before_the_failure_count_after_it(self):
        self.assertEqual(self.take(self.server, "/allow", "over", 15), 15)
        self.lose_store()
        for _ in range(30):
            self.assertEqual(ask(self.server, "/allow", "over").reason, "fallback")
        self.gate.open()
        self.wait_until_decided(self.server)
        self.assertEqual(self.take(self.server, "/allow", "over", 20), 5)

    def test_an_open_breaker_answers_without_the_store_and_is_logged_and_counted(self):
        self.lose_store()
        wait_for(lambda: ask(self.server, "/allow", "open")
                 and self.server.metrics()["sluice_store_breaker_open"], "an open breaker")
        before = self.server.metrics()
        said = [ask(self.server, "/allow", "open") for _ in range(50)]
        self.assertEqual({one.reason for one in said}, {"fallback"})
        after = self.server.metrics()
        asked, probes, refused = (after[name] - before[name] for name in (
            "sluice_store_asked_total", PROBES, "sluice_store_not_asked_total"))
        self.assertEqual(refused, 50 - probes)
        self.assertLessEqual(asked, probes)
        wait_for(lambda: self.events("connect_failed") > 0, what="an attempt to connect")
        self.gate.open()
        self.wait_until_decided(self.server)
        self.assertEqual(self.server.metrics()["sluice_store_breaker_open"], 0)
        log = self.server.log()
        for event in ("connection_lost", "connect_failed", "breaker_opened", "breaker_closed"):
            self.assertGreater(self.events(event), 0, event)
            self.assertIn(f"event={event}", log)
        self.assertIn(self.gate.address, log)

    def events(self, kind):
        return self.server.metrics()[f'sluice_store_events_total{{event="{kind}"}}']


if __name__ == "__main__":
    unittest.main()
