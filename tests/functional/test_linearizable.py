"""Histories of concurrent clients are linearizable while servers are killed and Redis fails over.

Eight processes send requests in short bursts, all to the same few counters. linearizability.py then
searches for one order of all requests that explains every answer. A request may charge two
counters, and takes units of both or of none. The deny cache is off, because its denials may be a
second old (docs/operations.md). SLUICE_HISTORY_SECONDS is how long each test records.
"""

import collections
import multiprocessing
import os
import random
import time
import unittest
from itertools import pairwise

from harness import PATIENCE, Sluice, free_port, wait_for
from linearizability import Op, explain, failover, wipe
from redis_harness import die_with_parent, slot_of
from redis_load import Client, FaultTest, question

LONG = bool(os.environ.get("SLUICE_LONG_TESTS"))
SECONDS = int(os.environ.get("SLUICE_HISTORY_SECONDS", "120" if LONG else "5"))
CLIENTS = 8
LIMITS = (400, 250)
EPOCH, SLOT, BURST = 5.0, 0.04, 0.01  # seconds: of the same counters, of an algorithm, of requests
LATE = 1.0  # seconds: Redis executes a request that it received before a pause or the end of a client
LIMIT_OF = {  # no unit comes back while a test runs
    "fixed_window": "limit: {}, per: 24h",
    "sliding_window_log": "limit: {}, per: 24h",
    "sliding_window_counter": "limit: {}, per: 24h",
    "sliding_window_hybrid": "limit: {}, per: 24h",
    "token_bucket": "limit: 1, per: 30d, burst: {}",
    "leaky_bucket": "limit: 1, per: 30d, burst: {}",
    "gcra": "limit: 1, per: 30d, burst: {less}",
}
ALGORITHMS = list(LIMIT_OF)


def rules():
    """Rules for the paths /ALGORITHM/a, /ALGORITHM/b and /ALGORITHM/ab, which charges both."""
    lines = ["version: 1", "domain: shop", "rules:"]
    for algorithm, text in LIMIT_OF.items():
        for name, path, limit in (("a", "a*", LIMITS[0]), ("b", "*b", LIMITS[1])):
            numbers = text.format(limit, less=limit - 1)
            lines.append(
                f'  - {{ name: {algorithm}-{name}, match: {{ path: "/{algorithm}/{path}" }}, '
                f'tag: "{{header.x-user}}", '
                f"continue: true, on_store_error: deny, limits: [ {{ algorithm: {algorithm}, "
                f'key: "{{header.x-user}}", {numbers} }} ] }}'
            )
    return "\n".join(lines) + "\n"


class Recorder:
    """A client that records what it sends and what it receives."""

    def __init__(self, number, addresses, late, begin, end):
        self.dice, self.addresses, self.late = random.Random(number), addresses, late
        self.begin, self.end = begin, end
        self.client, self.is_answered, self.records = None, True, []

    def run(self):
        time.sleep(max(0, self.begin - time.monotonic()))
        while (now := time.monotonic()) < self.end:
            slot, into = divmod(now - self.begin, SLOT)
            if into > BURST:
                time.sleep(SLOT - into)
            elif self.is_answered:
                self.ask(ALGORITHMS[int(slot) % len(ALGORITHMS)], int((now - self.begin) // EPOCH))
            else:  # no other request without an answer: each of them multiplies the possible orders
                time.sleep(SLOT)
                self.is_answered = self.exchange(*self.latest, cost=0) is not None
        self.close()
        return self.records

    def close(self):
        if self.client:
            self.client.raw.close()
        self.client = None

    def ask(self, algorithm, epoch):
        """Sends a random request and records it."""
        verb = self.dice.choices(("check", "refund", "reset"), (80, 19, 1))[0]
        cost = self.dice.choices((0, 1, self.dice.randrange(2, 20)), (10, 30, 60))[0]
        counters = self.dice.choice(((0,), (1,), (0, 1)))
        path = f"/{algorithm}/" + "".join("ab"[i] for i in counters)
        more = {} if verb == "reset" else {"cost": cost}
        sent = time.monotonic()
        self.latest = path, f"{algorithm}{epoch}"
        answer = self.exchange(*self.latest, verb=verb, **more)
        self.is_answered = answer is not None
        answered = time.monotonic() + (0 if answer else self.late)
        kind = "take" if verb == "check" else verb
        self.records.append(((algorithm, epoch), Op(sent, answered, kind, cost, counters, answer)))

    def exchange(self, path, user, **more):
        """Returns the answer of the store. Otherwise returns None."""
        try:
            self.client = self.client or Client(self.dice.choice(self.addresses))
            said = self.client.answer(question(path, user, **more)).json
        except (OSError, EOFError, ValueError):
            self.close()
            return None
        if said["reason"] not in ("ok", "limited"):
            return None
        return said["outcome"] == "allowed", tuple(limit["remaining"] for limit in said["limits"])


def record(results, *arguments):
    die_with_parent()
    results.put(Recorder(*arguments).run())


def until_the_fault(op, faults):
    """The only server, once it has been killed, does not execute a request without an answer."""
    if op.answer is not None:
        return op
    ends = (f.answered for f in faults if f.kind != "copy" and op.sent < f.sent)
    return op._replace(answered=min([op.answered, *ends]))


class Histories:
    has_one_server = True  # that has the counters, at a time

    def start_sluice(self, address, store="memory"):
        """Starts a server that a test may kill."""
        redis = {"deadline": "100ms", "deny_cache": {"enabled": False},
                 "breaker": {"failures": 5, "open_for": "100ms", "longest_open": "200ms"}}
        config = {"listen": {"http": address}, "store": store, "threads": 2}
        if store != "memory":
            config["redis"] = redis
        server = Sluice(self.folder(), rules(), config)
        self.addCleanup(server.stop)
        return server

    def record_histories(self, addresses, disturb, late=0):
        """Runs the clients, and disturb(faults) again and again. Returns the histories by name, and
        the faults that disturb() appended. A request whose answer is lost takes effect at most
        `late` seconds later."""
        fork = multiprocessing.get_context("fork")
        results, begin = fork.Queue(), time.monotonic() + 0.3
        end, faults, histories = begin + SECONDS, [], collections.defaultdict(list)
        self.end = end - 1  # of the faults
        clients = [fork.Process(target=record, args=(results, i, addresses, late, begin, end))
                   for i in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(0.5)
        while time.monotonic() < self.end:
            disturb(faults)
        for _ in clients:
            for name, op in results.get(timeout=SECONDS + 60):
                histories[name].append(op)
        for client in clients:
            client.join(PATIENCE)
        return {name: sorted(ops) for name, ops in histories.items()}, faults

    def check(self, histories, faults):
        for name, ops in sorted(histories.items()):
            first, last = ops[0].sent, max(op.answered for op in ops)
            some = [op for fault in faults if fault[-1].sent < last and first < fault[-1].answered
                    for op in fault]
            if self.has_one_server:
                ops = [until_the_fault(op, some) for op in ops]
            with self.subTest(name, requests=len(ops), faults=some):
                self.assertIsNone(explain(LIMITS, ops + some))
        every = [op for ops in histories.values() for op in ops]
        overlapping = sum(a.answered > b.sent for ops in histories.values() for a, b in pairwise(ops))
        lost = sum(op.answer is None for op in every)
        print(f"{len(every)} requests in {len(histories)} histories, {overlapping} concurrent, "
              f"{lost} without an answer, {len(faults)} faults")
        self.assertGreater(overlapping, 100)
        self.assertGreater(len(faults), 0)


class Memory(Histories, FaultTest):
    def test_with_one_server_that_is_killed(self):
        """Each kill of the server loses all counters."""
        address = f"127.0.0.1:{free_port()}"
        self.server = self.start_sluice(address)

        def disturb(faults):
            time.sleep(random.uniform(0.5, 1.5))
            begin = time.monotonic()
            self.server.kill()
            faults.append(wipe(begin, time.monotonic()))
            self.server = self.start_sluice(address)

        self.check(*self.record_histories([address], disturb))


class Redis(Histories, FaultTest):
    def start_two(self, url):
        """Starts two servers that share a Redis. Returns their addresses and the servers."""
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        servers = [self.start_sluice(address, url) for address in addresses]
        for server in servers:
            self.wait_until_ready(server)
        return addresses, servers

    def test_with_two_servers_and_a_redis_that_fails_over(self):
        """A kill of a server loses nothing. A failover loses what was not yet replicated."""
        redis = self.sentinels()
        addresses, servers = self.start_two(redis.url)

        def disturb(faults):
            time.sleep(random.uniform(0.2, 0.5))
            wait_for(lambda: self.is_complete(redis) or time.monotonic() > self.end)
            if time.monotonic() > self.end:
                return
            i = random.randrange(2)
            servers[i].kill()
            servers[i] = self.start_sluice(addresses[i], redis.url)
            time.sleep(0.3)
            master = redis.master()
            master.pause()
            time.sleep(0.2)  # longer than the servers' deadline
            master.resume()
            time.sleep(0.3)
            replicated = time.monotonic()
            redis.wait_until_replicated()
            begin = time.monotonic()
            master.kill()
            faults.append(failover(begin, time.monotonic(), replicated))
            redis.wait_for_master_other_than(master)
            master.start()

        self.check(*self.record_histories(addresses, disturb, late=LATE))

    @staticmethod
    def is_complete(redis):
        facts = [server.info("replication") for server in redis.servers]
        return [one["role"] for one in facts].count("master") == 1 and all(
            one.get("master_link_status", "up") == "up" for one in facts)

    @staticmethod
    def wait_until_ready(server):
        def decides():
            with Client(server.http) as client:
                return client.ask(question("/gcra/a", "ready", cost=0)).reason == "ok"

        wait_for(decides, what="a decision of the store")


@unittest.skipUnless(LONG, "./dev test --long runs it")
class Cluster(Redis):
    has_one_server = False

    def test_with_two_servers_and_a_redis_that_fails_over(self):
        """A slot with counters moves to another master while they are in use, then is killed. The
        counters of a request share a slot."""
        cluster = self.cluster()
        addresses, _ = self.start_two(cluster.url)

        def disturb(faults):
            time.sleep(random.uniform(0.2, 0.5))
            wait_for(lambda: cluster.complete() or time.monotonic() > self.end)
            if time.monotonic() > self.end:
                return
            key = random.choice([key for master in self.masters(cluster)
                                 for key in master.command("KEYS", "*")])
            slot = slot_of(key)
            source = cluster.owner(slot)
            to = random.choice([one for one in self.masters(cluster) if one is not source])
            cluster.move_slot(slot, to, pause=0.1, batch=1)
            time.sleep(0.5)
            replicated = time.monotonic()
            offset = int(to.info("replication")["master_repl_offset"])
            replica = cluster.replica_of(to)
            wait_for(lambda: replica.has_replicated(offset), "the replica")
            begin = time.monotonic()
            to.kill()
            faults.append(failover(begin, time.monotonic(), replicated))
            wait_for(lambda: cluster.owner(slot) is not to, what="another master of the slot")
            to.start()

        self.check(*self.record_histories(addresses, disturb, late=LATE))

    @staticmethod
    def masters(cluster):
        return [one for one in cluster.living() if one.info("replication")["role"] == "master"]


if __name__ == "__main__":
    unittest.main()
