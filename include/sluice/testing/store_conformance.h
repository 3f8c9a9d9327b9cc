#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/limit.h"
#include "sluice/limiter.h"
#include "sluice/permit_id.h"
#include "sluice/store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::testing {

// Returns every algorithm whose takes need no permit, except for budget.
inline std::vector<Algorithm> all_algorithms() {
  std::vector<Algorithm> all;
  all.reserve(std::size(kAlgorithms));
  for (const AlgorithmInfo& row : kAlgorithms) {
    const bool is_of_its_own = holds_permits(row.algorithm) || holds_amounts(row.algorithm);
    if (!is_of_its_own) all.push_back(row.algorithm);
  }
  return all;
}

// How check_store() makes a store, and what it may request of it. A plain value.
struct StoreConformance {
  // Makes an empty store. The suite moves the clock, which outlives the store. A store with a time
  // of its own ignores it; then set `follows_clock` to false.
  std::function<std::unique_ptr<Store>(const Clock& clock)> make;

  // Whether the store decides a request without a time at the clock's time. If not, the suite gives
  // a time with every request.
  bool follows_clock = true;
  // The algorithms that the store knows, except the two below. Default: all others.
  std::vector<Algorithm> algorithms = all_algorithms();
  // Whether the store has permits (`concurrency`), and budgets. If not, neither is checked.
  bool permits = false;
  bool budgets = false;
  // The longest key that the suite uses, in bytes.
  std::size_t longest_key = std::size_t{1} << 20;
  // Threads that send requests at once, and requests of each. More find races sooner.
  int threads = 8;
  int requests_per_thread = 500;
};

// Checks that a store decides as every store must (Store::apply, docs/reference/algorithms.md): all
// verbs, the exact numbers of every algorithm, all or nothing, clocks that go back, changed
// numbers, odd keys and requests, threads; no blocks, no rows (Charge::alternative). For authors:
//
//   for (const auto& failure : check_store({.make = make_my_store})) ADD_FAILURE() << failure;
//
// Returns one sentence for each error; none if the store conforms. Cost: some thousand requests, on
// a few dozen stores, one after another; it does not sleep. Errors: throws what `make` throws.
std::vector<std::string> check_store(const StoreConformance& conformance);

}  // namespace sluice::testing

// The rest is not for callers: what the checks are written in, exact numbers, permits, and the
// checks.
namespace sluice::testing {

struct StoreConformance;

namespace detail {

// Long periods, so that a store whose counters expire by a real clock keeps them for the suite; and
// a start at which the windows of that period open on the clock's grid.
inline constexpr Duration kPeriod = std::chrono::seconds{1000};
inline constexpr Instant kStart{std::chrono::seconds{1600000000}};

inline Limit limit_of(Algorithm algorithm, std::uint64_t units) {
  return Limit::make({.algorithm = algorithm, .limit = units, .per = kPeriod}).value();
}

inline std::string shown(const std::optional<Duration>& wait) {
  return wait ? std::to_string(wait->count()) + "us" : "none";
}
inline std::string shown(const Decision& d) {
  return std::string(to_string(d.outcome)) + " (" + std::string(to_string(d.reason)) + ") limit " +
         std::to_string(d.capacity) + " remaining " + std::to_string(d.remaining) +
         " reset_after " + shown(std::optional(d.reset_after)) + " retry_after " +
         shown(d.retry_after) + " delay " + shown(d.delay) + " taken " + std::to_string(d.taken) +
         " spent " + std::to_string(d.spent) + " held " + std::to_string(d.held);
}

// The answers that a check expects.
inline Decision ok(std::uint64_t limit, std::uint64_t remaining, std::int64_t reset_after,
                   std::optional<Duration> delay = {}) {
  return {.capacity = limit,
          .remaining = remaining,
          .reset_after = Duration{reset_after},
          .delay = delay};
}
inline Decision limited(std::uint64_t limit, std::uint64_t remaining, std::int64_t reset_after,
                        std::int64_t retry_after) {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kLimited,
          .capacity = limit,
          .remaining = remaining,
          .reset_after = Duration{reset_after},
          .retry_after = Duration{retry_after}};
}
inline Decision never(std::uint64_t limit, std::uint64_t remaining, std::int64_t reset_after) {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kNever,
          .capacity = limit,
          .remaining = remaining,
          .reset_after = Duration{reset_after}};
}

// One check: a fresh store, and a list that failures are added to. Instants are given as the time
// since kStart.
class Check {
 public:
  using Make = std::function<std::unique_ptr<Store>(const Clock&)>;

  Check(const StoreConformance& conformance, const Make& make, std::string name,
        std::vector<std::string>& failures)
      : conformance_(conformance),
        name_(std::move(name)),
        failures_(failures),
        clock_(kStart),
        store_(make(clock_)),
        limiter_(*store_) {}

  const StoreConformance& conformance() const noexcept { return conformance_; }
  ManualClock& clock() noexcept { return clock_; }
  Limiter& limiter() noexcept { return limiter_; }

  Decision take(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                Duration at = Duration{0}) {
    return limiter_.try_acquire(key, limit, cost, kStart + at);
  }
  Decision peek(std::string_view key, const Limit& limit, std::uint64_t cost = 0,
                Duration at = Duration{0}) {
    return limiter_.peek(key, limit, cost, kStart + at);
  }
  Decision refund(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                  Duration at = Duration{0}) {
    return limiter_.refund(key, limit, cost, kStart + at);
  }
  Decision reset(std::string_view key, const Limit& limit) {
    const Charge charge{key, limit, 0};
    return limiter_.apply(Verb::kReset, {&charge, 1}, {}, kStart);
  }
  Decision check(std::span<const Charge> charges, std::span<Decision> each) {
    return limiter_.check(charges, each, kStart);
  }

  void expect(bool holds, const std::string& what) {
    if (!holds) failures_.push_back(name_ + ": " + what);
  }
  void expect_equal(const Decision& got, const Decision& wanted, const std::string& what) {
    expect(got == wanted, what + ": expected " + shown(wanted) + ", got " + shown(got));
  }
  // That it is so, whatever its numbers.
  void expect_allowed(const Decision& got, const std::string& what) {
    expect(got.allowed() && got.reason == Reason::kOk && !got.retry_after,
           what + ": expected it to be allowed, got " + shown(got));
  }
  void expect_limited(const Decision& got, const std::string& what) {
    expect(!got.allowed() && got.reason == Reason::kLimited && got.retry_after,
           what + ": expected it to be limited, with retry_after; got " + shown(got));
  }

 private:
  const StoreConformance& conformance_;
  std::string name_;
  std::vector<std::string>& failures_;
  ManualClock clock_;
  std::unique_ptr<Store> store_;
  Limiter limiter_;
};

}  // namespace detail
}  // namespace sluice::testing

// Exact numbers, worked out by hand from the meaning of each algorithm
// (docs/reference/algorithms.md).
namespace sluice::testing::detail {

struct Step {
  std::int64_t at;  // microseconds since kStart
  Action action;
  std::uint64_t cost;
  Decision wanted;
};

struct Script {
  std::string name;
  Limit limit;
  std::vector<Step> steps;
};

// Three units per period, five at once: token_bucket, leaky_bucket as a meter, and gcra are the
// same.
inline Script bucket_script(std::string name, const Limit& limit) {
  return {std::move(name),
          limit,
          {{0, Verb::kTake, 5, ok(5, 0, 1666666667)},
           {0, Verb::kTake, 1, limited(5, 0, 1666666667, 333333334)},
           {0, Verb::kTake, 2, limited(5, 0, 1666666667, 666666667)},
           {333333333, Verb::kTake, 1, limited(5, 0, 1333333334, 1)},
           {333333334, Verb::kTake, 1, ok(5, 0, 1666666666)},
           {333333334, Verb::kRefund, 2, ok(5, 2, 1000000000)},
           {333333334, Verb::kTake, 6, never(5, 2, 1000000000)},
           {2000000000, Verb::kPeek, 0, ok(5, 5, 0)}}};
}

inline Script interval_script() {
  return {"token_bucket by interval",
          token_bucket(3).per(kPeriod).burst(5).refilled_at_intervals(),
          {{0, Verb::kTake, 5, ok(5, 0, 2000000000)},
           {0, Verb::kTake, 1, limited(5, 0, 2000000000, 1000000000)},
           {0, Verb::kTake, 4, limited(5, 0, 2000000000, 2000000000)},
           {999999999, Verb::kTake, 3, limited(5, 0, 1000000001, 1)},
           {1000000000, Verb::kTake, 3, ok(5, 0, 2000000000)}}};
}

inline Script queue_script() {
  return {"leaky_bucket as a queue",
          leaky_bucket(3).per(kPeriod).burst(3).queueing(),
          {{0, Verb::kTake, 1, ok(3, 2, 333333334, Duration{0})},
           {0, Verb::kTake, 1, ok(3, 1, 666666667, Duration{333333334})},
           {0, Verb::kPeek, 1, ok(3, 0, 1000000000, Duration{666666667})},
           {0, Verb::kTake, 2, limited(3, 1, 666666667, 333333334)}}};
}

inline Script window_script() {
  return {"fixed_window from the first request",
          fixed_window(3).per(kPeriod),
          {{400000000, Verb::kTake, 3, ok(3, 0, 1000000000)},
           {1399999999, Verb::kTake, 1, limited(3, 0, 1, 1)},
           {1400000000, Verb::kTake, 1, ok(3, 2, 1000000000)}}};
}

inline Script clock_window_script() {
  return {"fixed_window by the clock",
          fixed_window(3).per(kPeriod).aligned_to_clock(),
          {{400000000, Verb::kTake, 3, ok(3, 0, 600000000)},
           {400000000, Verb::kTake, 1, limited(3, 0, 600000000, 600000000)},
           {999999999, Verb::kTake, 1, limited(3, 0, 1, 1)},
           {1000000000, Verb::kTake, 1, ok(3, 2, 1000000000)}}};
}

inline Script log_script() {
  return {"sliding_window_log",
          sliding_window_log(3).per(kPeriod),
          {{0, Verb::kTake, 1, ok(3, 2, 1000000000)},
           {100000000, Verb::kTake, 2, ok(3, 0, 1000000000)},
           {100000000, Verb::kTake, 1, limited(3, 0, 1000000000, 900000000)},
           {100000000, Verb::kTake, 2, limited(3, 0, 1000000000, 1000000000)},
           {999999999, Verb::kTake, 1, limited(3, 0, 100000001, 1)},
           {1000000000, Verb::kTake, 1, ok(3, 0, 1000000000)},
           // The newest goes first, so that the units of 100 s are what is left.
           {1000000000, Verb::kRefund, 2, ok(3, 2, 100000000)}}};
}

// Two slices of 500 s: at 500 s the first is whole, from 1000 s on its share shrinks.
inline Script counter_script() {
  return {"sliding_window_counter",
          sliding_window_counter(10).per(kPeriod).slices(2),
          {{0, Verb::kTake, 6, ok(10, 4, 1500000000)},
           {500000000, Verb::kTake, 4, ok(10, 0, 1500000000)},
           {500000000, Verb::kTake, 1, limited(10, 0, 1500000000, 583333334)},
           {1083333333, Verb::kTake, 1, limited(10, 0, 916666667, 1)},
           {1083333334, Verb::kTake, 1, ok(10, 0, 1416666666)}}};
}

inline Script whole_slices_script() {
  return {"sliding_window_counter with the oldest slice whole",
          sliding_window_counter(10).per(kPeriod).slices(2).counting_oldest_whole(),
          {{0, Verb::kTake, 6, ok(10, 4, 1500000000)},
           {500000000, Verb::kTake, 4, ok(10, 0, 1500000000)},
           {500000000, Verb::kTake, 1, limited(10, 0, 1500000000, 1000000000)},
           {1499999999, Verb::kTake, 1, limited(10, 0, 500000001, 1)},
           {1500000000, Verb::kTake, 1, ok(10, 5, 1500000000)}}};
}

// At 600 s, in the second slice, the six of the first become a summary from 0 s to 200 s.
inline Script hybrid_script() {
  return {"sliding_window_hybrid",
          sliding_window_hybrid(10).per(kPeriod).slices(2),
          {{0, Verb::kTake, 3, ok(10, 7, 1000000000)},
           {200000000, Verb::kTake, 3, ok(10, 4, 1000000000)},
           {600000000, Verb::kTake, 4, ok(10, 0, 1000000000)},
           {600000000, Verb::kTake, 1, limited(10, 0, 1000000000, 433333334)},
           {1033333333, Verb::kTake, 1, limited(10, 0, 566666667, 1)},
           {1033333334, Verb::kTake, 1, ok(10, 0, 1000000000)}}};
}

// All scripts, at least one for each algorithm.
inline std::vector<Script> exact_scripts() {
  return {bucket_script("token_bucket", token_bucket(3).per(kPeriod).burst(5)),
          interval_script(),
          bucket_script("leaky_bucket as a meter", leaky_bucket(3).per(kPeriod).burst(5)),
          queue_script(),
          bucket_script("gcra", gcra(3).per(kPeriod).burst(4)),
          window_script(),
          clock_window_script(),
          log_script(),
          counter_script(),
          whole_slices_script(),
          hybrid_script()};
}

inline void check_exact_numbers(Check& check, const Script& script) {
  for (const Step& step : script.steps) {
    const Charge charge{"key", script.limit, step.cost};
    Decision each;
    const Instant at = kStart + Duration{step.at};
    const Decision got = check.limiter().apply(step.action, {&charge, 1}, {&each, 1}, at);
    constexpr std::string_view kVerbs[] = {"take",   "peek",         "refund", "reset",
                                           "charge", "take_at_most", "reserve"};
    const std::string what = script.name + ", " +
                             std::string(kVerbs[static_cast<std::size_t>(step.action.verb)]) + " " +
                             std::to_string(step.cost) + " at " + std::to_string(step.at) + "us";
    check.expect_equal(got, step.wanted, what);
    check.expect_equal(each, step.wanted, what + " (its charge)");
  }
}

// Exact numbers of charge, take_at_most and reserve (docs/reference/algorithms.md).

using std::chrono::seconds;

inline Decision over(std::uint64_t limit, std::int64_t reset_after) {
  return {.reason = Reason::kOver, .capacity = limit, .reset_after = Duration{reset_after}};
}
inline Decision taken(std::uint64_t units, const Decision& decision) {
  Decision with = decision;
  with.taken = units;
  return with;
}

// As bucket_script().
inline Script bucket_verbs_script(std::string name, const Limit& limit) {
  return {std::move(name),
          limit,
          {{0, Verb::kCharge, 4, ok(5, 1, 1333333334)},
           {0, Verb::kCharge, 3, over(5, 2333333334)},
           {0, {Verb::kReserve, seconds(1000)}, 1, ok(5, 0, 2666666667, seconds(1000))},
           {0, {Verb::kReserve, seconds(1000)}, 1, limited(5, 0, 2666666667, 333333334)},
           {333333333, {Verb::kReserve, seconds(1000)}, 1, limited(5, 0, 2333333334, 1)},
           {333333334, {Verb::kReserve, seconds(1000)}, 1, ok(5, 0, 2666666666, seconds(1000))},
           {2000000000, Verb::kTakeAtMost, 3, taken(2, ok(5, 0, 1666666667))},
           {2000000000, Verb::kTakeAtMost, 3, limited(5, 0, 1666666667, 333333334)},
           {2000000000, {Verb::kReserve, seconds(1000)}, 6, never(5, 0, 1666666667)}}};
}

inline Script interval_verbs_script() {
  return {"token_bucket by interval, other verbs",
          token_bucket(3).per(kPeriod).burst(5).refilled_at_intervals(),
          {{0, Verb::kCharge, 7, over(5, 3000000000)},
           {0, {Verb::kReserve, seconds(2000)}, 3, ok(5, 0, 4000000000, seconds(2000))},
           {0, {Verb::kReserve, seconds(2000)}, 2, limited(5, 0, 4000000000, 1000000000)},
           {2500000000, Verb::kTakeAtMost, 4, taken(1, ok(5, 0, 1500000000))}}};
}

// The delay is that of the queue, which is longer than the wait for the units.
inline Script queue_verbs_script() {
  return {"leaky_bucket as a queue, other verbs",
          leaky_bucket(3).per(kPeriod).burst(3).queueing(),
          {{0, {Verb::kReserve, seconds(0)}, 2, ok(3, 1, 666666667, seconds(0))},
           {0, {Verb::kReserve, seconds(1000)}, 2, ok(3, 0, 1333333334, Duration{666666667})},
           {0, Verb::kTakeAtMost, 5, limited(3, 0, 1333333334, 666666667)},
           {0, Verb::kCharge, 1, over(3, 1666666667)}}};
}

inline Script window_verbs_script() {
  return {"fixed_window from the first request, other verbs",
          fixed_window(3).per(kPeriod),
          {{400000000, Verb::kCharge, 5, over(3, 1000000000)},
           {1399999999, {Verb::kReserve, seconds(1000)}, 1, limited(3, 0, 1, 1)},
           {1400000000, {Verb::kReserve, seconds(0)}, 2, ok(3, 1, 1000000000, seconds(0))},
           {1400000000, Verb::kTakeAtMost, 7, taken(1, ok(3, 0, 1000000000))}}};
}

inline Script clock_window_verbs_script() {
  return {"fixed_window by the clock, other verbs",
          fixed_window(3).per(kPeriod).aligned_to_clock(),
          {{400000000, Verb::kCharge, 5, over(3, 600000000)},
           {1000000000, Verb::kTakeAtMost, 7, taken(3, ok(3, 0, 1000000000))}}};
}

inline Script log_verbs_script() {
  return {"sliding_window_log, other verbs",
          sliding_window_log(3).per(kPeriod),
          {{0, Verb::kCharge, 2, ok(3, 1, 1000000000)},
           {100000000, Verb::kCharge, 3, over(3, 1000000000)},
           {1000000000, Verb::kTakeAtMost, 1, limited(3, 0, 100000000, 100000000)},
           {1000000000, Verb::kCharge, 0, ok(3, 0, 100000000)},
           {1100000000, {Verb::kReserve, seconds(0)}, 2, ok(3, 1, 1000000000, seconds(0))},
           {1100000000, Verb::kTakeAtMost, 2, taken(1, ok(3, 0, 1000000000))}}};
}

// The second entry moves to each later charge, because two are the most of this limit.
inline Script full_log_script() {
  return {"sliding_window_log with the most entries",
          sliding_window_log(1).per(kPeriod),
          {{0, Verb::kCharge, 1, ok(1, 0, 1000000000)},
           {100000000, Verb::kCharge, 1, over(1, 1000000000)},
           {900000000, Verb::kCharge, 1, over(1, 1000000000)},
           {1100000000, Verb::kTake, 1, limited(1, 0, 800000000, 800000000)}}};
}

// At 1250 s half of the units of the first slice count.
inline Script counter_verbs_script() {
  return {"sliding_window_counter, other verbs",
          sliding_window_counter(10).per(kPeriod).slices(2),
          {{0, Verb::kCharge, 12, over(10, 1500000000)},
           {1250000000, {Verb::kReserve, seconds(0)}, 3, ok(10, 1, 1250000000, seconds(0))},
           {1250000000, Verb::kTakeAtMost, 5, taken(1, ok(10, 0, 1250000000))}}};
}

inline Script hybrid_verbs_script() {
  return {"sliding_window_hybrid, other verbs",
          sliding_window_hybrid(10).per(kPeriod).slices(2),
          {{0, Verb::kCharge, 12, over(10, 1000000000)},
           {600000000, Verb::kCharge, 1, over(10, 1000000000)},
           {1000000000, Verb::kTakeAtMost, 20, taken(9, ok(10, 0, 1000000000))}}};
}

inline std::vector<Script> verbs_scripts() {
  return {bucket_verbs_script("token_bucket, other verbs", token_bucket(3).per(kPeriod).burst(5)),
          interval_verbs_script(),
          bucket_verbs_script("leaky_bucket, other verbs", leaky_bucket(3).per(kPeriod).burst(5)),
          queue_verbs_script(),
          bucket_verbs_script("gcra, other verbs", gcra(3).per(kPeriod).burst(4)),
          window_verbs_script(),
          clock_window_verbs_script(),
          log_verbs_script(),
          full_log_script(),
          counter_verbs_script(),
          hybrid_verbs_script()};
}

// The least of what each charge can have is taken with all of them, or nothing at all. A store that
// consists of several servers has the counters of one tag in one of them.
inline void check_sharing(Check& c, const Limit& five) {
  Decision each[3];
  const auto take_at_most = [&](std::uint64_t a, std::uint64_t b, std::uint64_t again) {
    const Charge charges[] = {
        {"a", five, a, "tag"}, {"b", five, b, "tag"}, {"b", five, again, "tag"}};
    return c.limiter().apply(Verb::kTakeAtMost, charges, each, kStart);
  };
  const Charge two{"a", five, 2, "tag"};
  c.limiter().apply(Verb::kTake, {&two, 1}, {}, kStart);
  Decision all = take_at_most(9, 4, 8);
  c.expect(all.allowed() && all.taken == 2, "the two charges on b must get 2 units each");
  c.expect(each[0].taken == 2 && each[0].remaining == 1 && each[2].remaining == 1,
           "all charges must take the same number of units");
  all = take_at_most(9, 4, 8);
  c.expect(!all.allowed() && all.taken == 0, "two charges cannot take from one unit");
  c.expect(each[0].allowed() && each[0].remaining == 1, "a denied request must take nothing");
  all = take_at_most(9, 0, 8);
  c.expect(all.allowed() && all.taken == 0, "a charge of nothing must be allowed");
  c.expect(each[0].remaining == 1, "a request with a charge of nothing takes nothing");
}

// Charges that give back and charges that count, in one request, answer and change each counter as
// a refund and a charge of their own do.
inline void check_settling(Check& c, const Limit& five) {
  std::array<Decision, 3> each;
  const auto apply = [&](Verb verb, std::span<const Charge> charges) {
    return c.limiter().apply(verb, charges, std::span(each).first(charges.size()), kStart);
  };
  const auto given_back = [&](std::string_view key, std::uint64_t cost) {
    Charge charge{key, five, cost};
    charge.gives_back = true;
    return charge;
  };
  for (const std::string_view key : {"down", "up", "down alone", "up alone"}) {
    static_cast<void>(c.take(key, five, 3));
  }
  const std::array mixed{given_back("down", 2), Charge{"up", five, 4}};
  const Decision all = apply(Verb::kCharge, mixed);
  const std::array settled = each;
  c.expect(all.allowed() && all.reason == Reason::kOver,
           "a settlement beyond a limit must be over, got " + shown(all));
  const std::array down{Charge{"down alone", five, 2}};
  const std::array up{Charge{"up alone", five, 4}};
  c.expect_equal(settled[0], apply(Verb::kRefund, down), "the charge that gives back");
  c.expect_equal(settled[1], apply(Verb::kCharge, up), "the charge that counts");
  c.expect_equal(c.peek("down", five), c.peek("down alone", five), "a counter settled down");
  c.expect_equal(c.peek("up", five), c.peek("up alone", five), "a counter settled up");
  const std::array both{Charge{"down", five, 1}, given_back("down", 3), Charge{"down", five, 3}};
  apply(Verb::kCharge, both);
  c.expect_equal(c.peek("down", five), ok(5, 3, c.peek("down", five).reset_after.count()),
                 "charges on one counter, 1 - 3 + 3");
  c.expect(apply(Verb::kTake, {both.data(), 2}).reason == Reason::kInvalid,
           "a take cannot give back");
}

// The checks of permits.

// Two permits, and what is asked of them. Instants are given as the time since kStart.
class PermitCheck {
 public:
  explicit PermitCheck(Check& check) : check_(check) {}

  Decision ask(Action action, std::string_view key, const PermitId* permit, std::uint64_t cost = 1,
               Duration at = Duration{0}) {
    const Charge charge{.key = key, .limit = limit, .cost = cost, .permit = permit};
    return check_.limiter().store().apply_one(action, charge, kStart + at);
  }
  Decision ask_both(Action action, Duration at = Duration{0}) {
    const Charge charges[] = {
        {.key = "a", .limit = limit, .cost = 2, .tag = "tag", .permit = &first},
        {.key = "b", .limit = brief, .cost = 1, .tag = "tag", .permit = &first}};
    return check_.limiter().apply(action, charges, each, kStart + at);
  }

  static constexpr Duration kLease = kPeriod;
  static constexpr Duration kBriefLease = kPeriod / 10;
  const Limit limit = concurrency(3).lease(kLease);
  const Limit brief = concurrency(1).lease(kBriefLease);
  const PermitId first = PermitId(PermitId::Bytes{1});
  const PermitId second = PermitId(PermitId::Bytes{2});
  std::array<Decision, 2> each = {};

 private:
  Check& check_;
};

inline Decision gone(std::uint64_t limit, std::uint64_t remaining, std::int64_t reset_after) {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kGone,
          .capacity = limit,
          .remaining = remaining,
          .reset_after = Duration{reset_after}};
}

inline void check_one_permit(Check& c) {
  PermitCheck p(c);
  const std::int64_t lease = PermitCheck::kLease.count();
  const Duration half = PermitCheck::kLease / 2;
  c.expect_equal(p.ask(Verb::kTake, "k", &p.first, 2), ok(3, 1, lease), "a permit of 2 units");
  c.expect_equal(p.ask(Verb::kTake, "k", &p.second, 2, half),
                 limited(3, 1, half.count(), half.count()), "units that are in flight");
  c.expect_equal(p.ask(Verb::kExtend, "k", &p.first, 1, half), ok(3, 1, lease), "a longer lease");
  const Duration end = half + PermitCheck::kLease;
  c.expect_equal(p.ask(Verb::kPeek, "k", nullptr, 0, end - Duration{1}), ok(3, 1, 1),
                 "a tick before the lease ends");
  c.expect_equal(p.ask(Verb::kExtend, "k", &p.first, 1, end), gone(3, 3, 0), "an ended lease");
  c.expect_equal(p.ask(Verb::kTake, "k", &p.second, 3, end), ok(3, 0, lease), "its units");
  c.expect_equal(p.ask(Verb::kPeek, "k", nullptr, 0), ok(3, 0, lease), "a clock that goes back");
  c.expect_equal(p.ask(Verb::kRelease, "k", &p.first, 1, end), gone(3, 0, lease), "a late release");
  c.expect_equal(p.ask(Verb::kRelease, "k", &p.second, 1, end), ok(3, 3, 0), "a release");
  c.expect_equal(p.ask(Verb::kRelease, "k", &p.second, 1, end), gone(3, 3, 0), "another release");
}

inline void check_other_verbs_of_permits(Check& c) {
  PermitCheck p(c);
  const std::int64_t lease = PermitCheck::kLease.count();
  p.ask(Verb::kTake, "k", &p.first, 1);
  const Decision rest = p.ask(Verb::kTakeAtMost, "k", &p.second, 9);
  c.expect(rest.allowed() && rest.taken == 2, "take_at_most must take the units that are left");
  c.expect_equal(p.ask(Verb::kRefund, "k", nullptr, 2), ok(3, 2, lease), "a refund of the newest");
  c.expect_equal(p.ask(Verb::kRelease, "k", &p.second), gone(3, 2, lease), "a refunded permit");
  c.expect_equal(p.ask(Verb::kReset, "k", nullptr, 0), ok(3, 3, 0), "a reset");
  c.expect_equal(p.ask(Verb::kExtend, "k", &p.first), gone(3, 3, 0), "a permit before a reset");
  const auto expect_invalid = [&](const Decision& said, const std::string& what) {
    c.expect(said.reason == Reason::kInvalid, what + " must be invalid");
  };
  expect_invalid(p.ask(Verb::kTake, "k", nullptr), "a take without a permit");
  expect_invalid(p.ask(Verb::kRelease, "k", nullptr), "a release without a permit");
  expect_invalid(p.ask(Verb::kCharge, "k", &p.first), "a charge");
  const Charge other{.key = "k", .limit = limit_of(Algorithm::kFixedWindow, 1), .permit = &p.first};
  expect_invalid(c.limiter().store().apply_one(Verb::kRelease, other, kStart),
                 "a release of another algorithm");
}

inline void check_permit_of_two_limits(Check& c) {
  PermitCheck p(c);
  c.expect_allowed(p.ask_both(Verb::kTake), "a permit of two limits");
  c.expect_limited(p.ask_both(Verb::kTake), "a second one");
  c.expect(p.each[0].remaining == 1, "a denied request must take no permit");
  const Duration later = PermitCheck::kBriefLease;
  c.expect(p.ask_both(Verb::kExtend, later).reason == Reason::kGone &&
               p.each[0].reset_after == PermitCheck::kLease - later,
           "if one lease has ended, extend must change nothing");
  c.expect_allowed(p.ask_both(Verb::kRelease, later), "a release where one lease has ended");
  c.expect(p.each[0].remaining == 3 && p.each[1].reason == Reason::kGone,
           "a release must end the permit where it is live");
  c.expect(p.ask_both(Verb::kRelease, later).reason == Reason::kGone, "it must be gone then");
}

}  // namespace sluice::testing::detail

// Holds of budgets.
namespace sluice::testing::detail {

inline constexpr Duration kHoldTime = std::chrono::seconds{10};
inline constexpr Duration kBudgetPeriod = std::chrono::hours{1};

// kStart, or the begin of the next window of budgets.
inline Instant window_start() {
  const Duration since = (kStart - Instant{}) % kBudgetPeriod;
  return since == Duration{0} ? kStart : kStart - since + kBudgetPeriod;
}

inline void check_budget(Check& c) {
  const Instant start = window_start();
  const std::int64_t hour = kBudgetPeriod.count();
  const PermitId id = PermitId::named("a"), other = PermitId::named("b");
  const auto ask = [&](Action action, std::uint64_t cost, const PermitId* name = nullptr,
                       Duration later = Duration{0}) {
    const Charge charge{"k", budget(kMaxAmount).per(kBudgetPeriod), cost, {}, false, name};
    Decision each;
    c.limiter().apply(Verb::kPeek, {&charge, 1}, {&each, 1}, start + later);
    const Decision peeked = c.limiter().store().apply_one(Verb::kPeek, charge, start + later);
    c.expect_equal(peeked, each, "a peek at one charge");
    const Decision all = c.limiter().apply(action, {&charge, 1}, {&each, 1}, start + later);
    c.expect_equal(all, each, "a request with one charge");
    return all;
  };
  const auto numbers = [&](std::uint64_t remaining, std::int64_t reset_after, std::uint64_t spent,
                           std::uint64_t kept) {
    Decision said = ok(kMaxAmount, remaining, reset_after);
    said.spent = spent, said.held = kept;
    return said;
  };
  const Action hold{Verb::kHold, kHoldTime};
  const std::uint64_t left = kMaxAmount - 6;
  Decision held = numbers(left, hour, 0, 6);
  held.ends_after = kHoldTime;
  c.expect_equal(ask(hold, 6, &id), held, "a hold");
  held.repeated = true;
  c.expect_equal(ask(hold, 6, &id), held, "the same hold");
  const auto expect = [&](const Decision& said, Reason reason, bool repeated, bool late,
                          const std::string& what) {
    c.expect(said.reason == reason && said.repeated == repeated && said.late == late,
             what + " must not be answered with " + shown(said));
  };
  expect(ask(hold, 5, &id), Reason::kConflict, false, false, "a hold with another cost");
  c.expect_equal(ask(Verb::kSettle, 4, &id), numbers(left + 2, hour, 4, 0), "a settlement");
  expect(ask(Verb::kSettle, 4, &id), Reason::kOk, true, false, "the same settlement");
  expect(ask(Verb::kSettle, 3, &id), Reason::kConflict, false, false, "another settlement");
  expect(ask({Verb::kExtend, kHoldTime}, 1, &id), Reason::kGone, false, false, "a settled hold");
  ask(hold, 1, &other);
  c.expect_equal(ask(Verb::kPeek, 0, nullptr, kHoldTime),
                 numbers(left + 1, hour - kHoldTime.count(), 5, 0), "a hold that has ended");
  expect(ask(Verb::kSettle, 0, &other, kHoldTime), Reason::kOk, false, true, "a late settlement");
  const PermitId unheld = PermitId::named("c");
  expect(ask(Verb::kCancel, 0, &unheld, kHoldTime), Reason::kOk, false, true, "a cancellation");
  expect(ask(hold, 6, &unheld, kHoldTime), Reason::kConflict, false, false, "a cancelled id");
  c.expect_equal(ask(Verb::kPeek, 0, nullptr, kBudgetPeriod), numbers(kMaxAmount, 0, 0, 0),
                 "the next window");
  expect(ask(hold, 6), Reason::kInvalid, false, false, "a hold without an id");
}

}  // namespace sluice::testing::detail

// The checks.
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
  const Charge of_rule{.key = "key", .limit = five, .cost = 2, .rule = {Keyspace::kRules}};
  const Charge of_caller{"key", five, 3};
  const std::array both{of_rule, of_caller};
  c.expect_allowed(c.limiter().check(both, {}, kStart), "one key in two keyspaces");
  const Limit other = limit_of(five.algorithm(), 1000);
  std::array<Decision, 1> each;
  const Charge wide{"key", other, 900};
  c.expect_allowed(c.limiter().store().apply(Verb::kTake, {&wide, 1}, kStart, each),
                   "a caller's own numbers");
  const Charge rest{.key = "key", .limit = five, .cost = 3, .rule = {Keyspace::kRules}};
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

// See its declaration.
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
  if (conformance.budgets) {
    Check c(conformance, conformance.make, "budget, holds", failures);
    detail::check_budget(c);
  }
  return failures;
}

}  // namespace sluice::testing
