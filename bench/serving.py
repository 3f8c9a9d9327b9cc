"""Shared by the server benchmarks: cores, processor time, alternating pairs of cases, promises."""

import os
import signal
import socket
import statistics
import subprocess
import typing

SERVER_CORE, LOAD_CORE = 0, 1


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pinned(core):
    return lambda: os.sched_setaffinity(0, {core})


def cpu_seconds(server):
    """Returns the processor time of the server and its children so far."""
    pid = server.process.pid
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        pids = [pid, *map(int, file.read().split())]
    ticks = 0
    for one in pids:
        with open(f"/proc/{one}/stat") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def stop(server):
    server.process.send_signal(signal.SIGTERM)
    try:
        server.process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()


def show(name, ratios, base, own, unit):
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
    print(f"{name:34} {statistics.median(ratios):6.2f}  {quartiles[0]:5.2f}..{quartiles[2]:<5.2f} "
          f"{statistics.median(own):12.1f} {statistics.median(base):12.1f} {unit}", flush=True)
    return statistics.median(ratios)


def promise(name, measured, target, met):
    print(f"promise {name} {measured} {target} {'met' if met else 'short'}", flush=True)


def in_turns(own, base, rounds):
    owns, bases = [], []
    for i in range(rounds):
        for case in (("own", "base"), ("base", "own"))[i % 2]:
            (owns if case == "own" else bases).append(own() if case == "own" else base())
    return owns, bases


class Compared(typing.NamedTuple):
    """Medians of two servers in turns."""
    rate: float       # the ratio of their requests per second
    time: float       # the ratio of their processor time per request
    base_rate: float  # the requests per second of the baseline


def compare(name, own, base, rounds):
    """Compares own() with base(), which return requests per second and processor time per request."""
    owns, bases = in_turns(own, base, rounds)
    shown = []
    for column, unit in ((0, "requests/s"), (1, "processor us/request")):
        a, b = [row[column] for row in owns], [row[column] for row in bases]
        ratios = [x / y if y else float("nan") for x, y in zip(a, b)]  # 0: less than a tick
        shown.append(show(name if column == 0 else "", ratios, b, a, unit))
    return Compared(*shown, statistics.median([row[0] for row in bases]))
