"""Sluice servers with a Redis Cluster, while its slots move and its masters change."""

import concurrent.futures
import contextlib
import re
import threading
import time
import unittest

from harness import wait_for
from redis_harness import slot_of
from redis_load import RULES, SHORT, Callers, FaultTest, ask

THREE_LIMITS = RULES + """
  - name: apart
    match: { path: /apart }
    on_store_error: deny
    limits:
      - { name: all, algorithm: fixed_window, limit: 1000, per: 24h }
      - { name: group, key: "{header.x-group}", algorithm: token_bucket, limit: 500, per: 24h }
      - { name: user, key: "{header.x-user}", algorithm: gcra, limit: 1, per: 24h, burst: 9 }
  - name: together
    match: { path: /together }
    on_store_error: deny
    tag: "{header.x-group}"
    limits:
      - { name: all, algorithm: fixed_window, limit: 1000, per: 24h }
      - { name: group, key: "{header.x-group}", algorithm: token_bucket, limit: 500, per: 24h }
      - { name: user, key: "{header.x-user}", algorithm: gcra, limit: 1, per: 24h, burst: 9 }
"""


class ClusterTest(FaultTest):
    @classmethod
    def keys(cls):
        """Returns all keys of the cluster."""
        return {key for server in cls.nodes.living()
                if server.info("replication")["role"] == "master"
                for key in server.command("KEYS", "*")}

    @classmethod
    def slots_of_callers(cls, callers):
        return {slot_of(key) for key in cls.keys() if b"caller" in key}


class Slots(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.nodes = cls.cluster(replicas=0)
        cls.server = cls.serve_store(cls.nodes.url, rules=THREE_LIMITS)

    def setUp(self):
        for server in self.nodes.servers:
            server.command("FLUSHALL")

    @contextlib.contextmanager
    def moving(self, slot, **how):
        """Moves the slot from master to master while the body runs."""
        ends = threading.Event()

        def move():
            while not ends.is_set():
                self.nodes.move_slot(slot, self.other_master(slot), pause=0.01, **how)

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            mover = pool.submit(move)
            try:
                yield
            finally:
                ends.set()
            mover.result()

    def other_master(self, slot):
        owner = self.nodes.owner(slot)
        return next(s for s in self.nodes.servers if s is not owner)

    def test_callers_do_not_notice_slots_that_move_under_load(self):
        with Callers(self, self.server) as callers:
            slots = self.slots_of_callers(callers)
            self.assertGreater(len(slots), 3, "callers' counters are in several slots")
            for _ in range(2):
                for slot in slots:
                    self.nodes.move_slot(slot, self.other_master(slot), pause=0.05)
        self.assertEqual(set(callers.reasons()), {"ok"})

    def test_a_limit_is_exact_while_its_slot_moves(self):
        self.assertEqual(self.take(self.server, "/refuse", "mover", 1), 1)
        [key] = [key for key in self.keys() if b"mover" in key]
        admitted = 1
        with self.moving(slot_of(key)):
            for _ in range(40):
                admitted += self.take(self.server, "/refuse", "mover", 1)
                time.sleep(0.01)
        self.assertEqual(admitted, 20)

    def test_limits_in_several_slots_are_taken_all_or_none(self):
        headers = {"header.x-group": "g1"}
        admitted = 0
        for _ in range(25):
            said = self.server.check({"attributes": {"path": "/apart", "header.x-user": "u1",
                                                     **headers}})
            admitted += said.status == 200
        self.assertEqual(admitted, 10)
        self.assertGreater(len({slot_of(key) for key in self.keys()}), 1)

        def left():
            body = {"attributes": {"path": "/apart", "header.x-user": "u2", **headers}, "cost": 0}
            return [limit["remaining"] for limit in self.server.check(body).json["limits"]]

        wait_for(lambda: left() == [990, 490, 10], what=f"the refund of {left()}")

    def test_limits_with_a_tag_are_in_one_slot(self):
        for group in ("g1", "g}2{", "组", ""):
            with self.subTest(group):
                before = self.keys()
                body = {"attributes": {"path": "/together", "header.x-user": "u1",
                                       "header.x-group": group or "none"}}
                self.assertEqual(self.server.check(body).status, 200)
                made = self.keys() - before
                self.assertEqual((len(made), len({slot_of(key) for key in made})), (3, 1), made)

    def test_a_request_on_a_tag_whose_slot_moves_is_decided(self):
        body = {"attributes": {"path": "/together", "header.x-user": "m", "header.x-group": "mv"}}
        self.assertEqual(self.server.check(body).status, 200)
        said = []
        with self.moving(slot_of(next(key for key in self.keys() if b"mv" in key)), batch=1):
            while len(said) < 100:
                verb = "refund" if len(said) % 2 else "check"
                said.append(self.server.check({**body, "verb": verb}))
                time.sleep(0.01)
        self.assertEqual({s.json["reason"] for s in said}, {"ok"})
        self.assertEqual({s.status for s in said} - {200, 429}, set())


class MasterTest(ClusterTest):
    def setUp(self):
        type(self).nodes = self.cluster()
        self.server = self.serve_store(self.nodes.url, deadline=SHORT)


class KilledMaster(MasterTest):
    def test_kill_9_of_a_master_and_promotion_of_its_replica(self):
        with Callers(self, self.server, forgets=True) as callers:
            slot = next(iter(self.slots_of_callers(callers)))
            master = self.nodes.owner(slot)
            replica = self.nodes.replica_of(master)
            replicated = time.monotonic()
            offset = int(master.info("replication")["master_repl_offset"])
            wait_for(lambda: replica.has_replicated(offset), "the replica")
            master.kill()
            killed = time.monotonic()
            wait_for(lambda: callers.reasons(killed)["fallback"] > 20, what="answers by policy")
            wait_for(lambda: replica.info("replication")["role"] == "master", what="the promotion")
            callers.wait_for_all("ok")
        for caller in callers.callers:
            self.assertGreaterEqual(self.used(self.server, caller.user),
                                    caller.surely_admitted(replicated, killed))


class PromotedReplica(MasterTest):
    @staticmethod
    def becomes_master(replica):
        """Redis aborts a failover that takes over five seconds. The next call then starts another."""
        replica.command("CLUSTER", "FAILOVER")
        end = time.monotonic() + 6
        while time.monotonic() < end:
            if replica.info("replication")["role"] == "master":
                return True
            time.sleep(0.05)
        return False

    def test_a_replica_that_is_promoted_by_command_loses_nothing(self):
        with Callers(self, self.server) as callers:
            slot = next(iter(self.slots_of_callers(callers)))
            replica = self.nodes.replica_of(self.nodes.owner(slot))
            wait_for(lambda: self.becomes_master(replica), "the promotion")
            callers.wait_for_all("ok", times=30)


class Partial(ClusterTest):
    """A cluster that serves the other slots while a master is gone."""

    def test_a_master_that_is_gone_is_an_outage_until_it_is_back(self):
        type(self).nodes = self.cluster(replicas=0, options={"cluster-require-full-coverage": "no"})
        server = self.serve_store(self.nodes.url, deadline=SHORT)
        victim, other = self.nodes.servers[2], self.nodes.servers[0]
        outage = lambda: server.admin_request("GET", "/v1/status").json.get("outage")
        connected = lambda: server.metrics()['sluice_store_events_total{event="connected"}']
        with Callers(self, server):
            wait_for(lambda: connected() >= 6, "a connection of each thread to each master")
            victim.kill()
            began = wait_for(outage, "the outage")
            wait_for(lambda: f"{victim.address} refuses connections; the other masters" in (outage() or {}).get("why", ""), "why")
            before = connected()
            other.command("CLIENT", "KILL", "TYPE", "normal")
            wait_for(lambda: connected() > before, "another connection to another master")
            self.assertEqual(outage()["since"], began["since"])
            victim.start()
            wait_for(lambda: outage() is None, "its end")

    def test_a_master_that_refuses_is_an_outage_until_it_does_not(self):
        type(self).nodes = self.cluster(replicas=0)
        server = self.serve_store(self.nodes.url)
        outage = lambda: server.admin_request("GET", "/v1/status").json.get("outage")
        with Callers(self, server) as callers:
            victim = self.nodes.owner(next(iter(self.slots_of_callers(callers))))
            victim.config("min-replicas-to-write", 1)
            why = f"Redis at {victim.address} answers with an error: NOREPLICAS .*; the other masters"
            wait_for(lambda: re.match(why, (outage() or {}).get("why", "")), "the outage")
            victim.config("min-replicas-to-write", 0)
            wait_for(lambda: outage() is None, "its end")

    def test_the_breaker_closes_without_requests_whichever_master_fails(self):
        type(self).nodes = self.cluster(replicas=0)
        server = self.serve_store(self.nodes.url)
        for i in range(30):
            ask(server, "/deny", f"caller{i}")
        opened = 'sluice_store_events_total{event="breaker_opened"}'
        for master in self.nodes.servers:
            key = next(key for key in master.command("KEYS", "*") if b"caller" in key)
            before = server.metrics()[opened]
            master.config("min-replicas-to-write", 1)
            for _ in range(5):
                ask(server, "/deny", key.decode().rpartition("=")[2])
            self.assertGreater(server.metrics()[opened], before)
            wait_for(lambda: server.metrics()["sluice_store_breaker_open"] == 0, "the other masters")
            master.config("min-replicas-to-write", 0)


class Down(ClusterTest):
    """A cluster that has lost some of its slots serves no slot."""

    def test_servers_recover_when_the_slots_are_back(self):
        type(self).nodes = self.cluster(replicas=0)
        server = self.serve_store(self.nodes.url, deadline=SHORT)
        victim = self.nodes.servers[2]
        with Callers(self, server, forgets=True) as callers:
            victim.kill()
            callers.wait_for_all("fallback")
            victim.start()
            wait_for(self.nodes.complete, what="the cluster being whole")
            callers.wait_for_all("ok")


if __name__ == "__main__":
    unittest.main()
