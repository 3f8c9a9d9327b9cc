#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/testing/store_conformance_suite.h"

// Exact numbers, worked out by hand from the meaning of each algorithm (docs/algorithms.md).
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

}  // namespace sluice::testing::detail
