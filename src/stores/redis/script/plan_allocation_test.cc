#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "sluice/limit_builder.h"
#include "stores/redis/script/plan.h"
#include "tests/support/allocations.h"

namespace sluice::redis {
namespace {

class Sent final : public Command {
 public:
  void done(const Answer&) noexcept override {}
};

TEST(PlanMemory, IsNotAllocatedForARequestAfterBuffersHaveGrown) {
  const RequestOptions options{.prefix = "sluice:", .uses_module = true};
  const Charge charge{"a key of some length", token_bucket(10).per(std::chrono::minutes(1))};
  std::string found_nothing;
  format::kInstant.append({1'700'000'000'000'000 + format::kAdmits}, found_nothing);
  const Reply reply{.type = Reply::kString, .text = found_nothing};
  Plan plan;
  Sent command;
  std::string by_module;
  const auto decide = [&] {
    Decision each;
    Decision all;
    EXPECT_TRUE(plan.begin(options, Verb::kTake, {&charge, 1}, std::nullopt));
    plan.write(0, command);
    by_module.clear();
    plan.append_for_module(0, by_module);
    EXPECT_EQ(plan.read(0, reply), Plan::Read::kAllowed);
    plan.answer({&each, 1}, all);
    EXPECT_EQ(all.remaining, 9u);
  };
  decide();
  EXPECT_EQ(testing::count_allocations(decide), 0u);
}

}  // namespace
}  // namespace sluice::redis
