#include "server/runtime/server.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

DescriptorPlan::Needs needs(std::size_t limit, std::size_t connections, bool redis = false) {
  return {.limit = limit, .open = 40, .loops = 4, .redis = redis, .connections = connections};
}

TEST(DescriptorPlan, LeavesDescriptorsForFilesAndAReserveForAdministration) {
  const DescriptorPlan plan = plan_descriptors(needs(1000, 500));
  EXPECT_EQ(plan.connections, 1000U - 40 - 32);
  EXPECT_EQ(plan.reserve, 16U);
  EXPECT_EQ(plan.warning, "");
}

TEST(DescriptorPlan, LeavesDescriptorsForTheConnectionsToRedis) {
  const auto without = plan_descriptors(needs(1000, 500)).connections;
  EXPECT_EQ(plan_descriptors(needs(1000, 500, true)).connections, without - 80);
}

TEST(DescriptorPlan, WarnsExactlyIfTheListenersMayNeedMore) {
  EXPECT_EQ(plan_descriptors(needs(588, 500)).warning, "");
  EXPECT_EQ(
      plan_descriptors(needs(587, 500)).warning,
      "the limit of 587 open files is enough for 499 connections, but bounds.connections "
      "allows 500 on all listeners together; raise the limit (ulimit -n, LimitNOFILE) to 588");
}

TEST(DescriptorPlan, DoesNotWarnOfManyConnectionsThatNobodyAskedFor) {
  EXPECT_EQ(plan_descriptors(needs(20'000, 20'000)).warning, "");
  auto chosen = needs(20'000, 20'000);
  chosen.chosen = true;
  EXPECT_NE(plan_descriptors(chosen).warning, "");
  EXPECT_NE(plan_descriptors(needs(1'000, 20'000)).warning, "");
}

TEST(DescriptorPlan, AllowsSomeConnectionsHoweverLowTheLimitIs) {
  const DescriptorPlan plan = plan_descriptors(needs(30, 500));
  EXPECT_EQ(plan.connections, 16U);
  EXPECT_EQ(plan.reserve, 8U);
  EXPECT_NE(plan.warning, "");
}

TEST(Descriptors, AreCounted) { EXPECT_GE(count_open_descriptors(), 3U); }

}  // namespace
}  // namespace sluice::server
