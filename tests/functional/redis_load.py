"""Callers that ask servers of ours all the time, while something befalls the Redis behind them, and
what can be said of the answers whatever befell it."""

import collections
import json
import threading
import time

from harness import Raw, wait_for
from redis_harness import RedisTest

DEADLINE = 0.1  # the servers' `deadline` here
LONGEST = 0.7  # a caller's wait: it, and what a busy machine adds
LIMIT = 100_000_000
BASE = 10_000  # units apart that callers begin, so that each knows its own answers


def rule(name, policy, limit, algorithm="fixed_window", per="24h"):
    """A rule by itself: {"path": "/NAME"} counts units for each user."""
    return f"""
  - name: {name}
    match: {{ path: /{name} }}
    on_store_error: {policy}
    limits:
      - name: user
        key: "{{header.x-user}}"
        algorithm: {algorithm}
        limit: {limit}
        per: {per}
"""


HEAD = "version: 1\ndomain: shop\nrules:\n"
RULES = HEAD + "".join([
    rule("deny", "deny", LIMIT),
    rule("allow", "allow", 20),
    rule("refuse", "deny", 20),
    rule("local", "local", 20),
])

Said = collections.namedtuple("Said", "at seconds status outcome reason remaining")


def question(path, user, **more):
    return {"attributes": {"path": path, "header.x-user": user}, **more}


class Asker:
    """One connection to a server of ours that asks /v1/check."""

    def __init__(self, address):
        self.raw = Raw(address, timeout=15)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.raw.close()

    def send(self, body):
        text = json.dumps(body)
        head = f"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: {len(text)}\r\n\r\n"
        self.raw.send(head + text)

    def ask(self, body):
        start = time.monotonic()
        self.send(body)
        answer = self.raw.answer()
        said = answer.json
        first = said["limits"][0] if said.get("limits") else {}
        return Said(start, time.monotonic() - start, answer.status, said.get("outcome"),
                    said.get("reason"), first.get("remaining"))


def ask(server, path, user, **more):
    """One question on a connection of its own."""
    with Asker(server.http) as asker:
        return asker.ask(question(path, user, **more))


class Caller(threading.Thread):
    """Asks for one unit after the other, of a counter that nobody else uses."""

    def __init__(self, address, user, base, pause, path="/deny"):
        super().__init__(daemon=True)
        self.address, self.user, self.base, self.pause, self.path = address, user, base, pause, path
        self.said, self.error, self.ends = [], None, threading.Event()

    def run(self):
        try:
            body = question(self.path, self.user)
            with Asker(self.address) as asker:
                while not self.ends.is_set():
                    self.said.append(asker.ask(body))
                    self.ends.wait(self.pause)
        except Exception as error:  # shown by the test
            self.error = error


class Callers:
    """Several callers, while the body of a `with` runs.

    At its end all are known to have been answered in time and with 200 or 429, and no counter holds
    less than was admitted (unless `forgets`: the counters were lost meanwhile), nor more than was
    asked.
    """

    def __init__(self, test, server, count=6, pause=0.002, forgets=False, path="/deny"):
        self.test, self.server, self.forgets, self.path = test, server, forgets, path
        self.note = ""  # of the test: what it is about
        self.callers = [Caller(server.http, f"caller{i}", (i + 1) * BASE, pause, path)
                        for i in range(count)]

    def __enter__(self):
        for caller in self.callers:
            said = ask(self.server, self.path, caller.user, cost=caller.base)
            self.test.assertEqual((said.status, said.reason), (200, "ok"), said)
            self.test.assertEqual(said.remaining, LIMIT - caller.base)
        for caller in self.callers:
            caller.start()
        self.wait_for_all("ok")
        return self

    def __exit__(self, kind, *_):
        for caller in self.callers:
            caller.ends.set()
        for caller in self.callers:
            caller.join(20)
        if kind is None:
            for caller in self.callers:
                self._examine(caller)

    def wait_for_all(self, reason, seconds=8, times=3):
        """Until every caller has been answered so a few times in a row, from now on."""
        since = time.monotonic()

        def all_are():
            for caller in self.callers:
                if caller.error:
                    raise AssertionError(f"{caller.user}: {caller.error!r}")
                latest = caller.said[-times:]
                if len(latest) < times or any(s.at < since or s.reason != reason for s in latest):
                    return False
            return True

        try:
            wait_for(all_are, seconds, f"every answer being {reason}")
        except AssertionError as error:
            raise AssertionError(f"{error} {self.note}; meanwhile: {self.reasons(since)}; log:\n"
                                 f"{self.server.log()[-3000:]}") from None

    def said(self, since=0.0, until=float("inf")):
        """What was asked in this time and answered until now."""
        return [said for caller in self.callers for said in list(caller.said)
                if since <= said.at < until]

    def reasons(self, since=0.0, until=float("inf")):
        return collections.Counter(said.reason for said in self.said(since, until))

    def slowest(self):
        return max(said.seconds for said in self.said())

    def _examine(self, caller):
        test = self.test
        test.assertIsNone(caller.error, caller.user)
        test.assertFalse(caller.is_alive(), caller.user)
        admitted = asked = 0
        for said in caller.said:
            asked += 1
            admitted += said.outcome == "allowed"
            test.assertLessEqual(said.seconds, LONGEST, said)
            expected = {"ok": 200, "fallback": 429}.get(said.reason)  # the rule's policy is deny
            test.assertEqual(said.status, expected, said)
            if said.reason == "ok":
                used = LIMIT - said.remaining
                test.assertLessEqual(used, caller.base + asked, f"another's answer? {said}")
                if not self.forgets:
                    test.assertGreaterEqual(used, caller.base + admitted, f"uncounted: {said}")


class FaultTest(RedisTest):
    """Has servers of ours that answer soon when the store fails, and soon ask it again."""

    @classmethod
    def serve_store(cls, url, rules=RULES, threads=2, wait=True, **redis):
        options = {
            "deadline": f"{DEADLINE * 1000:.0f}ms",
            "breaker": {"failures": 5, "open_for": "200ms", "longest_open": "500ms"},
            **redis,
        }
        server = cls.serve(rules, {"store": url, "threads": threads, "redis": options})
        if wait:
            cls.wait_until_decided(server)
        return server

    @staticmethod
    def wait_until_decided(server, seconds=8):
        """Until the store decides, and not a policy: by every thread's connection."""
        def decided():
            return all(ask(server, "/allow", "whether it is there", cost=0).reason == "ok"
                       for _ in range(12))

        wait_for(decided, seconds, "a decision of the store")

    def wait_for_fallback(self, server, path="/allow", seconds=8):
        wait_for(lambda: ask(server, path, "whether it is gone", cost=0).reason == "fallback",
                 seconds, "a policy's answer")

    @staticmethod
    def used(server, user):
        """The units that the store has counted for a caller."""
        said = wait_for(lambda: (s := ask(server, "/deny", user, cost=0)).reason == "ok" and s,
                        what="an answer of the store")
        return LIMIT - said.remaining

    def take(self, server, path, user, times):
        """The units admitted by the store of so many asked one by one."""
        with Asker(server.http) as asker:
            said = [asker.ask(question(path, user)) for _ in range(times)]
        for one in said:
            self.assertIn(one.reason, ("ok", "limited", "deny_cache"), one)
        return sum(one.outcome == "allowed" for one in said)
