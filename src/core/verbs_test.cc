#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "core/test_counters.h"

// The verbs beyond take, on every algorithm (docs/reference/algorithms.md, "Verbs beyond take").
namespace sluice::verbs_test {
namespace {

using core::delayed;
using core::FixedSize;
using core::LogCounter;
using core::ok;
using core::over;
using core::refused;
using core::SliceCounter;
using core::taken;
using core::Ticks;
using core::wait;
using namespace std::chrono_literals;

constexpr Ticks kSecond = 1000000;
constexpr Limit kBucket = token_bucket(10).per(1s).burst(20);
constexpr Limit kInterval = token_bucket(10).per(1s).burst(20).refilled_at_intervals();
constexpr Limit kQueue = leaky_bucket(10).per(1s).burst(20).queueing();
constexpr Limit kWindow = fixed_window(10).per(1s);
constexpr Limit kLog = sliding_window_log(3).per(1s);
constexpr Limit kSlices = sliding_window_counter(10).per(1s);

TEST(Charge, IsAlwaysCountedAndSaysOverBeyondTheLimit) {
  FixedSize bucket(kBucket);
  EXPECT_EQ(bucket.charge(0, 20), ok(0, 2 * kSecond));
  EXPECT_EQ(bucket.charge(0, 1), over(21 * kSecond / 10));
  EXPECT_EQ(bucket.peek(0, 1), wait(2 * kSecond / 10, 0, 21 * kSecond / 10));
  EXPECT_EQ(bucket.charge(kSecond / 10, 0), ok(0, 2 * kSecond));
  EXPECT_EQ(bucket.refund(kSecond / 10, 5), ok(5, 15 * kSecond / 10));
}

TEST(Charge, OfAWindowLastsUntilItsEnd) {
  FixedSize window(kWindow);
  EXPECT_EQ(window.charge(0, 25), over(kSecond));
  EXPECT_EQ(window.take(kSecond - 1), wait(1, 0, 1));
  EXPECT_EQ(window.take(kSecond), ok(9, kSecond));
}

TEST(Charge, OfALogKeepsTwiceItsUnitsAsEntries) {
  LogCounter log(kLog);
  for (Ticks t = 0; t < 6; ++t) log.charge(t, 1);
  EXPECT_EQ(log.entries(), 6u);
  EXPECT_EQ(log.charge(6, 2), over(kSecond));
  EXPECT_EQ(log.entries(), 6u);
  // Four entries have to leave before one unit fits again, and the last of them at 3 µs.
  EXPECT_EQ(log.peek(6, 1), wait(kSecond + 6 - 6, 0, kSecond));
}

TEST(Charge, StaysBelowTheMostUnits) {
  FixedSize window(kWindow);
  window.charge(0, kMaxUnits - 1);
  EXPECT_EQ(window.charge(0, 5), over(kSecond));
  EXPECT_EQ(window.state().units, kMaxUnits);
  FixedSize bucket(kBucket);
  EXPECT_EQ(bucket.charge(0, ~std::uint64_t{0}), over(429496729500000));
  SliceCounter slices(kSlices);
  slices.charge(0, kMaxUnits - 1);
  EXPECT_TRUE(slices.charge(kSecond, 5).over);
  EXPECT_EQ(slices.counts(),
            (std::vector<std::uint32_t>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, kMaxUnits - 1}));
}

TEST(Charge, LeavesExactlyTheMostUnitsIfItDoesNotFit) {
  FixedSize bucket(kBucket);
  bucket.charge(0, 2);
  EXPECT_EQ(bucket.charge(kSecond / 20, kMaxUnits - 1), over(429496729500000));  // 1.5 were spent
}

TEST(Charge, ThatCanAddNothingIsNoChange) {
  for (const Limit& limit : {kWindow, kInterval, kBucket}) {
    FixedSize counter(limit);
    counter.charge(kSecond / 4, kMaxUnits);
    const core::State full = counter.state();
    const Ticks later = limit == kBucket ? kSecond / 4 : kSecond;  // still full
    EXPECT_TRUE(counter.charge(later, 1).over);
    EXPECT_EQ(counter.state(), full);
  }
}

TEST(Charge, OfALimitOfNothingStoresNothing) {
  FixedSize bucket(token_bucket(0).per(1s));
  EXPECT_EQ(bucket.charge(0, 5), over(0));
  EXPECT_EQ(bucket.state().units, 0u);
  EXPECT_EQ(bucket.charge(0, 0), ok(0, 0));
}

TEST(Charge, OfALimitOfNothingDoesNotReadWhatWasCountedBefore) {
  FixedSize window(kWindow);
  SliceCounter slices(kSlices);
  window.charge(0, 5);
  slices.charge(0, 5);
  window.become(fixed_window(0).per(1s));
  slices.become(sliding_window_counter(0).per(1s));
  EXPECT_EQ(window.charge(0, 0), ok(0, 0));
  EXPECT_EQ(slices.charge(0, 0), ok(0, 0));
}

TEST(TakeAtMost, TakesWhatIsLeft) {
  FixedSize bucket(kBucket);
  EXPECT_EQ(bucket.take_at_most(0, 15), taken(15, 5, 15 * kSecond / 10));
  EXPECT_EQ(bucket.take_at_most(0, 15), taken(5, 0, 2 * kSecond));
  EXPECT_EQ(bucket.take_at_most(0, 15), wait(kSecond / 10, 0, 2 * kSecond));
  EXPECT_EQ(bucket.take_at_most(0, 0), ok(0, 2 * kSecond));
  LogCounter log(kLog);
  EXPECT_EQ(log.take_at_most(0, 9), taken(3, 0, kSecond));
  SliceCounter slices(kSlices);
  EXPECT_EQ(slices.take_at_most(0, 99), taken(10, 0, 11 * kSecond / 10));
  EXPECT_EQ(FixedSize(token_bucket(0).per(1s)).take_at_most(0, 9), refused(0, 0));
}

TEST(Reserve, GivesEachCallerItsTurn) {
  FixedSize bucket(kBucket);
  EXPECT_EQ(bucket.reserve(0, 20, kSecond), delayed(0, 0, 2 * kSecond));
  EXPECT_EQ(bucket.reserve(0, 5, kSecond), delayed(kSecond / 2, 0, 25 * kSecond / 10));
  EXPECT_EQ(bucket.reserve(0, 5, kSecond), delayed(kSecond, 0, 3 * kSecond));
  EXPECT_EQ(bucket.reserve(0, 1, kSecond), wait(kSecond / 10, 0, 3 * kSecond));
  EXPECT_EQ(bucket.reserve(kSecond / 10 - 1, 1, kSecond), wait(1, 0, 29 * kSecond / 10 + 1));
  EXPECT_EQ(bucket.reserve(kSecond / 10, 1, kSecond), delayed(kSecond, 0, 3 * kSecond));
  EXPECT_EQ(bucket.reserve(0, 21, kSecond), refused(0, 3 * kSecond));
}

TEST(Reserve, OfIntervalsWaitsForARefill) {
  FixedSize bucket(kInterval);
  EXPECT_EQ(bucket.reserve(0, 20, 0), delayed(0, 0, 2 * kSecond));
  EXPECT_EQ(bucket.reserve(0, 15, 2 * kSecond), delayed(2 * kSecond, 0, 4 * kSecond));
  EXPECT_EQ(bucket.reserve(0, 1, 2 * kSecond), delayed(2 * kSecond, 0, 4 * kSecond));
  EXPECT_EQ(bucket.reserve(0, 5, 2 * kSecond), wait(kSecond, 0, 4 * kSecond));
}

TEST(Reserve, OfAQueueHasItsOwnDelay) {
  FixedSize queue(kQueue);
  EXPECT_EQ(queue.reserve(0, 20, 0), delayed(0, 0, 2 * kSecond));
  EXPECT_EQ(queue.reserve(0, 5, kSecond), delayed(2 * kSecond, 0, 25 * kSecond / 10));
}

TEST(Reserve, OfAWindowIsATakeWithoutDelay) {
  FixedSize window(kWindow);
  EXPECT_EQ(window.reserve(0, 10, kSecond), delayed(0, 0, kSecond));
  EXPECT_EQ(window.reserve(0, 1, kSecond), wait(kSecond, 0, kSecond));
  LogCounter log(kLog);
  EXPECT_EQ(log.reserve(0, 3, kSecond), delayed(0, 0, kSecond));
  SliceCounter slices(kSlices);
  EXPECT_EQ(slices.reserve(0, 3, kSecond), delayed(0, 7, 11 * kSecond / 10));
}

// A burst of all that can ever be owed: the debt of a reservation would be beyond it.
TEST(Reserve, WaitsUntilItsDebtCanBeStored) {
  const Limit limit = token_bucket(kMaxUnits).per(1s).burst(kMaxUnits);
  FixedSize bucket(limit);
  bucket.take(0, kMaxUnits);
  EXPECT_EQ(bucket.reserve(0, kMaxUnits / 2, kSecond), wait(kSecond / 2, 0, kSecond));
}

}  // namespace
}  // namespace sluice::verbs_test
