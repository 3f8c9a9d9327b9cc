"""One history of requests through every door, on both stores: the same decisions at every instant.

The clocks of the server and of Redis stand still at the instants of the history.
"""

import collections
import contextlib
import http.client
import json
import math
import os
import pathlib
import random
import subprocess
import unittest

import envoy_harness
import harness
import redis_harness
from resp_harness import Resp, RespError

# What a limit is called in each of its places. The first alone can be told by CL.THROTTLE.
LIMITS = {
    "gcra": {"algorithm": "gcra", "limit": 30, "per": "60s", "burst": 15},
    "window": {"algorithm": "fixed_window", "limit": 9, "per": "60s", "align": "clock"},
    "token": {"algorithm": "token_bucket", "limit": 6, "per": "60s", "burst": 11},
    "counter": {"algorithm": "sliding_window_counter", "limit": 12, "per": "60s", "slices": 6},
    "log": {"algorithm": "sliding_window_log", "limit": 7, "per": "60s"},
}
MINUTE = 60_000_000
START = 1_700_000_000_000_000 // MINUTE * MINUTE + 7_000_123
STEPS = 400
KEYS = 4
# What remembers denials goes by the monotonic clock, which does not stand.
WITHOUT_CACHE = {"deny_cache": {"enabled": False}}

# At `at` microseconds `cost` units are taken, or given back. What costs nothing only looks.
Ask = collections.namedtuple("Ask", "at key cost gives_back", defaults=(False,))
# Waits are in microseconds as far as a door tells them. `retry` is None where it is allowed, or
# never would be.
Said = collections.namedtuple("Said", "allowed remaining reset retry")


def history(seed, steps=STEPS):
    """Asks in the order of their instants, some of them exactly at a full minute or next to it."""
    choose = random.Random(seed)
    asks, now = [], START
    for _ in range(steps):
        minute = (now // MINUTE + 1) * MINUTE
        now = max(now, choose.choice([
            now, now, now + 1, now + choose.randrange(1000), now + choose.randrange(1_000_000),
            now + choose.randrange(5_000_000), now + choose.choice([2_000_000, 10_000_000]),
            *([minute - 1, minute] if choose.random() < 0.2 else []),
            *([now + choose.randrange(150_000_000)] if choose.random() < 0.1 else []),
        ]))  # fmt: skip
        cost = choose.choice([0, 1, 1, 1, 1, 2, 3, 5, 50])
        gives_back = cost < 50 and choose.random() < 0.12
        asks.append(Ask(now, f"key {choose.randrange(KEYS)}", cost, gives_back))
    return asks


class Clock:
    """The clock of whoever has `environment`: stands still once it is set."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        library, file = folder / "clock_shift.so", folder / "clock"
        source = pathlib.Path(__file__).with_name("clock_shift.cc")
        compiler = os.environ.get("CXX", "c++")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
        file.write_bytes(bytes(16))
        self.file = open(file, "r+b", buffering=0)
        self.environment = {
            **os.environ, "LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(file)
        }  # fmt: skip

    def set(self, microseconds):
        os.pwrite(self.file.fileno(), microseconds.to_bytes(8, "little"), 8)


# A door: its name, the microseconds of the unit in which it tells waits, and what asks it.


class Check:
    name, unit = "http", 1000

    def __init__(self, server, limit):
        self.connection = http.client.HTTPConnection(server.http, timeout=10)
        self.limit, self.close = limit, self.connection.close

    def ask(self, asked):
        body = {
            "attributes": {"limit": self.limit, "door": self.name, "key": asked.key},
            "cost": asked.cost,
            "verb": "refund" if asked.gives_back else "check",
        }
        self.connection.request("POST", "/v1/check", json.dumps(body))
        answer = json.loads(self.connection.getresponse().read())
        (limit,) = answer["limits"]
        return Said(answer["outcome"] == "allowed", limit["remaining"], limit["reset_after_ms"],
                    answer.get("retry_after_ms"))


class Json:
    """By Envoy's configuration. Its answers do not say when to come again."""

    name, unit = "json", 1_000_000

    def __init__(self, server, limit):
        self.connection = http.client.HTTPConnection(server.http, timeout=10)
        self.limit, self.close = limit, self.connection.close

    def ask(self, asked):
        body = {
            "domain": self.name,
            "descriptors": [{
                "entries": [{"key": self.limit, "value": asked.key}],
                "hitsAddend": asked.cost,
                "isNegativeHits": asked.gives_back,
            }],
        }  # fmt: skip
        self.connection.request("POST", "/json", json.dumps(body))
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        (status,) = answer["statuses"]
        assert (response.status == 200) == (answer["overallCode"] == "OK")
        return Said(answer["overallCode"] == "OK", status.get("limitRemaining", 0),
                    int(status["durationUntilReset"].removesuffix("s")), None)


class Grpc:
    """By Envoy's configuration."""

    name, unit = "grpc", 1_000_000

    def __init__(self, server, limit):
        self.channel = envoy_harness.channel_to(server)
        self.call = envoy_harness.caller(rls, self.channel)
        self.limit, self.close = limit, self.channel.close

    def entries(self, asked):
        return {self.limit: asked.key}

    def ask(self, asked):
        request = rls.RateLimitRequest(domain=self.name)
        descriptor = request.descriptors.add(is_negative_hits=asked.gives_back)
        descriptor.hits_addend.value = asked.cost
        for key, value in self.entries(asked).items():
            descriptor.entries.add(key=key, value=value)
        answer = self.call(request, timeout=10)
        (status,) = answer.statuses
        return Said(answer.overall_code == rls.RateLimitResponse.OK, status.limit_remaining,
                    status.duration_until_reset.seconds, None)


class GrpcByRules(Grpc):
    name = "native"

    def entries(self, asked):
        return {"limit": self.limit, "door": self.name, "key": asked.key}


class Throttle:
    name, unit = "cl.throttle", 1_000_000

    def __init__(self, server, limit):
        self.resp = Resp(server.resp)
        self.limit, self.close = LIMITS[limit], self.resp.close

    def ask(self, asked):
        limited, _, remaining, retry, reset = self.resp.ask(
            "CL.THROTTLE", f"{self.name} {asked.key}", self.limit["burst"], self.limit["limit"],
            self.limit["per"].removesuffix("s"), -asked.cost if asked.gives_back else asked.cost,
        )  # fmt: skip
        return Said(limited == 0, remaining, reset, None if retry == -1 else retry)


class Command:
    """RL.* by RESP3."""

    unit = 1000

    def __init__(self, server, limit):
        self.resp = Resp(server.resp)
        self.resp.ask("HELLO", 3)
        self.limit, self.close = limit, self.resp.close

    def ask(self, asked):
        kind, *words = self.address(asked.key)
        verb = ("RL.REFUND", kind) if asked.gives_back else (f"RL.{kind}",)
        answer = self.resp.ask(*verb, *words, "COST", asked.cost)
        assert not isinstance(answer, RespError), answer
        return Said(answer[b"outcome"] == b"allowed", answer[b"remaining"],
                    answer[b"reset_after_ms"], answer[b"retry_after_ms"])


class RlCheck(Command):
    name = "rl.check"

    def address(self, key):
        return "CHECK", "*", "limit", self.limit, "door", self.name, "key", key


class RlLimit(Command):
    name = "rl.limit"

    def address(self, key):
        limit = LIMITS[self.limit]
        words = [limit["algorithm"], limit["limit"], limit["per"]]
        for option in ("burst", "slices", "align"):
            if option in limit:
                words += [option, limit[option]]
        return "LIMIT", f"{self.name} {self.limit} {key}", *words


DOORS = (Check, Json, Grpc, GrpcByRules, Throttle, RlCheck, RlLimit)


def decide(limit, asks, *flags):
    """What the library says, by `sluice decide` at the asks' instants."""
    lines = [json.dumps({
        "at_us": asked.at,
        "verb": "refund" if asked.gives_back else "take",
        "charges": [{"key": f"{limit} {asked.key}", "cost": asked.cost, "limit": LIMITS[limit]}],
    }) for asked in asks]  # fmt: skip
    ran = subprocess.run([harness.binary(), "decide", *flags], input="\n".join(lines) + "\n",
                         capture_output=True, text=True, check=True)
    for line in ran.stdout.splitlines():
        answer = json.loads(line)
        (one,) = answer["limits"]
        yield Said(answer["outcome"] == "allowed", one["remaining"], one["reset_after_us"],
                   answer.get("retry_after_us"))


def native_rules():
    rules = [{
        "name": name, "match": {"limit": name},
        "limits": [{"name": name, "key": "{door} {key}", **limit}],
    } for name, limit in LIMITS.items()]  # fmt: skip
    return json.dumps({"version": 1, "domain": "native", "rules": rules})


def envoy_file(domain):
    descriptors = []
    for name, limit in LIMITS.items():
        numbers = {"requests_per_unit": limit["limit"], "period": limit["per"]}
        own = {key: limit[key] for key in ("algorithm", "burst", "slices") if key in limit}
        descriptors.append({"key": name, "rate_limit": {**numbers, **own}})
    return json.dumps({"domain": domain, "descriptors": descriptors})


def as_told_by(door, limit, asked, said):
    """What that door is to say where the library says `said`."""
    retry, reset = said.retry, said.reset
    if isinstance(door, (Json, Grpc)):
        retry = None
        if reset == 0 and LIMITS[limit].get("align") == "clock":
            reset = MINUTE - asked.at % MINUTE  # a window ends whether or not it was begun
    up = lambda wait: None if wait is None else math.ceil(wait / door.unit)
    return Said(said.allowed, said.remaining, up(reset), up(retry))


def setUpModule():
    global rls
    rls = envoy_harness.messages()


class Doors(redis_harness.RedisTest):
    @classmethod
    def setUpClass(cls):
        cls.clock = Clock(cls.folder())
        cls.addClassCleanup(cls.clock.file.close)
        cls.clock.set(START)

    def serve_all(self, **more):
        """A server with every door, and no counters."""
        folder = self.folder()
        for domain in ("grpc", "json"):
            (folder / f"{domain}.yaml").write_text(envoy_file(domain))
        config = {
            "listen": {"grpc": "127.0.0.1:0", "resp": "127.0.0.1:0"},
            "envoy": {"files": str(folder)},
            **more,
        }
        server = self.serve(native_rules(), config, env=self.clock.environment)
        doors = dict(word.split("=", 1) for word in server.ready_line.split()[1:])
        server.resp, server.grpc = doors["resp"], doors["grpc"]
        return server

    def serve_redis(self):
        redis = redis_harness.Redis(self.folder())
        redis.environment = self.clock.environment
        self.clock.set(START)
        self.started(redis)
        return redis, self.serve_all(store=redis.url, redis={"deadline": "5s", **WITHOUT_CACHE})

    def walk(self, door, limit, asks, expected):
        with contextlib.closing(door):
            for step, (asked, said) in enumerate(zip(asks, expected, strict=True)):
                self.clock.set(asked.at)
                told = as_told_by(door, limit, asked, said)
                self.assertEqual(door.ask(asked), told, f"{door.name}, {limit}, {step}: {asked}")

    def walk_all(self, server, seed):
        for limit in LIMITS:
            asks = history(f"{limit} {seed}")
            expected = list(decide(limit, asks))
            denied = sum(not said.allowed for said in expected)
            self.assertTrue(STEPS / 10 < denied < STEPS / 2, f"{limit}: {denied} denied")
            for door in DOORS:
                if door is Throttle and limit != "gcra":
                    continue
                with self.subTest(limit=limit, door=door.name):
                    self.walk(door(server, limit), limit, asks, expected)

    def test_the_memory_store(self):
        self.walk_all(self.serve_all(), seed=1)

    def test_a_redis_store(self):
        redis, server = self.serve_redis()
        self.walk_all(server, seed=2)
        for limit in LIMITS:
            with self.subTest(limit=limit, door="decide --store"):
                asks = history(f"{limit} 2")
                self.assertEqual(list(decide(limit, asks, "--store", redis.url)),
                                 list(decide(limit, asks)))

    def test_the_clock_stands(self):
        """Else the others prove less than they say."""
        server = self.serve_all()
        door = Check(server, "gcra")
        with contextlib.closing(door):
            self.clock.set(START)
            self.assertEqual(door.ask(Ask(START, "clock", 4)), Said(True, 12, 8000, None))
            self.clock.set(START + 8_000_000 - 1)
            self.assertEqual(door.ask(Ask(START, "clock", 0)), Said(True, 15, 1, None))
            self.clock.set(START + 8_000_000)
            self.assertEqual(door.ask(Ask(START, "clock", 0)), Said(True, 16, 0, None))


if __name__ == "__main__":
    unittest.main()
