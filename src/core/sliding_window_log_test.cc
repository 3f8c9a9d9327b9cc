#include "core/sliding_window_log.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <vector>

#include "core/test_counters.h"

namespace sluice::sliding_window_log_test {
namespace {

using core::Log;
using core::LogCounter;
using core::LogEntry;
using core::ok;
using core::refused;
using core::Ticks;
using core::wait;
using namespace std::chrono_literals;

constexpr std::uint64_t kMost = 4294967295;
constexpr Ticks kSecond = 1000000;
constexpr Ticks kLast = (Ticks{1} << 52) - 1;

static_assert(sizeof(LogEntry) == 12);
static_assert(LogEntry(kLast, 7).at() == kLast && LogEntry(kLast, 7).units() == 7);

constexpr std::array<LogEntry, 2> kTwoEntries = {LogEntry(0, 2), LogEntry(400000, 1)};
constexpr core::Kept<Log> kTwo{{{}, kTwoEntries, 3, 400000}, core::kNeverForgotten};
constexpr Limit kThree = sliding_window_log(3).per(1s);
static_assert(core::step(Verb::kTake, kThree, kTwo, 500000, 1).answer == wait(500000, 0, 900000));
static_assert(core::step(Verb::kTake, kThree, kTwo, 1000000, 1).next.expired_entries == 1);

TEST(SlidingWindowLog, EntryExactlyOnePeriodOldNoLongerCounts) {
  LogCounter log(sliding_window_log(2).per(1s));
  EXPECT_EQ(log.take(0), ok(1, kSecond));
  EXPECT_EQ(log.take(400000), ok(0, kSecond));
  EXPECT_EQ(log.take(999999), wait(1, 0, 400001));
  EXPECT_EQ(log.take(1000000), ok(0, kSecond));
  EXPECT_EQ(log.take(1399999), wait(1, 0, 600001));
  EXPECT_EQ(log.take(1400000), ok(0, kSecond));
}

TEST(SlidingWindowLog, WaitsForAsManyOldEntriesAsTheCostNeeds) {
  LogCounter log(sliding_window_log(10).per(1s));
  log.take(0, 3);
  log.take(100000, 3);
  log.take(200000, 4);
  EXPECT_EQ(log.peek(300000, 3), wait(700000, 0, 900000));
  EXPECT_EQ(log.peek(300000, 4), wait(800000, 0, 900000));
  EXPECT_EQ(log.peek(300000, 6), wait(800000, 0, 900000));
  EXPECT_EQ(log.peek(300000, 7), wait(900000, 0, 900000));
  EXPECT_EQ(log.peek(300000, 11), refused(0, 900000));
  for (const std::uint64_t cost : {1u, 3u, 4u, 6u, 7u, 10u}) {
    const Ticks at = 300000 + log.peek(300000, cost).wait;
    EXPECT_FALSE(log.peek(at - 1, cost).admitted) << cost;
    EXPECT_TRUE(log.peek(at, cost).admitted) << cost;
  }
}

TEST(SlidingWindowLog, NeverLosesTwoRequestsOfOneInstant) {
  LogCounter log(sliding_window_log(3).per(1s));
  EXPECT_EQ(log.take(5), ok(2, kSecond));
  EXPECT_EQ(log.take(5), ok(1, kSecond));
  EXPECT_EQ(log.take(5), ok(0, kSecond));
  EXPECT_EQ(log.take(5), wait(kSecond, 0, kSecond));
}

TEST(SlidingWindowLog, DeniedAndPeekedChangeNothing) {
  LogCounter log(sliding_window_log(1).per(1s));
  log.take(0);
  log.take(500000);
  log.take(900000, 2);
  log.peek(900000, 1);
  EXPECT_EQ(log.entries(), 1u);
  EXPECT_EQ(log.take(1000000), ok(0, kSecond));
}

TEST(SlidingWindowLog, ClockGoingBackIsReadAsTheLastChange) {
  LogCounter log(sliding_window_log(2).per(1s));
  log.take(5 * kSecond);
  EXPECT_EQ(log.take(0), ok(0, kSecond));
  EXPECT_EQ(log.take(0), wait(kSecond, 0, kSecond));
  EXPECT_EQ(log.take(6 * kSecond - 1), wait(1, 0, 1));
  EXPECT_EQ(log.take(6 * kSecond, 2), ok(0, kSecond));
}

TEST(SlidingWindowLog, HoldsTheExtremes) {
  LogCounter most(sliding_window_log(kMost).per(1ms));
  EXPECT_EQ(most.take(kLast, kMost), ok(0, 1000));
  EXPECT_EQ(most.take(kLast, kMost), wait(1000, 0, 1000));
  EXPECT_EQ(most.take(kLast, kMost + 1), refused(0, 1000));
  LogCounter year(sliding_window_log(1).per(kMaxPeriod));
  EXPECT_EQ(year.take(0), ok(0, kMaxPeriod.count()));
  EXPECT_EQ(year.take(kMaxPeriod.count() - 1), wait(1, 0, 1));
  EXPECT_EQ(year.take(kMaxPeriod.count()), ok(0, kMaxPeriod.count()));
}

TEST(SlidingWindowLog, BanIsNever) {
  LogCounter log(sliding_window_log(0).per(1s));
  EXPECT_EQ(log.take(0), refused(0, 0));
  EXPECT_EQ(log.take(0, 0), ok(0, 0));
}

TEST(SlidingWindowLog, CostOfZeroTellsTheNumbersAsTheyAre) {
  LogCounter log(sliding_window_log(3).per(1s));
  EXPECT_EQ(log.take(0, 0), ok(3, 0));
  log.take(0, 2);
  EXPECT_EQ(log.take(400000, 0), ok(1, 600000));
  EXPECT_EQ(log.entries(), 1u);
}

TEST(SlidingWindowLog, ChangedNumbersReadTheSameEntries) {
  LogCounter log(sliding_window_log(10).per(10s));
  log.take(0, 4);
  log.take(5 * kSecond, 4);
  log.become(sliding_window_log(5).per(10s));
  EXPECT_EQ(log.peek(5 * kSecond, 1), wait(5 * kSecond, 0, 10 * kSecond));
  EXPECT_EQ(log.peek(5 * kSecond, 5), wait(10 * kSecond, 0, 10 * kSecond));
  log.become(sliding_window_log(10).per(1s));
  EXPECT_EQ(log.peek(5 * kSecond), ok(6, kSecond));
  log.become(sliding_window_log(10).per(10s));
  EXPECT_EQ(log.peek(5 * kSecond), ok(2, 10 * kSecond));
}

TEST(SlidingWindowLog, NoWindowEverHoldsMoreThanTheLimit) {
  LogCounter log(sliding_window_log(7).per(1s));
  std::vector<Ticks> admitted;
  for (Ticks now = 0; now < 20 * kSecond; now += 37003) {
    if (log.take(now).admitted) admitted.push_back(now);
  }
  ASSERT_GT(admitted.size(), 7u * 19);
  for (std::size_t i = 7; i < admitted.size(); ++i) {
    EXPECT_GE(admitted[i] - admitted[i - 7], kSecond);
  }
}

}  // namespace
}  // namespace sluice::sliding_window_log_test
