#pragma once

#include <chrono>
#include <vector>

#include "sluice/testing/store_conformance_exact.h"

// Exact numbers of charge, take_at_most and reserve (docs/algorithms.md).
namespace sluice::testing::detail {

using std::chrono::seconds;

inline Decision over(std::uint32_t limit, std::int64_t reset_after) {
  return {.reason = Reason::kOver, .capacity = limit, .reset_after = Duration{reset_after}};
}
inline Decision taken(std::uint32_t units, const Decision& decision) {
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

}  // namespace sluice::testing::detail
