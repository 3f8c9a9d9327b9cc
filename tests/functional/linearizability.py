"""Checks whether a history of concurrent requests is linearizable: whether some order of the requests
gives the recorded answers, one request at a time, where each takes effect between the time it was
sent and the time of its answer. The search is that of Wing and Gong with Lowe's memoization.

The model of a limit is a number of used units, because the windows of the tests are far longer than
the tests. A request whose answer is lost takes effect at any time until a given one, or never.
"""

import collections

# kind: "take", "refund", "reset", "wipe" (all counters are lost), "copy" (the counters are copied) or
#   "failover" (the counters are those copied)
# counters: the indexes of the counters that it charges, all or none
# answer: (admitted, remaining units of each of its counters), or None if the answer was lost. Then
#   `answered` is the time until which it may take effect
Op = collections.namedtuple("Op", "sent answered kind cost counters answer")
MOST_STATES = 1_000_000  # of a search: about 300 MB


def take(sent, answered, counters, cost, answer):
    return Op(sent, answered, "take", cost, tuple(counters), answer)


def refund(sent, answered, counters, cost, answer):
    return Op(sent, answered, "refund", cost, tuple(counters), answer)


def wipe(begin, end):
    """All counters are lost."""
    return [Op(begin, end, "wipe", 0, (), None)]


def failover(begin, end, since):
    """The counters are as they were at some time since then: newer changes were not replicated."""
    return [Op(since, end, "copy", 0, (), None), Op(begin, end, "failover", 0, (), None)]


def apply(limits, used, op):
    """Returns the model's answer and the units that are used then."""
    after, fits = list(used), True
    for i in op.counters:
        after[i] = after[i] + op.cost if op.kind == "take" else max(0, after[i] - op.cost)
        fits = fits and after[i] <= limits[i]
    after = tuple(after) if fits else used
    return (fits, tuple(limits[i] - after[i] for i in op.counters)), after


def is_lost(op):
    return op.answer is None and op.kind not in ("wipe", "copy", "failover")


def only_reads(op):
    """Returns whether a request changes nothing wherever it is in an order with its answer. If it is
    possible now, no order without it needs to be tried."""
    return op.answer is not None and (not op.answer[0] or op.cost == 0 and op.kind != "reset")


class Search:
    """A depth-first search for an order. `events`, with `next` and `back`, is a linked list of when the
    requests that are not yet in the order were sent and answered."""

    def __init__(self, limits, ops):
        self.limits = limits
        self.ops = sorted(ops, key=lambda op: op.sent)
        events = sorted(
            [(op.sent, False, i) for i, op in enumerate(self.ops)]
            + [(op.answered, True, i) for i, op in enumerate(self.ops)]
        )
        self.events = [(i, is_answer) for _, is_answer, i in events]
        end = len(events)  # is before the first event and after the last one
        self.next = list(range(1, end + 1)) + [0]
        self.back = [end, *range(end)]
        self.places = [[] for _ in self.ops]
        for place, (i, _) in enumerate(self.events):
            self.places[i].append(place)
        self.unanswered = len(self.ops)

    def remove(self, i):
        self.unanswered -= 1
        for place in reversed(self.places[i]):
            self.next[self.back[place]] = self.next[place]
            self.back[self.next[place]] = self.back[place]

    def restore(self, i):
        self.unanswered += 1
        for place in self.places[i]:
            self.next[self.back[place]] = self.back[self.next[place]] = place

    def outcome(self, op, state):
        """Returns the state after the request: the used units and their copy. Returns None if the
        model answers something else."""
        used, copied = state
        if op.kind == "wipe":
            return (0,) * len(used), copied
        if op.kind == "copy":
            return used, used
        if op.kind == "failover":
            return copied and (copied, None)
        if op.kind == "reset":
            answer, after = apply(self.limits, used, op._replace(kind="refund", cost=max(self.limits)))
        else:
            answer, after = apply(self.limits, used, op)
        return (after, copied) if op.answer in (None, answer) else None

    def choices(self, state):
        """Yields (request, state after it) for each request that may come next in the order. Of equal
        requests whose answer is lost, the one with the least time is enough. Copies come last,
        because they are seldom old."""
        known, lost, copies, place = [], {}, [], self.next[-1]
        while not self.events[place][1]:
            i = self.events[place][0]
            if not is_lost(op := self.ops[i]):
                (copies if op.kind == "copy" else known).append(i)
            elif (kind := op[2:5]) not in lost or op.answered < self.ops[lost[kind]].answered:
                lost[kind] = i
            place = self.next[place]
        found = []
        for i in known:
            if after := self.outcome(self.ops[i], state):
                if after == state and only_reads(self.ops[i]):
                    yield i, after
                    return
                found.append((i, after))
        yield from found
        for i in lost.values():
            if (after := self.outcome(self.ops[i], state)) != state:
                yield i, after
        for i in copies:
            yield i, self.outcome(self.ops[i], state)
        if is_lost(self.ops[i := self.events[place][0]]):
            yield i, state  # it never takes effect

    def run(self):
        """Returns None if there is an order. Otherwise returns the request that the longest order
        did not explain, as text."""
        unused = (0,) * len(self.limits)
        state = (unused, None)
        path, seen, deepest, stuck = [(None, state, 0, self.choices(state))], set(), 0, None
        while self.unanswered:
            i, state, taken, choices = path[-1]
            for nxt, after in choices:
                if (key := (taken | 1 << nxt, after)) not in seen:
                    seen.add(key)
                    if len(seen) > MOST_STATES:
                        raise OverflowError(f"no order among {MOST_STATES}; the longest, {stuck}")
                    self.remove(nxt)
                    path.append((nxt, after, key[0], self.choices(after)))
                    break
            else:
                if len(path) > deepest:
                    deepest, stuck = len(path), f"{self.first_answered()} of {state[0]}"
                path.pop()
                if not path:
                    return f"after {deepest - 1} requests: {stuck} used units"
                self.restore(i)
        return None

    def first_answered(self):
        place = self.next[-1]
        while not self.events[place][1]:
            place = self.next[place]
        return self.ops[self.events[place][0]]


def explain(limits, ops):
    """Returns None if the history is linearizable, otherwise a text that says why it is not."""
    return Search(limits, ops).run()
