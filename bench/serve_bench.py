#!/usr/bin/env python3
"""Measures `sluice serve` against Debian's nginx: the server on one core, the load on another.

    serve_bench.py SLUICE PROGRAMS [--smoke]

PROGRAMS is the folder of echo_baseline. The two run in turns, and each round gives one ratio; the
median counts. bench/README.md has the legend.
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from serving import (LOAD_CORE, SERVER_CORE, compare, cpu_seconds, free_port, in_turns, pinned, promise, show, stop)

NGINX = """
user root;
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  limit_req_zone $binary_remote_addr zone=all:10m rate=1000000r/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ limit_req zone=all burst=1000000 nodelay; return 200; }}
  }}
}}
"""

# High enough to admit all requests, like those of nginx.
RULES = """
version: 1
rules:
  - name: page
    match: { path: /page }
    limits:
      - { name: address, key: "{ip}", algorithm: gcra, limit: 1000000000, per: 1s }
  - name: order
    match: { path: /api/order/** }
    limits:
      - { name: global, algorithm: token_bucket, limit: 1000000000, per: 1s }
      - { name: api, key: "{path}", algorithm: token_bucket, limit: 1000000000, per: 1s }
      - { name: user, key: "{header.x-user-id|ip}", algorithm: token_bucket, limit: 1000000000, per: 1s }
  - name: users
    match: { path: /user }
    limits:
      - { name: user, key: "{header.x-user-id}", algorithm: token_bucket, limit: 10, per: 1s, burst: 1000000 }
"""

CHECK = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"attributes":{"method":"POST","path":"/api/order/new","ip":"203.0.113.9",'
  .. '"header.x-user-id":"42"},"cost":1}'
"""

KEYS = """
local n, i = %d, 0
request = function()
  i = (i * 1103515245 + 12345) %% 2147483648
  return wrk.format("GET", "/v1/auth", {["X-Original-URI"] = "/user", ["X-Original-Method"] = "GET",
    ["Host"] = "localhost", ["X-User-Id"] = tostring(i %% n)})
end
"""


OVERRIDE = "limit=20 per=1s burst=1000000\tdefault|users|user|header.x-user-id=%d\n"


class Nginx:
    def __init__(self, folder):
        self.port = free_port()
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w") as file:
            file.write(NGINX.format(folder=folder, port=self.port))
        self.process = subprocess.Popen(["nginx", "-c", path], preexec_fn=pinned(SERVER_CORE))
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=1).read()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("serve_bench: nginx did not start")


class Sluice:
    def __init__(self, binary, folder, rules=True):
        command = [binary, "serve", "--http", "127.0.0.1:0", "--admin", "off", "--grpc", "off", "--resp", "off",
                   "--threads", "1"]
        if rules:
            path = os.path.join(folder, "rules.yaml")
            with open(path, "w") as file:
                file.write(RULES)
            command += ["--rules", path]
        begin = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, preexec_fn=pinned(SERVER_CORE))
        line = self.process.stdout.readline()
        self.start_ms = (time.monotonic() - begin) * 1000
        if not line.startswith("ready "):
            sys.exit("serve_bench: sluice did not start")
        self.port = int(line.split("http=")[1].split()[0].rsplit(":", 1)[1])

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


class FixedReply:
    """The floor: a read and a write for each request, with the reply that a server gives to this one."""

    def __init__(self, programs, server, target, headers):
        lines = "".join(f"{line}\r\n" for line in (f"GET {target} HTTP/1.1", "Host: localhost", *headers))
        with socket.create_connection(("127.0.0.1", server.port), 5) as client:
            client.sendall(f"{lines}\r\n".encode())
            reply = b""
            while not reply.endswith(b"\r\n\r\n"):
                reply += client.recv(4096)
        self.process = subprocess.Popen([os.path.join(programs, "echo_baseline"), reply], text=True,
                                        stdout=subprocess.PIPE, preexec_fn=pinned(SERVER_CORE))
        self.port = int(self.process.stdout.readline().split()[1])


def with_overrides(binary, folder, count):
    """Returns a server with an override for each user."""
    folder = os.path.join(folder, "overrides")
    os.mkdir(folder)
    with open(os.path.join(folder, "overrides.txt"), "w") as file:
        file.write("sluice overrides 1\n")
        file.writelines(OVERRIDE % i for i in range(count))
        file.write(f"end {count}\n")
    return Sluice(binary, folder)


def wrk(server, path, seconds, script=None, headers=(), any_status=False):
    """Returns requests per second and processor µs of the server per request. Exits at any status but 2xx,
    unless any_status."""
    url = f"http://127.0.0.1:{server.port}{path}"
    before = cpu_seconds(server)
    command = ["wrk", "-t1", "-c50", f"-d{seconds}"]
    for header in headers:
        command += ["-H", header]
    if script:
        command += ["-s", script]
    text = subprocess.run(command + [url], preexec_fn=pinned(LOAD_CORE), capture_output=True,
                          text=True, check=True).stdout
    if "Non-2xx" in text and not any_status or "Socket errors" in text:
        sys.exit(f"serve_bench: {url}: {text}")
    requests = int(text.split(" requests in ")[0].split()[-1])
    return (float(text.split("Requests/sec:")[1].split()[0]),
            (cpu_seconds(server) - before) * 1e6 / requests)


def p99_ms(server, path, rate, seconds, folder, headers=()):
    """Returns the 99th percentile at a constant rate over 50 connections."""
    url = f"http://127.0.0.1:{server.port}{path}"
    log = os.path.join(folder, "h2load.log")
    if os.path.exists(log):
        os.unlink(log)
    clients = 50
    command = ["h2load", "--h1", "-t1", f"-c{clients}", f"-D{seconds}", f"--rps={rate / clients}",
               f"--log-file={log}"]
    for header in headers:
        command += ["-H", header]
    subprocess.run(command + [url], preexec_fn=pinned(LOAD_CORE), capture_output=True, check=True)
    with open(log) as file:
        times = sorted(int(line.split()[2]) for line in file)
    return times[len(times) * 99 // 100] / 1000 if times else float("nan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("programs")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    for tool in ("nginx", "wrk", "h2load"):
        if shutil.which(tool) is None:
            sys.exit(f"serve_bench: {tool} is missing")
    if (os.cpu_count() or 1) < 2:
        sys.exit("serve_bench: needs two cores")
    seconds, rounds = (1, 1) if options.smoke else (4, 7)
    with tempfile.TemporaryDirectory() as folder:
        servers = []
        try:
            measure(options, folder, servers, seconds, rounds)
        finally:
            for server in servers:
                stop(server)


def measure(options, folder, servers, seconds, rounds):
    idle = []
    for _ in range(1 if options.smoke else 5):
        server = Sluice(options.sluice, folder, rules=False)
        time.sleep(0.2)
        idle.append((server.start_ms, server.resident_mb()))
        stop(server)
    start_ms = statistics.median(start for start, _ in idle)
    resident = statistics.median(mb for _, mb in idle)
    print(f"serve, idle: {resident:.1f} MB resident, ready after {start_ms:.0f} ms\n")
    nginx = Nginx(folder)
    servers.append(nginx)
    sluice = Sluice(options.sluice, folder)
    servers.append(sluice)
    headers = ("X-Original-URI: /page", "X-Original-Method: GET")
    scripts = {}
    for name, text in (("check", CHECK), ("few", KEYS % 1000), ("many", KEYS % 1000000)):
        scripts[name] = os.path.join(folder, name + ".lua")
        with open(scripts[name], "w") as file:
            file.write(text)

    print(f"{'case':34} {'ratio':>6}  {'quartiles':12} {'sluice':>12} {'base':>12}")
    auth, _, base_rate = compare(
        "auth / nginx limit_req", lambda: wrk(sluice, "/v1/auth", seconds, headers=headers),
        lambda: wrk(nginx, "/", seconds, headers=headers), rounds)
    floor = FixedReply(options.programs, sluice, "/v1/auth", headers)
    servers.append(floor)
    reply = lambda: wrk(floor, "/", seconds, headers=headers)
    over_reply = compare("auth / its reply alone", lambda: wrk(sluice, "/v1/auth", seconds, headers=headers),
                         reply, rounds)
    compare("nginx limit_req / that reply", lambda: wrk(nginx, "/", seconds, headers=headers), reply, rounds)
    check, *_ = compare(
        "check, three limits / nginx", lambda: wrk(sluice, "/v1/check", seconds, scripts["check"]),
        lambda: wrk(nginx, "/", seconds), rounds)
    wrk(sluice, "/v1/auth", seconds * 2, scripts["many"])  # so that the keys are there
    keys, *_ = compare(
        "auth, 1 M keys / 1,000 keys", lambda: wrk(sluice, "/v1/auth", seconds, scripts["many"]),
        lambda: wrk(sluice, "/v1/auth", seconds, scripts["few"]), rounds)
    other = with_overrides(options.sluice, folder, 1000000)
    servers.append(other)
    wrk(other, "/v1/auth", seconds * 2, scripts["many"])
    overrides, *_ = compare(
        "auth, 1 M overrides / none", lambda: wrk(other, "/v1/auth", seconds, scripts["many"]),
        lambda: wrk(sluice, "/v1/auth", seconds, scripts["many"]), rounds)
    rate = min(auth, 1) * base_rate / 2
    owns, bases = in_turns(lambda: p99_ms(sluice, "/v1/auth", rate, seconds, folder, headers),
                           lambda: p99_ms(nginx, "/", rate, seconds, folder, headers), rounds)
    p99 = show(f"p99 at {rate:.0f}/s / nginx", [a / b for a, b in zip(owns, bases)], bases, owns, "ms")
    print()
    promise("serve-auth-over-nginx", f"{auth:.2f}", ">=0.9", auth >= 0.9)
    promise("serve-auth-server-us-over-the-reply", f"{over_reply.time:.2f}", "<=1.5", over_reply.time <= 1.5)
    promise("serve-check-three-limits-over-nginx", f"{check:.2f}", ">=0.6", check >= 0.6)
    promise("serve-p99-over-nginx", f"{p99:.2f}", "<=2", p99 <= 2)
    promise("serve-1M-keys-over-1k", f"{keys:.2f}", ">=0.9", keys >= 0.9)
    promise("serve-1M-overrides-over-none", f"{overrides:.2f}", ">=0.95", overrides >= 0.95)
    promise("serve-resident-mb", f"{resident:.1f}", "<=20", resident <= 20)
    promise("serve-start-ms", f"{start_ms:.0f}", "<=100", start_ms <= 100)


if __name__ == "__main__":
    main()
