"""Sends one history of all verbs through the library, HTTP and RESP, with each store, and compares
the answers. The clocks stop at the times of the history, as in test_front_ends."""

import collections
import contextlib
import http.client
import json
import math
import random
import subprocess
import unittest

import harness
import test_front_ends as front_ends
from resp_harness import Resp, RespError

LIMITS = front_ends.LIMITS
# `units`: the cost of take, charge, reserve and refund; the most of take_at_most; the reserved cost of
# settle. `more`: max_wait of reserve in milliseconds; the actual cost of settle.
Ask = collections.namedtuple("Ask", "at verb key units more", defaults=(None,))
# `remaining` and `reset` of each limit. Times are in milliseconds.
Said = collections.namedtuple("Said", "allowed reason taken delay retry remaining reset")
VERBS = ["take"] * 5 + ["charge", "take_at_most", "take_at_most", "reserve", "reserve", "settle"]


def history(seed):
    """Returns requests in order of time."""
    choose = random.Random(seed)
    for asked in front_ends.history(seed):
        verb = "refund" if asked.gives_back else choose.choice(VERBS)
        units = min(asked.cost, 4) if verb in ("charge", "settle") else 2 * asked.cost
        more = None
        if verb == "reserve":
            more = choose.choice([0, 1, 1000, 10_000, 60_000])
        elif verb == "settle":
            more = max(0, units + choose.randrange(-2, 4))
        yield Ask(asked.at, verb, f"key {choose.randrange(2)}", units, more)


def decided(asks, limits):
    """Returns the library's answers. `limits`: the names and keys of each request's limits."""
    lines = [json.dumps(question(asked, some)) for asked, some in zip(asks, limits, strict=True)]
    ran = subprocess.run([harness.binary(), "decide"], input="\n".join(lines) + "\n",
                         capture_output=True, text=True, check=True)  # fmt: skip
    up = lambda wait: None if wait is None else math.ceil(wait / 1000)
    for line in ran.stdout.splitlines():
        answer = json.loads(line)
        yield Said(
            answer["outcome"] == "allowed", answer["reason"], answer.get("taken"),
            up(answer.get("delay_us")), up(answer.get("retry_after_us")),
            [one["remaining"] for one in answer["limits"]],
            [up(one["reset_after_us"]) for one in answer["limits"]],
        )  # fmt: skip


def question(asked, limits):
    verb, units = asked.verb, asked.units
    if verb == "settle":  # gives the difference back, or charges it
        verb = "refund" if asked.more < units else "charge"
        units = abs(asked.more - units)
    wait = {"max_wait_us": asked.more * 1000} if verb == "reserve" else {}
    charges = [{"key": f"{limit} {key}", "cost": units, "limit": LIMITS[limit]}
               for limit, key in limits]  # fmt: skip
    return {"at_us": asked.at, "verb": verb, "charges": charges, **wait}


class Http:
    name = "http"

    def __init__(self, server):
        self.connection = http.client.HTTPConnection(server.http, timeout=harness.PATIENCE)
        self.close = self.connection.close

    def ask(self, asked, attributes):
        settles = asked.verb == "settle"
        body = {"attributes": {"front_end": "verbs http", **attributes}, "cost": asked.units}
        if settles:
            body["actual"] = asked.more
        else:
            body["verb"] = "check" if asked.verb == "take" else asked.verb
        if asked.verb == "reserve":
            body["max_wait_ms"] = asked.more
        path = "/v1/settle" if settles else "/v1/check"
        self.connection.request("POST", path, json.dumps(body))
        answer = json.loads(self.connection.getresponse().read())
        limits = answer["limits"]
        return Said(answer["outcome"] == "allowed", answer["reason"], answer.get("taken"),
                    answer.get("delay_ms"), answer.get("retry_after_ms"),
                    [one["remaining"] for one in limits],
                    [one["reset_after_ms"] for one in limits])  # fmt: skip


class RespByRules:
    """The RL commands with CHECK, by RESP3."""

    name = "rl check"

    def __init__(self, server):
        self.resp = Resp(server.resp)
        self.resp.ask("HELLO", 3)
        self.close = self.resp.close

    def words(self, attributes):
        pairs = {"front_end": "verbs resp", **attributes}
        return "CHECK", "*", *[word for pair in pairs.items() for word in pair]

    def ask(self, asked, attributes):
        kind, *words = self.words(attributes)
        command = {"take": (f"RL.{kind}",), "take_at_most": ("RL.TAKE", kind)}.get(
            asked.verb, (f"RL.{asked.verb.upper()}", kind)
        )
        words += ["ATMOST" if asked.verb == "take_at_most" else "COST", asked.units]
        if asked.verb == "reserve":
            words += ["MAXWAIT", f"{asked.more}ms"]
        elif asked.verb == "settle":
            words += ["ACTUAL", asked.more]
        answer = self.resp.ask(*command, *words)
        assert not isinstance(answer, RespError), answer
        limits = answer.get(b"limits", [answer])
        allowed = answer[b"outcome"] == b"allowed"
        taken = answer.get(b"taken") if allowed else None  # 0 if denied
        return Said(allowed, answer[b"reason"].decode(), taken, answer[b"delay_ms"], answer[b"retry_after_ms"],
                    [one[b"remaining"] for one in limits],
                    [one[b"reset_after_ms"] for one in limits])  # fmt: skip


class RespByLimit(RespByRules):
    """The RL commands with LIMIT."""

    name = "rl limit"

    def words(self, attributes):
        limit = LIMITS[attributes["limit"]]
        words = [limit["algorithm"], limit["limit"], limit["per"]]
        for option in ("burst", "slices", "align"):
            if option in limit:
                words += [option, limit[option]]
        return "LIMIT", "verbs {limit} {key}".format(**attributes), *words


class Verbs(front_ends.Servers):
    def walk(self, server, kinds, asks, attributes, expected):
        for kind in kinds:
            front_end = kind(server)
            with self.subTest(front_end=kind.name), contextlib.closing(front_end):
                for step, (asked, said) in enumerate(zip(asks, expected, strict=True)):
                    self.clock.set(asked.at)
                    self.assertEqual(front_end.ask(asked, attributes(asked)), said,
                                     f"{kind.name}, {step}: {asked}")  # fmt: skip

    @staticmethod
    def count(asks, expected):
        return collections.Counter((asked.verb, said.allowed, said.reason)
                                   for asked, said in zip(asks, expected, strict=True))  # fmt: skip

    def assert_mixed(self, seen):
        """Every verb takes or does something; those that can be denied sometimes are."""
        for verb in ("take", "take_at_most", "reserve"):
            self.assertGreater(seen[verb, True, "ok"], 3, seen)
            self.assertGreater(seen[verb, False, "limited"], 1, seen)
        for verb in ("charge", "settle"):
            self.assertGreater(seen[verb, True, "ok"] + seen[verb, True, "over"], 10, seen)

    def walk_all(self, server, seed):
        seen = collections.Counter()
        for limit in front_ends.FAST:
            asks = list(history(f"{limit} {seed}"))
            expected = list(decided(asks, [[(limit, asked.key)] for asked in asks]))
            seen += self.count(asks, expected)
            with self.subTest(limit=limit):
                self.walk(server, (Http, RespByRules, RespByLimit), asks,
                          lambda asked: {"limit": limit, "key": asked.key}, expected)  # noqa: B023
        self.assert_mixed(seen)

    def walk_both(self, server, seed):
        """Requests with two limits: all or nothing."""
        asks = list(history(f"both {seed}"))
        path = lambda asked: f"path {asked.at % 3}"
        limits = [list(zip(front_ends.BOTH, ("b" + asked.key, path(asked)), strict=True))
                  for asked in asks]  # fmt: skip
        expected = list(decided(asks, limits))
        self.walk(server, (Http, RespByRules), asks,
                  lambda asked: {"both": "yes", "user": "b" + asked.key, "path": path(asked)},
                  expected)  # fmt: skip

    def test_the_library_http_and_resp_agree_with_the_memory_store(self):
        server = self.serve_all()
        self.walk_all(server, seed=1)
        self.walk_both(server, seed=1)

    def test_the_library_http_and_resp_agree_with_a_redis_store(self):
        server = self.serve_redis(**front_ends.WITHOUT_CACHE)
        self.walk_all(server, seed=2)
        self.walk_both(server, seed=2)


if __name__ == "__main__":
    unittest.main()
