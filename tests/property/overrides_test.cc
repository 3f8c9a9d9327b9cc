#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "sluice/memory_store.h"
#include "tests/property/plan_history.h"
#include "tests/support/random_cases.h"

namespace sluice_property {
namespace {

TEST(PlansAndOverrides, DecideAsTheOracleWithTheNumbersThatCount) {
  constexpr int kSteps = 80;
  const std::uint64_t histories = sluice::testing::random_cases(300, 20'000);
  PlanHistory::Counts all;
  for (std::uint64_t seed = 0; seed < histories; ++seed) {
    sluice::MemoryStore store({.max_keys = 1024, .shards = 1});
    PlanHistory history(seed, store);
    for (int i = 0; i < kSteps; ++i) {
      ASSERT_EQ(history.step(), "") << "at step " << i << " of seed " << seed;
    }
    all.overridden += history.counts().overridden;
    all.blocked += history.counts().blocked;
    all.unlimited += history.counts().unlimited;
    all.denied += history.counts().denied;
  }
  EXPECT_GT(all.overridden, 3 * histories);
  EXPECT_GT(all.blocked, histories);
  EXPECT_GT(all.unlimited, histories / 10);
  EXPECT_GT(all.denied, 10 * histories);
}

}  // namespace
}  // namespace sluice_property
