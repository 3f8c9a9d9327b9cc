"""`memory.snapshot`: the counters of a memory store continue after a restart."""

import json
import os
import signal
import threading
import time
import unittest

from harness import PATIENCE, ROOT, Raw, ServerTest, Sluice, binary, free_port, request, wait_for
from resp_harness import Resp

RULES = """
version: 1
rules:
  - name: all
    match: { path: /all }
    limits:
      - { name: fixed, key: "{ip}", algorithm: fixed_window, limit: 100, per: 24h }
      - { name: log, key: "{ip}", algorithm: sliding_window_log, limit: 100, per: 24h }
      - { name: counter, key: "{ip}", algorithm: sliding_window_counter, limit: 100, per: 24h }
      - { name: hybrid, key: "{ip}", algorithm: sliding_window_hybrid, limit: 100, per: 24h }
      - { name: leaky, key: "{ip}", algorithm: leaky_bucket, limit: 100, per: 24h }
      - { name: token, key: "{ip}", algorithm: token_bucket, limit: 100, per: 24h }
      - { name: gcra, key: "{ip}", algorithm: gcra, limit: 100, per: 24h }
  - name: seat
    match: { path: /seat }
    limits: [{ name: seats, key: "{ip}", algorithm: concurrency, limit: 2, lease: 1h }]
  - name: code
    match: { path: /code }
    limits:
      - name: codes
        key: "{ip}"
        algorithm: token_bucket
        limit: 1
        per: 24h
        block: { after: 1, within: 1h, for: 1h }
  - name: soon
    match: { path: /soon }
    limits: [{ name: soon, key: "{ip}", algorithm: fixed_window, limit: 1, per: 2s }]
"""


class Client(threading.Thread):
    """Takes single units of /all on a connection, and on a new one whenever the server ends it.
    Counts the admitted and the denied requests, and keeps the errors."""

    ATTRIBUTES = ("path", "/all", "ip", "192.0.2.1")

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.ends = address, False
        self.admitted, self.denied, self.failed, self.connections = 0, 0, [], 0

    def run(self):
        while not self.ends:
            self.connections += 1
            with self.connect() as connection:
                try:
                    self.ask_until_it_ends(connection)
                except (EOFError, OSError) as error:
                    self.failed.append(repr(error))

    def count(self, outcome):
        self.admitted += outcome == "allowed"
        self.denied += outcome != "allowed"

    def connect(self):
        return Raw(self.address)

    def ask_until_it_ends(self, connection):
        body = json.dumps({"attributes": dict(zip(self.ATTRIBUTES[::2], self.ATTRIBUTES[1::2]))})
        head = f"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        keeps = True
        while keeps and not self.ends:
            answer = connection.send(head + body).answer()
            self.count(answer.json["outcome"])
            keeps = answer["connection"] != "close"


class RespClient(Client):
    def connect(self):
        return Resp(self.address)

    def ask_until_it_ends(self, connection):
        while not self.ends:
            try:
                reply = connection.ask("RL.CHECK", "*", *self.ATTRIBUTES)
            except (EOFError, ConnectionError):  # it ended after the reply before
                return
            self.count(dict(zip(reply[::2], reply[1::2]))[b"outcome"].decode())


class Snapshots(ServerTest):
    def setUp(self):
        self.file = self.folder() / "counters"

    def start(self, config=None, rules=RULES, clock=None, **memory):
        memory = {"snapshot": str(self.file), "snapshot_interval": "0s", **memory}
        return self.serve(rules, {"memory": memory, "threads": 2, **(config or {})}, clock=clock)

    @staticmethod
    def ask(server, path="/all", ip="192.0.2.1", cost=1, **more):
        body = {"attributes": {"path": path, "ip": ip}, "cost": cost, **more}
        return server.check(body).json

    @staticmethod
    def says(server, line):
        """Waits until the server has logged this."""
        wait_for(lambda: line in server.log(), what=f"a line with {line!r} in\n{server.log()}")

    def remaining(self, server, **more):
        """Returns what each limit has left."""
        found = self.ask(server, cost=0, **more)
        return {limit["name"]: limit["remaining"] for limit in found["limits"]}

    def test_every_counter_continues_exactly(self):
        old = self.start()
        for cost in (1, 2, 4):
            self.assertEqual(self.ask(old, cost=cost)["outcome"], "allowed")
        self.assertEqual(self.ask(old, ip="2001:db8::1", cost=100)["outcome"], "allowed")
        denied = self.ask(old, ip="2001:db8::1")
        permit = self.ask(old, "/seat", cost=2)["permit"]
        self.ask(old, "/code")
        self.assertEqual(self.ask(old, "/code")["outcome"], "denied")
        self.assertEqual(self.ask(old, "/code")["reason"], "blocked")
        self.assertEqual(set(self.remaining(old).values()), {93})
        self.assertEqual(old.stop(), 0)
        self.assertEqual(os.stat(self.file).st_mode & 0o7777, 0o600)
        self.assertIn("wrote the snapshot of the counters", old.log())
        files = sorted(entry.name for entry in self.file.parent.iterdir())
        self.assertEqual(files, ["counters", "counters.lock"])

        new = self.start()
        self.says(new, "read the snapshot of the counters")
        left = self.remaining(new)
        self.assertEqual(len(left), 7)
        self.assertEqual(set(left.values()), {93})
        still = self.ask(new, ip="2001:db8::1")
        self.assertEqual(still["outcome"], "denied")
        self.assertLess(still["retry_after_ms"], denied["retry_after_ms"])
        self.assertGreater(still["retry_after_ms"], denied["retry_after_ms"] - 60_000)
        self.assertEqual(self.ask(new, "/code")["reason"], "blocked")
        self.assertEqual(self.ask(new, "/seat")["outcome"], "denied")
        body = json.dumps({"permit": permit})
        fields = {"Content-Type": "application/json"}
        released = request(new.http, "POST", "/v1/release", body, fields)
        self.assertEqual(released.status, 200, released)
        self.assertEqual(self.ask(new, "/seat")["outcome"], "allowed")

    def test_time_goes_on_while_no_server_runs(self):
        clock = self.stopped_clock()
        old = self.start(clock=clock)
        self.assertEqual(self.ask(old, "/soon")["outcome"], "allowed")
        self.assertEqual(self.ask(old, "/soon")["outcome"], "denied")
        old.stop()
        clock.advance(2)
        new = self.start(clock=clock)
        self.assertEqual(self.ask(new, "/soon")["outcome"], "allowed")

    def test_after_a_crash_the_last_snapshot_counts(self):
        memory = {"snapshot": str(self.file), "snapshot_interval": "20ms"}
        old = Sluice(self.folder(), RULES, {"memory": memory})
        self.addCleanup(old.stop)
        self.ask(old, cost=7)
        asked = time.time()
        wait_for(lambda: old.metrics()["sluice_snapshot_timestamp_seconds"] > asked)
        metrics = old.metrics()
        self.assertEqual(metrics["sluice_snapshot_bytes"], os.path.getsize(self.file))
        self.assertEqual(metrics["sluice_snapshot_counters"], 7)
        self.assertEqual(metrics["sluice_snapshot_failures_total"], 0)
        self.assertGreater(metrics["sluice_snapshot_duration_seconds"], 0)
        old.kill()
        new = self.start()
        self.assertEqual(set(self.remaining(new).values()), {93})

    def test_a_damaged_file_is_kept_aside(self):
        old = self.start()
        self.ask(old, cost=7)
        old.stop()
        damaged = bytearray(self.file.read_bytes())
        damaged[-5] ^= 1
        self.file.write_bytes(damaged)
        new = self.start()
        self.says(
            new,
            'error the snapshot cannot be used, so the counters start again why="'
            f'{self.file}: at byte 16: the checksum of frame 0 is wrong"',
        )
        self.assertEqual(self.file.with_name("counters.damaged").read_bytes(), damaged)
        self.assertEqual(set(self.remaining(new).values()), {100})
        self.assertEqual(new.metrics()["sluice_snapshot_failures_total"], 1)
        self.ask(new, cost=1)
        new.stop()
        self.assertEqual(set(self.remaining(self.start()).values()), {99})

    def test_a_smaller_store_keeps_what_fits(self):
        old = self.start()
        for i in range(100):
            self.ask(old, ip=f"192.0.2.{i}")
        old.stop()
        new = self.start(max_keys=128)
        self.says(new, "dropped=572")
        self.assertEqual(new.metrics()["sluice_store_keys"], 128)
        self.assertEqual(new.metrics()["sluice_store_evictions_total"], 572)

    def test_a_changed_limit_keeps_what_was_consumed(self):
        old = self.start()
        self.ask(old, cost=7)
        old.stop()
        changed = RULES.replace("fixed_window, limit: 100", "fixed_window, limit: 50")
        left = self.remaining(self.start(rules=changed))
        self.assertEqual((left["fixed"], left["token"]), (43, 93))

    def test_a_successor_continues_with_the_counters_of_its_predecessor(self):
        config = {
            "listen": {"http": f"127.0.0.1:{free_port()}"},
            "drain": {"handover": str(self.folder() / "handover.sock")},
        }
        old = self.start(config, snapshot_interval="20ms")
        self.ask(old, cost=7)
        for left in (92, 91):
            new = self.start(config, snapshot_interval="20ms")
            self.assertEqual(old.wait(), 0)
            self.assertIn("handed over", old.log())
            self.ask(new)
            self.assertEqual(set(self.remaining(new).values()), {left})
            old = new
        old.stop()
        self.assertEqual(set(self.remaining(self.start()).values()), {91})

    def test_a_successor_knows_every_unit_that_its_predecessor_admitted(self):
        config = {
            "listen": {f: f"127.0.0.1:{free_port()}" for f in ("http", "resp")},
            "drain": {"handover": str(self.folder() / "handover.sock")},
        }
        limit = 100_000  # of which a bucket gets one back in five minutes
        rules = RULES.replace("limit: 100, per: 24h", f"limit: {limit}, per: 365d")
        old = self.start(config, rules)
        clients = [Client(old.http) for _ in range(3)] + [
            RespClient(config["listen"]["resp"]) for _ in range(3)]
        for one in clients:
            one.start()
        for takeover in range(2):
            wait_for(lambda: all(one.admitted > 5 for one in clients), what="the first answers")
            new = self.start(config, rules)
            self.assertEqual(old.wait(), 0)
            wait_for(lambda: all(one.connections > 1 + takeover for one in clients), "reconnects")
            old = new
        for one in clients:
            one.ends = True
        for one in clients:
            one.join(PATIENCE)
        self.assertEqual([one.failed for one in clients], [[]] * len(clients))
        self.assertEqual(sum(one.denied for one in clients), 0)
        admitted = sum(one.admitted for one in clients)
        self.assertEqual(set(self.remaining(old).values()), {limit - admitted})

    def hand_over(self, **memory):
        """Starts two servers. Returns the first, which ends when its client ends a request, and the
        second, which waits for that."""
        self.http = f"127.0.0.1:{free_port()}"
        old = Sluice(self.folder(), RULES, {
            "listen": {"http": self.http},
            "memory": {"snapshot": str(self.file), **memory},
            "bounds": {"body_timeout": "600s"},
            "drain": {"handover": str(self.folder() / "handover.sock"), "timeout": "600s"},
        })
        self.addCleanup(old.stop)
        self.ask(old, cost=7)
        self.client = Raw(old.http)
        self.client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
                         "Expect: 100-continue\r\n\r\n")
        self.assertIn(b" 100 ", self.client.reader.readline())
        if memory:
            wait_for(lambda: old.metrics()["sluice_snapshot_counters"] >= 7)
        config = str(old.folder / "sluice.yaml")
        new = self.start_process([binary(), "serve", "--config", config], self.folder(), "new")
        self.says(old, "handed over")
        return old, new

    def test_a_successor_continues_without_a_predecessor_that_dies(self):
        old, new = self.hand_over(snapshot_interval="20ms")
        old.kill()
        self.says(new, "warning the server that hands over has died")
        new.wait_until_accepting(self.http)
        body = json.dumps({"attributes": {"path": "/all", "ip": "192.0.2.1"}})
        answer = request(self.http, "POST", "/v1/check", body).json
        self.assertEqual({limit["remaining"] for limit in answer["limits"]}, {92})
        self.assertEqual(new.stop(), 0)

    def test_sigterm_ends_a_successor_that_waits(self):
        old, new = self.hand_over()
        new.signal(signal.SIGTERM)
        self.assertEqual(new.wait(), 1)
        self.assertIn("a signal ended the wait for its end", new.log())
        self.assertIsNone(old.child.poll())
        self.client.close()
        self.assertEqual(old.wait(), 0)

    def refused(self, config):
        """Returns what a server with this configuration says before it ends."""
        with self.assertRaises(AssertionError) as raised:
            Sluice(self.folder(), RULES, config)
        return str(raised.exception)

    def test_a_mistake_is_an_error_at_the_start(self):
        memory = {"snapshot": str(self.file)}
        self.assertIn(
            "memory.snapshot keeps the counters of this process, but the store is in Redis",
            self.refused({"store": "redis://127.0.0.1:1", "memory": memory}),
        )
        folder = self.folder()
        self.assertIn(
            f"memory.snapshot: {folder} is not a regular file",
            self.refused({"memory": {"snapshot": str(folder)}}),
        )
        self.assertIn(
            f"memory.snapshot: cannot write in {folder}/no: No such file or directory",
            self.refused({"memory": {"snapshot": f"{folder}/no/counters"}}),
        )

    def test_a_second_server_with_the_same_file_does_not_start(self):
        server = self.start(snapshot_interval="20ms")
        self.ask(server, cost=7)
        memory = {"snapshot": str(self.file)}
        refusal = (f"memory.snapshot: another server uses {self.file}; expected a file for each "
                   "server, or drain.handover to replace that server")
        self.assertIn(refusal, self.refused({"memory": memory}))
        config = {"memory": memory, "drain": {"handover": str(self.folder() / "handover.sock")}}
        self.assertIn(refusal, self.refused(config))
        self.assertEqual(set(self.remaining(server).values()), {93})
        self.assertEqual(server.stop(), 0)
        self.assertEqual(set(self.remaining(self.start()).values()), {93})

    def test_a_successor_cannot_take_the_file_of_a_third_server(self):
        third = self.start()
        own = {"snapshot": str(self.folder() / "counters")}
        config = {
            "memory": own,
            "listen": {"http": f"127.0.0.1:{free_port()}"},
            "drain": {"handover": str(self.folder() / "handover.sock")},
        }
        old = self.serve(RULES, config)
        self.assertIn("another server uses",
                      self.refused({**config, "memory": {"snapshot": str(self.file)}}))
        self.assertEqual(self.ask(old)["outcome"], "allowed")
        new = self.serve(RULES, config)
        self.assertEqual(old.wait(), 0)
        self.assertEqual(set(self.remaining(new).values()), {99})
        self.assertIn("another server uses", self.refused({"memory": own}))
        self.assertEqual(third.stop(), 0)

    def test_a_failure_is_reported_once_and_the_file_stays(self):
        old = self.start(snapshot_interval="20ms")
        wait_for(lambda: old.metrics()["sluice_snapshot_bytes"] > 0)
        in_the_way = self.file.with_name("counters.tmp")

        def obstructed():
            try:
                in_the_way.mkdir()
                return True
            except FileExistsError:  # a snapshot is being written
                return False

        wait_for(obstructed)
        wait_for(lambda: old.metrics()["sluice_snapshot_failures_total"] > 1)
        self.says(old, "error the counters were not saved")
        self.assertEqual(old.log().count("error the counters were not saved"), 1)
        self.assertTrue(self.file.exists())
        in_the_way.rmdir()
        self.says(old, "the counters can be saved again")

    def test_a_last_snapshot_that_fails_is_logged_and_the_exit_status(self):
        server = Sluice(self.folder(), RULES, {
            "memory": {"snapshot": str(self.file), "snapshot_interval": "0s"}})
        self.addCleanup(server.kill)
        self.file.with_name("counters.tmp").mkdir()
        self.assertEqual(server.stop(), 1)
        self.assertIn("error the counters were not saved", server.log())

    def test_a_server_that_is_replaced_is_not_started_again_if_it_cannot_save(self):
        config = {"listen": {"http": f"127.0.0.1:{free_port()}"},
                  "drain": {"handover": str(self.folder() / "handover.sock")},
                  "memory": {"snapshot": str(self.file), "snapshot_interval": "0s"}}  # fmt: skip
        old = Sluice(self.folder(), RULES, config)
        self.addCleanup(old.kill)
        self.file.with_name("counters.tmp").mkdir()
        new = Sluice(self.folder(), RULES, config)
        self.addCleanup(new.kill)
        self.assertEqual(old.wait(), 3)
        self.assertIn("error the counters were not saved", old.log())
        self.assertIn("\nRestartPreventExitStatus=3\n", (ROOT / "deploy/systemd/sluice.service").read_text())
        self.assertEqual(new.stop(), 1)


if __name__ == "__main__":
    unittest.main()
