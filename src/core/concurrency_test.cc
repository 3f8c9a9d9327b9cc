#include "core/concurrency.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/test_counters.h"

namespace sluice::concurrency_test {
namespace {

using core::gone;
using core::ok;
using core::PermitCounter;
using core::refused;
using core::Ticks;
using core::wait;
using namespace std::chrono_literals;

constexpr Ticks kSecond = 1000000;
constexpr Limit kThree = concurrency(3).lease(10s);

TEST(Concurrency, HoldsUnitsUntilTheyAreReleased) {
  PermitCounter counter(kThree);
  EXPECT_EQ(counter.take(0, 1, 2), ok(1, 10 * kSecond));
  EXPECT_EQ(counter.take(kSecond, 2, 2), wait(9 * kSecond, 1, 9 * kSecond));
  EXPECT_EQ(counter.release(kSecond, 1), ok(3, 0));
  EXPECT_EQ(counter.release(kSecond, 1), gone(3, 0));
  EXPECT_EQ(counter.take(kSecond, 2, 3), ok(0, 10 * kSecond));
  EXPECT_EQ(counter.take(kSecond, 3, 4), refused(0, 10 * kSecond));
}

TEST(Concurrency, EndsPermitsExactlyWithTheirLease) {
  PermitCounter counter(kThree);
  counter.take(0, 1, 2);
  counter.take(3 * kSecond, 2, 1);
  EXPECT_EQ(counter.peek(4 * kSecond, 1), wait(6 * kSecond, 0, 9 * kSecond));
  EXPECT_EQ(counter.peek(4 * kSecond, 3), wait(9 * kSecond, 0, 9 * kSecond));
  core::expect_exact_wait(counter, 4 * kSecond, 1);
  core::expect_exact_wait(counter, 4 * kSecond, 3);
  EXPECT_EQ(counter.release(10 * kSecond, 1), gone(2, 3 * kSecond));
  EXPECT_EQ(counter.entries().size(), 2u);
  EXPECT_EQ(counter.take(10 * kSecond, 3, 1), ok(1, 10 * kSecond));
  EXPECT_EQ(counter.entries().size(), 2u);  // the first one has left
}

TEST(Concurrency, WaitsForTheEarliestEndsInWhateverOrderTheyAre) {
  PermitCounter counter(concurrency(6).lease(10s));
  for (std::uint8_t i = 0; i < 6; ++i) counter.take(i * kSecond, i);
  counter.extend(6 * kSecond, 0);  // ends at 16 s, the others at 11 s to 15 s
  counter.extend(7 * kSecond, 2);  // at 17 s
  const Ticks ends[] = {11, 13, 14, 15, 16, 17};
  for (std::uint64_t cost = 1; cost <= 6; ++cost) {
    EXPECT_EQ(counter.peek(8 * kSecond, cost).wait, (ends[cost - 1] - 8) * kSecond) << cost;
    core::expect_exact_wait(counter, 8 * kSecond, cost);
  }
}

TEST(Concurrency, StartsALeaseAgainUnlessItHasEnded) {
  PermitCounter counter(kThree);
  counter.take(0, 1, 3);
  EXPECT_EQ(counter.extend(4 * kSecond, 1), ok(0, 10 * kSecond));
  EXPECT_EQ(counter.peek(10 * kSecond, 1), wait(4 * kSecond, 0, 4 * kSecond));
  EXPECT_EQ(counter.extend(14 * kSecond, 1), gone(3, 0));
  EXPECT_EQ(counter.extend(14 * kSecond, 7), gone(3, 0));
}

TEST(Concurrency, EndsNoPermitEarlyIfTheClockGoesBack) {
  PermitCounter counter(kThree);
  counter.take(5 * kSecond, 1);
  EXPECT_EQ(counter.take(0, 2), ok(1, 10 * kSecond));  // at 5 s
  EXPECT_EQ(counter.peek(15 * kSecond - 1), ok(1, 1));
  EXPECT_EQ(counter.peek(15 * kSecond), ok(3, 0));
}

TEST(Concurrency, KeepsTheEndsOfPermitsIfItsNumbersChange) {
  PermitCounter counter(kThree);
  counter.take(0, 1, 3);
  counter.become(concurrency(2).lease(1s));
  EXPECT_EQ(counter.take(kSecond, 2), wait(9 * kSecond, 0, 9 * kSecond));
  counter.become(concurrency(4).lease(1s));
  EXPECT_EQ(counter.take(kSecond, 3), ok(0, 9 * kSecond));
  counter.become(concurrency(0).lease(1s));
  EXPECT_EQ(counter.take(kSecond, 4), refused(0, 0));
  EXPECT_EQ(counter.release(kSecond, 1), ok(0, kSecond));
}

TEST(Concurrency, RefundsShrinkTheNewestPermits) {
  PermitCounter counter(kThree);
  counter.take(0, 1, 1);
  counter.take(kSecond, 2, 2);
  EXPECT_EQ(counter.refund(kSecond, 1), ok(1, 10 * kSecond));
  EXPECT_EQ(counter.refund(kSecond, 1), ok(2, 9 * kSecond));
  EXPECT_EQ(counter.entries().size(), 1u);
  EXPECT_EQ(counter.release(kSecond, 2), gone(2, 9 * kSecond));
  EXPECT_EQ(counter.refund(kSecond, 9), ok(3, 0));
}

TEST(Concurrency, RefundsDoNotCountPermitsThatHaveEnded) {
  PermitCounter counter(concurrency(6).lease(10s));
  counter.take(0, 1, 2);
  counter.take(5 * kSecond, 2, 2);
  EXPECT_EQ(counter.refund(12 * kSecond, 1), ok(5, 3 * kSecond));
  EXPECT_EQ(counter.release(12 * kSecond, 2), ok(6, 0));
}

TEST(Concurrency, TakesAtMostWhatIsLeftAndReservesNothingAhead) {
  PermitCounter counter(kThree);
  EXPECT_EQ(counter.reserve(0, 1, 1), core::delayed(0, 2, 10 * kSecond));
  EXPECT_EQ(counter.take_at_most(0, 2, 5), core::taken(2, 0, 10 * kSecond));
  EXPECT_EQ(counter.take_at_most(0, 3, 5), wait(10 * kSecond, 0, 10 * kSecond));
  EXPECT_EQ(counter.reserve(0, 3, 1), wait(10 * kSecond, 0, 10 * kSecond));
  EXPECT_EQ(counter.release(0, 2), ok(2, 10 * kSecond));
}

TEST(Concurrency, HoldsTheExtremes) {
  constexpr Ticks kLast = (Ticks{1} << 52) - 1;
  PermitCounter counter(concurrency(65535).lease(366 * 24h));
  EXPECT_EQ(counter.take(kLast, 1, 65535), ok(0, Ticks{366} * 86400 * kSecond));
  EXPECT_EQ(counter.release(kLast, 1), ok(65535, 0));
}

}  // namespace
}  // namespace sluice::concurrency_test
