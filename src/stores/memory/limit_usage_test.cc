#include "stores/memory/shard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

namespace sluice::memory {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = token_bucket(5).per(1s);

Charge named(std::uint32_t id, const Limit& limit = kLimit) {
  return {.key = "", .limit = limit, .rule = {Keyspace::kRules, id}};
}

TEST(LimitUsage, TellsLimitsApartByTheirIds) {
  LimitUsage usage(1000);
  const auto one = usage.add_counter(named(1));
  EXPECT_EQ(usage.add_counter(named(1, token_bucket(6).per(1s))), one);
  EXPECT_NE(usage.add_counter(named(2)), one);
  EXPECT_EQ(usage.used(one, Resource::kCounters), 2u);
  EXPECT_EQ(usage.limit(one), token_bucket(6).per(1s)) << "that of the newest counter";
}

TEST(LimitUsage, TellsLimitsWithoutAnIdApartByTheirNumbers) {
  LimitUsage usage(1000);
  const Charge charges[] = {{"", kLimit},
                            {"", token_bucket(6).per(1s)},
                            {"", token_bucket(5).per(2s)},
                            {"", token_bucket(5).per(1s).burst(6)},
                            {"", leaky_bucket(5).per(1s)},
                            {.key = "", .limit = kLimit, .rule = {Keyspace::kRules}}};
  std::set<LimitUsage::Index> all;
  for (const Charge& charge : charges) all.insert(usage.add_counter(charge));
  EXPECT_EQ(all.size(), std::size(charges));
  EXPECT_FALSE(all.contains(LimitUsage::kNone));
  EXPECT_TRUE(all.contains(usage.add_counter({"another key", kLimit, 9, "tag"})));
}

TEST(LimitUsage, FindsTheLimitThatUsesTheMost) {
  LimitUsage usage(1000);
  const auto one = usage.add_counter(named(1));
  const auto two = usage.add_counter(named(2));
  EXPECT_EQ(usage.largest(Resource::kCounters), one);
  usage.add_counter(named(2));
  EXPECT_EQ(usage.largest(Resource::kCounters), two);
  usage.add_bytes(one, 100);
  EXPECT_EQ(usage.largest(Resource::kBytes), one);
  usage.remove_counter(two);
  usage.remove_counter(two);
  usage.note_largest(one, Resource::kCounters);
  EXPECT_EQ(usage.largest(Resource::kCounters), one);
}

TEST(LimitUsage, ReusesThePlaceOfALimitWithoutCounters) {
  LimitUsage usage(0);
  for (std::uint32_t id = 1; id < 10000; ++id) {
    const auto index = usage.add_counter(named(id));
    ASSERT_EQ(usage.used(index, Resource::kCounters), 1u);
    usage.remove_counter(index);
  }
}

TEST(LimitUsage, MakesLimitsShareAPlaceIfThereAreTooMany) {
  LimitUsage usage(0);
  std::set<LimitUsage::Index> places;
  for (std::uint32_t id = 1; id <= 1000; ++id) places.insert(usage.add_counter(named(id)));
  EXPECT_EQ(places.size(), 32u);
  std::uint64_t sum = 0;
  for (const auto place : places) sum += usage.used(place, Resource::kCounters);
  EXPECT_EQ(sum, 1000u);
}

TEST(LimitUsage, GivesHundredsOfLimitsAPlaceEach) {
  LimitUsage usage(131072);  // a shard of a store for a million keys
  std::set<LimitUsage::Index> places;
  for (std::uint32_t id = 1; id <= 300; ++id) places.insert(usage.add_counter(named(id)));
  EXPECT_EQ(places.size(), 300u);
}

}  // namespace
}  // namespace sluice::memory
