"""Quota leases of real servers and programs on a real Redis: what they admit in total, when, and
what is lost when a process is killed or Redis stops."""

import os
import subprocess
import time
import unittest

from harness import PATIENCE, Sluice, wait_for
from redis_harness import die_with_parent
from redis_load import HEAD, Client, FaultTest, ask, question

LIMIT = 2000
LEASE = 0.1
RULES = HEAD + f"""
  - name: hot
    match: {{ path: /hot }}
    on_store_error: deny
    limits:
      - {{ name: user, key: "{{header.x-user}}", algorithm: token_bucket, limit: {LIMIT},
          per: 24h, lease: 100ms }}
  - name: allow
    match: {{ path: /allow }}
    limits: [{{ name: user, key: "{{header.x-user}}", algorithm: gcra, limit: 100, per: 24h }}]
"""


class Leases(FaultTest):
    def start(self, redis, nodes=1, **options):
        return self.serve_store(redis.url, RULES, nodes=nodes, **options)

    def used(self, server, user):
        """Returns the units that Redis has counted, also those of leases. A refill of the bucket
        takes 43 seconds."""
        return LIMIT - ask(server, "/hot", user, cost=0).remaining

    def take(self, client, user, times):
        """Returns the reasons of the admitted requests."""
        said = [client.ask(question("/hot", user)) for _ in range(times)]
        return [one.reason for one in said if one.outcome == "allowed"]

    def assert_settled(self, server, user, admitted):
        """All that was not used comes back: then Redis has counted exactly what was admitted."""
        wait_for(lambda: self.used(server, user) == admitted,
                 f"{admitted} counted units, not {self.used(server, user)}")

    def test_a_hot_key_is_decided_locally_and_counted_exactly(self):
        server = self.start(self.redis())
        before = server.metrics().get("sluice_store_asked_total")
        with Client(server.http) as client:
            reasons = self.take(client, "hot", 1000)
        self.assertEqual(len(reasons), 1000)
        self.assertEqual(reasons[:3], ["ok"] * 3, "the first requests ask for their cost")
        local = reasons.count("lease")
        self.assertGreater(local, 800)
        self.assertEqual(server.metrics().get("sluice_lease_local_total"), local)
        self.assertLess(server.metrics().get("sluice_store_asked_total") - before, 200)
        self.assert_settled(server, "hot", 1000)
        taken = server.metrics().get("sluice_lease_units_taken_total")
        back = server.metrics().get("sluice_lease_units_given_back_total")
        self.assertGreater(back, 0)
        self.assertLessEqual(taken - back, 1000)
        self.assertEqual(server.metrics().get("sluice_lease_counters"), 0)

    def test_cold_keys_ask_for_their_cost(self):
        server = self.start(self.redis())
        with Client(server.http) as client:
            for i in range(100):
                self.assertEqual(client.ask(question("/hot", f"user{i}")).reason, "ok")
        self.assertEqual(server.metrics().get("sluice_lease_batches_total"), 0)

    def test_servers_admit_the_limit_together_and_no_more(self):
        redis = self.redis()
        servers = [self.start(redis, nodes=4, threads=1) for _ in range(4)]
        admitted = 0
        clients = [Client(server.http) for server in servers]
        for _ in range(40):
            for client in clients:
                admitted += len(self.take(client, "all", 20))
            self.assertLessEqual(admitted, LIMIT)
        time.sleep(2 * LEASE)  # what others hold comes back
        admitted += len(self.take(clients[0], "all", LIMIT))
        self.assertEqual(admitted, LIMIT)
        for client in clients:
            client.raw.close()

    def test_a_killed_server_loses_at_most_its_batch(self):
        redis = self.redis()
        other = self.start(redis, nodes=2)
        killed = Sluice(self.folder(), RULES, {"store": redis.url, "redis": {"nodes": 2}})
        self.addCleanup(killed.stop)
        self.wait_until_decided(killed)
        with Client(killed.http) as client:
            admitted = len(self.take(client, "killed", 900))
            self.assertGreater(killed.metrics().get("sluice_lease_counters"), 0)
            killed.kill()
        used = self.used(other, "killed")
        self.assertGreaterEqual(used, admitted)
        self.assertLessEqual(used, admitted + LIMIT // 8)
        with Client(other.http) as client:
            more = len(self.take(client, "killed", LIMIT))
        self.assertEqual(used + more, LIMIT)

    def test_a_server_that_stops_gives_back_its_batches(self):
        redis = self.redis()
        other = self.start(redis, nodes=2)
        stopped = Sluice(self.folder(), RULES.replace("lease: 100ms", "lease: 10s"),
                         {"store": redis.url, "redis": {"nodes": 2}, "drain": {"delay": "0s"}})
        self.addCleanup(stopped.stop)
        self.wait_until_decided(stopped)
        with Client(stopped.http) as client:
            admitted = len(self.take(client, "stopped", 300))
        self.assertGreater(self.used(other, "stopped"), admitted)
        self.assertEqual(stopped.stop(), 0)
        self.assertEqual(self.used(other, "stopped"), admitted)

    def test_a_lease_outlasts_a_pause_of_redis_and_nothing_is_admitted_uncounted(self):
        redis = self.redis()
        server = self.start(redis, deadline="100ms")
        with Client(server.http) as client:
            admitted = len(self.take(client, "paused", 600))
            redis.pause()
            try:
                reasons = [client.ask(question("/hot", "paused")) for _ in range(30)]
                time.sleep(LEASE)
                late = [client.ask(question("/hot", "paused")) for _ in range(5)]
            finally:
                redis.resume()
            admitted += sum(one.outcome == "allowed" for one in reasons)
            self.assertEqual([one.reason for one in late], ["fallback"] * 5)
            self.assertEqual({one.outcome for one in late}, {"denied"})
        wait_for(lambda: ask(server, "/hot", "paused").reason == "ok", "Redis to decide")
        self.assertGreaterEqual(self.used(server, "paused"), admitted + 1)

    def test_a_reset_ends_the_lease(self):
        server = self.start(self.redis())
        with Client(server.http) as client:
            self.assertIn("lease", self.take(client, "reset", 100))
            self.assertEqual(client.ask(question("/hot", "reset", verb="reset")).status, 200)
            self.assertEqual(client.ask(question("/hot", "reset")).reason, "ok")
        self.assertEqual(self.used(server, "reset"), 1)
        time.sleep(2 * LEASE)
        self.assertEqual(self.used(server, "reset"), 1)

    def test_a_lease_in_memory_is_a_warning(self):
        server = self.serve(RULES, {"store": "memory"})
        self.assertEqual(ask(server, "/hot", "u").reason, "ok")
        self.assertEqual(server.log().count("'lease' has no effect"), 1, server.log())


class Programs(FaultTest):
    """Programs with a RedisChain that share sliding_window_log(400).per(1s).leased(200ms)."""

    UNITS, LEASE_MS, SECONDS = 400, 200, 4

    def run_fleet(self, redis, nodes, rate, lose=0):
        """Runs `nodes` programs that request `rate` units a second together, and kills `lose` of
        them after two seconds. Returns (sent, answered) of every admitted request, and the requests
        that leases admitted."""
        outputs = [self.folder() / "out" for _ in range(nodes)]
        running = []
        for output in outputs:
            with open(output, "w") as out:
                running.append(subprocess.Popen(
                    [os.environ["SLUICE_LEASE_CLIENT"], redis.url, str(nodes), str(self.UNITS),
                     str(self.LEASE_MS), str(rate // nodes), str(self.SECONDS)],
                    stdout=out, preexec_fn=die_with_parent))
        time.sleep(2)
        for process in running[:lose]:
            process.kill()
        for process in running:
            self.assertIn(process.wait(PATIENCE), (0, -9))
        admitted, local = [], 0
        for output in outputs:
            for line in output.read_text().splitlines():
                words = line.split()
                if len(words) == 3:
                    admitted.append((int(words[0]), int(words[1])))
                    local += words[2] == "lease"
        return sorted(admitted), local

    @staticmethod
    def most_within(admitted, micros):
        """Returns how many requests were surely decided within some window: sent after its begin
        and answered before its end."""
        most = 0
        for i, (begin, _) in enumerate(admitted):
            inside = 0
            for sent, answered in admitted[i:]:
                if sent >= begin + micros:
                    break
                inside += answered < begin + micros
            most = max(most, inside)
        return most

    def measure(self, nodes, load, lose=0):
        admitted, local = self.run_fleet(self.redis(), nodes, int(self.UNITS * load), lose)
        most = self.most_within(admitted, 1_000_000)
        batch = max(self.UNITS // (4 * nodes), 1)
        print(f"{nodes} processes, {load} x the limit: at most {most} of {self.UNITS} in a second, "
              f"bound {self.UNITS + nodes * batch}, {100 * local // len(admitted)} % by leases")
        self.assertGreater(local, 0)
        self.assertLessEqual(most, self.UNITS + nodes * batch)
        self.assertGreater(len(admitted), self.UNITS * (self.SECONDS - 1) * min(load, 1) / 2)

    def test_a_fleet_stays_within_the_bound(self):
        for nodes in (2, 4, 8):
            for load in (0.7, 1.2):
                with self.subTest(nodes=nodes, load=load):
                    self.measure(nodes, load)

    def test_a_fleet_that_loses_processes_stays_within_the_bound(self):
        self.measure(4, 0.9, lose=2)


if __name__ == "__main__":
    unittest.main()
