#pragma once

// The checks of store_conformance.h; include that instead.

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sluice/testing/store_conformance.h"
#include "sluice/testing/store_conformance_exact.h"
#include "sluice/testing/store_conformance_permits.h"
#include "sluice/testing/store_conformance_suite.h"
#include "sluice/testing/store_conformance_verbs.h"

namespace sluice::testing {
namespace detail {

inline void check_taking(Check& c, const Limit& limit) {
  c.expect_equal(c.peek("key", limit), ok(5, 5, 0), "a peek at a new counter");
  for (std::uint32_t left = 5; left-- > 0;) {
    const Decision peeked = c.peek("key", limit, 1);
    const Decision again = c.peek("key", limit, 1);
    const Decision taken = c.take("key", limit);
    c.expect_equal(again, peeked, "a second peek");
    c.expect_equal(taken, peeked, "a take after a peek of the same cost");
    c.expect_allowed(taken, "a take that fits");
    c.expect(taken.remaining == left, "remaining must decrease by the cost");
  }
  const Decision full = c.peek("key", limit);
  c.expect_limited(c.take("key", limit), "a take of one unit too many");
  for (std::uint64_t i = 0; i < 20; ++i) static_cast<void>(c.take("key", limit, 1 + i % 3 * 2));
  c.expect_equal(c.peek("key", limit), full, "a denied take must change nothing");
  c.expect_allowed(c.take("key", limit, 0), "a take with cost 0 at an exhausted limit");
  c.expect_equal(c.take("key", limit, 0), full, "the numbers of a take with cost 0");
}

inline void check_never(Check& c, const Limit& limit) {
  static_cast<void>(c.take("key", limit, 2));
  const Decision before = c.peek("key", limit);
  for (const std::uint64_t cost : {std::uint64_t{6}, kMaxUnits, kMaxUnits + 1, ~std::uint64_t{0}}) {
    const Decision wanted = never(5, 3, before.reset_after.count());
    c.expect_equal(c.take("key", limit, cost), wanted, "a take above the capacity");
    c.expect_equal(c.peek("key", limit, cost), wanted, "a peek above the capacity");
  }
  c.expect_equal(c.peek("key", limit), before, "a take above the capacity must change nothing");
  const Limit ban = limit_of(limit.algorithm(), 0);
  c.expect_equal(c.take("ban", ban), never(0, 0, 0), "a take with a limit of 0");
  c.expect_equal(c.take("ban", ban, 0), ok(0, 0, 0), "a take with cost 0 and a limit of 0");
}

inline void check_giving_back(Check& c, const Limit& limit) {
  c.expect_equal(c.refund("key", limit, 7), ok(5, 5, 0), "a refund to a new counter");
  c.expect_equal(c.reset("key", limit), ok(5, 5, 0), "a reset of a new counter");
  static_cast<void>(c.take("key", limit, 3));
  const Decision three = c.peek("key", limit);
  c.expect_equal(c.refund("key", limit, 0), three, "a refund with cost 0");
  c.expect(c.refund("key", limit, 1).remaining == 3, "a refund must give back its cost");
  c.expect_equal(c.refund("key", limit, 100), ok(5, 5, 0), "a refund of more than was taken");
  c.expect_equal(c.refund("key", limit, ~std::uint64_t{0}), ok(5, 5, 0),
                 "a refund to a full counter");
  c.expect_allowed(c.take("key", limit, 5), "a take of all after refunds");
  c.expect_limited(c.take("key", limit), "a take above the capacity: refunds must not overfill");
  c.expect_equal(c.reset("key", limit), ok(5, 5, 0), "a reset");
  c.expect_equal(c.peek("key", limit), ok(5, 5, 0), "a counter after its reset");
}

inline void check_backward_clock(Check& c, const Limit& limit) {
  constexpr Duration kLater = std::chrono::seconds{700};
  static_cast<void>(c.take("key", limit, 5, kLater));
  for (const std::uint64_t cost : {0u, 1u, 5u}) {
    c.expect_equal(c.peek("key", limit, cost), c.peek("key", limit, cost, kLater),
                   "a timestamp before the last change must be read as the time of that change");
  }
  c.expect_limited(c.take("key", limit), "a take at a timestamp before the last change");
}

inline void check_changed_numbers(Check& c, const Limit& limit) {
  static_cast<void>(c.take("key", limit, 3));
  const auto remaining = [&](std::uint64_t units) {
    return c.peek("key", limit_of(limit.algorithm(), units)).remaining;
  };
  c.expect(remaining(10) == 7, "a raised limit must keep what was consumed");
  c.expect(remaining(2) == 0, "a limit lowered below what was consumed must have nothing left");
  c.expect(remaining(5) == 2, "a peek under another limit must change nothing");
  for (const Algorithm other : c.conformance().algorithms) {
    if (other == limit.algorithm()) continue;
    c.expect_equal(
        c.peek("key", limit_of(other, 5)), ok(5, 5, 0),
        "another algorithm must have its own counter:  " + std::string(to_string(other)));
  }
}

// Whatever came before: remaining is what passes and no more, retry_after and reset_after are the
// first ticks at which they hold.
inline void check_promises_at(Check& c, const Limit& limit, Duration at) {
  const Decision now = c.peek("key", limit, 0, at);
  if (now.remaining > 0) {
    c.expect_allowed(c.peek("key", limit, now.remaining, at), "a cost of all remaining units");
  }
  const std::uint64_t more = std::uint64_t{now.remaining} + 1;
  if (more <= now.capacity) {
    const Decision denied = c.peek("key", limit, more, at);
    c.expect_limited(denied, "a cost of one more than remains");
    const Duration wait = denied.retry_after.value_or(Duration{1});
    c.expect(wait > Duration{0}, "retry_after must be positive");
    c.expect_limited(c.peek("key", limit, more, at + wait - Duration{1}),
                     "a tick before retry_after (" + shown(denied) + ")");
    c.expect_allowed(c.peek("key", limit, more, at + wait),
                     "at retry_after (" + shown(denied) + ")");
  }
  c.expect_equal(c.peek("key", limit, 0, at + now.reset_after),
                 ok(limit.capacity(), limit.capacity(), 0), "at reset_after (" + shown(now) + ")");
  if (now.reset_after > Duration{0}) {
    const Decision before = c.peek("key", limit, 0, at + now.reset_after - Duration{1});
    c.expect(before.reset_after == Duration{1}, "a tick before reset_after (" + shown(now) +
                                                    ") it must be one tick, got " + shown(before));
  }
}

inline void check_promises(Check& c, const Limit& limit) {
  std::mt19937 random(20240229);
  Duration at{0};
  for (int i = 0; i < 60; ++i) {
    at += Duration{std::uniform_int_distribution<std::int64_t>(0, kPeriod.count() / 4)(random)};
    const auto cost = std::uniform_int_distribution<std::uint64_t>(0, 4)(random);
    if (i % 7 == 6) {
      c.refund("key", limit, cost, at);
    } else {
      static_cast<void>(c.take("key", limit, cost, at));
    }
    check_promises_at(c, limit, at);
  }
}

inline void check_all_or_nothing(Check& c, const Limit& five) {
  const Limit one = limit_of(five.algorithm(), 1);
  std::array<Decision, 2> each;
  const std::array charges{Charge{"a", five, 2}, Charge{"b", one, 1}};
  c.expect_allowed(c.check(charges, each), "two limits that both admit");
  c.expect(each[0].remaining == 3 && each[1].remaining == 0, "each limit must take its own cost");
  const Decision a = c.peek("a", five);
  const Decision b = c.take("b", one);
  const Decision all = c.check(charges, each);
  c.expect_equal(c.peek("a", five), a, "a request that another limit denies must take nothing");
  c.expect_equal(each[0], a, "the decision of a limit that would have admitted");
  c.expect_equal(each[1], b, "the decision of the limit that denied");
  c.expect_equal(all, b, "the decision of the request is that of its tightest limit");
  const std::array with_never{Charge{"b", one, 1}, Charge{"a", five, 6}};
  const Decision never_all = c.check(with_never, each);
  c.expect(
      !never_all.allowed() && never_all.reason == Reason::kNever && !never_all.retry_after,
      "if the reason of one limit is never, that of the request is never, got " + shown(never_all));
  c.limiter().apply(Verb::kRefund, charges, each, kStart);
  c.expect_equal(c.peek("a", five), ok(5, 5, 0), "a refund of several charges");
}

inline void check_same_counter(Check& c, const Limit& five) {
  std::array<Decision, 2> each;
  const std::array too_much{Charge{"key", five, 3}, Charge{"key", five, 3}};
  c.expect_equal(c.check(too_much, each), never(5, 5, 0), "two charges count together: 3 + 3 of 5");
  const std::array charges{Charge{"key", five, 3}, Charge{"key", five, 2}};
  c.expect_allowed(c.check(charges, each), "two charges on one counter, 3 + 2 of 5");
  c.expect(each[0] == each[1] && each[0].remaining == 0, "they must have the same decision");
  c.limiter().apply(Verb::kRefund, charges, each, kStart);
  c.expect_equal(c.peek("key", five), ok(5, 5, 0), "a refund of both");
}

inline void expect_invalid(Check& c, const Decision& got, const std::string& what) {
  c.expect(!got.allowed() && got.reason == Reason::kInvalid,
           what + ": expected it to be denied (invalid), got " + shown(got));
}

inline void check_invalid(Check& c, const Limit& five) {
  std::vector<Decision> each(kMaxCharges + 1);
  const auto answers = [&](std::size_t n) { return std::span(each).first(n); };
  Store& store = c.limiter().store();
  expect_invalid(c, store.apply(Verb::kTake, {}, kStart, {}), "a request without charges");
  std::vector<std::string> keys;
  for (std::size_t i = 0; i <= kMaxCharges; ++i) keys.push_back("key " + std::to_string(i));
  std::vector<Charge> charges;
  charges.reserve(keys.size());
  for (const std::string& key : keys) charges.push_back({key, five, 1});
  expect_invalid(c, store.apply(Verb::kTake, charges, kStart, each), "65 charges");
  const std::array differing{Charge{keys[0], five}, Charge{keys[0], limit_of(five.algorithm(), 6)}};
  expect_invalid(c, store.apply(Verb::kTake, differing, kStart, answers(2)),
                 "one counter with different numbers");
  for (const Instant at : {kFirstInstant - Duration{1}, kLastInstant + Duration{1}}) {
    expect_invalid(c, store.apply(Verb::kTake, std::span(charges).first(1), at, answers(1)),
                   "a timestamp out of range");
  }
  c.expect_equal(c.peek(keys[0], five), ok(5, 5, 0), "an invalid request must change nothing");
  charges.pop_back();
  c.expect_allowed(store.apply(Verb::kTake, charges, kStart, answers(kMaxCharges)), "64 charges");
  for (const Instant at : {kFirstInstant, kLastInstant}) {
    const Charge charge{at == kFirstInstant ? "first" : "last", five, 5};
    c.expect_allowed(store.apply(Verb::kTake, {&charge, 1}, at, answers(1)),
                     "the first and last timestamps");
    c.expect_limited(store.apply(Verb::kTake, {&charge, 1}, at, answers(1)),
                     "a second take at the first and last timestamps");
  }
}

inline void check_keys(Check& c, const Limit& one) {
  using namespace std::string_literals;
  std::vector<std::string> keys{"",      "\0"s,   "\0\0"s, "a",        "a\0"s,  "a\0b"s,
                                "a b",   "a\nb",  "{a}",   "{a}b",     "%00",   "a:b",
                                "\xff"s, "\xc3"s, "键",    "a\r\n$1"s, "key:1", "Key:1"};
  const std::size_t longest = c.conformance().longest_key;
  for (const char last : {'a', 'b'}) keys.push_back(std::string(longest - 1, 'x') + last);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    c.expect_allowed(c.take(keys[i], one),
                     "key " + std::to_string(i) + " must have its own counter");
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    c.expect_limited(c.take(keys[i], one), "key " + std::to_string(i) + " must keep its counter");
  }
}

inline void check_keyspaces(Check& c, const Limit& five) {
  const Charge of_rule{"key", five, 2, {}, Keyspace::kRules};
  const Charge of_caller{"key", five, 3};
  const std::array both{of_rule, of_caller};
  c.expect_allowed(c.limiter().check(both, {}, kStart), "one key in two keyspaces");
  const Limit other = limit_of(five.algorithm(), 1000);
  std::array<Decision, 1> each;
  const Charge wide{"key", other, 900};
  c.expect_allowed(c.limiter().store().apply(Verb::kTake, {&wide, 1}, kStart, each),
                   "a caller's own numbers");
  const Charge rest{"key", five, 3, {}, Keyspace::kRules};
  c.expect_allowed(c.limiter().store().apply(Verb::kTake, {&rest, 1}, kStart, each),
                   "a rule's counter after others used its key");
  c.expect_limited(c.limiter().store().apply(Verb::kTake, {&of_rule, 1}, kStart, each),
                   "a rule's exhausted counter");
}

inline void check_own_time(Check& c, const Limit& one) {
  c.expect_allowed(c.limiter().try_acquire("key", one), "a take at the store's own time");
  const Decision denied = c.limiter().try_acquire("key", one);
  c.expect_limited(denied, "a second take at the store's own time");
  const Duration wait = denied.retry_after.value_or(Duration{1});
  c.clock().advance(wait - Duration{1});
  c.expect_limited(c.limiter().peek("key", one), "the store's own time, a tick before retry_after");
  c.clock().advance(Duration{1});
  c.expect_allowed(c.limiter().peek("key", one), "the store's own time, at retry_after");
}

// Threads that all ask for "all" and for one of two keys, in either order: as many are admitted as
// one thread would be, no counter is over its limit, and no two threads wait for each other.
inline void check_threads(Check& c, Algorithm algorithm) {
  const int threads = c.conformance().threads;
  const int requests = c.conformance().requests_per_thread;
  const auto half = static_cast<std::uint64_t>(threads) * static_cast<std::uint64_t>(requests) / 2;
  const Limit all = limit_of(algorithm, std::max<std::uint64_t>(half, 1));
  std::atomic<std::uint64_t> admitted = 0;
  std::atomic<std::uint64_t> failed = 0;
  const auto ask = [&](int thread) {
    for (int i = 0; i < requests; ++i) {
      std::array charges{Charge{"all", all}, Charge{(thread + i) % 2 == 0 ? "even" : "odd", all}};
      if (i % 3 == 0) std::swap(charges[0], charges[1]);
      std::array<Decision, 2> each;
      const Decision decision = c.check(charges, each);
      admitted += decision.allowed() ? 1 : 0;
      failed += decision.reason != Reason::kOk && decision.reason != Reason::kLimited ? 1 : 0;
    }
  };
  std::vector<std::thread> running;
  running.reserve(static_cast<std::size_t>(threads));
  for (int t = 0; t < threads; ++t) running.emplace_back(ask, t);
  for (std::thread& thread : running) thread.join();
  c.expect(failed == 0, std::to_string(failed) + " requests were not decided");
  c.expect(admitted == all.capacity(), std::to_string(admitted) +
                                           " admitted, but one thread admits " +
                                           std::to_string(all.capacity()));
  const auto left = [&](std::string_view key) {
    return all.capacity() - c.peek(key, all).remaining;
  };
  c.expect(left("all") == admitted && left("even") + left("odd") == admitted,
           "the counters must contain what was admitted");
}

// Checks the numbers of an algorithm by all scripts, each with a new store.
inline void check_all_numbers(const StoreConformance& conformance, Algorithm algorithm,
                              std::vector<std::string>& failures) {
  for (const auto& scripts : {exact_scripts(), verbs_scripts()}) {
    for (const Script& script : scripts) {
      if (script.limit.algorithm() != algorithm) continue;
      Check c(conformance, conformance.make, std::string(to_string(algorithm)) + ", exact numbers",
              failures);
      check_exact_numbers(c, script);
    }
  }
}

// Checks the permits of `concurrency`.
inline void check_permits(const StoreConformance& conformance, std::vector<std::string>& failures) {
  const auto run = [&](const char* what, auto check) {
    Check c(conformance, conformance.make, std::string("concurrency, ") + what, failures);
    check(c);
  };
  run("one permit", check_one_permit);
  run("other verbs", check_other_verbs_of_permits);
  run("two limits", check_permit_of_two_limits);
}

}  // namespace detail

// See store_conformance.h.
inline std::vector<std::string> check_store(const StoreConformance& conformance) {
  using detail::Check;
  std::vector<std::string> failures;
  const auto run = [&](Algorithm algorithm, const char* what, std::uint64_t units, auto check) {
    Check c(conformance, conformance.make, std::string(to_string(algorithm)) + ", " + what,
            failures);
    check(c, detail::limit_of(algorithm, units));
  };
  for (const Algorithm algorithm : conformance.algorithms) {
    run(algorithm, "taking", 5, detail::check_taking);
    run(algorithm, "never", 5, detail::check_never);
    run(algorithm, "giving back", 5, detail::check_giving_back);
    run(algorithm, "a clock that goes back", 5, detail::check_backward_clock);
    run(algorithm, "changed numbers", 5, detail::check_changed_numbers);
    run(algorithm, "promises", 7, detail::check_promises);
    run(algorithm, "all or nothing", 5, detail::check_all_or_nothing);
    run(algorithm, "one counter twice", 5, detail::check_same_counter);
    run(algorithm, "take_at_most of several charges", 5, detail::check_sharing);
    run(algorithm, "settling", 5, detail::check_settling);
    run(algorithm, "invalid requests", 5, detail::check_invalid);
    run(algorithm, "keys", 1, detail::check_keys);
    run(algorithm, "keyspaces", 5, detail::check_keyspaces);
    if (conformance.follows_clock) run(algorithm, "own time", 1, detail::check_own_time);
    run(algorithm, "threads", 1,
        [&](Check& c, const Limit&) { detail::check_threads(c, algorithm); });
    detail::check_all_numbers(conformance, algorithm, failures);
  }
  if (conformance.permits) detail::check_permits(conformance, failures);
  return failures;
}

}  // namespace sluice::testing
