"""Plans, overrides, lists, blocks, `count`, calendars and `warn` through every front end, the
library and a replay: one table of requests, and the same decisions everywhere, with both stores."""

import contextlib
import datetime
import os
import unittest
import unittest.mock
import zoneinfo

from harness import PATIENCE, Clock, ServerTest
from plans_front_ends import Auth, Http, Library, Replay, RespCommands, Rls
from redis_harness import RedisTest

RULES = """
version: 1
domain: contract
plans:
  free: { requests: { limit: 2, per: 1h } }
  pro: { requests: { limit: 4, per: 1h } }
rules:
  - name: office
    match: { path: /lists, ip: [10.0.0.0/8, "2001:db8::/32"] }
    action: allow
  - name: partner
    match: { path: /lists, query.from: { network: [198.51.100.0/24] } }
    action: allow
  - { name: banned, match: { path: /lists, query.user: { in: banned.txt } }, action: deny }
  - name: lists
    match: { path: /lists, not: { query.user: "trusted-*" } }
    limits: [ { name: all, key: "{query.customer}", algorithm: fixed_window, limit: 1, per: 1d } ]
  - name: plan
    match: { path: /plan }
    plan: { from: "{query.plan}", default: free }
    limits: [ { name: requests, key: "{query.customer}", algorithm: token_bucket } ]
    reject: { body: '{"limit":{limit},"left":{remaining},"retry":{retry_after}}',
              headers: { X-Limit: "{limit}" } }
  - name: block
    match: { path: /block }
    limits:
      - { name: all, key: "{query.customer}", algorithm: fixed_window, limit: 1, per: 1d,
          block: { after: 2, within: 10m, for: 15m, grow: 2, at_most: 24h } }
  - name: order
    match: { path: /order }
    plan: { from: "{query.plan}", default: free }
    limits:
      - { name: requests, key: "{query.customer}", algorithm: fixed_window,
          block: { after: 2, within: 10m, for: 15m } }
  - name: count
    match: { path: /count }
    limits:
      - { name: all, key: "{query.customer}", algorithm: fixed_window, limit: 2, per: 1d,
          count: { on: [401, 5xx] } }
  - name: add
    match: { path: /add }
    limits:
      - { name: all, key: "{query.customer}", algorithm: fixed_window, limit: 5, per: 1d,
          count: { on: 5xx, header.x-cost: add } }
  - name: calendar
    match: { path: /calendar }
    limits:
      - { name: all, key: "{query.customer}", algorithm: fixed_window, limit: 2, per: year,
          zone: Asia/Shanghai, starts: 04-06 }
  - name: near
    match: { path: /near }
    limits:
      - { name: all, key: "{query.customer}", algorithm: fixed_window, limit: 4, per: 1d,
          warn: 50% }
"""
# The examples of the contract, as they stand there.
EXAMPLE = """
version: 1
domain: contract
plans:                                    # numbers by name
  free: { requests: { limit: 60,   per: 1m }, tokens: { limit: 10000,  per: 1m } }
  pro:  { requests: { limit: 6000, per: 1m }, tokens: { limit: 500000, per: 1m } }
rules:
  - name: office
    match: { ip: [10.0.0.0/8, 2001:db8::/32] }
    action: allow
  - name: api
    match: { path: /v1/** }
    plan: { from: "{header.x-plan}", default: free }     # or: by key, through overrides
    limits:
      - { name: requests, key: "{header.x-customer}", algorithm: token_bucket }     # numbers from the plan
      - { name: tokens,   key: "{header.x-customer}", algorithm: token_bucket, cost: "{body.max_tokens|500}" }
  - name: login
    match: { path: /login }
    limits:
      - { name: month, key: "{ip}", algorithm: fixed_window, limit: 5, per: month, zone: Asia/Shanghai, starts: 15,
          warn: 80%, block: { after: 5, within: 10m, for: 15m, grow: 2, at_most: 24h } }
      - { name: failures, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1d,
          count: { on: [401, 403, 429, 5xx], header.x-cost: add } }
"""
BANNED = "# who\nmallory\n"


class Check:
    """A request: the reason of its decision, the status and the X-Cost of its response, and its
    attributes."""

    def __init__(self, reason="ok", response=200, cost=None, **attributes):
        self.reason, self.response, self.cost, self.attributes = reason, response, cost, attributes


class Override:
    def __init__(self, **given):
        self.given = given


class Block:
    """A block by hand, for an hour."""


def checks(*reasons, **attributes):
    return [Check(reason, **attributes) for reason in reasons]


# The requests of one customer, by path. A replay has no blocks by hand, and no fields of responses.
TABLE = {
    "default plan": ("/plan", checks("ok", "ok", "limited")),
    "plan": ("/plan", checks("ok", "ok", "ok", "ok", "limited", plan="pro")),
    "unknown plan": ("/plan", checks("ok", "ok", "limited", plan="gold")),
    "change of the plan": ("/plan", checks("ok", "ok", "limited") + checks("ok", "ok", plan="pro")),
    "override: numbers": ("/plan", [
        Override(limit=3, per="1h"), *checks("ok", "ok", "ok", "limited", plan="pro")]),
    "override: plan": ("/plan", [
        Override(plan="pro"), *checks("ok", "ok", "ok", "ok", "limited", plan="free")]),
    "override: blocked": ("/plan", [Override(blocked=True), *checks("blocked", "blocked")]),
    "override: unlimited": ("/plan", [
        Override(unlimited=True), *checks("ok", "ok", "ok", "ok", "ok", "ok")]),
    "override: until": ("/plan", [
        Override(blocked=True, until="2100-01-01T00:00:00Z"), *checks("blocked")]),
    "networks": ("/lists", [
        *checks("ok", "ok", ip="10.1.2.3"), *checks("ok", "ok", ip="::ffff:10.1.2.3"),
        *checks("ok", "ok", ip="2001:db8::7"),
        *checks("ok", "ok", user="x", **{"from": "198.51.100.9"}),
        *checks("ok", "limited", ip="11.1.2.3")]),
    "not and in": ("/lists", [
        *checks("deny_rule", "deny_rule", user="mallory"), *checks("ok", "ok", user="trusted-1"),
        *checks("ok", "limited", user="mallory2")]),
    "block": ("/block", checks("ok", "limited", "blocked", "blocked")),
    "block by hand": ("/block", [Block(), *checks("blocked")]),
    # The order of a block, an override, a plan and the limit's own numbers.
    "block before numbers": ("/order", [Block(), *checks("blocked")]),
    "block before plan": ("/order", [Block(), *checks("blocked", plan="pro")]),
    "block before override: numbers": ("/order", [
        Override(limit=9), Block(), *checks("blocked", "blocked")]),
    "block before override: plan": ("/order", [
        Override(plan="pro"), Block(), *checks("blocked", "blocked")]),
    "block before override: blocked": ("/order", [
        Block(), Override(blocked=True), *checks("blocked")]),
    "block before override: unlimited": ("/order", [
        Override(unlimited=True), *checks("ok", "ok", "ok", "ok", "ok"),
        Block(), *checks("blocked", "blocked", plan="pro")]),
    "denials before override: unlimited": ("/order", [
        *checks("ok", "ok", "limited", "blocked"), Override(unlimited=True),
        *checks("blocked")]),
    "override before plan: numbers": ("/order", [
        Override(limit=1), *checks("ok", "limited", plan="pro")]),
    "override before plan: blocked": ("/order", [
        Override(blocked=True), *checks("blocked", plan="pro")]),
    "override before plan: unlimited": ("/order", [
        Override(unlimited=True), *checks("ok", "ok", "ok", "ok", "ok", plan="pro")]),
    "plan before numbers": ("/order", checks("ok", "ok", "ok", "ok", "limited", plan="pro")),
    "count": ("/count", [
        Check(), Check(response=401), Check(), Check(response=404), Check(response=503),
        *checks("limited")]),
    "count: add": ("/add", [
        Check(cost=3), Check(), Check(response=500, cost=1), *checks("limited")]),
    "calendar": ("/calendar", checks("ok", "ok", "limited")),
    "near": ("/near", checks("ok", "ok", "ok")),
}  # fmt: skip
NEAR = [False, True, True]


def end_of_year():
    """Returns the next 6 April in Shanghai, in seconds since the epoch."""
    zone = zoneinfo.ZoneInfo("Asia/Shanghai")
    now = datetime.datetime.fromtimestamp(Clock.START, zone)
    years = (datetime.datetime(now.year + i, 4, 6, tzinfo=zone) for i in range(2))
    return next(begin for begin in years if begin > now).timestamp()


def until(seconds):
    """Returns an instant of the stopped clock, as overrides write it."""
    at = datetime.datetime.fromtimestamp(Clock.START + seconds, datetime.timezone.utc)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


class Tests:
    """The tests, for two stores."""

    front_ends = (Http, Auth, RespCommands, Rls, Library)
    config = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stop_clocks()
        config = {
            "listen": {"resp": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
            "trusted_proxies": ["127.0.0.1"],
            **cls.config,
        }
        cls.sluice = cls.serve_with_list(RULES, config)

    @classmethod
    def stop_clocks(cls):
        """Stops the clock of all programs that the tests start."""
        environment = cls.stopped_clock().environment
        cls.enterClassContext(unittest.mock.patch.dict(os.environ, environment))

    @classmethod
    def serve_with_list(cls, rules, config):
        folder = cls.folder()
        (folder / "banned.txt").write_text(BANNED)
        (folder / "rules.yaml").write_text(rules)
        server = cls.serve(config={**config, "rules": str(folder / "rules.yaml")})
        server.rules_file, server.folder = folder / "rules.yaml", folder
        return server

    @contextlib.contextmanager
    def front_end(self, kind, server=None, **more):
        with self.subTest(front_end=kind.name, **more):
            with contextlib.closing(kind(server or self.sluice)) as front_end:
                yield front_end

    def walk(self, front_end, name, path, steps):
        """Returns what the front end says of each check."""
        front_end.rule = path[1:]
        said = []
        for step in steps:
            given = {"customer": f"{front_end.name} {name}", **getattr(step, "attributes", {})}
            attributes = {"ip": given.pop("ip", "192.0.2.1"), "path": path}
            attributes.update((f"query.{key}", value) for key, value in given.items())
            if isinstance(step, Override):
                front_end.override(attributes, step.given)
            elif isinstance(step, Block):
                front_end.block(attributes)
            else:
                said.append(front_end.check(attributes))
                if step.response != 200 or step.cost:
                    front_end.report(attributes, step.response, step.cost)
        return said

    def test_every_front_end_decides_as_the_table_says(self):
        for name, (path, steps) in TABLE.items():
            expected = [step for step in steps if isinstance(step, Check)]
            lefts = {}
            for kind in self.front_ends:
                is_by_hand = any(isinstance(step, Block) for step in steps)
                # A replay has the same overrides from its first request on.
                is_late = isinstance(steps[-2], Override) and len(steps) > 2
                if kind is Replay and (is_by_hand or is_late or name == "count: add"):
                    continue
                with self.front_end(kind, case=name) as front_end:
                    said = self.walk(front_end, name, path, steps)
                    allowed = [step.reason == "ok" for step in expected]
                    self.assertEqual([one.allowed for one in said], allowed)
                    if said[0].reason is None:
                        continue
                    self.assertEqual([one.reason for one in said], [one.reason for one in expected])
                    if path == "/near":
                        self.assertEqual([one.near for one in said], [[near] for near in NEAR])
                    lefts[kind.name] = [one.remaining for one in said if one.allowed]
            for kind, left in lefts.items():
                self.assertEqual(left, lefts["http"], f"{name}, {kind}")

    def test_the_examples_of_the_contract_work(self):
        config = {**self.config, "listen": {"resp": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
                  "trusted_proxies": ["127.0.0.1"]}  # fmt: skip
        server = self.serve_with_list(EXAMPLE, config)

        def decide(front_end, count, path, ip="192.0.2.1", **more):
            attributes = {"ip": ip, "path": path, "header.x-customer": f"{front_end.name} {more}",
                          **more}  # fmt: skip
            if more.get("one"):
                del attributes["one"]
                front_end.override(attributes, {"limit": 1, "per": "1m"})
            return [front_end.check(attributes).allowed for _ in range(count)]

        for i, kind in enumerate((Http, Auth, RespCommands, Rls, Library)):
            with self.front_end(kind, server) as front_end:
                front_end.rule = "api"
                self.assertEqual(decide(front_end, 2, "/v1/x", one="yes"), [True, False])
                found = decide(front_end, 8, "/login", f"192.0.2.{10 + i}")
                self.assertEqual(found, [True] * 5 + [False] * 3)
                self.assertEqual(decide(front_end, 8, "/login", "2001:db8::1"), [True] * 8)
                if kind is Auth:
                    continue  # it has no body
                for plan, tokens in (("free", "10000"), ("gold", "10000"), ("pro", "500000")):
                    more = {"header.x-plan": plan, "body.max_tokens": tokens}
                    found = decide(front_end, 2, "/v1/x", **more)
                    self.assertEqual(found, [True, False], plan)

    def test_waits_are_exact(self):
        """A block by hand lasts an hour, whenever an override ends; the calendar
        until a date in Shanghai."""
        for kind in (Http, Auth, RespCommands, Rls):
            with self.front_end(kind) as front_end:
                blocked = self.walk(front_end, "wait", "/block", [Block(), *checks("blocked")])
                if kind is not Rls:
                    self.assertEqual(blocked[0].wait, 3600)
                    for name, given in (("unlimited", {"unlimited": True}),
                                        ("until", {"blocked": True, "until": until(1800)})):
                        steps = [Override(**given), Block(), *checks("blocked")]
                        said = self.walk(front_end, f"wait {name}", "/order", steps)
                        self.assertEqual(said[0].wait, 3600, name)
                    steps = [Override(blocked=True, until=until(7200)), Block(), *checks("blocked")]
                    said = self.walk(front_end, "wait longer", "/order", steps)
                    self.assertEqual(said[0].wait, 3600, "a later block replaces a longer one")
                said = self.walk(front_end, "wait", "/calendar", checks("ok", "ok", "limited"))
                self.assertEqual(said[-1].wait, end_of_year() - Clock.START)

    def test_rejections_have_the_numbers_that_count(self):
        for name, given, limit in (("numbers", {"limit": 3, "per": "1h"}, 3),
                                   ("plan", {"plan": "pro"}, 4), ("none", None, 2)):  # fmt: skip
            front_end = Auth(self.sluice)
            steps = ([Override(**given)] if given else []) + checks(*["ok"] * limit)
            self.walk(front_end, f"body {name}", "/plan", steps)
            attributes = {"ip": "192.0.2.1", "path": "/plan", "query.customer": f"auth body {name}"}
            answer = self.sluice.get("/v1/auth", front_end.fields(attributes))
            self.assertEqual((answer.status, answer["x-limit"]), (429, str(limit)))
            body = answer.json
            self.assertEqual((body["limit"], body["left"]), (limit, 0))
            self.assertEqual(body["retry"], int(answer["retry-after"]))
            checked = self.sluice.check({"attributes": attributes})
            self.assertEqual((checked.status, checked["x-limit"]), (429, str(limit)))

    def test_a_key_near_its_limit_is_counted_once(self):
        name = 'sluice_near_keys_total{rule="near",limit="all"}'
        for kind in (Http, Auth, RespCommands, Rls):
            before = self.sluice.metrics()[name]
            with self.front_end(kind) as front_end:
                self.walk(front_end, "once", "/near", checks("ok", "ok", "ok", "ok", "limited"))
                self.assertEqual(self.sluice.metrics()[name], before + 1)


class Memory(Tests, ServerTest):
    """With the memory store, whose overrides a replay reads too."""

    front_ends = (*Tests.front_ends, Replay)


class Redis(Tests, RedisTest):
    @classmethod
    def setUpClass(cls):
        redis = {"deadline": f"{PATIENCE}s", "deny_cache": {"enabled": False}}
        cls.config = {"store": cls.redis(clock=cls.stopped_clock()).url, "redis": redis}
        super().setUpClass()


if __name__ == "__main__":
    unittest.main()
