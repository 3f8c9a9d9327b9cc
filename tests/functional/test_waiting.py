"""Requests to /v1/check that wait for their units (`wait_ms`), with the memory store and Redis."""

import contextlib
import json
import select
import socket
import time

from harness import Raw, ServerTest, request, wait_for
from redis_load import FaultTest

RULES = """
version: 1
rules:
  - name: bucket
    match: { path: /bucket }
    limits: [ { key: "{user}", algorithm: token_bucket, limit: 1, per: 100ms } ]
  - name: window
    match: { path: /window }
    limits: [ { key: "{user}", algorithm: fixed_window, limit: 2, per: 300ms } ]
  - name: two
    match: { path: /two }
    limits:
      - { name: each, key: "{user}", algorithm: token_bucket, limit: 1, per: 10ms }
      - { name: all, algorithm: sliding_window_log, limit: 1, per: 200ms }
  - name: turn
    match: { path: /turn }
    limits: [ { key: "{user}", algorithm: sliding_window_log, limit: 1, per: 400ms } ]
  - name: slow
    match: { path: /slow }
    limits: [ { key: "{user}", algorithm: token_bucket, limit: 1, per: 1m } ]
  - name: trial
    match: { path: /trial/** }
    mode: shadow
    continue: true
    limits: [ { key: "{user}", algorithm: fixed_window, limit: 100, per: 24h } ]
  - name: tried
    match: { path: /trial/wait }
    limits: [ { key: "{user}", algorithm: fixed_window, limit: 1, per: 300ms } ]
  - name: flight
    match: { path: /flight }
    limits:
      - { name: place, key: "{user}", algorithm: concurrency, limit: 1, lease: 1h }
      - { name: rate, key: "{user}", algorithm: token_bucket, limit: 1000, per: 1s }
  - name: late
    match: { path: /late }
    limits: [ { key: "{user}", algorithm: token_bucket, limit: 1, per: 1h } ]
  - name: late log
    match: { path: /late-log }
    limits: [ { key: "{user}", algorithm: sliding_window_log, limit: 1, per: 1h } ]
"""


def wish(path, user, **more):
    return {"attributes": {"path": path, "user": user}, **more}


def check(sluice, path, user, **more):
    answer = request(sluice.http, "POST", "/v1/check", json.dumps(wish(path, user, **more)))
    return answer.status, answer.json


def send(raw, path, user, **more):
    body = json.dumps(wish(path, user, **more))
    raw.send(f"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
             .encode() + body.encode())


def waiting(sluice):
    return int(sluice.metrics()["sluice_waiting_requests"])


class Tests:
    """What holds with each store. `self.sluice` is the server."""

    def open(self, count):
        with contextlib.ExitStack() as stack:
            raws = [stack.enter_context(Raw(self.sluice.http)) for _ in range(count)]
            self.addCleanup(stack.pop_all().close)
        return raws

    def wait_in_turn(self, raws, path, user):
        """Sends a request on each connection as soon as the one before it waits."""
        for number, raw in enumerate(raws, 1):
            send(raw, path, user, wait_ms=300_000)
            wait_for(lambda: waiting(self.sluice) >= number, what=f"request {number} to wait")

    def test_a_request_waits_until_the_limits_admit_it(self):
        for path, asked, least in ("/bucket", 4, 0.3), ("/window", 5, 0.6), ("/two", 3, 0.4):
            begin = time.monotonic()
            for _ in range(asked):
                status, answer = check(self.sluice, path, "a", wait_ms=60_000)
                self.assertEqual((status, answer["reason"]), (200, "ok"))
                self.assertNotIn("delay_ms", answer)
                for limit in answer["limits"]:  # as they are when the wait has ended
                    self.assertNotIn("delay_ms", limit)
                if path == "/bucket":
                    self.assertLessEqual(answer["limits"][0]["reset_after_ms"], 100)
            self.assertGreaterEqual(time.monotonic() - begin, least, path)

    def test_a_wait_that_would_be_too_long_is_denied_at_once(self):
        for path in "/late", "/late-log":
            self.assertEqual(check(self.sluice, path, "b", wait_ms=1_000)[0], 200)
            status, answer = check(self.sluice, path, "b", wait_ms=300_000)
            self.assertEqual((status, answer["reason"]), (429, "limited"))
            self.assertGreater(answer["retry_after_ms"], 300_000)

    def test_a_request_that_waits_is_charged_once_to_a_shadow_rule(self):
        raws = self.open(4)
        for raw in raws:
            send(raw, "/trial/wait", "g", wait_ms=300_000)
        self.assertEqual([raw.answer().status for raw in raws], [200] * 4)
        answer = check(self.sluice, "/trial/count", "g", verb="peek", cost=0)[1]
        self.assertEqual(answer["limits"][0]["remaining"], 96)

    def release(self, permit):
        return request(self.sluice.http, "POST", "/v1/release", json.dumps({"permit": permit})).status

    def test_a_release_lets_the_first_pass_that_waits_for_a_permit(self):
        permit = check(self.sluice, "/flight", "h")[1]["permit"]
        raws = self.open(3)
        self.wait_in_turn(raws, "/flight", "h")
        for raw in raws:
            self.assertEqual(self.release(permit), 200)
            answer = raw.answer()
            self.assertEqual(answer.status, 200)
            permit = answer.json["permit"]
        self.assertEqual(self.release(permit), 200)
        self.assertEqual(waiting(self.sluice), 0)

    def test_a_wait_for_a_permit_ends_at_its_time(self):
        permit = check(self.sluice, "/flight", "i")[1]["permit"]
        status, answer = check(self.sluice, "/flight", "i", wait_ms=50)
        self.assertEqual((status, answer["reason"]), (429, "limited"))
        self.assertNotIn("permit", answer)
        self.assertGreater(answer["retry_after_ms"], 300_000)
        self.assertEqual(self.release(permit), 200)

    def test_a_client_that_hangs_up_takes_no_permit(self):
        permit = check(self.sluice, "/flight", "j")[1]["permit"]
        (raw,) = self.open(1)
        self.wait_in_turn([raw], "/flight", "j")
        raw.close()
        wait_for(lambda: waiting(self.sluice) == 0, what="the request to end")
        self.assertEqual(self.release(permit), 200)
        self.assertEqual(check(self.sluice, "/flight", "j")[0], 200)

    def test_a_permit_goes_past_the_clients_that_have_just_hung_up(self):
        permit = check(self.sluice, "/flight", "k")[1]["permit"]
        raws = self.open(4)
        self.wait_in_turn(raws, "/flight", "k")
        for raw in raws[0], raws[1], raws[3]:
            raw.close()
        self.assertEqual(self.release(permit), 200)
        answer = raws[2].answer()
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.release(answer.json["permit"]), 200)
        wait_for(lambda: waiting(self.sluice) == 0, what="the requests to end")
        self.assertEqual(check(self.sluice, "/flight", "k")[0], 200)

    def test_a_client_that_sends_no_more_is_denied_and_hears_it(self):
        permit = check(self.sluice, "/flight", "l")[1]["permit"]
        (raw,) = self.open(1)
        self.wait_in_turn([raw], "/flight", "l")
        raw.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(raw.answer().status, 429)
        self.assertEqual(self.release(permit), 200)

    def test_requests_are_answered_in_order_of_arrival(self):
        check(self.sluice, "/turn", "order")
        raws, answered = self.open(5), []

        def read():
            """Reads the answers that have come: those of the next requests, in whatever order."""
            left = [raw for raw in raws if raw not in answered]
            came = [raw for raw in left if select.select([raw.socket], [], [], 0)[0]]
            self.assertEqual(came, left[:len(came)])
            self.assertEqual([raw.answer().status for raw in came], [200] * len(came))
            answered.extend(came)

        for number, raw in enumerate(raws, 1):
            send(raw, "/turn", "order", wait_ms=300_000)
            wait_for(lambda: read() or waiting(self.sluice) + len(answered) >= number)
        wait_for(lambda: read() or len(answered) == len(raws))

    def test_others_are_answered_while_requests_wait(self):
        check(self.sluice, "/slow", "c")
        (raw,) = self.open(1)
        self.wait_in_turn([raw], "/slow", "c")
        self.assertEqual(check(self.sluice, "/slow", "another")[0], 200)
        self.assertEqual(waiting(self.sluice), 1)
        raw.close()
        wait_for(lambda: waiting(self.sluice) == 0)

    def test_a_client_that_hangs_up_gives_back_what_it_has_reserved(self):
        def retry_after():
            return check(self.sluice, "/slow", "d", verb="peek")[1].get("retry_after_ms", 0)

        check(self.sluice, "/slow", "d")
        raws = self.open(5)
        self.wait_in_turn(raws, "/slow", "d")
        self.assertGreater(retry_after(), 240_000)
        for raw in raws:
            raw.send(b"GET")  # of the next request
        self.assertGreater(retry_after(), 240_000)
        for raw in raws:
            raw.close()
        wait_for(lambda: waiting(self.sluice) == 0, what="the requests to end")
        self.assertLessEqual(retry_after(), 60_000)

    def test_what_cannot_wait_is_refused(self):
        for more, problem in (
            ({"verb": "peek", "wait_ms": 5}, "only a check waits"),
            ({"wait_ms": 300_001}, "found 300001"),
            ({"wait_ms": "1s"}, "found text"),
        ):
            status, answer = check(self.sluice, "/bucket", "f", **more)
            self.assertEqual(status, 400)
            self.assertIn(problem, json.dumps(answer))


class Memory(Tests, ServerTest):
    """With the memory store."""

    @classmethod
    def setUpClass(cls):
        cls.sluice = cls.serve(RULES, {"threads": 2})


class Redis(Tests, FaultTest):
    """With Redis."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sluice = cls.serve_store(cls.redis().url, RULES, wait=False)


class Bounds(ServerTest):
    """The number of requests that wait, and the end of the server."""

    def test_one_request_too_many_is_denied(self):
        sluice = self.serve(RULES, {"bounds": {"waiting": 2}})
        check(sluice, "/slow", "a")
        with Raw(sluice.http) as one, Raw(sluice.http) as two:
            for raw in one, two:
                send(raw, "/slow", "a", wait_ms=300_000)
            wait_for(lambda: waiting(sluice) == 2)
            status, answer = check(sluice, "/slow", "a", wait_ms=300_000)
            self.assertEqual((status, answer["reason"]), (429, "too_many_waiters"))
            sluice.signal(15)  # a server that stops denies those that wait
            for raw in one, two:
                answer = raw.answer()
                self.assertEqual(answer.status, 429)
                self.assertGreater(int(answer["retry-after"]), 0)

    def test_no_request_waits_if_the_bound_is_0(self):
        sluice = self.serve(RULES, {"bounds": {"waiting": 0}})
        status, answer = check(sluice, "/bucket", "a", wait_ms=5)
        self.assertEqual(status, 400)
        self.assertIn("bounds.waiting", json.dumps(answer))
        self.assertEqual(check(sluice, "/bucket", "a")[0], 200)
