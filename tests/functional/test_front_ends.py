"""Sends one history of requests through every front end, with each store, and compares decisions.

The tests stop the clocks of the server and of Redis at the times of the history.
"""

import collections
import contextlib
import http.client
import json
import math
import os
import random
import subprocess
import unittest

import envoy_harness
import harness
import redis_harness
from resp_harness import Resp, RespError

# The limits by name. CL.THROTTLE supports only those with the algorithm gcra.
LIMITS = {
    "gcra": {"algorithm": "gcra", "limit": 30, "per": "60s", "burst": 15},
    "window": {"algorithm": "fixed_window", "limit": 9, "per": "60s", "align": "clock"},
    "token": {"algorithm": "token_bucket", "limit": 6, "per": "60s", "burst": 11},
    "counter": {"algorithm": "sliding_window_counter", "limit": 12, "per": "60s", "slices": 6},
    "log": {"algorithm": "sliding_window_log", "limit": 7, "per": "60s"},
    "hybrid": {"algorithm": "sliding_window_hybrid", "limit": 8, "per": "60s", "slices": 6},
    "leaky": {"algorithm": "leaky_bucket", "limit": 20, "per": "60s", "burst": 8},
    "table": {"algorithm": "gcra", "limit": 1, "per": "1s", "burst": 4},
    "slow": {"algorithm": "gcra", "limit": 1, "per": "31536000s", "burst": 8},
}
# The limits that regain many units within a history.
FAST = ("gcra", "window", "token", "counter", "log", "hybrid", "leaky")
# Known answers of "table": time in seconds, cost, allowed, remaining units, reset, retry.
TABLE = [
    (0, 6, False, 5, 0, None),
    (0, 1, True, 4, 1, None),
    (0, 1, True, 3, 2, None),
    (0, 1, True, 2, 3, None),
    (0, 1, True, 1, 4, None),
    (0, 1, True, 0, 5, None),
    (0, 1, False, 0, 5, 1),
    (3.0, 1, True, 2, 3.0, None),
    (3.1, 1, True, 1, 3.9, None),
    (4.0, 1, True, 1, 4.0, None),
    (8.0, 1, True, 4, 1.0, None),
    (9.5, 1, True, 4, 1.0, None),
    (9.5, 0, True, 4, 1.0, None),
    (9.5, 2, True, 2, 3.0, None),
    (9.5, 5, False, 2, 3.0, 3.0),
]
# The two limits of one request, all or nothing: the first for its user, the second for its path.
BOTH = ("window", "token")
# The limits of the rule "costs": name, limit, and cost.
COSTS = (("calls", "gcra", 1), ("units", "window", "request"), ("size", "token", "{size|3}"))
MINUTE = 60_000_000
START = 1_700_000_000_000_000 // MINUTE * MINUTE + 7_000_123
STEPS = 300 if os.environ.get("SLUICE_LONG_TESTS") else 100
KEYS = 4
# The cache of denials uses the monotonic clock, which the tests cannot stop.
WITHOUT_CACHE = {"deny_cache": {"enabled": False}}

# Takes or gives back `cost` units at `at` microseconds. A cost of 0 only reads the state.
Ask = collections.namedtuple("Ask", "at key cost gives_back", defaults=(False,))
# What a request of the rule "costs" adds: the attribute `size`, and the costs of limits by names.
Sizes = collections.namedtuple("Sizes", "size named")
# Times are in the front end's unit. `retry` is None if the request is allowed or can never be.
Said = collections.namedtuple("Said", "allowed remaining reset retry")


def history(seed, steps=STEPS):
    """Returns requests in order of time, some of them exactly at a full minute or next to it."""
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


def sizes(seed):
    """Returns what each request of the rule "costs" adds, and the costs of its three limits."""
    choose = random.Random(seed)
    for _ in range(STEPS):
        size = choose.choice([None, 0, 1, 1, 2, 5, 12])
        names = choose.sample(["calls", "units", "size"], choose.choice([0, 0, 0, 1, 2]))
        yield Sizes(size, {name: choose.randrange(4) for name in names})


# One class for each front end: its name, its unit of time in microseconds, and its client.


class Check:
    name, unit = "http", 1000

    def __init__(self, server, limit):
        self.connection = http.client.HTTPConnection(server.http, timeout=harness.PATIENCE)
        self.limit, self.close = limit, self.connection.close

    def ask_costs(self, asked, sizes):
        size = {} if sizes.size is None else {"size": str(sizes.size)}
        answer = self.post(asked, sizes.named, costs="yes", user=asked.key, **size)
        return answer["outcome"] == "allowed", [one["remaining"] for one in answer["limits"]]

    def post(self, asked, named=None, **attributes):
        body = {
            "attributes": {"front_end": self.name, **attributes},
            "cost": asked.cost,
            **({"costs": named} if named else {}),
            "verb": "refund" if asked.gives_back else "check",
        }
        self.connection.request("POST", "/v1/check", json.dumps(body))
        return json.loads(self.connection.getresponse().read())

    def ask_both(self, asked, path):
        answer = self.post(asked, both="yes", user=asked.key, path=path)
        return answer["outcome"] == "allowed", [one["remaining"] for one in answer["limits"]]

    def ask(self, asked):
        answer = self.post(asked, limit=self.limit, key=asked.key)
        (limit,) = answer["limits"]
        return Said(answer["outcome"] == "allowed", limit["remaining"], limit["reset_after_ms"],
                    answer.get("retry_after_ms"))


class Json:
    """Uses Envoy's configuration. Its answers do not contain a retry time."""

    name, unit = "json", 1_000_000

    def __init__(self, server, limit):
        self.connection = http.client.HTTPConnection(server.http, timeout=harness.PATIENCE)
        self.limit, self.close = limit, self.connection.close

    def post(self, asked, **descriptors):
        body = {
            "domain": self.name,
            "descriptors": [{
                "entries": [{"key": key, "value": value}],
                "hitsAddend": asked.cost,
                "isNegativeHits": asked.gives_back,
            } for key, value in descriptors.items()],
        }  # fmt: skip
        self.connection.request("POST", "/json", json.dumps(body))
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        assert (response.status == 200) == (answer["overallCode"] == "OK")
        return answer

    def ask_both(self, asked, path):
        answer = self.post(asked, **dict(zip(BOTH, (asked.key, path))))
        left = [status.get("limitRemaining", 0) for status in answer["statuses"]]
        return answer["overallCode"] == "OK", left

    def ask(self, asked):
        answer = self.post(asked, **{self.limit: asked.key})
        (status,) = answer["statuses"]
        return Said(answer["overallCode"] == "OK", status.get("limitRemaining", 0),
                    int(status["durationUntilReset"].removesuffix("s")), None)


class Grpc:
    """Uses Envoy's configuration."""

    name, unit = "grpc", 1_000_000

    def __init__(self, server, limit):
        self.channel = envoy_harness.channel_to(server)
        self.call = envoy_harness.caller(rls, self.channel)
        self.limit, self.close = limit, self.channel.close

    def entries(self, limit, key):
        return {limit: key}

    def send(self, asked, **limits):
        request = rls.RateLimitRequest(domain=self.name)
        for limit, value in limits.items():
            descriptor = request.descriptors.add(is_negative_hits=asked.gives_back)
            descriptor.hits_addend.value = asked.cost
            for key, value in self.entries(limit, value).items():
                descriptor.entries.add(key=key, value=value)
        return self.call(request, timeout=harness.PATIENCE)

    def ask_both(self, asked, path):
        answer = self.send(asked, **dict(zip(BOTH, (asked.key, path))))
        left = [status.limit_remaining for status in answer.statuses]
        return answer.overall_code == rls.RateLimitResponse.OK, left

    def ask(self, asked):
        answer = self.send(asked, **{self.limit: asked.key})
        (status,) = answer.statuses
        return Said(answer.overall_code == rls.RateLimitResponse.OK, status.limit_remaining,
                    status.duration_until_reset.seconds, None)


class GrpcByRules(Grpc):
    name = "native"

    def entries(self, limit, key):
        return {"limit": limit, "front_end": self.name, "key": key}


class Throttle:
    name, unit = "cl.throttle", 1_000_000

    def __init__(self, server, limit):
        self.resp = Resp(server.resp)
        self.named, self.limit, self.close = limit, LIMITS[limit], self.resp.close

    def ask(self, asked):
        limited, _, remaining, retry, reset = self.resp.ask(
            "CL.THROTTLE", f"{self.name} {self.named} {asked.key}", self.limit["burst"],
            self.limit["limit"], self.limit["per"].removesuffix("s"),
            -asked.cost if asked.gives_back else asked.cost,
        )  # fmt: skip
        return Said(limited == 0, remaining, reset, None if retry == -1 else retry)


class Command:
    """The RL.* commands by RESP3."""

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
        return "CHECK", "*", "limit", self.limit, "front_end", self.name, "key", key

    def ask_both(self, asked, path):
        verb = ("RL.REFUND", "CHECK") if asked.gives_back else ("RL.CHECK",)
        answer = self.resp.ask(*verb, "*", "both", "yes", "front_end", self.name, "user", asked.key,
                               "path", path, "COST", asked.cost)  # fmt: skip
        return answer[b"outcome"] == b"allowed", [one[b"remaining"] for one in answer[b"limits"]]


    def ask_costs(self, asked, sizes):
        verb = ("RL.REFUND", "CHECK") if asked.gives_back else ("RL.CHECK",)
        size = () if sizes.size is None else ("size", sizes.size)
        named = [word for name, cost in sizes.named.items() for word in ("cost", f"{name}={cost}")]
        answer = self.resp.ask(*verb, "costs", "front_end", self.name, "user", asked.key, *size,
                               "COST", asked.cost, *named)  # fmt: skip
        return answer[b"outcome"] == b"allowed", [one[b"remaining"] for one in answer[b"limits"]]


class RlLimit(Command):
    name = "rl.limit"

    def address(self, key):
        limit = LIMITS[self.limit]
        words = [limit["algorithm"], limit["limit"], limit["per"]]
        for option in ("burst", "slices", "align"):
            if option in limit:
                words += [option, limit[option]]
        return "LIMIT", f"{self.name} {self.limit} {key}", *words


FRONT_ENDS = (Check, Json, Grpc, GrpcByRules, Throttle, RlCheck, RlLimit)


def decided(asks, limits, *flags):
    """Returns the library's answers, from `sluice decide`, at the times of the requests. `limits`
    has the names and keys of each request's limits, and their costs if they differ."""
    lines = [json.dumps({
        "at_us": asked.at,
        "verb": "refund" if asked.gives_back else "take",
        "charges": [{"key": f"{limit} {key}", "cost": cost[0] if cost else asked.cost,
                     "limit": LIMITS[limit]} for limit, key, *cost in some],
    }) for asked, some in zip(asks, limits, strict=True)]  # fmt: skip
    ran = subprocess.run([harness.binary(), "decide", *flags], input="\n".join(lines) + "\n",
                         capture_output=True, text=True, check=True)  # fmt: skip
    return [json.loads(line) for line in ran.stdout.splitlines()]


def decide(limit, asks, *flags):
    for answer in decided(asks, [[(limit, asked.key)] for asked in asks], *flags):
        (one,) = answer["limits"]
        yield Said(answer["outcome"] == "allowed", one["remaining"], one["reset_after_us"],
                   answer.get("retry_after_us"))


def native_rules():
    rules = [{
        "name": name, "match": {"limit": name},
        "limits": [{"name": name, "key": "{front_end} {key}", **limit}],
    } for name, limit in LIMITS.items()]  # fmt: skip
    keys = ("{front_end} {user}", "{front_end} {path}")
    both = [{"name": name, "key": key, **LIMITS[name]} for name, key in zip(BOTH, keys)]
    rules.append({"name": "both", "match": {"both": "yes"}, "limits": both})
    costs = [{"name": name, "key": "{front_end} {user}", "cost": cost, **LIMITS[limit]}
             for name, limit, cost in COSTS]  # fmt: skip
    rules.append({"name": "costs", "match": {"costs": "yes"}, "limits": costs})
    return json.dumps({"version": 1, "domain": "native", "rules": rules})


def envoy_file(domain):
    descriptors = []
    for name, limit in LIMITS.items():
        numbers = {"requests_per_unit": limit["limit"], "period": limit["per"]}
        own = {key: limit[key] for key in ("algorithm", "burst", "slices") if key in limit}
        descriptors.append({"key": name, "rate_limit": {**numbers, **own}})
    return json.dumps({"domain": domain, "descriptors": descriptors})


def expected_from(front_end, limit, asked, said):
    """Returns the answer expected from the front end if the library answers `said`."""
    retry, reset = said.retry, said.reset
    if isinstance(front_end, (Json, Grpc)):
        retry = None
        if reset == 0 and LIMITS[limit].get("align") == "clock":
            reset = MINUTE - asked.at % MINUTE  # an aligned window ends even if it is unused
    up = lambda wait: None if wait is None else math.ceil(wait / front_end.unit)
    return Said(said.allowed, said.remaining, up(reset), up(retry))


def setUpModule():
    global rls
    rls = envoy_harness.messages()


class Servers(redis_harness.RedisTest):
    """Starts servers with all front ends and a clock that set() stops."""

    @classmethod
    def setUpClass(cls):
        cls.clock = cls.stopped_clock()

    def serve_all(self, **more):
        """Starts a server with all front ends and no counters."""
        folder = self.folder()
        for domain in ("grpc", "json"):
            (folder / f"{domain}.yaml").write_text(envoy_file(domain))
        config = {
            "listen": {"grpc": "127.0.0.1:0", "resp": "127.0.0.1:0"},
            "envoy": {"files": str(folder)},
            **more,
        }
        server = self.serve(native_rules(), config, clock=self.clock)
        server.resp, server.grpc = server.front_ends["resp"], server.front_ends["grpc"]
        return server

    def serve_redis(self, **more):
        self.clock.set(START)
        redis = self.redis(clock=self.clock)
        return self.serve_all(store=redis.url, redis={"deadline": "20s", **more})


class FrontEnds(Servers):
    def walk(self, front_end, limit, asks, expected):
        with contextlib.closing(front_end):
            for step, (asked, said) in enumerate(zip(asks, expected, strict=True)):
                self.clock.set(asked.at)
                correct = expected_from(front_end, limit, asked, said)
                self.assertEqual(front_end.ask(asked), correct,
                                 f"{front_end.name}, {limit}, {step}: {asked}")

    def walk_all(self, server, seed):
        for limit in FAST:
            asks = history(f"{limit} {seed}")
            expected = list(decide(limit, asks))
            denied = sum(not said.allowed for said in expected)
            self.assertTrue(STEPS / 10 < denied < STEPS / 2, f"{limit}: {denied} denied")
            self.walk_by_each(server, limit, asks, expected)

    def walk_by_each(self, server, limit, asks, expected):
        for front_end in FRONT_ENDS:
            if front_end is Throttle and LIMITS[limit]["algorithm"] != "gcra":
                continue
            with self.subTest(limit=limit, front_end=front_end.name):
                self.walk(front_end(server, limit), limit, asks, expected)

    def walk_both(self, server, seed):
        """Compares the front ends for requests with two limits."""
        asks = history(f"both {seed}")
        paths = [f"path {random.Random(i).randrange(3)}" for i in range(STEPS)]
        limits = [list(zip(BOTH, ("b" + asked.key, path)))
                  for asked, path in zip(asks, paths)]  # fmt: skip
        expected = [(answer["outcome"] == "allowed", [one["remaining"] for one in answer["limits"]])
                    for answer in decided(asks, limits)]  # fmt: skip
        self.assertTrue(STEPS / 10 < sum(not allowed for allowed, _ in expected) < STEPS / 1.5)
        for kind in (Check, Json, Grpc, GrpcByRules, RlCheck):
            front_end = kind(server, "both")
            with self.subTest(front_end=kind.name), contextlib.closing(front_end):
                for step, asked in enumerate(asks):
                    self.clock.set(asked.at)
                    said = front_end.ask_both(asked._replace(key="b" + asked.key), paths[step])
                    self.assertEqual(said, expected[step], f"{kind.name}, {step}: {asked}")

    def walk_costs(self, server, seed):
        """Compares the front ends for requests whose limits have costs of their own."""
        asks = history(f"costs {seed}")
        added = list(sizes(f"costs {seed}"))
        costs = lambda asked, more: {
            "calls": 1, "units": asked.cost, "size": 3 if more.size is None else more.size,
            **more.named,
        }  # fmt: skip
        limits = [[(limit, "c" + asked.key, costs(asked, more)[name]) for name, limit, _ in COSTS]
                  for asked, more in zip(asks, added)]  # fmt: skip
        expected = [(answer["outcome"] == "allowed", [one["remaining"] for one in answer["limits"]])
                    for answer in decided(asks, limits)]  # fmt: skip
        self.assertTrue(STEPS / 10 < sum(not allowed for allowed, _ in expected) < STEPS / 1.5)
        for kind in (Check, RlCheck):
            front_end = kind(server, "costs")
            with self.subTest(front_end=kind.name), contextlib.closing(front_end):
                for step, asked in enumerate(asks):
                    self.clock.set(asked.at)
                    said = front_end.ask_costs(asked._replace(key="c" + asked.key), added[step])
                    self.assertEqual(said, expected[step],
                                     f"{kind.name}, {step}: {asked} {added[step]}")

    def walk_table(self, server):
        asks = [Ask(START + int(at * 1_000_000), "table", cost) for at, cost, *_ in TABLE]
        microseconds = lambda seconds: None if seconds is None else int(seconds * 1_000_000)
        expected = [Said(allowed, remaining, microseconds(reset), microseconds(retry))
                    for _, _, allowed, remaining, reset, retry in TABLE]  # fmt: skip
        self.assertEqual(list(decide("table", asks)), expected)
        self.walk_by_each(server, "table", asks, expected)

    def test_all_front_ends_agree_with_the_memory_store(self):
        server = self.serve_all()
        self.walk_all(server, seed=1)
        self.walk_both(server, seed=1)
        self.walk_costs(server, seed=1)
        self.walk_table(server)

    def test_all_front_ends_agree_with_a_redis_store(self):
        server = self.serve_redis(**WITHOUT_CACHE)
        self.walk_all(server, seed=2)
        self.walk_both(server, seed=2)
        self.walk_costs(server, seed=2)
        self.walk_table(server)
        for limit in FAST:
            with self.subTest(limit=limit, front_end="decide --config"):
                asks = history(f"{limit} 2")
                config = str(server.folder / "sluice.yaml")
                self.assertEqual(list(decide(limit, asks, "--config", config)),
                                 list(decide(limit, asks)))

    def test_all_front_ends_agree_with_a_redis_store_and_the_deny_cache(self):
        """Uses the real clock and a limit that regains no unit during the test."""
        server = self.serve_redis()
        self.clock.set(0)
        asks = [asked._replace(at=START) for asked in history("slow")]
        # A cached denial reports the remaining units at the time of the denial.
        outcome = lambda said: said.remaining if said.allowed else "denied"
        expected = [outcome(said) for said in decide("slow", asks)]
        self.assertTrue(STEPS / 4 < expected.count("denied") < STEPS / 1.2)
        for kind in FRONT_ENDS:
            front_end = kind(server, "slow")
            with self.subTest(front_end=kind.name), contextlib.closing(front_end):
                self.assertEqual([outcome(front_end.ask(asked)) for asked in asks], expected)
        hits = server.metrics()["sluice_deny_cache_hits_total"]
        self.assertGreater(hits, STEPS / 4)

    def test_the_clock_is_stopped(self):
        """The other tests depend on this."""
        server = self.serve_all()
        front_end = Check(server, "gcra")
        with contextlib.closing(front_end):
            self.clock.set(START)
            self.assertEqual(front_end.ask(Ask(START, "clock", 4)), Said(True, 12, 8000, None))
            self.clock.set(START + 8_000_000 - 1)
            self.assertEqual(front_end.ask(Ask(START, "clock", 0)), Said(True, 15, 1, None))
            self.clock.set(START + 8_000_000)
            self.assertEqual(front_end.ask(Ask(START, "clock", 0)), Said(True, 16, 0, None))


if __name__ == "__main__":
    unittest.main()
