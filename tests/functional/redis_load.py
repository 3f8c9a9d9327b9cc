"""Callers that send requests to Sluice servers continuously while their Redis fails, and checks of
the answers that hold for every kind of failure."""

import collections
import json
import threading
import time

from harness import PATIENCE, Raw, wait_for
from redis_harness import RedisTest

# The `deadline` of servers whose store does not answer. Other servers wait for PATIENCE, so that no
# policy decides because the machine is busy.
SHORT = "100ms"
LIMIT = 100_000_000
BASE = 10_000  # the callers' counters start this far apart, to detect mixed-up answers


def rule(name, policy, limit, algorithm="fixed_window", per="24h"):
    """Returns a rule that counts the units of each user for {"path": "/NAME"}."""
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


class Client:
    """One connection to a Sluice server that sends requests to /v1/check."""

    def __init__(self, address):
        self.raw = Raw(address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.raw.close()

    def send(self, body):
        text = json.dumps(body)
        head = f"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n"
        self.raw.send(head + text)

    def answer(self, body):
        self.send(body)
        return self.raw.answer()

    def ask(self, body):
        start = time.monotonic()
        answer = self.answer(body)
        said = answer.json
        first = said["limits"][0] if said.get("limits") else {}
        return Said(start, time.monotonic() - start, answer.status, said.get("outcome"),
                    said.get("reason"), first.get("remaining"))


def ask(server, path, user, **more):
    """Sends one request on a new connection."""
    with Client(server.http) as client:
        return client.ask(question(path, user, **more))


class Caller(threading.Thread):
    """Takes one unit after the other from a counter that no other caller uses."""

    def __init__(self, address, user, base, pause, path="/deny"):
        super().__init__(daemon=True)
        self.address, self.user, self.base, self.pause, self.path = address, user, base, pause, path
        self.said, self.error, self.ends = [], None, threading.Event()

    def surely_admitted(self, replicated, killed):
        """Returns the units that count after a failover: without those admitted after the time
        `replicated`, and before the old master was killed."""
        admitted = [s for s in self.said if s.outcome == "allowed"]
        return self.base + sum(s.at + s.seconds < replicated or s.at > killed for s in admitted)

    def run(self):
        try:
            body = question(self.path, self.user)
            with Client(self.address) as client:
                while not self.ends.is_set():
                    self.said.append(client.ask(body))
                    self.ends.wait(self.pause)
        except Exception as error:  # the test reports it
            self.error = error


class Callers:
    """Several callers, while the body of a `with` runs.

    At the end, checks that every request was answered with 200 or 429, that no counter is below the
    admitted units (unless `forgets` says that the counters were lost), and that none is above the
    requested units.
    """

    def __init__(self, test, server, count=6, pause=0.002, forgets=False, path="/deny"):
        self.test, self.server, self.forgets, self.path = test, server, forgets, path
        self.note = ""  # the test's own note
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
            caller.join(PATIENCE)
        if kind is None:
            for caller in self.callers:
                self._examine(caller)

    def wait_for_all(self, reason, times=3):
        """Waits until every caller has received this answer a few times in a row."""
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
            wait_for(all_are, f"every answer being {reason}")
        except AssertionError as error:
            raise AssertionError(f"{error} {self.note}; meanwhile: {self.reasons(since)}; log:\n"
                                 f"{self.server.log()[-3000:]}") from None

    def said(self, since=0.0, until=float("inf")):
        """Returns the answers so far to requests sent in this period."""
        return [said for caller in self.callers for said in list(caller.said)
                if since <= said.at < until]

    def reasons(self, since=0.0, until=float("inf")):
        return collections.Counter(said.reason for said in self.said(since, until))

    def _examine(self, caller):
        test = self.test
        test.assertIsNone(caller.error, caller.user)
        test.assertFalse(caller.is_alive(), caller.user)
        admitted = asked = 0
        for said in caller.said:
            asked += 1
            admitted += said.outcome == "allowed"
            expected = {"ok": 200, "fallback": 429}.get(said.reason)  # the rule's policy is deny
            test.assertEqual(said.status, expected, said)
            if said.reason == "ok":
                used = LIMIT - said.remaining
                test.assertLessEqual(used, caller.base + asked, f"another's answer? {said}")
                if not self.forgets:
                    test.assertGreaterEqual(used, caller.base + admitted, f"uncounted: {said}")


class FaultTest(RedisTest):
    """Tests with Sluice servers that detect a failure of the store, and its end, quickly."""

    @classmethod
    def serve_store(cls, url, rules=RULES, threads=2, wait=True, config=None, clock=None, **redis):
        options = {
            "deadline": f"{PATIENCE}s",
            "breaker": {"failures": 5, "open_for": "50ms", "longest_open": "100ms"},
            **redis,
        }
        config = {"store": url, "threads": threads, "redis": options, **(config or {})}
        server = cls.serve(rules, config, clock=clock)
        if wait:
            cls.wait_until_decided(server)
        return server

    @staticmethod
    def wait_until_all(server, reason, what):
        """Waits for this reason on every thread's connection."""
        def are():
            return all(ask(server, "/allow", "whether it is there", cost=0).reason == reason
                       for _ in range(32))  # so that each thread gets some

        wait_for(are, what)

    @classmethod
    def wait_until_decided(cls, server):
        """Waits until the store, not a policy, decides."""
        cls.wait_until_all(server, "ok", "decisions of the store")

    @classmethod
    def wait_for_fallback(cls, server):
        """Waits until a policy decides. The threads may notice a lost connection at different times."""
        cls.wait_until_all(server, "fallback", "answers of a policy")

    @staticmethod
    def used(server, user):
        """Returns the units that the store has counted for a caller."""
        said = wait_for(lambda: (s := ask(server, "/deny", user, cost=0)).reason == "ok" and s,
                        what="an answer of the store")
        return LIMIT - said.remaining

    def take(self, server, path, user, times):
        """Requests units one by one and returns how many the store admitted."""
        with Client(server.http) as client:
            said = [client.ask(question(path, user)) for _ in range(times)]
        for one in said:
            self.assertIn(one.reason, ("ok", "limited", "deny_cache"), one)
        return sum(one.outcome == "allowed" for one in said)
