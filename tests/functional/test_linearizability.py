"""The checker of linearizability itself: it accepts what one order explains, and nothing else."""

import itertools
import math
import random
import unittest

from linearizability import apply, explain, failover, refund, take, wipe

LIMITS = (10, 3)


def took(sent, answered, remaining, cost=1, counter=0):
    return take(sent, answered, [counter], cost, (True, (remaining,)))


def denied(sent, answered, remaining, cost=1, counter=0):
    return take(sent, answered, [counter], cost, (False, (remaining,)))


def peeked(sent, answered, remaining):
    return took(sent, answered, remaining, cost=0)


def lost(sent, cost=1, until=99):
    return take(sent, until, [0], cost, None)


def flat(ops):
    return [one for op in ops for one in (op if isinstance(op, list) else [op])]


class Histories(unittest.TestCase):
    def accepts(self, *ops):
        self.assertIsNone(explain(LIMITS, flat(ops)))

    def rejects(self, *ops):
        self.assertIsNotNone(explain(LIMITS, flat(ops)))

    def test_one_after_the_other(self):
        self.accepts(took(0, 1, 9), took(2, 3, 5, cost=4), denied(4, 5, 5, cost=6), peeked(6, 7, 5))
        self.rejects(took(0, 1, 9), took(2, 3, 5, cost=3))
        self.rejects(took(0, 1, 4, cost=6), denied(2, 3, 4, cost=4))

    def test_concurrent_requests_may_take_effect_in_any_order(self):
        self.accepts(took(0, 9, 7), took(1, 8, 8), took(2, 7, 9), peeked(3, 6, 8))

    def test_a_lost_update(self):
        self.rejects(took(0, 9, 9), took(1, 8, 9))

    def test_a_stale_read(self):
        self.accepts(took(0, 1, 9), took(2, 5, 8), peeked(3, 4, 9))
        self.rejects(took(0, 1, 9), took(2, 3, 8), peeked(4, 5, 9))

    def test_reads_that_contradict_each_other(self):
        self.rejects(took(0, 9, 9), peeked(1, 2, 9), peeked(3, 4, 10))

    def test_more_than_the_limit(self):
        self.rejects(*(took(i, 20, 9 - i % 10) for i in range(11)))

    def test_a_denial_that_consumes(self):
        self.rejects(took(0, 1, 2, cost=8), denied(2, 3, 2, cost=3), peeked(4, 5, 0))

    def test_a_refund_never_gives_more_than_was_taken(self):
        ok = refund(2, 3, [0], 5, (True, (10,)))
        self.accepts(took(0, 1, 9), ok, took(4, 5, 9))
        self.rejects(took(0, 1, 1, cost=9), ok)

    def test_a_request_takes_all_its_counters_or_none(self):
        both = take(0, 1, [0, 1], 3, (True, (7, 0)))
        no = take(2, 3, [0, 1], 1, (False, (7, 0)))
        self.accepts(both, no, peeked(4, 5, 7))
        self.rejects(both, no, peeked(4, 5, 6))

    def test_a_request_without_an_answer_took_effect_once_or_never(self):
        self.accepts(lost(0), peeked(5, 6, 10))
        self.accepts(lost(0), peeked(5, 6, 10), peeked(7, 8, 9))
        self.rejects(lost(0), peeked(5, 6, 9), peeked(7, 8, 8))
        self.rejects(lost(0), peeked(5, 6, 9), peeked(7, 8, 10))
        self.rejects(peeked(0, 1, 9), lost(2))
        self.accepts(lost(0), lost(1), lost(2, cost=2), peeked(5, 6, 8), peeked(7, 8, 6))
        self.accepts(lost(0, until=6), peeked(5, 7, 10), peeked(5, 7, 9))
        self.rejects(lost(0, until=4), peeked(5, 6, 10), peeked(7, 8, 9))

    def test_a_wipe_loses_everything_once(self):
        self.accepts(took(0, 1, 9), wipe(2, 8), peeked(3, 4, 9), peeked(5, 6, 10))
        self.rejects(took(0, 1, 9), wipe(2, 8), peeked(9, 10, 9))
        self.rejects(took(0, 1, 9), peeked(1.1, 1.2, 10), wipe(2, 8))

    def test_a_failover_loses_only_the_newest_changes(self):
        before = (took(0, 1, 9), took(2, 3, 7, cost=2), took(4, 5, 6))
        for left in (9, 7, 6):
            self.accepts(*before, failover(6, 8, since=1.5), peeked(9, 10, left))
        for left in (10, 8, 5):
            self.rejects(*before, failover(6, 8, since=1.5), peeked(9, 10, left))

    def test_a_failover_does_not_lose_a_part_of_a_request(self):
        both = take(0, 1, [0, 1], 2, (True, (8, 1)))
        one = took(9, 10, 1, cost=0, counter=1)
        self.accepts(both, failover(2, 3, since=0), peeked(7, 8, 8), one)
        self.rejects(both, failover(2, 3, since=0), peeked(7, 8, 10), one)

    def test_two_failovers(self):
        history = (took(0, 1, 9), failover(2, 3, since=0), took(4, 5, 9), failover(6, 7, since=3.5))
        self.accepts(*history, peeked(8, 9, 10))
        self.rejects(*history, peeked(8, 9, 8))


def in_some_order(ops):
    """Tries every order of the requests, with and without those whose answer is lost."""
    known = [op for op in ops if op.answer or op.kind in ("wipe", "failover")]
    unknown = [op for op in ops if op not in known]
    for count in range(len(unknown) + 1):
        for some in itertools.combinations(unknown, count):
            for order in itertools.permutations(known + list(some)):
                late = (later.answered < op.sent for op, later in itertools.combinations(order, 2))
                if not any(late) and explains(order, [(-math.inf, (0, 0))]):
                    return True
    return False


def explains(order, states):
    """Whether the requests, in this order, give their answers. `states` are those so far: when the
    request before was answered, and the used units after it."""
    if not order:
        return True
    op, used = order[0], states[-1][1]
    if op.kind == "wipe":
        return explains(order[1:], [*states, (op.answered, (0, 0))])
    if op.kind == "failover":
        kept = max(i for i, (answered, _) in enumerate(states) if answered < op.cost)
        return any(explains(order[1:], [(-math.inf, state)]) for _, state in states[kept:])
    answer, after = apply(LIMITS, used, op)
    if op.answer is None:
        return explains(order[1:], [*states, (math.inf, after)])
    return op.answer == answer and explains(order[1:], [*states, (op.answered, after)])


class AgainstEveryOrder(unittest.TestCase):
    def random_op(self, dice):
        sent = dice.randrange(8)
        end = sent + dice.randrange(1, 8)
        if dice.random() < 0.05:
            return wipe(sent, end)[0]
        counters = dice.choice([(0,), (1,), (0, 1)])
        answer = (dice.random() < 0.9, tuple(LIMITS[i] - dice.randrange(4) for i in counters))
        make = take if dice.random() < 0.7 else refund
        if dice.random() < 0.2:
            return make(sent, end, counters, dice.randrange(1, 3), None)
        return make(sent, end, counters, dice.randrange(3), answer)

    def test_random_histories_are_judged_as_by_trying_every_order(self):
        dice, accepted = random.Random(1), 0
        for _ in range(20_000):
            ops, copy = [self.random_op(dice) for _ in range(dice.randrange(1, 6))], []
            if dice.random() < 0.2:
                sent = dice.randrange(1, 10)
                since = dice.randrange(sent)
                *copy, ops[0] = failover(sent, sent + dice.randrange(1, 4), since)
                expected = in_some_order([ops[0]._replace(cost=since), *ops[1:]])
            else:
                expected = in_some_order(ops)
            self.assertEqual(explain(LIMITS, ops + copy) is None, expected, ops + copy)
            accepted += expected
        self.assertTrue(2000 < accepted < 18_000, accepted)


if __name__ == "__main__":
    unittest.main()
