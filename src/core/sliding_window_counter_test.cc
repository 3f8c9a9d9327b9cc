#include "core/sliding_window_counter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "core/test_counters.h"

namespace sluice::sliding_window_counter_test {
namespace {

using core::expect_exact_wait;
using core::ok;
using core::refused;
using core::SliceCounter;
using core::Ticks;
using core::wait;
using namespace std::chrono_literals;

using Grid = core::SliceGrid;

constexpr std::uint64_t kMost = 4294967295;
constexpr Ticks kSecond = 1000000;
constexpr Ticks kLast = (Ticks{1} << 52) - 1;

// Slices of 10/3 s: 0 from 0, 1 from 3333334 (the first tick past 3333333 1/3), 2 from 6666667.
constexpr Grid kThirds(10000000, 3);
static_assert(kThirds.slice_of(3333333) == 0 && kThirds.slice_of(3333334) == 1);
static_assert(kThirds.tick_at(1, 0) == 3333334 && kThirds.tick_at(2, 0) == 6666667);
static_assert(kThirds.tick_at(0, 5000000) == 1666667);

// The finest grid at the last instant stays within 64 bits.
constexpr Grid kFinest(1000, 1000);
static_assert(kFinest.slice_of(kLast) == std::uint64_t{kLast});
static_assert(kFinest.tick_at(std::uint64_t{kLast} + 1001, 0) == kLast + 1001);

TEST(SlidingWindowCounter, WeighsTheOldestSliceByWhatTheWindowStillCovers) {
  // One slice: the estimate from two windows.
  SliceCounter counter(sliding_window_counter(10).per(1s).slices(1));
  EXPECT_EQ(counter.take(0, 10), ok(0, 2 * kSecond));
  EXPECT_EQ(counter.peek(999999), ok(0, 1000001));
  EXPECT_EQ(counter.peek(1000000), ok(0, kSecond));  // all 10, at weight 1
  EXPECT_EQ(counter.peek(1000001), ok(0, 999999));   // ⌈9.99999⌉
  EXPECT_EQ(counter.peek(1099999), ok(0, 900001));
  EXPECT_EQ(counter.peek(1100000), ok(1, 900000));  // 9 at weight 0.9
  EXPECT_EQ(counter.peek(1950000), ok(9, 50000));   // ⌈0.5⌉
  EXPECT_EQ(counter.peek(1999999), ok(9, 1));
  EXPECT_EQ(counter.peek(2000000), ok(10, 0));
}

TEST(SlidingWindowCounter, CountsNewerSlicesWhole) {
  SliceCounter counter(sliding_window_counter(10).per(1s).slices(10));
  EXPECT_EQ(counter.take(50000, 4), ok(6, 1050000));   // slice 0, gone at 1.1 s
  EXPECT_EQ(counter.take(950000, 6), ok(0, 1050000));  // slice 9, gone at 2 s
  EXPECT_EQ(counter.peek(1000000), ok(0, kSecond));    // slice 10: slice 0 at weight 1
  EXPECT_EQ(counter.peek(1050000), ok(2, 950000));     // ⌈4·0.5⌉ + 6
  EXPECT_EQ(counter.peek(1100000), ok(4, 900000));
}

TEST(SlidingWindowCounter, IsAdmittedExactlyAtRetryAfter) {
  SliceCounter counter(sliding_window_counter(10).per(1s).slices(10));
  counter.take(50000, 4);
  counter.take(950000, 6);
  // 9 of 10 at most: 4·w ≤ 3, so w ≤ 3/4: a quarter into slice 10.
  EXPECT_EQ(counter.peek(950000, 1).wait, 75000);
  EXPECT_EQ(counter.peek(950000, 4).wait, 150000);  // slice 0 gone, at 1.1 s
  // 5: one of slice 9's six must have gone too: it is the oldest from 1.9 s, 6·w ≤ 5 at 1/6.
  EXPECT_EQ(counter.peek(950000, 5).wait, 966667);
  EXPECT_EQ(counter.peek(950000, 10).wait, 1050000);
  for (std::uint64_t cost = 1; cost <= 10; ++cost) expect_exact_wait(counter, 950000, cost);
}

TEST(SlidingWindowCounter, WithoutWeightingTheOldestCountsWhole) {
  SliceCounter counter(sliding_window_counter(10).per(1s).slices(10).counting_oldest_whole());
  counter.take(50000, 4);
  counter.take(950000, 6);
  EXPECT_EQ(counter.peek(1099999), ok(0, 900001));
  EXPECT_EQ(counter.peek(950000, 1).wait, 150000);
  EXPECT_EQ(counter.peek(1100000), ok(4, 900000));
  EXPECT_EQ(counter.peek(950000, 5).wait, 1050000);
  for (std::uint64_t cost = 1; cost <= 10; ++cost) expect_exact_wait(counter, 950000, cost);
}

TEST(SlidingWindowCounter, SlicesThatDoNotDivideThePeriodAreExact) {
  SliceCounter counter(sliding_window_counter(3).per(10s).slices(3));
  EXPECT_EQ(counter.take(3333333, 3), ok(0, 13333334 - 3333333));  // slice 0, gone at slice 4
  EXPECT_EQ(counter.take(3333334, 1).admitted, false);
  // The oldest from slice 3 (10 s) on; two of three remain from a third of 10/3 s on: 11.1111112 s.
  EXPECT_EQ(counter.peek(10000000, 1).wait, 1111112);
  for (const std::uint64_t cost : {1u, 2u, 3u}) expect_exact_wait(counter, 3333334, cost);
}

TEST(SlidingWindowCounter, IsExactOnTheFinestGrid) {
  // 1000 slices of one tick each: the log, for whole ticks.
  SliceCounter counter(sliding_window_counter(2).per(1ms).slices(1000));
  EXPECT_EQ(counter.take(kLast - 5000), ok(1, 1001));
  EXPECT_EQ(counter.take(kLast - 4600), ok(0, 1001));
  EXPECT_EQ(counter.peek(kLast - 4600, 1), wait(601, 0, 1001));
  EXPECT_EQ(counter.peek(kLast - 4600, 2), wait(1001, 0, 1001));
  for (const std::uint64_t cost : {1u, 2u}) expect_exact_wait(counter, kLast - 4600, cost);
}

TEST(SlidingWindowCounter, SlicesWithFewerTicksThanPhasesAreExact) {
  // 999 slices of 1000/999 ticks.
  SliceCounter counter(sliding_window_counter(5).per(1ms).slices(999));
  for (const Ticks now : {100, 101, 350, 700, 1099}) counter.take(now);
  for (std::uint64_t cost = 1; cost <= 5; ++cost) {
    for (const Ticks now : {1099, 1100, 1101}) {
      if (!counter.peek(now, cost).admitted) expect_exact_wait(counter, now, cost);
    }
  }
}

TEST(SlidingWindowCounter, HoldsTheExtremes) {
  SliceCounter most(sliding_window_counter(kMost).per(kMaxPeriod).slices(1000));
  EXPECT_TRUE(most.take(kLast, kMost).admitted);
  EXPECT_EQ(most.take(kLast, 1).remaining, 0u);
  expect_exact_wait(most, kLast, 1);
  expect_exact_wait(most, kLast, kMost);
  EXPECT_EQ(most.take(kLast, kMost + 1).never, true);
  SliceCounter two(sliding_window_counter(kMost).per(kMaxPeriod).slices(1));
  two.take(0, kMost);
  const Ticks year = kMaxPeriod.count();
  EXPECT_EQ(two.peek(year), ok(0, year));
  // ⌈(2^32 - 1)/2⌉ = 2147483648 of 4294967295.
  EXPECT_EQ(two.peek(year + year / 2), ok(2147483647, year / 2));
  expect_exact_wait(two, 0, 1);
  expect_exact_wait(two, year + 12345, kMost);
}

TEST(SlidingWindowCounter, MoreThanTheLimitIsNever) {
  SliceCounter counter(sliding_window_counter(10).per(1s));
  EXPECT_EQ(counter.take(0, 11), refused(10, 0));
  SliceCounter banned(sliding_window_counter(0).per(1s));
  EXPECT_EQ(banned.take(0, 1), refused(0, 0));
  EXPECT_EQ(banned.take(0, 0), ok(0, 0));
}

TEST(SlidingWindowCounter, CostOfZeroTellsTheNumbersAsTheyAre) {
  SliceCounter counter(sliding_window_counter(10).per(1s));
  EXPECT_EQ(counter.take(0, 0), ok(10, 0));
  counter.take(250000, 3);
  EXPECT_EQ(counter.take(250000, 0), ok(7, 1050000));  // slice 2, gone at 1.3 s
}

TEST(SlidingWindowCounter, DeniedAndPeekedChangeNothing) {
  SliceCounter counter(sliding_window_counter(3).per(1s).slices(2));
  counter.take(0, 3);
  const auto before = counter.counts();
  counter.take(400000, 1);
  counter.take(600000, 4);
  counter.peek(900000, 1);
  EXPECT_EQ(counter.counts(), before);
}

TEST(SlidingWindowCounter, ClockGoingBackIsReadAsTheLastChange) {
  SliceCounter counter(sliding_window_counter(3).per(1s).slices(2));
  counter.take(5 * kSecond, 1);
  EXPECT_EQ(counter.take(0, 2), ok(0, 1500000));
  EXPECT_EQ(counter.peek(1, 1).wait, counter.peek(5 * kSecond, 1).wait);
}

TEST(SlidingWindowCounter, ForgetsWhatIsOlderThanItsSlices) {
  SliceCounter counter(sliding_window_counter(9).per(1s).slices(2));
  counter.take(0, 3);
  counter.take(500000, 3);
  counter.take(kLast, 1);
  EXPECT_EQ(counter.counts(), (std::vector<std::uint32_t>{1, 0, 0}));
}

TEST(SlidingWindowCounter, MovesItsCountsInPlace) {
  SliceCounter counter(sliding_window_counter(99).per(1s).slices(4));
  for (Ticks slice = 0; slice < 5; ++slice) {
    counter.take(slice * 250000, static_cast<std::uint64_t>(slice) + 1);
  }
  EXPECT_EQ(counter.counts(), (std::vector<std::uint32_t>{5, 4, 3, 2, 1}));
  counter.take(6 * 250000, 7);
  EXPECT_EQ(counter.counts(), (std::vector<std::uint32_t>{7, 0, 5, 4, 3}));
}

TEST(SlidingWindowCounter, RefundTakesFromTheNewestSlicesFirst) {
  SliceCounter counter(sliding_window_counter(99).per(1s).slices(4));
  for (Ticks slice = 0; slice < 5; ++slice) counter.take(slice * 250000, 10);
  counter.refund(1000000, 14);
  EXPECT_EQ(counter.counts(), (std::vector<std::uint32_t>{0, 6, 10, 10, 10}));
  counter.refund(1250000, 100);
  EXPECT_EQ(counter.counts(), (std::vector<std::uint32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(counter.peek(1250000), ok(99, 0));
}

TEST(SlidingWindowCounter, ChangedLimitAndWeightingKeepTheCounts) {
  SliceCounter counter(sliding_window_counter(10).per(1s).slices(1));
  counter.take(0, 10);
  counter.become(sliding_window_counter(5).per(1s).slices(1));
  EXPECT_EQ(counter.peek(1500000), ok(0, 500000));  // ⌈10·0.5⌉ of 5
  expect_exact_wait(counter, 0, 1);
  counter.become(sliding_window_counter(20).per(1s).slices(1).counting_oldest_whole());
  EXPECT_EQ(counter.peek(1500000), ok(10, 500000));
}

}  // namespace
}  // namespace sluice::sliding_window_counter_test
