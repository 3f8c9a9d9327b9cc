#!/usr/bin/python3 -B
"""Measures Sluice next to other rate limiters, which it builds from package registries.

    peers_bench.py SLUICE PROGRAMS CACHE [--smoke]

PROGRAMS is the folder of peers_in_process, CACHE that of the builds, which later runs use again. All
cases of a table run in turns; the ratios are medians of the rounds. bench/README.md has the legend.
"""

import argparse
import collections
import contextlib
import glob
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from front_ends_bench import METHOD, h2load, redis_benchmark, rls_request
from serve_bench import wrk
from serving import SERVER_CORE, cpu_seconds, free_port, pinned, stop

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
KEYS = 10_000
# Words of CL.THROTTLE after the key: a burst, and units per seconds. A key takes fewer than a million
# units in a run. Two units per hour are taken before the measurement.
WORDS = {"admitted": ("999999", "1", "1"), "denied": ("1", "2", "3600")}

RATELIMIT = "v1.4.1-0.20260122083618-3fb702589d36"
THROTTLECRAB = "0.4.40"
BUCKET4J = "8.19.0"
MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"

ENVOY = """
domain: {name}
descriptors:
  - key: user
    rate_limit: {{ unit: day, requests_per_unit: {limit} }}
"""

LUA = """
local requests = {}
for i = 0, %d do
  requests[i] = wrk.format("POST", "%s", {["Content-Type"] = "application/json", ["Host"] = "localhost"},
    string.format('%s', i))
end
request = function() return requests[math.random(0, #requests)] end
"""

Case = collections.namedtuple("Case", "name ask")  # ask() returns requests per second and µs


# What registries have. Each function returns what its peer is started with.


def run(argv, **environment):
    done = subprocess.run(argv, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise OSError(f"{' '.join(argv[:2])}: {said[-1] if said else done.returncode}")


def rust(cache):
    """The programs with governor, quota and throttlecrab, and the module redis-cell."""
    target = os.path.join(cache, "cargo")
    run(["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", f"{HERE}/rust/Cargo.toml",
         "--target-dir", target])
    module, = glob.glob(f"{target}/release/deps/libredis_cell-*.so")
    library = subprocess.run(["rustc", "--print", "target-libdir"], capture_output=True, text=True, check=True).stdout
    return {"rust": f"{target}/release/peers", "redis-cell": module, "rust library": library.strip()}


def throttlecrab(cache):
    run(["cargo", "install", "--quiet", "throttlecrab-server", "--version", f"={THROTTLECRAB}", "--locked",
         "--root", f"{cache}/throttlecrab", "--target-dir", f"{cache}/cargo"])
    return {"throttlecrab": f"{cache}/throttlecrab/bin/throttlecrab-server"}


def go(cache):
    run(["go", "build", "-C", f"{HERE}/go", "-o", f"{cache}/go/peers"])
    return {"go": f"{cache}/go/peers"}


def ratelimit(cache):
    run(["go", "install", f"github.com/envoyproxy/ratelimit/src/service_cmd@{RATELIMIT}"], GOBIN=f"{cache}/go")
    return {"ratelimit": f"{cache}/go/service_cmd"}


def bucket4j(cache):
    jar = f"{cache}/java/bucket4j_jdk17-core-{BUCKET4J}.jar"
    if not os.path.exists(jar):
        run(["mvn", "-q", "-B", MAVEN_COPY, f"-Dartifact=com.bucket4j:bucket4j_jdk17-core:{BUCKET4J}",
             f"-DoutputDirectory={cache}/java"])
    run(["javac", "-cp", jar, "-d", f"{cache}/java", f"{HERE}/Bucket4j.java"])
    return {"bucket4j": f"{cache}/java:{jar}"}


def build(cache):
    found = {}
    for make in (rust, throttlecrab, go, ratelimit, bucket4j):
        begin = time.monotonic()
        try:
            found.update(make(cache))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"peers: {make.__name__} was not built: {error}", flush=True)
        else:
            print(f"peers: built {make.__name__} in {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return found


# Servers. All processes of a case have one core, the load another.


class Server:
    """A server on a free port, and the servers that it uses."""

    def __init__(self, command, port, *uses, **environment):
        self.port = self.grpc = port
        self.uses = uses
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, env={**os.environ, **environment},
                                        preexec_fn=pinned(SERVER_CORE))
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            time.sleep(0.05)
        raise OSError(f"{command[0]} did not start")


class Servers:
    def __init__(self, options, peers, folder):
        self.options, self.peers, self.folder = options, peers, folder
        self.all = []

    def add(self, *arguments, **environment):
        self.all.append(Server(*arguments, **environment))
        return self.all[-1]

    def stop(self):
        for server in reversed(self.all):
            stop(server)

    def redis(self, *arguments, **environment):
        port = free_port()
        return self.add(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                         "--dir", self.folder, *arguments], port, **environment)

    def sluice(self, front_end, on_redis=False, deny_cache=False):
        port = free_port()
        config = self.write("sluice.yaml", f"version: 1\nredis: {{ deny_cache: {{ enabled: {str(deny_cache).lower()} }} }}\n")
        command = [self.options.sluice, "serve", "--config", config, "--threads", "1"]
        for name in ("http", "grpc", "resp", "admin"):
            command += [f"--{name}", f"127.0.0.1:{port}" if name == front_end else "off"]
        if front_end == "grpc":
            command += ["--envoy", os.path.join(self.folder, "envoy/config")]
        if not on_redis:
            return self.add(command, port)
        redis = self.redis()
        return self.add([*command, "--store", f"redis://127.0.0.1:{redis.port}"], port, redis)

    def throttlecrab(self, protocol):
        port = free_port()
        return self.add([self.peers["throttlecrab"], f"--{protocol}", f"--{protocol}-host", "127.0.0.1",
                         f"--{protocol}-port", str(port), "--log-level", "error"], port, TOKIO_WORKER_THREADS="1")

    def ratelimit(self, cache_bytes):
        redis, port = self.redis(), free_port()
        return self.add(
            [self.peers["ratelimit"]], port, redis, GOMAXPROCS="1", LOG_LEVEL="error", USE_STATSD="false",
            HOST="127.0.0.1", PORT=str(free_port()), GRPC_HOST="127.0.0.1", GRPC_PORT=str(port),
            DEBUG_HOST="127.0.0.1", DEBUG_PORT=str(free_port()), RUNTIME_ROOT=self.folder,
            RUNTIME_SUBDIRECTORY="envoy", RUNTIME_WATCH_ROOT="false", REDIS_SOCKET_TYPE="tcp",
            REDIS_URL=f"127.0.0.1:{redis.port}", REDIS_PIPELINE_WINDOW="150us",
            LOCAL_CACHE_SIZE_IN_BYTES=str(cache_bytes))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


def per_request(server, load):
    """Returns requests per second, and processor µs per request of all processes of the case."""
    before = sum(map(cpu_seconds, server.uses))
    begin = time.monotonic()
    rate, own = load()
    count = rate * (time.monotonic() - begin)
    return rate, own + (sum(map(cpu_seconds, server.uses)) - before) * 1e6 / count


def measure(title, cases, rounds):
    """Prints a row for each case; the first one is the baseline."""
    results = collections.defaultdict(list)
    for i in range(rounds):
        for case in cases if i % 2 == 0 else reversed(cases):
            results[case.name].append(case.ask())
    print(f"\n{title}\n  {'case':38} {'ratio':>6}  {'quartiles':12} {'requests/s':>11} {'us ratio':>9} {'us/request':>11}")
    base = results[cases[0].name]
    for name, rows in results.items():
        ratios, times = ([own[i] / other[i] for own, other in zip(rows, base)] for i in (0, 1))
        low, _, high = statistics.quantiles(ratios, n=4) if rounds > 1 else ratios * 3
        rate, spent = (statistics.median(column) for column in zip(*rows))
        print(f"  {name:38} {statistics.median(ratios):6.2f}  {low:5.2f}..{high:<5.2f} {rate:11.0f} "
              f"{statistics.median(times):9.2f} {spent:11.3f}", flush=True)


def expect(case, mode, denied):
    if denied != (mode == "denied"):
        sys.exit(f"peers_bench: {case} does not answer as the case {mode} says")


# Tables.


def ask_resp(port, *words):
    with socket.create_connection(("127.0.0.1", port), 10) as link:
        link.sendall(f"*{len(words)}\r\n".encode() + b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in words))
        return link.recv(256).split(b"\r\n")


def resp(servers, count, rounds):
    own = {"Sluice, memory": servers.sluice("resp")}
    if "redis-cell" in servers.peers:
        own["redis-cell in redis-server"] = servers.redis("--loadmodule", servers.peers["redis-cell"],
                                                          LD_LIBRARY_PATH=servers.peers["rust library"])
    own["Sluice's module in redis-server"] = servers.redis(
        "--loadmodule", os.path.join(os.path.dirname(servers.options.sluice), "sluice.so"))
    if "throttlecrab" in servers.peers:
        own["throttlecrab-server"] = servers.throttlecrab("redis")
    own["Sluice, Redis"] = servers.sluice("resp", on_redis=True)
    redis = servers.redis()
    for mode, words in WORDS.items():
        asked = {}
        for name, server in own.items():
            crab = name.startswith("throttlecrab")
            burst, *rest = words
            line = ["THROTTLE" if crab else "CL.THROTTLE", f"{mode}:__rand_int__", str(int(burst) + crab), *rest]
            redis_benchmark(server, line, 16, 25 * KEYS, keys=KEYS)  # makes all keys, takes the units
            reply = ask_resp(server.port, line[0], f"{mode}:{42:012}", *line[2:])
            expect(name, mode, reply[1] == (b":0" if crab else b":1"))
            asked[name] = (server, line)
        if mode == "admitted":
            asked["INCR of redis-server"] = (redis, ["INCR", "key:__rand_int__"])
        for depth, requests in ((1, count), (16, 6 * count)):
            measure(f"RESP, {mode}, 50 connections, {depth} requests per write",
                    [Case(name, lambda s=server, w=line: per_request(
                        s, lambda: redis_benchmark(s, w, depth, requests, keys=KEYS)))
                     for name, (server, line) in asked.items()], rounds)


def bodies(mode):
    """Two texts with a place for the number of the key: of Sluice and of throttlecrab-server."""
    burst, count, period = map(int, WORDS[mode])
    return (("/v1/check", json.dumps({"limit": {"key": f"{mode}:%d", "algorithm": "gcra", "limit": count,
                                                "per": f"{period}s", "burst": burst}})),
            ("/throttle", json.dumps({"key": f"{mode}:%d", "max_burst": burst + 1, "count_per_period": count,
                                      "period": period})))


def http(servers, seconds, rounds):
    own = {"Sluice, memory": (servers.sluice("http"), 0)}
    if "throttlecrab" in servers.peers:
        own["throttlecrab-server"] = (servers.throttlecrab("http"), 1)
    own["Sluice, Redis"] = (servers.sluice("http", on_redis=True), 0)
    for mode in WORDS:
        cases = []
        for name, (server, which) in own.items():
            path, body = bodies(mode)[which]
            script = servers.write(f"{mode}{which}.lua", LUA % (KEYS - 1, path, body))
            for i in range(3):  # takes the units of key 42
                denied = ask_http(server.port, path, body % 42)
            expect(name, mode, denied)
            wrk(server, path, 2 * seconds, script, any_status=True)
            cases.append(Case(name, lambda s=server, p=path, t=script: per_request(
                s, lambda: wrk(s, p, seconds, t, any_status=mode == "denied"))))
        measure(f"HTTP, {mode}, 50 connections", cases, rounds)


def ask_http(port, path, body):
    """Returns whether the request is denied."""
    with socket.create_connection(("127.0.0.1", port), 10) as link:
        link.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        reply = link.recv(4096)
    return b" 429 " in reply or b'"allowed":false' in reply


def grpc(servers, seconds, rounds):
    for mode, limit in (("admitted", 4_000_000_000), ("denied", 2)):
        servers.write(f"envoy/config/{mode}.yaml", ENVOY.format(name=mode, limit=limit))
    groups = {"": {"Sluice, Redis": servers.sluice("grpc", on_redis=True)},
              ", caches of denials": {"Sluice, Redis": servers.sluice("grpc", on_redis=True, deny_cache=True)}}
    for group, size in zip(groups.values(), (0, 1 << 20)):
        if "ratelimit" in servers.peers:
            group["envoyproxy/ratelimit, Redis"] = servers.ratelimit(size)
    groups[""]["Sluice, memory"] = servers.sluice("grpc")
    for caches, mode in (("", "admitted"), ("", "denied"), (", caches of denials", "denied")):
        path = os.path.join(servers.folder, mode + ".request")
        with open(path, "wb") as file:
            file.write(rls_request(mode.encode(), b"user", b"alice"))
        cases = []
        for name, server in groups[caches].items():
            for _ in range(3):
                denied = ask_grpc(server.grpc, path)
            expect(name, mode, denied)
            cases.append(Case(name, lambda s=server, p=path: per_request(s, lambda: h2load(s, 32, seconds, p))))
        measure(f"gRPC, {mode}{caches}, 8 connections of 32 streams, one key, fixed windows of a day", cases, rounds)


def ask_grpc(port, path):
    import grpc as client  # pylint: disable=import-outside-toplevel
    with open(path, "rb") as file:
        message = file.read()[5:]
    with client.insecure_channel(f"127.0.0.1:{port}") as channel:
        return channel.unary_unary(METHOD)(message, timeout=10, wait_for_ready=True).startswith(b"\x08\x02")


def in_process(options, peers, operations, rounds):
    program = os.path.join(options.programs, "peers_in_process")
    commands = {"Sluice, token_bucket": [program, "token_bucket"], "Sluice, gcra": [program, "gcra"]}
    if "rust" in peers:
        commands["governor"] = [peers["rust"], "governor"]
        commands["quota"] = [peers["rust"], "quota"]
        commands["throttlecrab (no lock)"] = [peers["rust"], "throttlecrab"]
    if "go" in peers:
        commands["golang.org/x/time/rate in a map"] = [peers["go"], "rate"]
    if "bucket4j" in peers:
        commands["Bucket4j in a ConcurrentHashMap"] = ["java", "-cp", peers["bucket4j"], "Bucket4j", "bucket4j"]
    for mode in WORDS:
        def ask(command, mode=mode):
            text = subprocess.run([*command, str(KEYS), mode, str(operations)], preexec_fn=pinned(SERVER_CORE),
                                  capture_output=True, text=True, check=True).stdout
            spent, denied = map(float, text.split())
            if denied != (mode == "denied"):
                sys.exit(f"peers_bench: {command[0]} denied {denied} of the case {mode}")
            return 1e9 / spent, spent / 1000
        measure(f"in one process, {mode}, one thread, with the clock, by processor time",
                [Case(name, lambda c=command: ask(c)) for name, command in commands.items()], rounds)


def main():
    parser = argparse.ArgumentParser()
    for name in ("sluice", "programs", "cache"):
        parser.add_argument(name, type=os.path.abspath)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    for tool in ("h2load", "redis-benchmark", "redis-server", "wrk"):
        if shutil.which(tool) is None:
            sys.exit(f"peers_bench: {tool} is missing")
    if (os.cpu_count() or 1) < 2:
        sys.exit("peers_bench: needs two cores")
    for folder in ("go", "java"):
        os.makedirs(os.path.join(options.cache, folder), exist_ok=True)
    peers = build(options.cache)
    seconds, rounds, count, operations = (1, 1, 20_000, 100_000) if options.smoke else (2, 5, 40_000, 2_000_000)
    print(f"\n== peers: other rate limiters, {KEYS:,} keys; the first row of each table is its baseline")
    in_process(options, peers, operations, rounds)
    for table in (lambda servers: resp(servers, count, rounds), lambda servers: http(servers, seconds, rounds),
                  lambda servers: grpc(servers, seconds, rounds)):
        with tempfile.TemporaryDirectory() as folder:
            servers = Servers(options, peers, folder)
            try:
                table(servers)
            finally:
                servers.stop()


if __name__ == "__main__":
    main()
