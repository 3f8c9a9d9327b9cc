#include "core/leaky_bucket.h"

#include <gtest/gtest.h>

#include <chrono>

#include "core/test_counters.h"

namespace sluice::leaky_bucket_test {
namespace {

using core::FixedSize;
using core::ok;
using core::refused;
using core::Ticks;
using core::wait;
using namespace std::chrono_literals;

constexpr std::uint64_t kMost = 4294967295;
constexpr Ticks kSecond = 1000000;

// Takes a cost from a queue and returns its delay; absent if it is denied.
std::optional<Ticks> delay_of(FixedSize& queue, Ticks now, std::uint64_t cost) {
  const core::Answer answer = queue.take(now, cost);
  EXPECT_EQ(answer.admitted, answer.delay != core::Answer::kNoDelay);
  return answer.admitted ? std::optional(answer.delay) : std::nullopt;
}

static_assert(FixedSize(leaky_bucket(10).per(1s).burst(5)).take(0, 5) == ok(0, 500000));
static_assert(FixedSize(leaky_bucket(1).per(1s)).take(0).delay == core::Answer::kNoDelay);

TEST(LeakyBucket, MeterRejectsOnOverflow) {
  FixedSize bucket(leaky_bucket(10).per(1s).burst(2));
  EXPECT_EQ(bucket.take(0), ok(1, 100000));
  EXPECT_EQ(bucket.take(0), ok(0, 200000));
  EXPECT_EQ(bucket.take(0), wait(100000, 0, 200000));
  EXPECT_EQ(bucket.take(99999), wait(1, 0, 100001));
  EXPECT_EQ(bucket.take(100000), ok(0, 200000));
  EXPECT_EQ(bucket.take(100000, 3), refused(0, 200000));
}

TEST(LeakyBucket, MeterAnswersAsATokenBucket) {
  FixedSize leaky(leaky_bucket(7).per(1min).burst(5));
  FixedSize tokens(token_bucket(7).per(1min).burst(5));
  for (Ticks now = 0; now < 120 * kSecond; now += 1234567) {
    EXPECT_EQ(leaky.take(now, now % 4 == 0 ? 2 : 1), tokens.take(now, now % 4 == 0 ? 2 : 1));
  }
}

TEST(LeakyBucket, QueueDelaysUntilWhatIsAheadHasDrained) {
  FixedSize queue(leaky_bucket(10).per(1s).burst(4).queueing());
  EXPECT_EQ(delay_of(queue, 0, 1), 0);
  EXPECT_EQ(delay_of(queue, 0, 2), 100000);
  EXPECT_EQ(delay_of(queue, 0, 1), 300000);
  EXPECT_EQ(delay_of(queue, 0, 1), std::nullopt);
  EXPECT_EQ(delay_of(queue, 100000, 1), 300000);
  EXPECT_EQ(delay_of(queue, 600000, 1), 0);
}

TEST(LeakyBucket, QueueLetsGoEvenlyUnderABurst) {
  FixedSize queue(leaky_bucket(3).per(1s).burst(100).queueing());
  for (Ticks i = 0; i < 100; ++i) {
    const Ticks departure = (i * kSecond + 2) / 3;  // ⌈i/3 s⌉
    EXPECT_EQ(delay_of(queue, 0, 1), departure) << i;
  }
}

TEST(LeakyBucket, QueueDelayIsRoundedUpToATick) {
  FixedSize queue(leaky_bucket(3).per(1s).burst(2).queueing());
  delay_of(queue, 0, 1);
  EXPECT_EQ(delay_of(queue, 1, 1), 333333);  // 333332 1/3
}

TEST(LeakyBucket, QueueOfCostZeroWaitsForAllThatIsAhead) {
  FixedSize queue(leaky_bucket(10).per(1s).burst(4).queueing());
  delay_of(queue, 0, 4);
  EXPECT_EQ(delay_of(queue, 0, 0), 400000);
  queue.become(leaky_bucket(0).per(1s).queueing());
  EXPECT_EQ(delay_of(queue, 0, 0), 0);
}

TEST(LeakyBucket, QueueHoldsTheExtremes) {
  FixedSize queue(leaky_bucket(1).per(Duration{1 << 20}).burst(kMost).queueing());
  const Ticks last = (Ticks{1} << 52) - 1;
  EXPECT_EQ(delay_of(queue, last, kMost - 1), 0);
  EXPECT_EQ(delay_of(queue, last, 1), Ticks{kMost - 1} << 20);
  EXPECT_EQ(delay_of(queue, last, 1), std::nullopt);
}

TEST(LeakyBucket, RefundLowersTheLevel) {
  FixedSize bucket(leaky_bucket(10).per(1s).burst(4));
  bucket.take(0, 4);
  EXPECT_EQ(bucket.refund(0, 3), ok(3, 100000));
  EXPECT_EQ(bucket.refund(0, 3), ok(4, 0));
}

}  // namespace
}  // namespace sluice::leaky_bucket_test
