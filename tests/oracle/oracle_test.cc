#include "tests/oracle/oracle.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice_oracle {
namespace {

constexpr std::int64_t kSecond = 1000000;
const std::string kKey = "k";

// One counter under one limit.
class Single {
 public:
  explicit Single(Spec limit) : spec(limit) {}

  LimitAnswer take(std::int64_t at, std::uint64_t cost = 1) { return ask(Verb::kTake, at, cost); }
  LimitAnswer peek(std::int64_t at, std::uint64_t cost = 1) { return ask(Verb::kPeek, at, cost); }
  LimitAnswer refund(std::int64_t at, std::uint64_t cost) { return ask(Verb::kRefund, at, cost); }
  LimitAnswer reset(std::int64_t at) { return ask(Verb::kReset, at, 1); }

  Spec spec;

 private:
  LimitAnswer ask(Verb verb, std::int64_t at, std::uint64_t cost) {
    return oracle_.apply(verb, {{kKey, spec, cost}}, at).limits.at(0);
  }
  Oracle oracle_;
};

Spec limit_of(Algorithm algorithm, std::uint64_t limit, std::int64_t per_us) {
  return Spec{.algorithm = algorithm, .limit = limit, .per_us = per_us};
}

// allowed, limit, remaining, retry in whole seconds rounded up (-1: none), reset in the same way.
using Throttle = std::vector<std::int64_t>;

Throttle cl_throttle(const LimitAnswer& answer) {
  const auto seconds = [](std::int64_t us) { return (us + kSecond - 1) / kSecond; };
  return {answer.denied ? 1 : 0, static_cast<std::int64_t>(answer.limit),
          static_cast<std::int64_t>(answer.remaining),
          answer.retry_after_us ? seconds(*answer.retry_after_us) : -1,
          seconds(answer.reset_after_us)};
}

Single throttle(std::uint64_t burst, std::uint64_t count, std::int64_t seconds) {
  Spec spec = limit_of(Algorithm::kGcra, count, seconds * kSecond);
  spec.burst = burst;
  return Single(spec);
}

TEST(OracleGcra, AnswersBackToBackCallsAsTheThrottleCommandDoes) {
  Single a = throttle(15, 30, 60);
  EXPECT_EQ(cl_throttle(a.take(0)), (Throttle{0, 16, 15, -1, 2}));
  EXPECT_EQ(cl_throttle(a.take(0)), (Throttle{0, 16, 14, -1, 4}));
  EXPECT_EQ(cl_throttle(a.take(0)), (Throttle{0, 16, 13, -1, 6}));
  Single b = throttle(4, 1, 1);
  for (std::int64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(cl_throttle(b.take(0)), (Throttle{0, 5, 5 - i, -1, i}));
  }
  EXPECT_EQ(cl_throttle(b.take(0)), (Throttle{1, 5, 0, 1, 5}));
  EXPECT_EQ(cl_throttle(b.take(0)), (Throttle{1, 5, 0, 1, 5}));
  Single c = throttle(0, 1, 2);
  EXPECT_EQ(cl_throttle(c.take(0)), (Throttle{0, 1, 0, -1, 2}));
  EXPECT_EQ(cl_throttle(c.take(0)), (Throttle{1, 1, 0, 2, 2}));
  EXPECT_EQ(cl_throttle(throttle(4, 1, 1).take(0, 6)), (Throttle{1, 5, 5, -1, 0}));
}

TEST(OracleGcra, GivesBackUpToFull) {
  Single a = throttle(4, 1, 1);
  EXPECT_EQ(cl_throttle(a.take(0, 3)), (Throttle{0, 5, 2, -1, 3}));
  EXPECT_EQ(cl_throttle(a.refund(0, 1)), (Throttle{0, 5, 3, -1, 2}));
  EXPECT_EQ(cl_throttle(a.refund(0, 1)), (Throttle{0, 5, 4, -1, 1}));
  EXPECT_EQ(cl_throttle(a.refund(0, 1)), (Throttle{0, 5, 5, -1, 0}));
  EXPECT_EQ(cl_throttle(a.refund(0, 1)), (Throttle{0, 5, 5, -1, 0}));
}

TEST(OracleGcra, FollowsTheTableOfTheSettableClock) {
  struct Row {
    std::int64_t at_ms;
    std::uint64_t quantity;
    bool limited;
    std::uint64_t remaining;
    std::int64_t reset_ms;
    std::optional<std::int64_t> retry_ms;
  };
  const std::vector<Row> rows = {
      {0, 6, true, 5, 0, {}},        {0, 1, false, 4, 1000, {}},    {0, 1, false, 3, 2000, {}},
      {0, 1, false, 2, 3000, {}},    {0, 1, false, 1, 4000, {}},    {0, 1, false, 0, 5000, {}},
      {0, 1, true, 0, 5000, 1000},   {3000, 1, false, 2, 3000, {}}, {3100, 1, false, 1, 3900, {}},
      {4000, 1, false, 1, 4000, {}}, {8000, 1, false, 4, 1000, {}}, {9500, 1, false, 4, 1000, {}},
      {9500, 0, false, 4, 1000, {}}, {9500, 2, false, 2, 3000, {}}, {9500, 5, true, 2, 3000, 3000},
  };
  Single counter = throttle(4, 1, 1);
  for (const Row& row : rows) {
    const LimitAnswer answer = counter.take(row.at_ms * 1000, row.quantity);
    SCOPED_TRACE(::testing::Message() << row.quantity << " at " << row.at_ms << " ms");
    EXPECT_EQ(answer.denied, row.limited);
    EXPECT_EQ(answer.remaining, row.remaining);
    EXPECT_EQ(answer.reset_after_us, row.reset_ms * 1000);
    EXPECT_EQ(answer.retry_after_us.has_value(), row.retry_ms.has_value());
    if (row.retry_ms) {
      EXPECT_EQ(answer.retry_after_us, *row.retry_ms * 1000);
    }
  }
}

TEST(OracleTokenBucket, RefillsThirdsExactly) {
  Single counter(limit_of(Algorithm::kTokenBucket, 3, kSecond));
  EXPECT_EQ(counter.take(0, 3).reset_after_us, kSecond);
  EXPECT_EQ(counter.take(0).retry_after_us, 333334);  // ceil(1e6 / 3)
  EXPECT_TRUE(counter.take(333333).denied);
  EXPECT_EQ(counter.take(333334).remaining, 0u);
  // Consumed: 3 - 333334 * 3e-6 + 1 = 2.999998. The next unit is free 2e-6 units earlier.
  EXPECT_EQ(counter.take(333334).retry_after_us, 333333);
}

TEST(OracleTokenBucket, GivesAllBackAtEachIntervalFromItsFirstUse) {
  Spec spec = limit_of(Algorithm::kTokenBucket, 4, kSecond);
  spec.burst = 10;
  spec.refill = Refill::kInterval;
  Single counter(spec);
  EXPECT_EQ(counter.take(500, 10).reset_after_us, 3 * kSecond);  // 4, 4 and 2
  EXPECT_EQ(counter.take(600, 4).retry_after_us, kSecond - 100);
  EXPECT_TRUE(counter.take(500 + kSecond - 1).denied);
  EXPECT_EQ(counter.take(500 + kSecond).remaining, 3u);
  EXPECT_EQ(counter.take(500 + 4 * kSecond).reset_after_us, kSecond);  // full: a new first use
  EXPECT_EQ(counter.peek(500 + 5 * kSecond - 1, 10).retry_after_us, 1);
}

TEST(OracleLeakyBucket, SaysHowLongTheQueueAheadDrains) {
  Spec spec = limit_of(Algorithm::kLeakyBucket, 10, kSecond);
  spec.burst = 3;
  spec.mode = Mode::kQueue;
  Single counter(spec);
  EXPECT_EQ(counter.take(0).delay_us, 0);
  EXPECT_EQ(counter.take(0).delay_us, 100000);
  EXPECT_EQ(counter.take(0).delay_us, 200000);
  EXPECT_EQ(counter.take(0).delay_us, std::nullopt);
  EXPECT_EQ(counter.take(0).retry_after_us, 100000);
  EXPECT_EQ(counter.peek(50000, 0).delay_us, 250000);
}

TEST(OracleFixedWindow, OpensAtTheFirstRequestOrByTheClock) {
  Single first(limit_of(Algorithm::kFixedWindow, 2, kSecond));
  EXPECT_EQ(first.take(700000, 2).reset_after_us, kSecond);
  EXPECT_EQ(first.take(1100000).retry_after_us, 600000);
  EXPECT_FALSE(first.take(1700000).denied);
  Spec spec = limit_of(Algorithm::kFixedWindow, 2, kSecond);
  spec.align = Align::kClock;
  Single clock(spec);
  EXPECT_EQ(clock.take(700000, 2).reset_after_us, 300000);
  EXPECT_FALSE(clock.take(1000000, 2).denied);
  EXPECT_EQ(clock.take(1100000, 3).reason, "never");
}

TEST(OracleSlidingWindowLog, ForgetsAnEntryExactlyOnePeriodOld) {
  Single counter(limit_of(Algorithm::kSlidingWindowLog, 3, kSecond));
  EXPECT_EQ(counter.take(100, 2).remaining, 1u);
  EXPECT_EQ(counter.take(400).remaining, 0u);
  EXPECT_EQ(counter.take(500).retry_after_us, kSecond - 400);
  EXPECT_EQ(counter.take(500, 3).retry_after_us, kSecond - 100);
  EXPECT_TRUE(counter.take(kSecond + 99).denied);
  EXPECT_EQ(counter.take(kSecond + 100).remaining, 1u);
  EXPECT_EQ(counter.refund(kSecond + 100, 2).remaining, 3u);  // the newest and the one of 400
}

TEST(OracleSlidingWindowCounter, WeighsTheOldestSliceByItsShare) {
  Spec spec = limit_of(Algorithm::kSlidingWindowCounter, 10, kSecond);
  spec.slices = 1;
  Single counter(spec);
  EXPECT_EQ(counter.take(900000, 10).reset_after_us, 1100000);  // gone when slice 2 begins
  EXPECT_EQ(counter.peek(1000000).retry_after_us, 100000);      // 10 * 0.9 = 9
  EXPECT_EQ(counter.peek(1250000, 0).remaining, 2u);            // 10 - ceil(7.5)
  EXPECT_EQ(counter.take(1250000, 2).remaining, 0u);
  counter.spec.weighting = Weighting::kNone;
  EXPECT_EQ(counter.peek(1300000).reset_after_us, 1700000);
  EXPECT_EQ(counter.peek(1300000).retry_after_us, 700000);
}

TEST(OracleSlidingWindowHybrid, SpreadsAnOlderSliceEvenly) {
  Spec spec = limit_of(Algorithm::kSlidingWindowHybrid, 10, kSecond);
  spec.slices = 2;
  Single counter(spec);
  counter.take(100000, 3);
  counter.take(300000, 3);
  EXPECT_EQ(counter.take(600000).remaining, 3u);  // {100000..300000: 6}, then a log of its own
  // At 1150000 the window opens at 150000: ceil(6 * 150000 / 200000) = 5 of the six are inside.
  EXPECT_EQ(counter.peek(1150000, 0).remaining, 4u);
  EXPECT_EQ(counter.peek(1150000, 5).retry_after_us, 16667);  // 6 * (g - x) / 200000 <= 4
  EXPECT_EQ(counter.peek(1300000, 0).remaining, 9u);
  EXPECT_EQ(counter.refund(1150000, 4).remaining, 7u);  // the log's one, then 3 of the six
}

TEST(Oracle, TakesAllChargesOrNone) {
  Oracle oracle;
  const Spec wide = limit_of(Algorithm::kTokenBucket, 10, kSecond);
  const Spec narrow = limit_of(Algorithm::kTokenBucket, 1, kSecond);
  EXPECT_TRUE(oracle.apply(Verb::kTake, {{"a", wide, 1}, {"b", narrow, 1}}, 0).allowed);
  const Answer denied = oracle.apply(Verb::kTake, {{"a", wide, 1}, {"b", narrow, 1}}, 0);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.reason, "limited");
  EXPECT_EQ(denied.retry_after_us, kSecond);
  EXPECT_FALSE(denied.limits[0].denied);
  EXPECT_EQ(denied.limits[0].remaining, 9u);
  const Answer never = oracle.apply(Verb::kTake, {{"a", wide, 11}, {"b", narrow, 1}}, 0);
  EXPECT_EQ(never.reason, "never");
  EXPECT_EQ(never.retry_after_us, std::nullopt);
}

TEST(Oracle, CountsChargesOnOneCounterTogether) {
  Oracle oracle;
  const Spec spec = limit_of(Algorithm::kSlidingWindowLog, 3, kSecond);
  const Answer answer = oracle.apply(Verb::kTake, {{"a", spec, 2}, {"a", spec, 2}}, 0);
  EXPECT_EQ(answer.reason, "never");
  EXPECT_TRUE(answer.limits[0].denied);
  EXPECT_TRUE(answer.limits[1].denied);
  EXPECT_EQ(oracle.apply(Verb::kTake, {{"a", spec, 2}, {"a", spec, 1}}, 0).limits[0].remaining, 0u);
  Spec other = spec;
  other.limit = 4;
  EXPECT_EQ(oracle.apply(Verb::kTake, {{"a", spec, 1}, {"a", other, 1}}, 0).reason, "invalid");
}

TEST(Oracle, ReadsAnEarlierInstantAsTheLastChange) {
  Single counter(limit_of(Algorithm::kTokenBucket, 1, kSecond));
  EXPECT_FALSE(counter.take(5 * kSecond).denied);
  EXPECT_EQ(counter.take(0).retry_after_us, kSecond);
  EXPECT_EQ(counter.take(5 * kSecond + 400000).retry_after_us, 600000);
  EXPECT_EQ(counter.take(1).retry_after_us, kSecond);  // a denial changes nothing
  EXPECT_EQ(counter.reset(0).remaining, 1u);
  EXPECT_FALSE(counter.take(0).denied);
}

TEST(Oracle, KeepsWhatWasConsumedWhenNumbersChange) {
  Single counter(limit_of(Algorithm::kTokenBucket, 10, 10 * kSecond));
  counter.take(0, 5);
  counter.take(500000, 1);  // 5.5 consumed
  counter.spec.limit = 20;
  EXPECT_EQ(counter.peek(500000, 0).remaining, 14u);   // 20 - 6
  EXPECT_EQ(counter.peek(1000000, 0).remaining, 15u);  // a unit came back at the new rate
  counter.spec.limit = 8;
  EXPECT_EQ(counter.peek(500000, 0).remaining, 2u);
  EXPECT_EQ(counter.peek(500000, 4).retry_after_us, 2500000);  // 6 + 4 - 8 units at 0.8/s
  counter.spec.limit = 3;
  EXPECT_EQ(counter.peek(500000, 0).remaining, 0u);  // 6 of 3 are consumed
}

// 2^20 us: counters are forgotten at multiples of it.
constexpr std::int64_t kGrid = 1048576;

TEST(Oracle, ForgetsACounterSoonAfterItIsUntouchedByItsOwnNumbers) {
  Single counter(limit_of(Algorithm::kLeakyBucket, 1, kSecond));
  counter.take(0);  // untouched at 1000000, forgotten at 1048576
  counter.spec.per_us = 3600 * kSecond;
  EXPECT_EQ(counter.take(500000).retry_after_us, kGrid - 500000);
  EXPECT_EQ(counter.peek(kGrid - 1).retry_after_us, 1);
  EXPECT_EQ(counter.peek(kGrid - 1, 0).reset_after_us, 1);
  EXPECT_EQ(counter.take(kGrid).reset_after_us, 3600 * kSecond);
}

TEST(Oracle, RemembersTheLastChangeUntilItForgets) {
  Single counter(limit_of(Algorithm::kLeakyBucket, 1, kSecond));
  counter.take(100);
  counter.refund(100, 1);  // untouched at once
  EXPECT_EQ(counter.take(50).reset_after_us, kSecond);
  EXPECT_EQ(counter.peek(100, 0).reset_after_us, kSecond);  // it was taken at 100, not at 50
}

TEST(Oracle, CountsNothingUnderABan) {
  Single counter(limit_of(Algorithm::kLeakyBucket, 2, kSecond));
  counter.take(0, 2);
  counter.spec.limit = 0;
  const LimitAnswer banned = counter.take(0);
  EXPECT_EQ(banned.reason, "never");
  EXPECT_EQ(banned.reset_after_us, 0);
  EXPECT_FALSE(counter.take(0, 0).denied);
  counter.spec.limit = 2;
  EXPECT_EQ(counter.peek(0, 0).remaining, 0u);
}

TEST(Oracle, RefusesWhatCannotBeMade) {
  EXPECT_TRUE(is_valid(limit_of(Algorithm::kGcra, 1, std::int64_t{366} * 86400 * kSecond)));
  EXPECT_FALSE(is_valid(limit_of(Algorithm::kGcra, 1, std::int64_t{366} * 86400 * kSecond + 1)));
  EXPECT_FALSE(is_valid(limit_of(Algorithm::kGcra, 1, 999)));
  EXPECT_FALSE(is_valid(limit_of(Algorithm::kGcra, 4294967296u, 1000)));
  Spec slow = limit_of(Algorithm::kTokenBucket, 1, std::int64_t{1} << 40);
  slow.burst = 4096;
  EXPECT_TRUE(is_valid(slow));
  slow.burst = 4097;
  EXPECT_FALSE(is_valid(slow));
}

// The oracle searches for waits by doubling and halving; this test tries every tick.
TEST(Oracle, FindsTheSameTickAsTryingEach) {
  for (const Algorithm algorithm :
       {Algorithm::kFixedWindow, Algorithm::kSlidingWindowLog, Algorithm::kSlidingWindowCounter,
        Algorithm::kSlidingWindowHybrid, Algorithm::kLeakyBucket, Algorithm::kTokenBucket,
        Algorithm::kGcra}) {
    Single counter(limit_of(algorithm, 7, 1009));
    for (const std::int64_t at : {3, 90, 91, 250, 399, 700, 900, 1020}) counter.take(at);
    for (std::uint64_t cost = 0; cost <= 7; ++cost) {
      std::int64_t wait = 0;
      while (counter.peek(1020 + wait, cost).denied) ++wait;
      EXPECT_EQ(counter.peek(1020, cost).retry_after_us.value_or(0), wait);
    }
    std::int64_t wait = 0;
    while (counter.peek(1020 + wait, 7).denied) ++wait;
    EXPECT_EQ(counter.peek(1020, 0).reset_after_us, wait);
  }
}

}  // namespace
}  // namespace sluice_oracle
