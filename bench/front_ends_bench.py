#!/usr/bin/env python3
"""Measures the gRPC and RESP front ends of `sluice serve`, each against a baseline.

    front_ends_bench.py SLUICE PROGRAMS [--smoke]

PROGRAMS is the folder of echo_baseline, grpc_baseline and store_callers. Each pair runs alternately; the ratio is the
median of the rounds. bench/README.md defines the measurements.
"""

import argparse
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

from serving import (LOAD_CORE, SERVER_CORE, compare, cpu_seconds, free_port, pinned, promise, stop)

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

# These limits admit every request.
ENVOY = """
domain: bench
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 1000000000 }
"""
ENVOY_ON_REDIS = """
domain: bench
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 1000000000, algorithm: token_bucket }
"""

IDLE_CONNECTIONS = 10_000
HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
HTTP2_SETTINGS_TAKEN = b"\0\0\0\4\1\0\0\0\0"


def rls_request(domain, key, value):
    """A RateLimitRequest of one descriptor with one entry, in a gRPC frame."""
    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data
    entry = field(1, key) + field(2, value)
    message = field(1, domain) + field(2, field(1, entry))
    return b"\0" + struct.pack(">I", len(message)) + message


class Process:
    """A server on its own core. It prints a line when it is ready."""

    def __init__(self, command, core, ready):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, preexec_fn=pinned(core))
        self.line = self.process.stdout.readline()
        if not self.line.startswith(ready):
            sys.exit(f"front_ends_bench: {command[0]} did not start")

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


class Sluice(Process):
    def __init__(self, binary, *arguments, core=SERVER_CORE):
        super().__init__([binary, "serve", "--http", "off", "--admin", "off", "--grpc", "127.0.0.1:0",
                          "--resp", "127.0.0.1:0", "--threads", "1", *arguments], core, "ready ")
        self.grpc, self.port = (int(self.line.split(f"{front_end}=")[1].split()[0].rsplit(":", 1)[1])
                                for front_end in ("grpc", "resp"))


class GrpcBaseline(Process):
    def __init__(self, programs):
        self.grpc = free_port()
        super().__init__([os.path.join(programs, "grpc_baseline"), f"127.0.0.1:{self.grpc}"],
                         SERVER_CORE, "ready")


class Echo(Process):
    """The floor: what a read and a write for each request take."""

    def __init__(self, programs, core=SERVER_CORE):
        super().__init__([os.path.join(programs, "echo_baseline")], core, "ready")
        self.port = int(self.line.split()[1])


class Redis:
    def __init__(self, folder):
        self.port = free_port()
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL, preexec_fn=pinned(SERVER_CORE))
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("front_ends_bench: redis-server did not start")


def per_request(server, run):
    """run() returns calls per second and a count. Returns calls per second and µs of the server per call."""
    before = cpu_seconds(server)
    rate, count = run()
    return rate, (cpu_seconds(server) - before) * 1e6 / count


def h2load(server, streams, seconds, request):
    """Uses 8 connections with `streams` streams each. Exits if a call fails."""
    def run():
        text = subprocess.run(
            ["h2load", "-t1", "-c8", f"-m{streams}", f"-D{seconds}", f"-d{request}",
             "-H", "content-type: application/grpc", "-H", "te: trailers",
             f"http://127.0.0.1:{server.grpc}{METHOD}"],
            preexec_fn=pinned(LOAD_CORE), capture_output=True, text=True, check=True).stdout
        done = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", text)
        if not done or int(done[2]) or int(done[3]):
            sys.exit(f"front_ends_bench: {text}")
        return float(re.search(r"([\d.]+) req/s", text)[1]), int(done[1])
    return per_request(server, run)


def redis_benchmark(server, words, depth, count, clients=50, keys=100_000):
    def run():
        text = subprocess.run(
            ["redis-benchmark", "-p", str(server.port), "-c", str(clients), "-P", str(depth), "-n", str(count),
             "-r", str(keys), "--csv", *words],
            preexec_fn=pinned(LOAD_CORE), capture_output=True, text=True, check=True).stdout
        if "rror" in text:
            sys.exit(f"front_ends_bench: {text}")
        return float(text.strip().splitlines()[-1].split('","')[1].strip('"')), count
    return per_request(server, run)


def store_alone(programs, redis, seconds):
    """Returns decisions per second and processor µs per decision."""
    text = subprocess.run([os.path.join(programs, "store_callers"), f"redis://127.0.0.1:{redis.port}",
                           str(seconds)], capture_output=True, text=True, check=True).stdout
    rate, us = map(float, text.split())
    return rate, us


def on_redis(redis, run):
    """Returns the calls per second of run(), and the µs of the redis-server per call."""
    before = cpu_seconds(redis)
    begin = time.monotonic()
    rate = run()
    count = rate * (time.monotonic() - begin)
    return rate, (cpu_seconds(redis) - before) * 1e6 / count


def greet_http2(port):
    link = socket.create_connection(("127.0.0.1", port), 10)
    link.sendall(HTTP2_GREETING)
    return link


def settle_http2(link):
    link.settimeout(10)
    link.recv(4096)
    link.sendall(HTTP2_SETTINGS_TAKEN)


def idle_mb(server, connect, settle, count):
    """Returns the memory that `count` connections add to the server."""
    before = server.resident_mb()
    links = []
    try:
        for _ in range(count):
            links.append(connect())
        for link in links:
            settle(link)
        time.sleep(0.5)
        return server.resident_mb() - before
    finally:
        for link in links:
            link.close()


def settle_resp(link):
    link.settimeout(10)
    link.sendall(b"PING\r\n")
    if link.recv(64) != b"+PONG\r\n":
        sys.exit("front_ends_bench: no answer to PING")


def idle(binary, smoke):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 100 if smoke else IDLE_CONNECTIONS
    if hard != resource.RLIM_INFINITY and hard < count + 100:
        sys.exit(f"front_ends_bench: {count} connections need more descriptors than this machine's {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 100), hard))
    for name, connect, settle in (
            ("grpc", lambda server: greet_http2(server.grpc), settle_http2),
            ("resp", lambda server: socket.create_connection(("127.0.0.1", server.port), 10), settle_resp)):
        server = Sluice(binary)
        try:
            grown = idle_mb(server, lambda: connect(server), settle, count)
        finally:
            stop(server)
        print(f"{name}, {count} idle connections: {grown:.1f} MB")
        promise(f"{name}-idle-10k-mb", f"{grown:.1f}", "<=100", grown <= 100)


def grpc(options, folder, servers, seconds, rounds, request):
    rules = os.path.join(folder, "envoy.yaml")
    with open(rules, "w") as file:
        file.write(ENVOY)
    own = Sluice(options.sluice, "--envoy", rules)
    servers.append(own)
    base = GrpcBaseline(options.programs)
    servers.append(base)
    for name, streams, target in (("8x32", 32, 5), ("8x1", 1, 1.3)):
        ratio, *_ = compare(f"grpc {name} / grpc++", lambda: h2load(own, streams, seconds, request),
                           lambda: h2load(base, streams, seconds, request), rounds)
        promise(f"grpc-{name}-over-grpc++", f"{ratio:.2f}", f">={target}", ratio >= target)


def resp(options, folder, servers, count, rounds):
    own = Sluice(options.sluice)
    servers.append(own)
    base = Redis(folder)
    servers.append(base)
    throttle = ["CL.THROTTLE", "key:__rand_int__", "15", "30", "60"]
    increment = ["INCR", "key:__rand_int__"]
    for depth, asked, target in ((1, count, 1), (16, count * 4, 1.3)):
        found = compare(f"CL.THROTTLE -P {depth} / INCR",
                        lambda: redis_benchmark(own, throttle, depth, asked),
                        lambda: redis_benchmark(base, increment, depth, asked), rounds)
        promise(f"resp-throttle-P{depth}-over-incr", f"{found.rate:.2f}", f">={target}", found.rate >= target)
        by_time = 1 / found.time if found.time else float("nan")  # 0: less than a tick
        promise(f"resp-throttle-P{depth}-by-server-us", f"{by_time:.2f}", f">={target}", by_time >= target)
    floor = Echo(options.programs)
    servers.append(floor)
    found = compare("CL.THROTTLE -P 1 / echo", lambda: redis_benchmark(own, throttle, 1, count),
                    lambda: redis_benchmark(floor, throttle, 1, count), rounds)
    promise("resp-throttle-P1-server-us-over-echo", f"{found.time:.2f}", "<=1.12", found.time <= 1.12)


def front_ends_on_redis(options, folder, servers, seconds, rounds, request):
    rules = os.path.join(folder, "envoy_on_redis.yaml")
    with open(rules, "w") as file:
        file.write(ENVOY_ON_REDIS)
    # redis-benchmark ends at the first error, so a machine with other work needs more than 50 ms.
    config = os.path.join(folder, "sluice.yaml")
    with open(config, "w") as file:
        file.write("version: 1\nredis: { deadline: 5s }\n")
    redis = Redis(folder)
    servers.append(redis)
    # Redis has one core to itself. Sluice, the echo server and the load share the other core.
    own = Sluice(options.sluice, "--config", config, "--envoy", rules, "--store", f"redis://127.0.0.1:{redis.port}",
                 core=LOAD_CORE)
    servers.append(own)
    floor = Echo(options.programs, core=LOAD_CORE)
    servers.append(floor)
    words = ["RL.LIMIT", "user:__rand_int__", "token_bucket", "1000000000", "1s"]
    count = 2_000 if options.smoke else 60_000

    def resp(server, depth):
        return redis_benchmark(server, words, depth, count * (1 if depth == 1 else 2), clients=64, keys=1000)

    def store():
        return store_alone(options.programs, redis, seconds)

    def echo_and_store():
        (rate, store_us), (_, echo_us) = store(), resp(floor, 1)
        return rate, echo_us + store_us

    found = compare("resp -P 1 on Redis / echo + store", lambda: resp(own, 1), echo_and_store, rounds)
    promise("resp-P1-on-redis-server-us-over-echo-and-store", f"{found.time:.2f}", "<=1", found.time <= 1)
    for name, ask in (("resp -P 16", lambda: resp(own, 16)[0]),
                      ("grpc", lambda: h2load(own, 8, seconds, request)[0])):
        ratio, *_ = compare(f"{name} on Redis / the store alone", lambda: on_redis(redis, ask),
                           lambda: on_redis(redis, lambda: store()[0]), rounds)
        name = name.replace(" -", "-").replace(" ", "")
        promise(f"{name}-on-redis-over-the-store", f"{ratio:.2f}", ">=0.9", ratio >= 0.9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("programs")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    for tool in ("h2load", "redis-benchmark", "redis-server"):
        if shutil.which(tool) is None:
            sys.exit(f"front_ends_bench: {tool} is missing")
    if (os.cpu_count() or 1) < 2:
        sys.exit("front_ends_bench: needs two cores")
    seconds, rounds = (1, 1) if options.smoke else (3, 7)
    with tempfile.TemporaryDirectory() as folder:
        request = os.path.join(folder, "request")
        with open(request, "wb") as file:
            file.write(rls_request(b"bench", b"user", b"alice"))
        print("\n== front_ends: gRPC and RESP")
        print(f"{'case':34} {'ratio':>6}  {'quartiles':12} {'sluice':>12} {'base':>12}", flush=True)
        for part in (lambda servers: grpc(options, folder, servers, seconds, rounds, request),
                     lambda servers: resp(options, folder, servers, 10_000 if options.smoke else 300_000, rounds),
                     lambda servers: front_ends_on_redis(options, folder, servers, seconds, rounds, request)):
            servers = []
            try:
                part(servers)
            finally:
                for server in servers:
                    stop(server)
        idle(options.sluice, options.smoke)


if __name__ == "__main__":
    main()
