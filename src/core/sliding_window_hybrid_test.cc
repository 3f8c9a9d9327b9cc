#include "core/sliding_window_hybrid.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "core/test_counters.h"

namespace sluice::sliding_window_hybrid_test {
namespace {

using core::expect_exact_wait;
using core::LogCounter;
using core::ok;
using core::refused;
using core::Summary;
using core::Ticks;
using core::wait;
using namespace std::chrono_literals;

namespace algorithm = core::sliding_window_hybrid;

constexpr std::uint64_t kMost = 4294967295;
constexpr Ticks kSecond = 1000000;
constexpr Ticks kLast = (Ticks{1} << 52) - 1;

// 10 units taken as even from 100 to 200: one each ten ticks, a part of one counting whole.
constexpr Summary kTen{100, 200, 10};
static_assert(algorithm::live_units(kTen, 99) == 10 && algorithm::live_units(kTen, 100) == 10);
static_assert(algorithm::live_units(kTen, 109) == 10 && algorithm::live_units(kTen, 110) == 9);
static_assert(algorithm::live_units(kTen, 199) == 1 && algorithm::live_units(kTen, 200) == 0);
static_assert(algorithm::horizon_with(kTen, 9) == 110 && algorithm::horizon_with(kTen, 0) == 200);
constexpr Summary kAtOnce{100, 100, 10};
static_assert(algorithm::live_units(kAtOnce, 99) == 10 && algorithm::live_units(kAtOnce, 100) == 0);
static_assert(algorithm::horizon_with(kAtOnce, 9) == 100);

TEST(SlidingWindowHybrid, WithinOneSliceIsTheLog) {
  LogCounter counter(sliding_window_hybrid(3).per(1s).slices(1));
  EXPECT_EQ(counter.take(100000), ok(2, kSecond));
  EXPECT_EQ(counter.take(200000, 2), ok(0, kSecond));
  EXPECT_EQ(counter.take(300000), wait(800000, 0, 900000));
  EXPECT_EQ(counter.take(300000, 2), wait(900000, 0, 900000));
  EXPECT_EQ(counter.entries(), 2u);
}

TEST(SlidingWindowHybrid, AnOlderSliceBecomesASummaryWhenANewerOneBegins) {
  LogCounter counter(sliding_window_hybrid(10).per(1s).slices(2));
  for (const Ticks now : {100000, 200000, 300000, 400000}) counter.take(now);
  EXPECT_TRUE(counter.older().empty());
  counter.take(700000);
  ASSERT_EQ(counter.older().size(), 1u);
  EXPECT_EQ(counter.older()[0].first, 100000);
  EXPECT_EQ(counter.older()[0].last, 400000);
  EXPECT_EQ(counter.older()[0].units, 4u);
  EXPECT_EQ(counter.entries(), 1u);
}

TEST(SlidingWindowHybrid, TakesAnOlderSliceAsEvenlySpread) {
  LogCounter counter(sliding_window_hybrid(10).per(1s).slices(2));
  for (const Ticks now : {100000, 200000, 300000, 400000}) counter.take(now);
  counter.take(700000);
  EXPECT_EQ(counter.peek(1100000), ok(5, 600000));  // all 4 as horizon is not past the first
  EXPECT_EQ(counter.peek(1174999), ok(5, 525001));
  EXPECT_EQ(counter.peek(1175000), ok(6, 525000));  // 3/4 of 300000 still inside
  EXPECT_EQ(counter.peek(1399999), ok(8, 300001));
  EXPECT_EQ(counter.peek(1400000), ok(9, 300000));
  EXPECT_EQ(counter.peek(1700000), ok(10, 0));
}

TEST(SlidingWindowHybrid, IsAdmittedExactlyAtRetryAfter) {
  LogCounter counter(sliding_window_hybrid(5).per(1s).slices(2));
  for (const Ticks now : {100000, 200000, 300000, 400000}) counter.take(now);
  counter.take(700000);
  EXPECT_EQ(counter.peek(700000, 1), wait(475000, 0, kSecond));
  EXPECT_EQ(counter.peek(700000, 4), wait(700000, 0, kSecond));
  EXPECT_EQ(counter.peek(700000, 5), wait(kSecond, 0, kSecond));
  for (std::uint64_t cost = 1; cost <= 5; ++cost) expect_exact_wait(counter, 700000, cost);
}

TEST(SlidingWindowHybrid, WaitsOverSeveralSummaries) {
  LogCounter counter(sliding_window_hybrid(12).per(1s).slices(5));
  // Two entries in each of slices 0 to 4, and one of two units in slice 5, after none has left.
  for (Ticks slice = 0; slice < 5; ++slice) {
    counter.take(slice * 200000 + 30001);
    counter.take(slice * 200000 + 130007);
  }
  counter.take(1000000, 2);
  EXPECT_EQ(counter.older().size(), 5u);
  EXPECT_EQ(counter.peek(1000000).remaining, 0u);
  for (std::uint64_t cost = 1; cost <= 12; ++cost) expect_exact_wait(counter, 1000000, cost);
}

TEST(SlidingWindowHybrid, DropsWhatHasExpiredWhenItWrites) {
  LogCounter counter(sliding_window_hybrid(10).per(1s).slices(2));
  counter.take(0);
  counter.take(500000);
  counter.take(1000000);  // the entry at 0 s has gone by now, as has its summary
  EXPECT_EQ(counter.older().size(), 1u);
  counter.take(5 * kSecond);
  EXPECT_TRUE(counter.older().empty());
  EXPECT_EQ(counter.entries(), 1u);
}

TEST(SlidingWindowHybrid, EntriesThatExpireTogetherLeaveNoSummary) {
  LogCounter counter(sliding_window_hybrid(10).per(1s).slices(2));
  counter.take(0, 4);
  counter.take(2 * kSecond, 1);
  EXPECT_TRUE(counter.older().empty());
}

TEST(SlidingWindowHybrid, ErrsByLessThanAnOlderSliceHolds) {
  // 1 at 100000 and 3 at 400000 count as if even: at a horizon of 250000, 2 of 4, where the log has
  // 3; at 399999, 1, where it has 3. So the estimate may be low by less than the slice holds.
  LogCounter counter(sliding_window_hybrid(10).per(1s).slices(2));
  counter.take(100000);
  counter.take(400000, 3);
  counter.take(600000);
  EXPECT_EQ(counter.peek(1250000), ok(7, 350000));
  EXPECT_EQ(counter.peek(1399999), ok(8, 200001));
}

TEST(SlidingWindowHybrid, ClockGoingBackIsReadAsTheLastChange) {
  LogCounter counter(sliding_window_hybrid(2).per(1s).slices(2));
  counter.take(5 * kSecond);
  EXPECT_EQ(counter.take(0), ok(0, kSecond));
  EXPECT_EQ(counter.take(4 * kSecond), wait(kSecond, 0, kSecond));
  EXPECT_TRUE(counter.older().empty());
}

TEST(SlidingWindowHybrid, HoldsTheExtremes) {
  LogCounter most(sliding_window_hybrid(kMost).per(1ms).slices(1000));
  EXPECT_EQ(most.take(kLast - 1, kMost - 1), ok(1, 1000));
  EXPECT_EQ(most.take(kLast, 1), ok(0, 1000));
  EXPECT_EQ(most.take(kLast, 1), wait(999, 0, 1000));
  EXPECT_EQ(most.take(kLast, kMost), wait(1000, 0, 1000));
  EXPECT_EQ(most.take(kLast, kMost + 1), refused(0, 1000));
  LogCounter year(sliding_window_hybrid(kMost).per(kMaxPeriod).slices(1));
  const Ticks p = kMaxPeriod.count();
  year.take(0, 1);
  year.take(p - 1, kMost - 1);
  EXPECT_EQ(year.peek(p).remaining, 1u);
  expect_exact_wait(year, p - 1, kMost);
}

TEST(SlidingWindowHybrid, BanIsNever) {
  LogCounter counter(sliding_window_hybrid(0).per(1s));
  EXPECT_EQ(counter.take(0), refused(0, 0));
  EXPECT_EQ(counter.take(0, 0), ok(0, 0));
}

TEST(SlidingWindowHybrid, ChangedNumbersReadTheSameState) {
  LogCounter counter(sliding_window_hybrid(10).per(10s).slices(2));
  counter.take(0, 4);
  counter.take(6 * kSecond, 4);
  counter.become(sliding_window_hybrid(5).per(10s).slices(7));
  EXPECT_EQ(counter.peek(6 * kSecond), ok(0, 10 * kSecond));
  expect_exact_wait(counter, 6 * kSecond, 1);
  counter.become(sliding_window_hybrid(10).per(1s).slices(2));
  EXPECT_EQ(counter.peek(6 * kSecond), ok(6, kSecond));
}

}  // namespace
}  // namespace sluice::sliding_window_hybrid_test
