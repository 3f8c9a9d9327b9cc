#include "core/fixed_window.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/test_counters.h"

namespace sluice::fixed_window_test {
namespace {

using core::expect_exact_wait;
using core::FixedSize;
using core::ok;
using core::refused;
using core::State;
using core::Ticks;
using core::wait;
using namespace std::chrono_literals;

constexpr std::uint64_t kMost = 4294967295;
constexpr Ticks kSecond = 1000000;
constexpr Ticks kLast = (Ticks{1} << 52) - 1;

constexpr Limit kThree = fixed_window(3).per(1s);
constexpr Limit kThreeByClock = fixed_window(3).per(1s).aligned_to_clock();
static_assert(FixedSize(kThree).take(0) == ok(2, kSecond));
static_assert(FixedSize(kThreeByClock).take(250000) == ok(2, 750000));

TEST(FixedWindow, OpensAtTheFirstAdmittedRequest) {
  FixedSize window(kThree);
  EXPECT_EQ(window.take(700000, 4), refused(3, 0));  // opens nothing
  EXPECT_EQ(window.take(800000, 2), ok(1, kSecond));
  EXPECT_EQ(window.take(1500000), ok(0, 300000));
  EXPECT_EQ(window.take(1799999), wait(1, 0, 1));
  EXPECT_EQ(window.take(1800000), ok(2, kSecond));
}

TEST(FixedWindow, ByClockItLiesOnMultiplesOfThePeriod) {
  FixedSize window(kThreeByClock);
  EXPECT_EQ(window.take(999999, 3), ok(0, 1));
  EXPECT_EQ(window.take(999999), wait(1, 0, 1));
  EXPECT_EQ(window.take(1000000), ok(2, kSecond));
  EXPECT_EQ(window.take(1999999), ok(1, 1));
  EXPECT_EQ(window.take(2000000, 3), ok(0, kSecond));
}

TEST(FixedWindow, UntouchedTellsNoReset) {
  FixedSize window(kThreeByClock);
  EXPECT_EQ(window.peek(250000), ok(3, 0));
  window.take(250000);
  EXPECT_EQ(window.peek(1000000), ok(3, 0));
}

TEST(FixedWindow, TestsBeforeItTakes) {
  FixedSize window(fixed_window(10).per(1s));
  window.take(0, 8);
  EXPECT_EQ(window.take(0, 8), wait(kSecond, 2, kSecond));
  EXPECT_EQ(window.take(0, 2), ok(0, kSecond));
}

TEST(FixedWindow, DeniedAndPeekedChangeNothing) {
  FixedSize window(kThree);
  window.take(0, 3);
  const State before = window.state();
  window.take(900000);
  window.take(5 * kSecond, 4);
  window.peek(5 * kSecond, 1);
  EXPECT_EQ(window.state(), before);
}

TEST(FixedWindow, CostOfZeroOpensNothing) {
  FixedSize window(kThree);
  EXPECT_EQ(window.take(500000, 0), ok(3, 0));
  EXPECT_EQ(window.take(600000), ok(2, kSecond));
}

TEST(FixedWindow, ClockGoingBackIsReadAsTheLastChange) {
  FixedSize window(kThreeByClock);
  window.take(5400000, 3);
  EXPECT_EQ(window.take(4999999), wait(600000, 0, 600000));
  EXPECT_EQ(window.take(0), wait(600000, 0, 600000));
  EXPECT_EQ(window.take(6000000), ok(2, kSecond));
}

TEST(FixedWindow, BanIsNever) {
  FixedSize window(fixed_window(0).per(1s));
  EXPECT_EQ(window.take(0), refused(0, 0));
  EXPECT_EQ(window.take(0, 0), ok(0, 0));
}

TEST(FixedWindow, HoldsTheExtremes) {
  FixedSize most(fixed_window(kMost).per(1ms));
  EXPECT_EQ(most.take(kLast, kMost), ok(0, 1000));
  EXPECT_EQ(most.take(kLast, 1), wait(1000, 0, 1000));
  EXPECT_EQ(most.take(kLast, kMost + 1), refused(0, 1000));
  FixedSize year(fixed_window(1).per(kMaxPeriod));
  EXPECT_EQ(year.take(0), ok(0, kMaxPeriod.count()));
  expect_exact_wait(year, 0, 1);
  // 2^52 - 1 = 142·31622400000000 + 13218827370495: the 143rd window of 366 days has 18403572629505
  // ticks to go.
  FixedSize by_clock(fixed_window(1).per(kMaxPeriod).aligned_to_clock());
  EXPECT_EQ(by_clock.take(kLast), ok(0, 18403572629505));
}

TEST(FixedWindow, RefundToNothingClosesTheWindow) {
  FixedSize window(kThree);
  window.take(0, 3);
  EXPECT_EQ(window.refund(400000, 2), ok(2, 600000));
  EXPECT_EQ(window.refund(400000, 9), ok(3, 0));
  EXPECT_EQ(window.take(500000), ok(2, kSecond));  // a window of its own, open until 1.5 s
}

TEST(FixedWindow, RefundAfterTheWindowGivesNothingBack) {
  FixedSize window(kThree);
  window.take(0, 3);
  const State before = window.state();
  EXPECT_EQ(window.refund(kSecond, 3), ok(3, 0));
  EXPECT_EQ(window.state(), before);
}

TEST(FixedWindow, ChangedLimitKeepsWhatWasUsed) {
  FixedSize window(fixed_window(10).per(1s));
  window.take(0, 8);
  window.become(fixed_window(5).per(1s));
  EXPECT_EQ(window.peek(0), ok(0, kSecond));
  EXPECT_EQ(window.take(0), wait(kSecond, 0, kSecond));
  window.become(fixed_window(20).per(1s));
  EXPECT_EQ(window.take(0, 12), ok(0, kSecond));
}

TEST(FixedWindow, ChangedPeriodKeepsTheStart) {
  FixedSize window(kThree);
  window.take(0);
  window.take(600000);
  window.become(fixed_window(3).per(2s));
  EXPECT_EQ(window.peek(600000), ok(1, 1400000));
  window.become(fixed_window(3).per(700ms));
  EXPECT_EQ(window.peek(600000), ok(1, 100000));
}

TEST(FixedWindow, PeriodChangedToOneAlreadyOverOpensAtTheLastChange) {
  FixedSize window(kThree);
  window.take(0);
  window.take(600000);
  window.become(fixed_window(3).per(600ms));
  EXPECT_EQ(window.peek(600000), ok(1, 600000));
  EXPECT_EQ(window.peek(1199999), ok(1, 1));
  EXPECT_EQ(window.peek(1200000), ok(3, 0));
}

TEST(FixedWindow, ByClockAChangedPeriodKeepsWhatLiesInTheSameWindowOfTheNewGrid) {
  FixedSize window(kThreeByClock);
  window.take(1700000, 2);
  window.become(fixed_window(3).per(500ms).aligned_to_clock());
  EXPECT_EQ(window.peek(1999999), ok(1, 1));
  EXPECT_EQ(window.peek(2000000), ok(3, 0));
  window.become(fixed_window(3).per(10s).aligned_to_clock());
  EXPECT_EQ(window.peek(9999999), ok(1, 1));
}

// --- windows of the calendar ---

Ticks utc(int year, unsigned month, unsigned day, Duration after = Duration{0}) {
  const std::chrono::sys_days date =
      std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day);
  return (date.time_since_epoch() + after).count();
}
constexpr Ticks kHour = 3600 * kSecond;

TEST(FixedWindow, ByCalendarIsExactAtTheEndOfItsMonth) {
  FixedSize window(fixed_window(3).per(calendar_month("Asia/Shanghai", 15)));
  const Ticks end = utc(2026, 12, 14, 16h);
  EXPECT_EQ(window.take(end - 2 * kHour, 3), ok(0, 2 * kHour));
  EXPECT_EQ(window.take(end - 1), wait(1, 0, 1));
  EXPECT_EQ(window.take(end), ok(2, 31 * 24 * kHour));
}

TEST(FixedWindow, ByCalendarHasDaysOf23And25Hours) {
  FixedSize window(fixed_window(3).per(calendar_day("Europe/Berlin")));
  EXPECT_EQ(window.take(utc(2026, 3, 28, 23h), 3), ok(0, 23 * kHour));
  EXPECT_EQ(window.take(utc(2026, 3, 29, 22h) - 1), wait(1, 0, 1));
  EXPECT_EQ(window.take(utc(2026, 3, 29, 22h)), ok(2, 24 * kHour));
  EXPECT_EQ(window.take(utc(2026, 10, 24, 22h), 2), ok(1, 25 * kHour));
}

TEST(FixedWindow, ByCalendarHasAllVerbs) {
  FixedSize window(fixed_window(3).per(calendar_week("UTC", std::chrono::Sunday)));
  const Ticks at = utc(2026, 11, 28, 12h);
  const Ticks left = 12 * kHour;
  EXPECT_EQ(window.peek(at), ok(3, 0));
  EXPECT_EQ(window.take(at, 2), ok(1, left));
  EXPECT_EQ(window.refund(at, 1), ok(2, left));
  EXPECT_EQ(window.charge(at, 5), core::over(left));
  EXPECT_EQ(window.take_at_most(at, 5), wait(left, 0, left));
  EXPECT_EQ(window.reserve(at, 1, 11 * kHour), wait(left, 0, left));
  EXPECT_EQ(window.refund(at, 9), ok(3, 0));
  EXPECT_EQ(window.take(at, 4), refused(3, 0));
  EXPECT_EQ(window.take(at - kHour), ok(2, left)) << "time does not go back";
}

TEST(FixedWindow, KeepsWhatWasConsumedUnderAnotherCalendar) {
  FixedSize window(fixed_window(9).per(calendar_month("Europe/Berlin")));
  window.take(utc(2026, 11, 23), 4);
  window.become(fixed_window(9).per(calendar_day("Europe/Berlin")));
  EXPECT_EQ(window.peek(utc(2026, 11, 23, 1h)), ok(5, 22 * kHour));
  EXPECT_EQ(window.peek(utc(2026, 11, 23, 23h)), ok(9, 0));
  window.become(fixed_window(9).per(24h));
  EXPECT_EQ(window.peek(utc(2026, 11, 23)), ok(5, 24 * kHour)) << "the window is 22 days old";
  window.become(fixed_window(9).per(calendar_month("Europe/Berlin", 24)));
  EXPECT_EQ(window.peek(utc(2026, 11, 23, 1h)), ok(5, 22 * kHour));
}

}  // namespace
}  // namespace sluice::fixed_window_test
