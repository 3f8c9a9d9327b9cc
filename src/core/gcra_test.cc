#include "core/gcra.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/test_counters.h"

namespace sluice::gcra_test {
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

constexpr Limit kFive = gcra(1).per(1s).burst(4);
static_assert(FixedSize(kFive).take(0, 5) == ok(0, 5 * kSecond));

TEST(Gcra, SixteenAtOnceThenOneEachTwoSeconds) {
  FixedSize cell(gcra(30).per(60s).burst(15));
  EXPECT_EQ(cell.take(0), ok(15, 2 * kSecond));
  EXPECT_EQ(cell.take(0), ok(14, 4 * kSecond));
  EXPECT_EQ(cell.take(0), ok(13, 6 * kSecond));
}

TEST(Gcra, FiveAtOnceThenDeniedUntilTheNextEmission) {
  FixedSize cell(kFive);
  for (std::uint32_t i = 1; i <= 5; ++i) EXPECT_EQ(cell.take(0), ok(5 - i, i * kSecond));
  EXPECT_EQ(cell.take(0), wait(kSecond, 0, 5 * kSecond));
  EXPECT_EQ(cell.take(0), wait(kSecond, 0, 5 * kSecond));
}

TEST(Gcra, WithoutBurstAllowsOneEachEmission) {
  FixedSize cell(gcra(1).per(2s).burst(0));
  EXPECT_EQ(cell.take(0), ok(0, 2 * kSecond));
  EXPECT_EQ(cell.take(0), wait(2 * kSecond, 0, 2 * kSecond));
  EXPECT_EQ(cell.take(2 * kSecond - 1), wait(1, 0, 1));
  EXPECT_EQ(cell.take(2 * kSecond), ok(0, 2 * kSecond));
}

TEST(Gcra, MoreThanItHoldsIsNeverAndStoresNothing) {
  FixedSize cell(kFive);
  EXPECT_EQ(cell.take(0, 6), refused(5, 0));
  EXPECT_EQ(cell.state(), State{});
}

TEST(Gcra, RefundsAreCappedAtFull) {
  FixedSize cell(kFive);
  EXPECT_EQ(cell.take(0, 3), ok(2, 3 * kSecond));
  EXPECT_EQ(cell.refund(0, 1), ok(3, 2 * kSecond));
  EXPECT_EQ(cell.refund(0, 1), ok(4, kSecond));
  EXPECT_EQ(cell.refund(0, 1), ok(5, 0));
  EXPECT_EQ(cell.refund(0, 1), ok(5, 0));
}

// 5 at once, one each second, over ten seconds; worked out as tokens that come back one a second.
TEST(Gcra, FollowsItsTheoreticalArrivalTime) {
  FixedSize cell(kFive);
  EXPECT_EQ(cell.take(0, 6), refused(5, 0));
  for (std::uint32_t i = 1; i <= 5; ++i) EXPECT_EQ(cell.take(0), ok(5 - i, i * kSecond));
  EXPECT_EQ(cell.take(0), wait(kSecond, 0, 5 * kSecond));
  EXPECT_EQ(cell.take(3000000), ok(2, 3000000));
  EXPECT_EQ(cell.take(3100000), ok(1, 3900000));
  EXPECT_EQ(cell.take(4000000), ok(1, 4000000));
  EXPECT_EQ(cell.take(8000000), ok(4, 1000000));
  EXPECT_EQ(cell.take(9500000), ok(4, 1000000));
  EXPECT_EQ(cell.take(9500000, 0), ok(4, 1000000));
  EXPECT_EQ(cell.take(9500000, 2), ok(2, 3000000));
  EXPECT_EQ(cell.take(9500000, 5), wait(3000000, 2, 3000000));
}

TEST(Gcra, IsUntouchedAtTheTheoreticalArrivalTime) {
  FixedSize cell(gcra(3).per(1s).burst(4));
  EXPECT_EQ(10 * kSecond + cell.take(10 * kSecond).reset_after, 10333334);
  EXPECT_EQ(10 * kSecond + cell.take(10 * kSecond, 2).reset_after, 11 * kSecond);
}

TEST(Gcra, HoldsTheExtremes) {
  FixedSize cell(gcra(kMost).per(1ms).burst(kMost - 1));
  EXPECT_EQ(cell.take((Ticks{1} << 52) - 1, kMost), ok(0, 1000));
  EXPECT_EQ(cell.take((Ticks{1} << 52) - 1, kMost), wait(1000, 0, 1000));
  FixedSize slow(gcra(1).per(kMaxPeriod).burst(0));
  EXPECT_EQ(slow.take(0), ok(0, kMaxPeriod.count()));
  expect_exact_wait(slow, 0, 1);
}

TEST(Gcra, RateIsNotRoundedToATick) {
  // 2·10^9 a second: 2000 in a tick, where a whole-tick emission interval would be zero.
  FixedSize cell(gcra(2000000000).per(1s).burst(1999));
  EXPECT_EQ(cell.take(0, 2000), ok(0, 1));
  EXPECT_EQ(cell.take(0, 1), wait(1, 0, 1));
  EXPECT_EQ(cell.take(1, 2000), ok(0, 1));
}

}  // namespace
}  // namespace sluice::gcra_test
