#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sluice/failure_policy.h"
#include "sluice/limiter.h"
#include "sluice/testing/manual_clock.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

TEST(ShareOf, RoundsDownButKeepsOne) {
  EXPECT_EQ(share_of(token_bucket(100).per(1s).burst(200), 3), token_bucket(33).per(1s).burst(66));
  EXPECT_EQ(share_of(leaky_bucket(2).per(1s).burst(9).queueing(), 4),
            leaky_bucket(1).per(1s).burst(2).queueing());
  EXPECT_EQ(share_of(fixed_window(5).per(1h).aligned_to_clock(), 10),
            fixed_window(1).per(1h).aligned_to_clock());
  EXPECT_EQ(share_of(sliding_window_log(10).per(60s), 2), sliding_window_log(5).per(60s));
  EXPECT_EQ(share_of(sliding_window_counter(10).per(60s).slices(7).counting_oldest_whole(), 2),
            sliding_window_counter(5).per(60s).slices(7).counting_oldest_whole());
  EXPECT_EQ(share_of(sliding_window_hybrid(10).per(60s).slices(7), 2),
            sliding_window_hybrid(5).per(60s).slices(7));
  EXPECT_EQ(share_of(token_bucket(9).per(1s).refilled_at_intervals(), 3),
            token_bucket(3).per(1s).refilled_at_intervals());
}

TEST(ShareOf, DividesTheWholeCapacityOfGcra) {
  EXPECT_EQ(share_of(gcra(30).per(60s).burst(15), 4), gcra(7).per(60s).burst(3));
  EXPECT_EQ(share_of(gcra(30).per(60s).burst(0), 4), gcra(7).per(60s).burst(0));
}

TEST(ShareOf, IsTheLimitItselfForOneNodeAndForABan) {
  const Limit limit = token_bucket(100).per(1s).burst(200);
  EXPECT_EQ(share_of(limit, 0), limit);
  EXPECT_EQ(share_of(limit, 1), limit);
  for (const Limit& ban :
       {Limit(token_bucket(0).per(1s)), Limit(gcra(0).per(1s)), Limit(fixed_window(0).per(1s))}) {
    EXPECT_EQ(share_of(ban, 5), ban);
  }
}

TEST(ShareOf, SumsToTheLimitAtMostOrIsOne) {
  for (std::uint32_t units = 1; units < 200; ++units) {
    for (std::uint32_t nodes = 1; nodes < 50; ++nodes) {
      const Limit share = share_of(token_bucket(units).per(1s).burst(2 * units), nodes);
      EXPECT_LE(share.limit() * nodes, std::max(units, nodes));
      EXPECT_LE(share.capacity() * nodes, std::max(2 * units, nodes));
      EXPECT_GE(share.limit(), 1u);
      EXPECT_GE(share.capacity(), 1u);
    }
  }
}

TEST(ShareOf, OfAnyLimitIsALimit) {
  // 5 a year hold just what comes back in 142 years; a share of 1 a year would need 142 more.
  const auto limit = Limit::make({.algorithm = Algorithm::kTokenBucket,
                                  .limit = 5,
                                  .per = std::chrono::days{366},
                                  .burst = 712});
  ASSERT_TRUE(limit);
  const Limit share = share_of(*limit, 3);
  EXPECT_EQ(share.limit(), 1u);
  EXPECT_EQ(share.capacity(), 1u);
}

TEST(LocalShareStore, AdmitsItsShare) {
  testing::ManualClock clock;
  LocalShareStore store({.nodes = 4}, clock);
  Limiter limiter(store);
  const auto limit = fixed_window(10).per(1h);
  EXPECT_EQ(limiter.try_acquire("k", limit).capacity, 2u);
  EXPECT_TRUE(limiter.try_acquire("k", limit));
  EXPECT_EQ(limiter.try_acquire("k", limit).retry_after, Duration{1h});
  EXPECT_EQ(store.stats().keys, 1u);
  EXPECT_TRUE(limiter.reset("k", limit));
  EXPECT_TRUE(limiter.try_acquire("k", limit));
}

TEST(LocalShareStore, DecidesManyChargesAsOneRequest) {
  testing::ManualClock clock;
  LocalShareStore store({.nodes = 2}, clock);
  std::vector<Charge> charges;
  for (int i = 0; i < 64; ++i) charges.push_back({"k", fixed_window(200).per(1h)});
  std::array<Decision, 64> each;
  const Decision first = store.apply(Verb::kTake, charges, {}, each);
  EXPECT_TRUE(first);
  EXPECT_EQ(first.remaining, 36u);
  EXPECT_EQ(each[63].capacity, 100u);
  EXPECT_FALSE(store.apply(Verb::kTake, charges, {}, each));
}

TEST(LocalShareStore, RefusesTooManyCharges) {
  LocalShareStore store({.nodes = 2});
  const std::vector<Charge> charges(65, Charge{"k", fixed_window(200).per(1h)});
  std::vector<Decision> each(65);
  EXPECT_EQ(store.apply(Verb::kTake, charges, {}, each).reason, Reason::kInvalid);
  EXPECT_EQ(store.apply(Verb::kTake, {}, {}, {}).reason, Reason::kInvalid);
}

}  // namespace
}  // namespace sluice
