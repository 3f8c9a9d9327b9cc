"""Everything at once for half an hour: load on all front ends, rules that are pushed, Redis killed,
clients killed. No counter loses a unit, and neither memory nor descriptors grow. Only for `./dev test
--long`, for SLUICE_SOAK_SECONDS (default 1800)."""

import os
import random
import signal
import statistics
import struct
import subprocess
import threading
import time
import unittest

import envoy_harness
from harness import PATIENCE, Process, Raw, binary, tool, wait_for
from redis_load import LIMIT, Client, FaultTest, question

SECONDS = int(os.environ.get("SLUICE_SOAK_SECONDS", "1800"))
MOST_GROWTH = 3  # MiB, in the second half of the time
RULES = """
version: 1
domain: shop
rules:
  - name: deny
    match: {{ path: /deny }}
    on_store_error: deny
    limits: [ {{ key: "{{header.x-user}}", algorithm: fixed_window, limit: 100000000, per: 24h }} ]
  - name: exact
    match: {{ path: /exact }}
    on_store_error: deny
    limits: [ {{ key: "{{header.x-user}}", algorithm: token_bucket, limit: 50, per: 24h }} ]
  - name: order
    match: {{ path: /api/order/** }}
    on_store_error: local
    limits:
      - {{ name: all, algorithm: {algorithm}, limit: {limit}, per: 1s }}
      - {{ name: user, key: "{{header.x-user-id}}", algorithm: gcra, limit: 5, per: 1s, burst: 5 }}
"""
ALGORITHMS = ["fixed_window", "sliding_window_log", "sliding_window_counter",
              "sliding_window_hybrid", "leaky_bucket", "token_bucket", "gcra"]
LOAD = """
local at = 0
request = function()
  at = (at + 1) % 20000
  return wrk.format("GET", "/v1/auth", {
    ["X-Original-URI"] = "/api/order/1", ["X-Original-Method"] = "GET", ["X-User-Id"] = "u" .. at })
end
"""
HALF = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{\"attributes\":"


def in_parts(values, count):
    return [values[len(values) * i // count : len(values) * (i + 1) // count] for i in range(count)]


class Counter(threading.Thread):
    """A client that takes one unit after the other from a counter of its own."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.ends, self.admitted, self.unknown = address, threading.Event(), 0, 0

    def run(self):
        with Client(self.address) as client:
            while not self.ends.wait(0.002):
                reason = client.ask(question("/deny", "counter")).reason
                self.admitted += reason == "ok"
                self.unknown += reason != "ok"


@unittest.skipUnless(os.environ.get("SLUICE_LONG_TESTS"), "SLUICE_LONG_TESTS is not set")
class Soak(FaultTest):
    def setUp(self):
        self.files, self.pushes, self.log = self.folder(), 0, {}
        # kill -9 loses nothing that was written
        self.store = self.redis({"appendonly": "yes", "auto-aof-rewrite-min-size": "16mb"})
        self.push()
        self.server = self.serve(config={
            "store": self.store.url, "rules": "redis", "threads": 2,
            "listen": {"grpc": "127.0.0.1:0", "resp": "127.0.0.1:0"},
            "redis": {"deadline": "100ms", "breaker": {"open_for": "200ms", "longest_open": "500ms"}},
        })
        addresses = self.server.front_ends
        self.resp_port = addresses["resp"].rsplit(":", 1)[1]
        (self.files / "load.lua").write_text(LOAD)
        call = envoy_harness.messages().RateLimitRequest(domain="shop")
        call.descriptors.add().entries.add(key="path", value="/api/order/3")
        data = call.SerializeToString()
        (self.files / "call").write_bytes(struct.pack(">BI", 0, len(data)) + data)
        self.grpc_url = f"http://{addresses['grpc']}{envoy_harness.METHOD}"
        self.clients = {}

    def start_client(self, name):
        """Starts a client that sends as fast as it can, for longer than the test."""
        commands = {
            "http": [tool("wrk"), "-t1", "-c16", "-d3600s", "--timeout", "5s", "-s", "load.lua",
                     f"http://{self.server.http}"],
            "grpc": ["h2load", "-c", "4", "-m", "4", "-D", "3600", "-d", "call", "-H", "te: trailers",
                     "-H", "content-type: application/grpc", self.grpc_url],
            "resp": ["redis-benchmark", "-p", self.resp_port, "-c", "16", "-l", "-q", "-r", "20000",
                     "CL.THROTTLE", "key:__rand_int__", "15", "30", "60"],
        }
        self.clients[name] = Process(commands[name], self.files, name)
        self.addCleanup(self.clients[name].stop)

    def push(self):
        """Pushes rules with other limits, or another algorithm for the same counter."""
        text = RULES.format(algorithm=random.choice(ALGORITHMS), limit=random.randrange(1, 5000))
        file = self.files / "rules.yaml"
        file.write_text(text)
        done = subprocess.run([binary(), "rules", "push", str(file), "--store", self.store.url],
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.pushes += 1

    def push_invalid(self):
        file = self.files / "invalid.yaml"
        file.write_text("version: 1\nrules: [ { name: 1, limits: {} } ]\n")
        done = subprocess.run([binary(), "rules", "push", str(file), "--store", self.store.url],
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertNotEqual(done.returncode, 0)

    def kill_redis(self):
        self.store.kill()
        time.sleep(random.uniform(0, 2))
        self.store.start()

    def pause_redis(self):
        self.store.pause()
        time.sleep(random.uniform(0, 1))
        self.store.resume()

    def kill_client(self):
        name = random.choice(list(self.clients))
        self.clients[name].kill()
        self.start_client(name)

    def abandon_requests(self):
        """Clients that end in the middle of a request, and before they read its answer."""
        for _ in range(20):
            with Raw(self.server.http) as raw:
                raw.send(HALF)
            with Raw(self.server.http) as raw:
                raw.send(HALF.replace("99", "38") + '{"path":"/api/order/2"}}')

    def reload(self):
        self.server.signal(signal.SIGHUP)

    def disturb(self, end):
        """Does one of these things after the other. Returns the resident memory after each."""
        actions = [self.push, self.push, self.push_invalid, self.kill_redis, self.pause_redis,
                   self.kill_client, self.kill_client, self.abandon_requests, self.reload]
        memory = []
        while time.monotonic() < end:
            time.sleep(random.uniform(0.5, 3))
            action = random.choice(actions)
            action()
            self.log[action.__name__] = self.log.get(action.__name__, 0) + 1
            memory.append(self.server.resident_bytes())
            self.assertIsNone(self.server.child.poll(), self.server.log()[-3000:])
        return memory

    def test_nothing_is_lost_and_nothing_leaks(self):
        self.wait_until_decided(self.server)
        descriptors = self.server.descriptors()
        for name in ("http", "grpc", "resp"):
            self.start_client(name)
        counter = Counter(self.server.http)
        counter.start()
        memory = self.disturb(time.monotonic() + SECONDS)
        counter.ends.set()
        counter.join(PATIENCE)
        for client in self.clients.values():
            client.kill()
        eighths = [statistics.median(part) / 2**20 for part in in_parts(memory, 8)]
        print(f"{SECONDS} s; {self.log}; memory {[round(one, 1) for one in eighths]} MiB; "
              f"{counter.admitted} admitted, {counter.unknown} without a decision")
        self.assertLess(eighths[7] - eighths[3], MOST_GROWTH)
        self.settles(counter, descriptors)

    def settles(self, counter, descriptors):
        """Checks the state after the load."""
        self.wait_until_decided(self.server)
        wait_for(lambda: self.server.descriptors() <= descriptors, "all connections being closed")
        used = self.used(self.server, "counter")
        self.assertTrue(counter.admitted <= used <= counter.admitted + counter.unknown, used)
        self.assertEqual(self.take(self.server, "/exact", "new", 60), 50)
        metrics = self.server.metrics()
        self.assertEqual(metrics["sluice_store_breaker_open"], 0)
        for front_end in ("auth", "grpc", "resp"):
            name = f'sluice_request_duration_seconds_count{{front_end="{front_end}"}}'
            self.assertGreater(metrics[name], 100 * SECONDS, front_end)
        self.assertGreater(counter.admitted, 20 * SECONDS)
        self.assertLess(counter.admitted, LIMIT)


if __name__ == "__main__":
    unittest.main()
