#include "core/token_bucket.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/test_counters.h"

namespace sluice::token_bucket_test {
namespace {

using core::Answer;
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

// --- continuous ---

// The whole algorithm is a constant expression: 10/s with room for 20, a unit each 100000 ticks.
constexpr Answer kFirstOfTen = FixedSize(token_bucket(10).per(1s).burst(20)).take(0);
static_assert(kFirstOfTen == ok(19, 100000));

TEST(TokenBucket, IsFullAtFirst) {
  FixedSize bucket(token_bucket(10).per(1s).burst(20));
  EXPECT_EQ(bucket.peek(kSecond), ok(20, 0));
  EXPECT_EQ(bucket.take(kSecond, 20), ok(0, 2 * kSecond));
}

TEST(TokenBucket, RefillsEvenly) {
  FixedSize bucket(token_bucket(10).per(1s).burst(20));
  bucket.take(0, 20);
  EXPECT_EQ(bucket.peek(99999), ok(0, 2 * kSecond - 99999));
  EXPECT_EQ(bucket.peek(100000), ok(1, 2 * kSecond - 100000));
  EXPECT_EQ(bucket.peek(2 * kSecond - 1), ok(19, 1));
  EXPECT_EQ(bucket.peek(2 * kSecond), ok(20, 0));
  EXPECT_EQ(bucket.peek(kLast), ok(20, 0));
}

TEST(TokenBucket, IsAdmittedExactlyAtRetryAfter) {
  FixedSize bucket(token_bucket(3).per(1s));  // a unit each 333333 1/3 ticks
  bucket.take(0, 3);
  EXPECT_EQ(bucket.take(0, 1), wait(333334, 0, kSecond));
  EXPECT_EQ(bucket.take(0, 2), wait(666667, 0, kSecond));
  EXPECT_EQ(bucket.take(0, 3), wait(kSecond, 0, kSecond));
  for (const std::uint64_t cost : {1u, 2u, 3u}) expect_exact_wait(bucket, 0, cost);
}

TEST(TokenBucket, KeepsFractionsOfAUnitBetweenTakes) {
  FixedSize bucket(token_bucket(3).per(1s));
  bucket.take(0, 3);
  // At 333334 exactly 1 + 2/10^6 units are back; after taking one, 2/10^6 are ahead: the next comes
  // 333332 2/3 ticks later.
  EXPECT_EQ(bucket.take(333334), ok(0, kSecond));
  EXPECT_EQ(bucket.take(333334), wait(333333, 0, 1000000));
  EXPECT_EQ(bucket.take(666667), ok(0, 1000000));
  EXPECT_EQ(bucket.take(1000000), ok(0, 1000000));
}

TEST(TokenBucket, DoesNotDriftOverADayOfAPrimeRate) {
  // 999983 a day, each taken the moment it is offered: 2 at once, and then the k-th to come back at
  // ⌈k days / 999983⌉, which is before the day is over for k up to 999982.
  FixedSize bucket(token_bucket(999983).per(24h).burst(2));
  Ticks now = 0;
  std::uint64_t admitted = 0;
  while (now < 86400 * kSecond) {
    const Answer answer = bucket.take(now);
    admitted += answer.admitted;
    now += answer.wait;
  }
  EXPECT_EQ(admitted, 999984u);
}

TEST(TokenBucket, IsExactAtTwoBillionASecond) {
  FixedSize bucket(token_bucket(2000000000).per(1s));  // 2000 a tick
  EXPECT_EQ(bucket.take(0, 2000000000), ok(0, kSecond));
  EXPECT_EQ(bucket.take(1, 2001), wait(1, 2000, kSecond - 1));
  EXPECT_EQ(bucket.take(1, 2000), ok(0, kSecond));
  EXPECT_EQ(bucket.take(1, 1), wait(1, 0, kSecond));
}

TEST(TokenBucket, IsExactAtTheSlowestRate) {
  FixedSize bucket(token_bucket(1).per(kMaxPeriod).burst(2));
  const Ticks year = kMaxPeriod.count();
  EXPECT_EQ(bucket.take(0, 2), ok(0, 2 * year));
  EXPECT_EQ(bucket.take(year - 1), wait(1, 0, year + 1));
  EXPECT_EQ(bucket.take(year), ok(0, 2 * year));
}

TEST(TokenBucket, HoldsTheLargestBurst) {
  FixedSize bucket(token_bucket(kMost).per(1ms).burst(kMost));
  EXPECT_EQ(bucket.take(0, kMost), ok(0, 1000));
  EXPECT_EQ(bucket.take(0, kMost), wait(1000, 0, 1000));
  EXPECT_EQ(bucket.take(999, kMost), wait(1, 4290672327, 1));  // 4294967295·999/1000 = 4290672327.7
  EXPECT_EQ(bucket.take(1000, kMost), ok(0, 1000));
}

TEST(TokenBucket, HoldsTheLargestBurstAtTheSlowestRateThatRefillsIt) {
  // A unit each 2^20 ticks: empty to full in (2^32 - 1)·2^20 = 2^52 - 2^20 ticks.
  FixedSize bucket(token_bucket(1).per(Duration{1 << 20}).burst(kMost));
  EXPECT_EQ(bucket.take(0, kMost), ok(0, (Ticks{1} << 52) - (1 << 20)));
  EXPECT_EQ(bucket.peek(kLast), ok(kMost, 0));
  FixedSize late(token_bucket(1).per(Duration{1 << 20}).burst(kMost));
  EXPECT_EQ(late.take(kLast, kMost), ok(0, (Ticks{1} << 52) - (1 << 20)));
  EXPECT_EQ(late.take(kLast, 1), wait(1 << 20, 0, (Ticks{1} << 52) - (1 << 20)));
}

TEST(TokenBucket, RefillsWithoutOverflowOverTheWholeRangeOfTime) {
  // 2^52 ticks at 2^32 - 1 units each 1000 would be 2^74 units.
  FixedSize bucket(token_bucket(kMost).per(1ms).burst(kMost));
  bucket.take(0, kMost);
  EXPECT_EQ(bucket.peek(kLast, kMost), ok(0, 1000));
  // 1 of 2^32 - 1 units in 2^44.8 ticks each: the level overflows 64 bits.
  FixedSize wide(token_bucket(4294967291).per(kMaxPeriod).burst(kMost));  // a prime: not reduced
  EXPECT_EQ(wide.take(0, kMost).remaining, 0u);
  // ⌈4·31622400000000 / 4294967291⌉ = ⌈29450.65⌉: a year and 4 units more.
  EXPECT_EQ(wide.peek(0).reset_after, kMaxPeriod.count() + 29451);
  expect_exact_wait(wide, 0, 1);
  expect_exact_wait(wide, 0, kMost);
  expect_exact_wait(wide, kMaxPeriod.count() / 2, kMost);
}

TEST(TokenBucket, CostBeyondTheCapacityIsNever) {
  FixedSize bucket(token_bucket(10).per(1s).burst(20));
  EXPECT_EQ(bucket.take(0, 21), refused(20, 0));
  EXPECT_EQ(bucket.take(0, kMost), refused(20, 0));
  EXPECT_EQ(bucket.take(0, ~std::uint64_t{0}), refused(20, 0));
  bucket.take(0, 5);
  EXPECT_EQ(bucket.take(0, 21), refused(15, 500000));
}

TEST(TokenBucket, CostOfZeroIsNeverDenied) {
  FixedSize bucket(token_bucket(1).per(1s));
  EXPECT_EQ(bucket.take(0, 0), ok(1, 0));
  bucket.take(0, 1);
  EXPECT_EQ(bucket.take(0, 0), ok(0, kSecond));
  FixedSize banned(token_bucket(0).per(1s));
  EXPECT_EQ(banned.take(0, 0), ok(0, 0));
  EXPECT_EQ(banned.take(0, 1), refused(0, 0));
}

TEST(TokenBucket, DeniedAndPeekedChangeNothing) {
  FixedSize bucket(token_bucket(2).per(1s));
  bucket.take(0, 2);
  const State before = bucket.state();
  EXPECT_FALSE(bucket.take(100000, 1).admitted);
  EXPECT_FALSE(bucket.take(100000, 3).admitted);
  bucket.peek(400000, 1);
  EXPECT_EQ(bucket.state(), before);
}

TEST(TokenBucket, ClockGoingBackIsReadAsTheLastChange) {
  FixedSize bucket(token_bucket(1).per(1s).burst(2));
  bucket.take(10 * kSecond);
  EXPECT_EQ(bucket.take(3 * kSecond), ok(0, 2 * kSecond));
  EXPECT_EQ(bucket.take(0), wait(kSecond, 0, 2 * kSecond));
  EXPECT_EQ(bucket.take(11 * kSecond - 1), wait(1, 0, kSecond + 1));
  EXPECT_EQ(bucket.take(11 * kSecond), ok(0, 2 * kSecond));
}

TEST(TokenBucket, RefundGivesBackAndNeverFillsBeyondFull) {
  FixedSize bucket(token_bucket(10).per(1s).burst(20));
  bucket.take(0, 7);
  EXPECT_EQ(bucket.refund(0, 3), ok(16, 400000));
  EXPECT_EQ(bucket.refund(150000, 2), ok(19, 50000));  // 4 less 1.5 less 2 are 1/2 spent
  EXPECT_EQ(bucket.refund(150000, kMost), ok(20, 0));
  EXPECT_EQ(bucket.take(150000, 20), ok(0, 2 * kSecond));
}

TEST(TokenBucket, RefundOfWhatIsLeftOfAUnitFillsIt) {
  FixedSize bucket(token_bucket(1).per(1s).burst(5));
  bucket.take(0, 1);
  EXPECT_EQ(bucket.refund(400000, 1), ok(5, 0));
  EXPECT_EQ(bucket.state().units, 0u);
  EXPECT_EQ(bucket.state().aux, 0u);
}

TEST(TokenBucket, RefundOfAsManyUnitsAsAreWholeLeavesTheFraction) {
  FixedSize bucket(token_bucket(1).per(1s).burst(5));
  bucket.take(0, 3);  // at 0.4 s 2.6 are spent
  EXPECT_EQ(bucket.refund(400000, 2), ok(4, 600000));
  EXPECT_EQ(bucket.refund(400000, 1), ok(5, 0));
}

TEST(TokenBucket, RefundIsAChangeThatTheClockCannotGoBehind) {
  FixedSize bucket(token_bucket(1).per(1s).burst(5));
  bucket.take(0, 5);
  bucket.refund(2 * kSecond, 1);
  EXPECT_EQ(bucket.peek(0), ok(3, 2 * kSecond));
  EXPECT_EQ(bucket.peek(3 * kSecond), ok(4, kSecond));
}

TEST(TokenBucket, ChangedNumbersKeepWhatWasSpentRoundedUpAtTheLastChange) {
  FixedSize bucket(token_bucket(10).per(1s).burst(20));
  bucket.take(0, 10);
  bucket.take(50000, 1);  // 9.5 + 1 spent
  bucket.become(token_bucket(1).per(1s).burst(20));
  EXPECT_EQ(bucket.peek(50000), ok(9, 11 * kSecond));  // 11
  // Time passes at the new rate from the last change, not from the first look under it.
  EXPECT_EQ(bucket.peek(50000 + kSecond), ok(10, 10 * kSecond));
  bucket.become(token_bucket(10).per(1s).burst(20));
  EXPECT_EQ(bucket.peek(50000), ok(9, 1050000));  // looking changed nothing: still 10.5
}

TEST(TokenBucket, SmallerCapacityKeepsWhatIsBeyondIt) {
  FixedSize bucket(token_bucket(10).per(1s).burst(20));
  bucket.take(0, 20);
  bucket.become(token_bucket(10).per(1s).burst(5));
  EXPECT_EQ(bucket.take(0, 1), wait(1600000, 0, 2 * kSecond));
  EXPECT_EQ(bucket.take(0, 6), refused(0, 2 * kSecond));
  expect_exact_wait(bucket, 0, 5);
}

TEST(TokenBucket, ChangedNumbersNeverMeanAWaitBeyondTheLongest) {
  FixedSize bucket(token_bucket(kMost).per(1ms).burst(kMost));
  bucket.take(0, kMost);
  bucket.become(token_bucket(1).per(kMaxPeriod).burst(1));
  // ⌊2^52 / 366 days⌋ = 142 units are kept.
  EXPECT_EQ(bucket.peek(0).reset_after, 142 * kMaxPeriod.count());
  EXPECT_EQ(bucket.take(0, 1), wait(142 * kMaxPeriod.count(), 0, 142 * kMaxPeriod.count()));
}

TEST(TokenBucket, BanKeepsWhatWasSpentForLater) {
  FixedSize bucket(token_bucket(10).per(1s));
  bucket.take(0, 10);
  bucket.become(token_bucket(0).per(1s));
  EXPECT_EQ(bucket.take(500000, 1), refused(0, 0));
  EXPECT_EQ(bucket.peek(500000), ok(0, 0));
  bucket.become(token_bucket(10).per(1s));
  EXPECT_EQ(bucket.take(500000, 6), wait(100000, 5, 500000));
}

// --- interval ---

constexpr Limit kFiveEachSecond = token_bucket(5).per(1s).burst(12).refilled_at_intervals();
static_assert(FixedSize(kFiveEachSecond).take(0, 12) == ok(0, 3 * kSecond));

TEST(TokenBucketByInterval, RefillsAllAtOnceEachPeriodFromFirstUse) {
  FixedSize bucket(kFiveEachSecond);
  EXPECT_EQ(bucket.take(300000, 12), ok(0, 3 * kSecond));
  EXPECT_EQ(bucket.peek(1299999), ok(0, 2 * kSecond + 1));
  EXPECT_EQ(bucket.peek(1300000), ok(5, 2 * kSecond));
  EXPECT_EQ(bucket.peek(2299999), ok(5, kSecond + 1));
  EXPECT_EQ(bucket.peek(2300000), ok(10, kSecond));
  EXPECT_EQ(bucket.peek(3299999), ok(10, 1));
  EXPECT_EQ(bucket.peek(3300000), ok(12, 0));
}

TEST(TokenBucketByInterval, IsAdmittedExactlyAtRetryAfter) {
  FixedSize bucket(kFiveEachSecond);
  bucket.take(300000, 12);
  EXPECT_EQ(bucket.take(300000, 5), wait(kSecond, 0, 3 * kSecond));
  EXPECT_EQ(bucket.take(300000, 6), wait(2 * kSecond, 0, 3 * kSecond));
  EXPECT_EQ(bucket.take(700000, 1), wait(600000, 0, 2600000));
  for (const std::uint64_t cost : {1u, 5u, 6u, 10u, 11u, 12u})
    expect_exact_wait(bucket, 300000, cost);
}

TEST(TokenBucketByInterval, KeepsItsBoundariesWhileAnythingIsSpent) {
  FixedSize bucket(kFiveEachSecond);
  bucket.take(300000, 12);
  EXPECT_EQ(bucket.take(1900000, 1), ok(4, 1400000));  // 8 spent: boundaries at 2.3 and 3.3 s
  EXPECT_EQ(bucket.peek(2300000), ok(9, kSecond));
}

TEST(TokenBucketByInterval, BeginsAnewWhenItIsFull) {
  FixedSize bucket(kFiveEachSecond);
  bucket.take(0, 1);
  EXPECT_EQ(bucket.peek(kSecond), ok(12, 0));
  EXPECT_EQ(bucket.take(1700000, 1), ok(11, kSecond));
  EXPECT_EQ(bucket.peek(2699999), ok(11, 1));
}

TEST(TokenBucketByInterval, RefundToFullBeginsAnew) {
  FixedSize bucket(kFiveEachSecond);
  bucket.take(0, 3);
  EXPECT_EQ(bucket.refund(500000, 2), ok(11, 500000));
  EXPECT_EQ(bucket.refund(500000, 1), ok(12, 0));
  EXPECT_EQ(bucket.take(600000, 1), ok(11, kSecond));
}

TEST(TokenBucketByInterval, ClockGoingBackIsReadAsTheLastChange) {
  FixedSize bucket(kFiveEachSecond);
  bucket.take(10 * kSecond, 12);
  EXPECT_EQ(bucket.take(0, 1), wait(kSecond, 0, 3 * kSecond));
  EXPECT_EQ(bucket.take(10500000, 1), wait(500000, 0, 2500000));
}

TEST(TokenBucketByInterval, HoldsTheExtremes) {
  FixedSize year(token_bucket(kMost).per(kMaxPeriod).refilled_at_intervals());
  EXPECT_EQ(year.take(kLast, kMost), ok(0, kMaxPeriod.count()));
  EXPECT_EQ(year.take(kLast, 1), wait(kMaxPeriod.count(), 0, kMaxPeriod.count()));
  // One unit each 2^20 ticks: 2^32 - 1 intervals.
  FixedSize slow(token_bucket(1).per(Duration{1 << 20}).burst(kMost).refilled_at_intervals());
  EXPECT_EQ(slow.take(0, kMost), ok(0, Ticks{kMost} << 20));
  EXPECT_EQ(slow.peek((Ticks{kMost} << 20) - 1), ok(kMost - 1, 1));
  EXPECT_EQ(slow.peek(Ticks{kMost} << 20), ok(kMost, 0));
  FixedSize banned(token_bucket(0).per(1s).refilled_at_intervals());
  EXPECT_EQ(banned.take(0, 1), refused(0, 0));
}

TEST(TokenBucketByInterval, KeepsItsPhaseUnderAChangedPeriodThatHoldsIt) {
  FixedSize bucket(kFiveEachSecond);
  bucket.take(0, 6);
  bucket.take(400000, 6);
  bucket.become(token_bucket(5).per(500ms).burst(12).refilled_at_intervals());
  EXPECT_EQ(bucket.peek(400000), ok(0, 1100000));  // phase 0.4 s: back at 0.5, 1.0 and 1.5 s
  bucket.become(token_bucket(5).per(400ms).burst(12).refilled_at_intervals());
  EXPECT_EQ(bucket.peek(400000), ok(0, 1200000));  // 0.4 s is a whole period: from the last change
}

TEST(TokenBucketByInterval, ChangesFromAndToContinuousKeepWholeUnits) {
  FixedSize bucket(token_bucket(5).per(1s).burst(12));
  bucket.take(0, 6);
  bucket.take(100000, 2);  // 7.5 spent
  bucket.become(kFiveEachSecond);
  EXPECT_EQ(bucket.peek(100000), ok(4, 2 * kSecond));  // 8: 5 back at 1.1 s, 3 at 2.1 s
  bucket.take(1200000, 1);                             // 4 at 0.1 s into its interval
  bucket.become(token_bucket(5).per(1s).burst(12));
  EXPECT_EQ(bucket.peek(1200000), ok(8, 800000));
}

TEST(TokenBucketByInterval, ChangedNumbersNeverMeanAWaitBeyondTheLongest) {
  FixedSize bucket(token_bucket(kMost).per(1ms).burst(kMost).refilled_at_intervals());
  bucket.take(0, kMost);
  bucket.become(token_bucket(1).per(kMaxPeriod).burst(1).refilled_at_intervals());
  EXPECT_EQ(bucket.peek(0), ok(0, 142 * kMaxPeriod.count()));
}

}  // namespace
}  // namespace sluice::token_bucket_test
