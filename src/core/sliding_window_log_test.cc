#include "core/sliding_window_log.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <vector>

#include "core/test_fixed_size_steps.h"

namespace sluice {
namespace {

using core::Answer;
using core::Log;
using core::LogEntry;
using core::ok;
using core::Quote;
using core::refused;
using core::Ticks;
using core::wait;
using namespace std::chrono_literals;

namespace algorithm = core::sliding_window_log;

constexpr std::uint64_t kMost = 4294967295;
constexpr Ticks kSecond = 1000000;
constexpr Ticks kLast = (Ticks{1} << 52) - 1;

static_assert(sizeof(LogEntry) == 12);
static_assert(LogEntry(kLast, 7).at() == kLast && LogEntry(kLast, 7).units() == 7);

constexpr std::array<LogEntry, 2> kTwoEntries = {LogEntry(0, 2), LogEntry(400000, 1)};
constexpr Log kTwo{kTwoEntries, 3, 400000};
constexpr Limit kThree = sliding_window_log(3).per(1s);
static_assert(algorithm::advance(kThree, kTwo, 999999).units == 3);
static_assert(algorithm::advance(kThree, kTwo, 1000000).units == 1);
static_assert(algorithm::quote(kThree, kTwo, algorithm::advance(kThree, kTwo, 500000), 1).wait ==
              500000);

// A log in a vector, stepped as a store steps it.
class LogCounter {
 public:
  explicit LogCounter(const Limit& limit) : limit_(limit) {}

  Answer take(Ticks now, std::uint64_t cost = 1) {
    const algorithm::View view = algorithm::advance(limit_, log(now), now);
    const Quote quoted = quote(view, now, cost);
    const Answer answer = this->answer(quoted, view, now, cost);
    if (quoted.admitted && cost > 0) {
      entries_.erase(entries_.begin(), entries_.begin() + static_cast<long>(view.expired));
      entries_.emplace_back(view.at, static_cast<std::uint32_t>(cost));
      last_ = view.at;
    }
    return answer;
  }
  Answer peek(Ticks now, std::uint64_t cost = 0) const {
    const algorithm::View view = algorithm::advance(limit_, log(now), now);
    return answer(quote(view, now, cost), view, now, cost);
  }
  void become(const Limit& limit) { limit_ = limit; }
  std::size_t entries() const { return entries_.size(); }

 private:
  Log log(Ticks now) const {
    std::uint64_t units = 0;
    for (const LogEntry& entry : entries_) units += entry.units();
    return {entries_, units, entries_.empty() ? now : last_};
  }
  Quote quote(const algorithm::View& view, Ticks now, std::uint64_t cost) const {
    return cost == 0 ? core::admitted() : algorithm::quote(limit_, log(now), view, cost);
  }
  Answer answer(const Quote& quoted, const algorithm::View& view, Ticks now,
                std::uint64_t cost) const {
    const auto numbers = algorithm::describe(limit_, log(now), view, quoted.admitted ? cost : 0);
    return {quoted.admitted, quoted.never, quoted.wait, numbers.remaining, numbers.reset_after};
  }

  Limit limit_;
  std::vector<LogEntry> entries_;
  Ticks last_ = 0;
};

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
}  // namespace sluice
