"""Quota leases of real servers and programs on a real Redis: what they admit in total, when, and
what is lost when a process is killed or Redis stops."""

import os
import subprocess
import unittest

from harness import PATIENCE, Sluice, wait_for
from redis_harness import die_with_parent
from redis_load import HEAD, Client, FaultTest, ask, question

LIMIT = 2000


def rules(lease):
    """Returns rules with a lease. 10 s is the longest; a lease of 1 s ends while a test waits."""
    return HEAD + f"""
  - name: hot
    match: {{ path: /hot }}
    on_store_error: deny
    limits:
      - {{ name: user, key: "{{header.x-user}}", algorithm: token_bucket, limit: {LIMIT},
          per: 24h, lease: {lease} }}
  - name: allow
    match: {{ path: /allow }}
    limits: [{{ name: user, key: "{{header.x-user}}", algorithm: gcra, limit: 100, per: 24h }}]
"""


class Leases(FaultTest):
    """The clock of Redis is stopped, so no unit is replenished."""

    def setUp(self):
        self.store = self.redis(clock=self.stopped_clock())

    def start(self, lease="1s", nodes=1, **options):
        return self.serve_store(self.store.url, rules(lease), nodes=nodes, **options)

    def start_one_that_ends(self, lease):
        server = Sluice(self.folder(), rules(lease), {
            "store": self.store.url, "redis": {"nodes": 2, "deadline": f"{PATIENCE}s"}})
        self.addCleanup(server.stop)
        self.wait_until_decided(server)
        return server

    def used(self, server, user):
        """Returns the units that Redis has counted, also those of leases."""
        return LIMIT - ask(server, "/hot", user, cost=0).remaining

    def take(self, client, user, times):
        """Returns the reasons of the admitted requests."""
        said = [client.ask(question("/hot", user)) for _ in range(times)]
        return [one.reason for one in said if one.outcome == "allowed"]

    def take_the_rest(self, client, user, admitted):
        """Takes until exactly the limit was admitted. Units of leases come back in between."""
        def all_are_taken():
            nonlocal admitted
            admitted += len(self.take(client, user, 100))
            self.assertLessEqual(admitted, LIMIT)
            return admitted == LIMIT

        wait_for(all_are_taken, "all units being taken")
        self.assertEqual(self.take(client, user, 100), [])

    def wait_until_settled(self, server, user, admitted):
        """All that was not used comes back: then Redis has counted exactly what was admitted."""
        wait_for(lambda: self.used(server, user) == admitted, f"{admitted} counted units")

    def test_a_hot_key_is_decided_locally(self):
        server = self.start("10s")
        before = server.metrics()["sluice_store_asked_total"]
        with Client(server.http) as client:
            reasons = self.take(client, "hot", 1000)
        self.assertEqual(len(reasons), 1000)
        self.assertEqual(reasons[:3], ["ok"] * 3, "the first requests ask for their cost")
        local = reasons.count("lease")
        self.assertGreater(local, 800)
        metrics = server.metrics()
        self.assertEqual(metrics["sluice_lease_local_total"], local)
        self.assertLessEqual(metrics["sluice_store_asked_total"] - before, 1000 - local)
        self.assertEqual(metrics["sluice_lease_counters"], 1)

    def test_what_a_lease_has_not_used_is_given_back(self):
        server = self.start()
        with Client(server.http) as client:
            admitted = self.take(client, "hot", 500)
        self.assertEqual(len(admitted), 500)
        self.assertIn("lease", admitted)
        self.wait_until_settled(server, "hot", 500)
        metrics = server.metrics()
        back = metrics["sluice_lease_units_given_back_total"]
        self.assertGreater(back, 0)
        self.assertLessEqual(metrics["sluice_lease_units_taken_total"] - back, 500)
        self.assertEqual(metrics["sluice_lease_counters"], 0)

    def test_cold_keys_ask_for_their_cost(self):
        server = self.start()
        with Client(server.http) as client:
            for i in range(100):
                self.assertEqual(client.ask(question("/hot", f"user{i}")).reason, "ok")
        self.assertEqual(server.metrics().get("sluice_lease_batches_total"), 0)

    def test_servers_admit_the_limit_together_and_no_more(self):
        servers = [self.start("100ms", nodes=4, threads=1) for _ in range(4)]
        admitted = 0
        clients = [Client(server.http) for server in servers]
        for _ in range(20):
            for client in clients:
                admitted += len(self.take(client, "all", 20))
            self.assertLessEqual(admitted, LIMIT)
        self.wait_until_settled(servers[0], "all", admitted)
        self.take_the_rest(clients[0], "all", admitted)
        for client in clients:
            client.raw.close()

    def test_a_killed_server_loses_at_most_its_batch(self):
        other = self.start(nodes=2)
        killed = self.start_one_that_ends("10s")
        with Client(killed.http) as client:
            admitted = len(self.take(client, "killed", 900))
            self.assertGreater(killed.metrics().get("sluice_lease_counters"), 0)
            killed.kill()
        used = self.used(other, "killed")
        self.assertGreaterEqual(used, admitted)
        self.assertLessEqual(used, admitted + LIMIT // 8)
        with Client(other.http) as client:
            self.take_the_rest(client, "killed", used)

    def test_a_server_that_stops_gives_back_its_batches(self):
        other = self.start(nodes=2)
        stopped = self.start_one_that_ends("10s")
        with Client(stopped.http) as client:
            admitted = len(self.take(client, "stopped", 300))
        self.assertGreater(self.used(other, "stopped"), admitted)
        self.assertEqual(stopped.stop(), 0)
        self.assertEqual(self.used(other, "stopped"), admitted)

    def test_a_lease_outlasts_a_pause_of_redis_and_nothing_is_admitted_uncounted(self):
        server = self.start("10s", deadline="100ms")
        with Client(server.http) as client:
            admitted = self.take(client, "paused", 600)
            self.store.pause()
            try:
                meanwhile = []
                while "fallback" not in meanwhile:  # the end of the batch or of the lease
                    said = client.ask(question("/hot", "paused"))
                    meanwhile.append(said.reason)
                late = [client.ask(question("/hot", "paused")) for _ in range(5)]
            finally:
                self.store.resume()
        self.assertEqual(set(meanwhile), {"lease", "fallback"})
        self.assertEqual([(one.reason, one.outcome) for one in late], [("fallback", "denied")] * 5)
        wait_for(lambda: ask(server, "/hot", "paused").reason == "ok", "Redis to decide")
        self.assertGreater(self.used(server, "paused"), len(admitted) + meanwhile.count("lease"))

    def test_a_reset_ends_the_lease(self):
        server = self.start()
        with Client(server.http) as client:
            self.assertIn("lease", self.take(client, "reset", 100))
            self.assertEqual(client.ask(question("/hot", "reset", verb="reset")).status, 200)
            self.assertEqual(client.ask(question("/hot", "reset")).reason, "ok")
            self.assertEqual(self.used(server, "reset"), 1)
            self.assertEqual(len(self.take(client, "later", 100)), 100)
        self.wait_until_settled(server, "later", 100)  # after the former lease would have ended
        self.assertEqual(self.used(server, "reset"), 1)

    def test_a_lease_in_memory_is_a_warning(self):
        server = self.serve(rules("1s"), {"store": "memory"})
        self.assertEqual(ask(server, "/hot", "u").reason, "ok")
        wait_for(lambda: "'lease' has no effect" in server.log(), "the warning")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.log().count("'lease' has no effect"), 1, server.log())


class Programs(FaultTest):
    """Programs with a RedisChain that share sliding_window_log(400).per(1s).leased(200ms)."""

    UNITS, LEASE_MS, SECONDS = 400, 200, 4

    def start_fleet(self, nodes, load):
        """Starts programs that together request `load` times the limit each second. Returns the
        processes with the files of their output."""
        redis, fleet = self.redis(), []
        for _ in range(nodes):
            output = self.folder() / "out"
            rate = int(self.UNITS * load) // nodes
            with open(output, "w") as out:
                process = subprocess.Popen(
                    [os.environ["SLUICE_LEASE_CLIENT"], redis.url, str(nodes), str(self.UNITS),
                     str(self.LEASE_MS), str(rate), str(self.SECONDS)],
                    stdout=out, preexec_fn=die_with_parent)
            self.addCleanup(process.kill)
            fleet.append((process, output))
        return fleet

    @staticmethod
    def admitted_by(output):
        """Returns (sent, answered, reason) of every admitted request."""
        words = [line.split() for line in output.read_text().splitlines()]
        return [(int(one[0]), int(one[1]), one[2]) for one in words if len(one) == 3]

    def admitted_by_fleet(self, fleet):
        """Returns (sent, answered) of every admitted request, and the requests that leases admitted."""
        admitted = []
        for process, output in fleet:
            self.assertIn(process.wait(PATIENCE), (0, -9))
            admitted += self.admitted_by(output)
        local = sum(reason == "lease" for _, _, reason in admitted)
        return sorted(one[:2] for one in admitted), local

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

    def check(self, nodes, load, fleet):
        admitted, local = self.admitted_by_fleet(fleet)
        most = self.most_within(admitted, 1_000_000)
        batch = max(self.UNITS // (4 * nodes), 1)
        print(f"{nodes} processes, {load} x the limit: at most {most} of {self.UNITS} in a second, "
              f"bound {self.UNITS + nodes * batch}, {100 * local // len(admitted)} % by leases")
        self.assertGreater(local, 0)
        self.assertLessEqual(most, self.UNITS + nodes * batch)
        self.assertGreater(len(admitted), self.UNITS // 2)

    def test_a_fleet_stays_within_the_bound(self):
        fleets = {(nodes, load): self.start_fleet(nodes, load)
                  for nodes in (2, 4, 8) for load in (0.7, 1.2)}
        for (nodes, load), fleet in fleets.items():
            with self.subTest(nodes=nodes, load=load):
                self.check(nodes, load, fleet)

    def test_a_fleet_that_loses_processes_stays_within_the_bound(self):
        fleet = self.start_fleet(4, 0.9)
        for process, output in fleet[:2]:
            wait_for(lambda: len(self.admitted_by(output)) > self.UNITS / 4, "admitted requests")  # noqa: B023
            process.kill()
        self.check(4, 0.9, fleet)


if __name__ == "__main__":
    unittest.main()
