// The verbs charge, take_at_most and reserve, with numbers computed by hand.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/oracle/oracle.h"

namespace sluice_oracle::verbs_test {
namespace {

constexpr std::int64_t kSecond = 1000000;
constexpr std::int64_t kYear = std::int64_t{365} * 86400 * kSecond;
constexpr std::int64_t kForever = std::int64_t{1} << 60;

Spec limit_of(Algorithm algorithm, std::uint64_t limit, std::int64_t per_us) {
  return Spec{.algorithm = algorithm, .limit = limit, .per_us = per_us};
}

// One counter under one limit.
class Single {
 public:
  explicit Single(Spec limit) : spec(limit) {}

  Answer take(std::int64_t at, std::uint64_t cost) { return ask(Verb::kTake, at, cost); }
  Answer peek(std::int64_t at, std::uint64_t cost) { return ask(Verb::kPeek, at, cost); }
  Answer refund(std::int64_t at, std::uint64_t cost) { return ask(Verb::kRefund, at, cost); }
  Answer charge(std::int64_t at, std::uint64_t cost) { return ask(Verb::kCharge, at, cost); }
  Answer at_most(std::int64_t at, std::uint64_t cost) { return ask(Verb::kTakeAtMost, at, cost); }
  Answer reserve(std::int64_t at, std::uint64_t cost, std::int64_t max_wait_us = kForever) {
    return ask({Verb::kReserve, max_wait_us}, at, cost);
  }

  Spec spec;

 private:
  Answer ask(const Action& action, std::int64_t at, std::uint64_t cost) {
    return oracle_.apply(action, {{"k", spec, cost}}, at);
  }
  Oracle oracle_;
};

constexpr Algorithm kAll[] = {Algorithm::kFixedWindow,
                              Algorithm::kSlidingWindowLog,
                              Algorithm::kSlidingWindowCounter,
                              Algorithm::kSlidingWindowHybrid,
                              Algorithm::kLeakyBucket,
                              Algorithm::kTokenBucket,
                              Algorithm::kGcra};

TEST(OracleCharge, CountsWhateverTheLimitSays) {
  for (const Algorithm algorithm : kAll) {
    Single counter(limit_of(algorithm, 10, 10 * kSecond));
    EXPECT_EQ(counter.charge(0, 10).reason, "ok");
    EXPECT_EQ(counter.charge(0, 0).reason, "ok");
    const Answer over = counter.charge(0, 5);
    EXPECT_TRUE(over.allowed);
    EXPECT_EQ(over.reason, "over");
    EXPECT_EQ(over.limits[0].reason, "over");
    EXPECT_EQ(over.limits[0].remaining, 0u);
    EXPECT_EQ(over.retry_after_us, std::nullopt);
    EXPECT_EQ(counter.charge(0, 0).reason, "over");
    EXPECT_EQ(counter.peek(0, 0).reason, "ok");
    EXPECT_EQ(counter.refund(0, 6).limits[0].remaining, 1u);
    EXPECT_EQ(counter.charge(0, 0).reason, "ok");
  }
}

TEST(OracleCharge, MakesTakesWaitUntilTheDebtHasDrained) {
  Single counter(limit_of(Algorithm::kTokenBucket, 10, 10 * kSecond));
  EXPECT_EQ(counter.charge(0, 25).limits[0].reset_after_us, 25 * kSecond);
  EXPECT_EQ(counter.take(0, 1).retry_after_us, 16 * kSecond);
  EXPECT_EQ(counter.charge(14500000, 0).reason, "over");  // 10.5 spent
  EXPECT_EQ(counter.charge(15 * kSecond, 0).reason, "ok");
  EXPECT_FALSE(counter.take(16 * kSecond - 1, 1).allowed);
  EXPECT_TRUE(counter.take(16 * kSecond, 1).allowed);
}

TEST(OracleCharge, OfABucketStopsAtTheMostUnits) {
  Single counter(limit_of(Algorithm::kGcra, 1000, kSecond));  // 2^32 units drain in 50 days
  const std::int64_t full = static_cast<std::int64_t>(kMaxUnits) * 1000;
  counter.charge(0, 2);
  EXPECT_EQ(counter.charge(500, kMaxUnits - 2).reason, "over");  // 1.5 spent
  EXPECT_EQ(counter.peek(500, 0).limits[0].reset_after_us, full - 500);
  EXPECT_EQ(counter.charge(500, 1).reason, "over");  // half a unit fits
  EXPECT_EQ(counter.peek(500, 0).limits[0].reset_after_us, full);
  EXPECT_EQ(counter.charge(500, 1).reason, "over");
  EXPECT_EQ(counter.peek(500, 0).limits[0].reset_after_us, full);
}

TEST(OracleCharge, ThatCanAddNothingChangesNothing) {
  for (const Algorithm algorithm : kAll) {
    Single counter(limit_of(algorithm, kMaxUnits, kSecond));
    counter.charge(0, kMaxUnits);
    counter.spec.per_us = 4 * kSecond;
    const auto forgotten = counter.peek(0, kMaxUnits).retry_after_us;  // by the old numbers
    EXPECT_LT(forgotten, 3 * kSecond);
    EXPECT_EQ(counter.charge(0, 1).reason, "over");
    EXPECT_EQ(counter.peek(0, kMaxUnits).retry_after_us, forgotten);
  }
}

TEST(OracleCharge, OfASlowBucketStopsAt142Years) {
  Spec spec = limit_of(Algorithm::kLeakyBucket, 1, kYear);
  EXPECT_EQ(most_stored(spec), 142);  // 2^52 us are 142.8 years of 365 days
  Single counter(spec);
  EXPECT_EQ(counter.charge(0, 143).limits[0].reset_after_us, 142 * kYear);
  Spec intervals = limit_of(Algorithm::kTokenBucket, 10, kYear);
  EXPECT_EQ(most_stored(intervals), 1428);
  intervals.refill = Refill::kInterval;
  EXPECT_EQ(most_stored(intervals), 1420);
}

TEST(OracleCharge, OfACountsAtMostTheLargestLimit) {
  for (const Algorithm algorithm :
       {Algorithm::kFixedWindow, Algorithm::kSlidingWindowLog, Algorithm::kSlidingWindowCounter,
        Algorithm::kSlidingWindowHybrid}) {
    Single counter(limit_of(algorithm, kMaxUnits, kSecond));
    EXPECT_EQ(counter.charge(0, kMaxUnits).reason, "ok");
    EXPECT_EQ(counter.charge(0, 1).reason, "over");
    EXPECT_EQ(counter.refund(0, 1).limits[0].remaining, 1u);
  }
}

TEST(OracleCharge, ChangesNothingUnderABan) {
  Single counter(limit_of(Algorithm::kTokenBucket, 10, 10 * kSecond));
  counter.charge(0, 4);
  counter.spec.limit = 0;
  EXPECT_EQ(counter.charge(0, 0).reason, "ok");
  EXPECT_EQ(counter.charge(0, 3).reason, "over");
  EXPECT_TRUE(counter.charge(0, 3).allowed);
  counter.spec.limit = 10;
  EXPECT_EQ(counter.peek(0, 0).limits[0].remaining, 6u);
}

TEST(OracleCharge, OfAFullLogMovesTheNewestEntry) {
  Single counter(limit_of(Algorithm::kSlidingWindowLog, 2, kSecond));
  for (std::int64_t at = 0; at < 4; ++at) counter.charge(at * 100, 1);
  counter.charge(400, 1);  // joins the entry of 300, which is now of 400
  EXPECT_EQ(counter.peek(400, 1).retry_after_us, kSecond);  // 2 units of 400 remain until then
  EXPECT_EQ(counter.take(kSecond + 300, 1).retry_after_us, 100);
  EXPECT_EQ(counter.charge(kSecond + 300, 1).reason, "over");  // one live entry: a new one
  EXPECT_EQ(counter.peek(kSecond + 400, 0).limits[0].remaining, 1u);
}

TEST(OracleCharge, OfAFullSliceOfAHybridMovesTheNewestEntry) {
  Spec spec = limit_of(Algorithm::kSlidingWindowHybrid, 1, kSecond);
  spec.slices = 2;
  Single counter(spec);
  counter.charge(0, 1);
  counter.charge(100, 1);
  counter.charge(200, 1);  // entries: 0 and 200 (2 units)
  EXPECT_EQ(counter.peek(200, 1).retry_after_us, kSecond);
  counter.charge(500000, 1);  // a later slice: a summary of 3 units between 0 and 200
  counter.charge(500100, 1);  // two entries of that slice
  counter.refund(500100, 2);
  // 1000100 - P = 100: half of the summary is inside, ceil(1.5).
  EXPECT_EQ(counter.peek(kSecond + 100, 1).retry_after_us, 100);
}

TEST(OracleTakeAtMost, TakesWhatPasses) {
  for (const Algorithm algorithm : kAll) {
    Single counter(limit_of(algorithm, 10, 10 * kSecond));
    EXPECT_EQ(counter.at_most(0, 4).taken, 4u);
    EXPECT_EQ(counter.at_most(0, 0).taken, 0u);
    const Answer rest = counter.at_most(0, 100);
    EXPECT_TRUE(rest.allowed);
    EXPECT_EQ(rest.taken, 6u);
    EXPECT_EQ(rest.limits[0].remaining, 0u);
    const Answer none = counter.at_most(0, 100);
    EXPECT_FALSE(none.allowed);
    EXPECT_EQ(none.reason, "limited");
    EXPECT_EQ(none.taken, std::nullopt);
    EXPECT_EQ(none.retry_after_us, counter.peek(0, 1).retry_after_us);
  }
}

TEST(OracleTakeAtMost, TakesTheSameWithEveryCharge) {
  Oracle oracle;
  const Spec wide = limit_of(Algorithm::kTokenBucket, 10, 10 * kSecond);
  const Spec narrow = limit_of(Algorithm::kFixedWindow, 3, 10 * kSecond);
  const Answer three = oracle.apply(Verb::kTakeAtMost, {{"a", wide, 9}, {"a", narrow, 9}}, 0);
  EXPECT_EQ(three.taken, 3u);
  EXPECT_EQ(three.limits[0].remaining, 7u);
  const Answer none = oracle.apply(Verb::kTakeAtMost, {{"a", wide, 9}, {"a", narrow, 9}}, 0);
  EXPECT_FALSE(none.allowed);
  EXPECT_FALSE(none.limits[0].denied);
  EXPECT_EQ(none.retry_after_us, 10 * kSecond);
  const Answer zero = oracle.apply(Verb::kTakeAtMost, {{"a", wide, 0}, {"a", narrow, 9}}, 0);
  EXPECT_TRUE(zero.allowed);
  EXPECT_EQ(zero.taken, 0u);
  // Two charges share the 7 units of one counter.
  const Answer shared = oracle.apply(Verb::kTakeAtMost, {{"a", wide, 9}, {"a", wide, 5}}, 0);
  EXPECT_EQ(shared.taken, 3u);
  EXPECT_EQ(shared.limits[1].remaining, 1u);
  const Answer half = oracle.apply(Verb::kTakeAtMost, {{"a", wide, 9}, {"a", wide, 5}}, 0);
  EXPECT_EQ(half.retry_after_us, kSecond);  // both need a unit
}

TEST(OracleReserve, ServesInOrderOfArrival) {
  Spec spec = limit_of(Algorithm::kTokenBucket, 10, 10 * kSecond);
  spec.burst = 4;
  Single counter(spec);
  EXPECT_EQ(counter.reserve(0, 4).delay_us, 0);
  EXPECT_EQ(counter.reserve(0, 1).delay_us, kSecond);
  EXPECT_EQ(counter.reserve(500000, 3).delay_us, 3500000);
  EXPECT_EQ(counter.reserve(500000, 0).delay_us, 0);
  const Answer last = counter.reserve(500000, 1, 4 * kSecond);
  EXPECT_FALSE(last.allowed);
  EXPECT_EQ(last.reason, "limited");
  EXPECT_EQ(last.retry_after_us, 500000);  // 4.5 s - 4 s
  EXPECT_EQ(last.delay_us, std::nullopt);
  EXPECT_FALSE(counter.reserve(kSecond - 1, 1, 4 * kSecond).allowed);
  EXPECT_EQ(counter.reserve(kSecond, 1, 4 * kSecond).delay_us, 4 * kSecond);
  EXPECT_EQ(counter.reserve(kSecond, 5).reason, "never");
}

TEST(OracleReserve, WaitsForWholeIntervals) {
  Spec spec = limit_of(Algorithm::kTokenBucket, 4, kSecond);
  spec.refill = Refill::kInterval;
  Single counter(spec);
  EXPECT_EQ(counter.reserve(0, 4).delay_us, 0);
  EXPECT_EQ(counter.reserve(300000, 1).delay_us, 700000);
  EXPECT_EQ(counter.reserve(300000, 4).delay_us, 1700000);
  EXPECT_EQ(counter.reserve(300000, 3).delay_us, 1700000);
}

TEST(OracleReserve, OfAQueueKeepsTheDelayOfTheQueue) {
  Spec spec = limit_of(Algorithm::kLeakyBucket, 10, 10 * kSecond);
  spec.burst = 2;
  spec.mode = Mode::kQueue;
  Single counter(spec);
  EXPECT_EQ(counter.reserve(0, 2, 0).delay_us, 0);
  EXPECT_EQ(counter.reserve(0, 1, kSecond).delay_us, 2 * kSecond);  // admitted within 1 s
  EXPECT_EQ(counter.reserve(0, 0, 0).delay_us, 3 * kSecond);
  EXPECT_EQ(counter.reserve(0, 1, kSecond).retry_after_us, kSecond);
}

TEST(OracleReserve, OfAWindowIsATake) {
  for (const Algorithm algorithm :
       {Algorithm::kFixedWindow, Algorithm::kSlidingWindowLog, Algorithm::kSlidingWindowCounter,
        Algorithm::kSlidingWindowHybrid}) {
    Single counter(limit_of(algorithm, 3, kSecond));
    EXPECT_EQ(counter.reserve(0, 2).delay_us, 0);
    const Answer denied = counter.reserve(0, 2);
    EXPECT_FALSE(denied.allowed);
    EXPECT_EQ(denied.retry_after_us, counter.peek(0, 2).retry_after_us);
    EXPECT_EQ(denied.limits[0].remaining, 1u);
  }
}

TEST(OracleReserve, OfManyLimitsWaitsForTheSlowestOrTakesNothing) {
  Oracle oracle;
  const Spec slow = limit_of(Algorithm::kTokenBucket, 2, 20 * kSecond);
  const Spec fast = limit_of(Algorithm::kGcra, 4, 4 * kSecond);
  const Spec window = limit_of(Algorithm::kFixedWindow, 3, 60 * kSecond);
  const auto reserve = [&](std::int64_t max_wait_us, std::uint64_t cost) {
    return oracle.apply({Verb::kReserve, max_wait_us},
                        {{"a", slow, cost}, {"a", fast, cost}, {"a", window, 1}}, 0);
  };
  EXPECT_EQ(reserve(0, 2).delay_us, 0);
  const Answer waits = reserve(kForever, 2);
  EXPECT_EQ(waits.delay_us, 20 * kSecond);
  EXPECT_EQ(waits.limits[1].delay_us, 0);
  // The bucket's 30 s - 29 s; two units of the fast limit would come back within 2 s.
  EXPECT_EQ(reserve(29 * kSecond, 1).retry_after_us, kSecond);
  EXPECT_EQ(reserve(30 * kSecond, 1).delay_us, 30 * kSecond);
  EXPECT_EQ(reserve(kForever, 1).retry_after_us, 60 * kSecond);  // the window is full
  EXPECT_EQ(reserve(kForever, 3).reason, "never");
}

TEST(OracleReserve, IsDeniedBeyondTheMostUnits) {
  Spec spec = limit_of(Algorithm::kLeakyBucket, 1, kYear);
  spec.burst = 2;
  Single counter(spec);
  counter.charge(0, 141);
  EXPECT_EQ(counter.reserve(0, 2).retry_after_us, kYear);  // 142 units at most
  EXPECT_EQ(counter.reserve(0, 2, 140 * kYear).retry_after_us, kYear);
  EXPECT_EQ(counter.reserve(0, 2, 139 * kYear).retry_after_us, 2 * kYear);
  EXPECT_EQ(counter.reserve(0, 1).delay_us, 140 * kYear);
}

TEST(OracleReserve, IsCancelledByARefund) {
  Single counter(limit_of(Algorithm::kGcra, 2, 2 * kSecond));
  counter.reserve(0, 2);
  EXPECT_EQ(counter.reserve(0, 2).delay_us, 2 * kSecond);
  EXPECT_EQ(counter.reserve(0, 1).delay_us, 3 * kSecond);
  counter.refund(kSecond, 2);
  EXPECT_EQ(counter.reserve(kSecond, 1).delay_us, kSecond);  // without the cancelled: 2 spent
}

TEST(OracleReserve, EndsItsWaitWhenTheCounterIsForgotten) {
  Single counter(limit_of(Algorithm::kLeakyBucket, 1, kSecond));
  counter.take(0, 1);  // forgotten at 2^20
  counter.spec.per_us = 3600 * kSecond;
  EXPECT_EQ(counter.reserve(0, 1, 0).retry_after_us, 1048576);
  EXPECT_EQ(counter.reserve(0, 1).delay_us, 1048576);
  EXPECT_EQ(counter.peek(0, 0).limits[0].reset_after_us, 7200 * kSecond);
}

TEST(OracleVerbs, ACounterInDebtKeepsItWhenNumbersChange) {
  Single counter(limit_of(Algorithm::kTokenBucket, 10, 10 * kSecond));
  counter.charge(0, 20);
  counter.charge(500000, 1);  // 20.5
  counter.spec.limit = 20;
  EXPECT_EQ(counter.charge(500000, 0).reason, "over");
  EXPECT_EQ(counter.peek(500000, 0).limits[0].reset_after_us, 10500000);  // 21 units
  counter.spec.limit = 21;
  EXPECT_EQ(counter.charge(500000, 0).reason, "ok");
}

TEST(OracleVerbs, ACounterAtTheMostUnitsKeepsThemWhenNumbersChange) {
  Single counter(limit_of(Algorithm::kGcra, 1000, kSecond));
  counter.charge(0, 1);
  counter.charge(1, kMaxUnits);
  counter.spec.per_us = kSecond / 2;
  EXPECT_EQ(counter.peek(1, 0).limits[0].reset_after_us,
            static_cast<std::int64_t>(kMaxUnits) * 500);
}

}  // namespace
}  // namespace sluice_oracle::verbs_test
