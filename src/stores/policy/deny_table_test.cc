#include "stores/policy/deny_cache.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::policy::deny_table_test {
namespace {

using namespace std::chrono_literals;
using memory::Fingerprint;

constexpr auto kLimit = token_bucket(10).per(10s);

TEST(PackedNumbers, AreEqualIfTheLimitsAreEqual) {
  const std::vector<Limit> buckets{token_bucket(10).per(10s), token_bucket(11).per(10s),
                                   token_bucket(10).per(11s), token_bucket(10).per(10s).burst(11),
                                   token_bucket(10).per(10s).refilled_at_intervals()};
  const std::vector<Limit> counters{
      sliding_window_counter(10).per(10s), sliding_window_counter(10).per(10s).slices(5),
      sliding_window_counter(10).per(10s).slices(5).counting_oldest_whole()};
  const std::vector<Limit> windows{fixed_window(10).per(10s),
                                   fixed_window(10).per(10s).aligned_to_clock()};
  const std::vector<Limit> queues{leaky_bucket(10).per(10s), leaky_bucket(10).per(10s).queueing()};
  for (const auto& limits : {buckets, counters, windows, queues}) {
    for (const Limit& a : limits) {
      for (const Limit& b : limits) EXPECT_EQ(PackedNumbers::of(a) == PackedNumbers::of(b), a == b);
    }
  }
}

TEST(PackedNumbers, ContainTheLargestNumbers) {
  const auto limit = Limit::make({.algorithm = Algorithm::kSlidingWindowCounter,
                                  .limit = kMaxUnits,
                                  .per = kMaxPeriod,
                                  .slices = kMaxSlices});
  ASSERT_TRUE(limit);
  const PackedNumbers packed = PackedNumbers::of(*limit);
  EXPECT_EQ(packed.units >> 32, kMaxUnits);
  EXPECT_EQ(packed.rest & ((std::uint64_t{1} << 45) - 1),
            static_cast<std::uint64_t>(kMaxPeriod.count()));
  EXPECT_EQ(packed.rest >> 45 & 0x7FF, kMaxSlices);
}

TEST(DenyTable, FindsOnlyDenialsThatWereStored) {
  DenyTable table(100);
  const Fingerprint key{.low = 5, .high = 6};
  const Denial put{.numbers = PackedNumbers::of(kLimit),
                   .denied_at = Instant{7us},
                   .retry_after = 8us,
                   .reset_after = 9us,
                   .cost = 0xFFFFFFFF,
                   .remaining = 11};
  DenyTable::Group& group = table.group_of(key);
  EXPECT_FALSE(DenyTable::find(group, key));
  table.put(group, DenyTable::forgotten(group), key, put);
  const auto found = DenyTable::find(group, key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->numbers, put.numbers);
  EXPECT_EQ(found->denied_at, put.denied_at);
  EXPECT_EQ(found->retry_after, put.retry_after);
  EXPECT_EQ(found->reset_after, put.reset_after);
  EXPECT_EQ(found->cost, put.cost);
  EXPECT_EQ(found->remaining, put.remaining);
  EXPECT_FALSE(DenyTable::find(group, {.low = 5, .high = 7}));
  table.forget(group, key);
  EXPECT_FALSE(DenyTable::find(group, key));
}

TEST(DenyTable, RefusesADenialFromBeforeAForgottenCounterOfTheGroup) {
  DenyTable table(1);
  const Fingerprint key{.low = 5, .high = 6};
  DenyTable::Group& group = table.group_of(key);
  const std::uint64_t before = DenyTable::forgotten(group);
  table.forget(group, {.low = 9, .high = 9});
  table.put(group, before, key, Denial{});
  EXPECT_FALSE(DenyTable::find(group, key));
}

TEST(DenyTable, UsesAllOfItsGroups) {
  DenyTable table(7 * 16);
  std::set<DenyTable::Group*> groups;
  for (std::uint64_t i = 0; i < 16; ++i) groups.insert(&table.group_of({1, i << 60}));
  EXPECT_EQ(groups.size(), 16u);
}

}  // namespace
}  // namespace sluice::policy::deny_table_test
