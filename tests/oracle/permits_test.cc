// Concurrency permits, with numbers computed by hand.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/oracle/oracle.h"

namespace sluice_oracle::permits_test {
namespace {

constexpr std::int64_t kSecond = 1000000;

Spec permits(std::uint64_t limit, std::int64_t lease_us) {
  return Spec{.algorithm = Algorithm::kConcurrency, .limit = limit, .per_us = lease_us};
}

class OraclePermits : public ::testing::Test {
 protected:
  Answer ask(Verb verb, std::int64_t at, std::uint64_t cost) {
    return oracle.apply(verb, {{"k", spec, cost}}, at);
  }
  Answer take(std::int64_t at, std::uint64_t cost = 1) { return ask(Verb::kTake, at, cost); }
  std::uint64_t free_units(std::int64_t at) { return ask(Verb::kPeek, at, 0).limits[0].remaining; }

  Spec spec = permits(3, 10 * kSecond);
  Oracle oracle;
};

TEST_F(OraclePermits, HoldUnitsUntilTheyAreReleased) {
  const Answer first = take(0, 2);
  EXPECT_EQ(first.limits[0].remaining, 1u);
  EXPECT_EQ(first.limits[0].reset_after_us, 10 * kSecond);
  EXPECT_FALSE(take(kSecond, 2).allowed);
  EXPECT_EQ(take(kSecond, 2).permit, std::nullopt);
  EXPECT_TRUE(oracle.release(*first.permit, kSecond).allowed);
  EXPECT_EQ(free_units(kSecond), 3u);
  EXPECT_EQ(oracle.release(*first.permit, kSecond).reason, "gone");
  EXPECT_EQ(free_units(kSecond), 3u);
}

TEST_F(OraclePermits, EndExactlyWithTheirLease) {
  take(0, 2);
  take(3 * kSecond, 1);
  EXPECT_EQ(take(4 * kSecond, 1).retry_after_us, 6 * kSecond);
  EXPECT_EQ(take(4 * kSecond, 3).retry_after_us, 9 * kSecond);  // both have to end
  EXPECT_EQ(take(4 * kSecond, 4).reason, "never");
  EXPECT_EQ(free_units(10 * kSecond - 1), 0u);
  EXPECT_EQ(free_units(10 * kSecond), 2u);
}

TEST_F(OraclePermits, RestartTheirLeaseUnlessTheyHaveEnded) {
  const std::uint64_t permit = *take(0, 3).permit;
  EXPECT_TRUE(oracle.extend(permit, 4 * kSecond).allowed);
  EXPECT_EQ(take(10 * kSecond).retry_after_us, 4 * kSecond);
  EXPECT_EQ(oracle.extend(permit, 14 * kSecond).reason, "gone");
  EXPECT_EQ(oracle.release(permit, 14 * kSecond).reason, "gone");
}

TEST_F(OraclePermits, KeepTheirEndWhenNumbersChange) {
  take(0, 3);
  spec = permits(2, kSecond);
  EXPECT_EQ(take(kSecond, 1).retry_after_us, 9 * kSecond);
  spec = permits(4, kSecond);
  EXPECT_EQ(take(kSecond, 1).limits[0].reset_after_us, 9 * kSecond);
  EXPECT_EQ(free_units(2 * kSecond), 1u);
}

TEST_F(OraclePermits, DoNotEndEarlyWhenTheClockGoesBack) {
  take(5 * kSecond, 1);
  take(0, 1);  // at 5 s
  EXPECT_EQ(free_units(14 * kSecond), 1u);
}

TEST_F(OraclePermits, ShrinkByRefundsFromTheNewest) {
  const std::uint64_t oldest = *take(0, 1).permit;
  const std::uint64_t newest = *take(kSecond, 2).permit;
  EXPECT_EQ(ask(Verb::kRefund, kSecond, 1).limits[0].remaining, 1u);
  EXPECT_TRUE(oracle.release(newest, kSecond).allowed);
  EXPECT_EQ(free_units(kSecond), 2u);
  EXPECT_EQ(ask(Verb::kRefund, kSecond, 9).limits[0].remaining, 3u);
  EXPECT_EQ(oracle.release(oldest, kSecond).reason, "gone");
}

TEST_F(OraclePermits, AreAllForgottenByAReset) {
  const std::uint64_t permit = *take(0, 3).permit;
  EXPECT_EQ(ask(Verb::kReset, 0, 0).limits[0].remaining, 3u);
  EXPECT_EQ(oracle.release(permit, 0).reason, "gone");
}

TEST_F(OraclePermits, AnswerTheOtherVerbs) {
  EXPECT_EQ(ask(Verb::kCharge, 0, 1).reason, "invalid");
  EXPECT_EQ(ask(Verb::kPeek, 0, 1).permit, std::nullopt);
  EXPECT_EQ(ask(Verb::kTake, 0, 0).permit, std::nullopt);
  EXPECT_EQ(ask(Verb::kReserve, 0, 1).delay_us, 0);
  const Answer rest = ask(Verb::kTakeAtMost, 0, 5);
  EXPECT_EQ(rest.taken, 2u);
  EXPECT_TRUE(oracle.release(*rest.permit, 0).allowed);
  EXPECT_EQ(free_units(0), 2u);
}

TEST_F(OraclePermits, AreOneForARequestOfSeveralLimits) {
  const Spec brief = permits(2, kSecond);
  const Spec rate{.algorithm = Algorithm::kTokenBucket, .limit = 1, .per_us = 60 * kSecond};
  const std::vector<Charge> charges = {{"a", spec, 1}, {"b", brief, 2}, {"c", rate, 1}};
  const Answer first = oracle.apply(Verb::kTake, charges, 0);
  EXPECT_TRUE(first.permit.has_value());
  const Answer denied = oracle.apply(Verb::kTake, charges, 0);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.permit, std::nullopt);
  EXPECT_EQ(denied.limits[0].remaining, 2u);
  EXPECT_TRUE(oracle.extend(*first.permit, 0).allowed);
  EXPECT_EQ(oracle.extend(*first.permit, kSecond).reason, "gone");  // the brief one has ended
  EXPECT_TRUE(oracle.release(*first.permit, kSecond).allowed);
}

TEST(OraclePermitLimits, HaveTheirOwnRanges) {
  EXPECT_TRUE(is_valid(permits(65535, 1000)));
  EXPECT_FALSE(is_valid(permits(65536, 1000)));
  Spec with_burst = permits(1, 1000);
  with_burst.burst = 1;
  EXPECT_FALSE(is_valid(with_burst));
}

}  // namespace
}  // namespace sluice_oracle::permits_test
