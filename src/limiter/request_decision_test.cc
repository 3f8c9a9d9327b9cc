#include "sluice/request_decision.h"

#include <gtest/gtest.h>

#include "sluice/limit_builder.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"
#include "stores/policy/test_store.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Limit kOne = fixed_window(1).per(1min);
constexpr Limit kTen = fixed_window(10).per(1h);

std::string names_and_values(RequestDecision& decision) {
  std::string out;
  for (const auto& [name, value] : decision.fields(HeaderFields::kDraft)) {
    out.append(name).append("=").append(value) += ' ';
  }
  return out;
}

TEST(RequestDecision, TakesAllLimitsOrNone) {
  testing::ManualClock clock{Instant{1'000'000s}};
  MemoryStore store({}, clock);
  Limiter limiter(store);
  RequestDecision first(limiter, {{"all", "", kTen, 3}, {"user", "anna", kOne}});
  EXPECT_TRUE(first.allowed());
  EXPECT_EQ(first.status(), 200);
  EXPECT_EQ(first.grpc_code(), 0);
  EXPECT_EQ(names_and_values(first),
            "RateLimit-Policy=\"user\";q=1;w=60, \"all\";q=10;w=3600 "
            "RateLimit=\"user\";r=0;t=60, \"all\";r=7;t=3600 ");

  RequestDecision second(limiter, {{"all", "", kTen}, {"user", "anna", kOne}});
  EXPECT_EQ(second.status(), 429);
  EXPECT_EQ(second.grpc_code(), 8);
  EXPECT_EQ(second.decision().retry_after, Duration(1min));
  EXPECT_EQ(second.detail(), "The request exceeds what these policies allow for now.");
  EXPECT_NE(names_and_values(second).find("\"all\";r=7"), std::string::npos);
  EXPECT_NE(names_and_values(second).find("Retry-After=60"), std::string::npos);
}

TEST(RequestDecision, AllowsARequestWithoutLimits) {
  TestStore store;
  store.fail(Reason::kStoreError);
  Limiter limiter(store);
  RequestDecision decision(limiter, {});
  EXPECT_TRUE(decision.allowed());
  EXPECT_EQ(names_and_values(decision), "");
  EXPECT_EQ(store.asked, 0);
}

TEST(RequestDecision, SaysWhetherTheStoreOrTheRequestIsWrong) {
  TestStore store;
  Limiter limiter(store);
  store.fail(Reason::kStoreTimeout);
  const RequestDecision failed(limiter, {{"user", "anna", kOne}});
  EXPECT_EQ(failed.status(), 503);
  EXPECT_EQ(failed.grpc_code(), 14);
  store.fail(Reason::kInvalid);
  const RequestDecision invalid(limiter, {{"user", "anna", kOne}});
  EXPECT_EQ(invalid.status(), 400);
  EXPECT_EQ(invalid.grpc_code(), 3);
}

TEST(RequestDecision, SaysThatTwoLimitsCannotBeOnOneCounter) {
  MemoryStore store;
  Limiter limiter(store);
  constexpr Limit kMinute = fixed_window(10).per(1min);
  const RequestDecision decision(limiter, {{"minute", "anna", kMinute}, {"hour", "anna", kTen}});
  EXPECT_EQ(decision.status(), 400);
  EXPECT_EQ(decision.detail(),
            "The request cannot be decided: two of its limits are different limits of one counter, "
            "over 64 limits apply to it, or its cost is out of range.");
  EXPECT_TRUE(RequestDecision(limiter, {{"minute", "anna/1", kMinute}, {"hour", "anna/2", kTen}})
                  .allowed());
}

}  // namespace
}  // namespace sluice
