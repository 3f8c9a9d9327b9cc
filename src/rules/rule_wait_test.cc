#include "rules/rule_wait.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::rules {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kTrial = R"(version: 1
rules:
  - name: trial
    mode: shadow
    continue: true
    limits: [ { name: trial, algorithm: fixed_window, limit: 2, per: 1h } ]
  - name: enforced
    limits: [ { name: enforced, algorithm: fixed_window, limit: 1, per: 1m } ]
)";

class RuleWaitTest : public ::testing::Test {
 protected:
  // Returns what is left of the shadow rule's limit.
  std::uint64_t left() {
    return decider.decide(rules, attributes, 0, {}, Verb::kPeek).limits.front().decision.remaining;
  }

  testing::ManualClock clock;
  MemoryStore store{{}, clock};
  Limiter limiter{store};
  RuleDecider decider{limiter};
  const RuleSet rules = *RuleSet::parse(kTrial, "f");
  const Attributes attributes;
  const RequestCosts costs;
};

TEST_F(RuleWaitTest, ChargesShadowRulesOnceHoweverOftenItAsks) {
  EXPECT_TRUE(decider.decide(rules, attributes).decision);
  EXPECT_EQ(left(), 1u);
  RuleWait wait(decider, rules, nullptr, attributes, costs);
  wait.ask(Verb::kPeek);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(wait.ask(Verb::kReserve));
    EXPECT_EQ(wait.charges().size(), 1u);
  }
  clock.advance(1min);
  const Decision said = wait.ask(Verb::kReserve);
  EXPECT_TRUE(said);
  EXPECT_EQ(wait.end(said, Verb::kReserve)->decision.reason, Reason::kOk);
  EXPECT_EQ(left(), 0u);
}

TEST_F(RuleWaitTest, LeavesOutLimitsOfUnlimitedKeys) {
  const RuleSet blocking = *RuleSet::parse(R"(version: 1
rules:
  - name: free
    limits:
      - { name: free, algorithm: fixed_window, limit: 1, per: 1h,
          block: { after: 5, within: 10m, for: 15m } }
      - { name: all, algorithm: fixed_window, limit: 5, per: 1h }
)",
                                           "f");
  Overrides overrides;
  EXPECT_TRUE(overrides.set(decider.decide(blocking, attributes, 0).limits[0].counter,
                            {.kind = Override::Kind::kUnlimited}));
  RuleDecider unlimited(limiter, {.overrides = &overrides});
  RuleWait wait(unlimited, blocking, nullptr, attributes, costs);
  for (int i = 0; i < 2; ++i) {
    const Decision said = wait.ask(Verb::kReserve);
    EXPECT_EQ(wait.charges().size(), 1u);
    const RuleAnswer& answer = *wait.end(said, Verb::kReserve);
    EXPECT_TRUE(answer.decision);
    ASSERT_EQ(answer.limits.size(), 1u);
    EXPECT_EQ(answer.limits[0].limit->name, "all");
  }
}

TEST_F(RuleWaitTest, SaysWhichBudgetsAreInARow) {
  const RuleSet budgets = *RuleSet::parse(R"(version: 1
rules:
  - name: models
    limits:
      - { name: team, algorithm: budget, limit: 10, per: 1m,
          overflow: { name: credits, limit: 30, per: 1m } }
)",
                                          "f");
  RuleWait wait(decider, budgets, nullptr, attributes, costs);
  ASSERT_EQ(wait.charges().size(), 2u);
  EXPECT_FALSE(wait.charges()[0].alternative);
  EXPECT_TRUE(wait.charges()[1].alternative);
}

TEST_F(RuleWaitTest, GivesBackWhatTheStoreHasTakenBesideAFallback) {
  const RuleSet few_keys = *RuleSet::parse(R"(version: 1
rules:
  - name: two
    max_new_keys: 2
    on_store_error: allow
    limits:
      - { name: all, algorithm: token_bucket, limit: 9, per: 1s }
      - { name: user, key: "{user}", algorithm: token_bucket, limit: 9, per: 1s }
)",
                                           "f");
  EXPECT_TRUE(decider.decide(few_keys, Attributes{{"user", "eve"}}).decision);
  const Attributes user{{"user", "bob"}};
  RuleWait wait(decider, few_keys, nullptr, user, costs);
  EXPECT_EQ(wait.ask(Verb::kReserve).reason, Reason::kFallback);
  wait.give_back();
  const RuleAnswer& answer = decider.decide(few_keys, user, 0, {}, Verb::kPeek);
  EXPECT_EQ(answer.limits[0].decision.remaining, 8u);
}

// A budget that was passed over has the name of the window.
TEST_F(RuleWaitTest, GivesBackByLimitAndNotByName) {
  const RuleSet same = *RuleSet::parse(R"(version: 1
rules:
  - name: models
    continue: true
    limits:
      - { name: daily, algorithm: budget, limit: 0, per: 24h,
          overflow: { name: credits, limit: 50, per: never } }
  - name: mail
    limits:
      - { name: daily, algorithm: fixed_window, limit: 10, per: 24h }
      - { name: places, algorithm: concurrency, limit: 5, lease: 2h }
      - { name: queue, algorithm: leaky_bucket, limit: 1, per: 1h, burst: 5, mode: queue }
)",
                                       "f");
  EXPECT_TRUE(decider.decide(same, attributes).decision);
  detail::Waits waits(4, clock);
  const auto release = [&](std::string_view permit) { decider.release(permit); };
  RuleWait wait(decider, same, nullptr, attributes, costs, release);
  const Decision denied = waits.acquire(wait, clock.now() + 1s);
  EXPECT_EQ(denied.retry_after, Duration(1h - 1s));
  const RuleAnswer& answer = *wait.end(denied, Verb::kReserve);
  EXPECT_EQ(answer.rule->name, "mail");
  ASSERT_EQ(answer.limits.size(), 5u);
  constexpr std::array<std::uint64_t, 5> kLeft{0, 49, 9, 4, 4};
  for (std::size_t i = 0; i < kLeft.size(); ++i) {
    EXPECT_EQ(answer.limits[i].decision.remaining, kLeft[i]) << i;
  }
  EXPECT_EQ(answer.limits[4].decision.reason, Reason::kLimited);
  EXPECT_EQ(answer.limits[4].decision.reset_after, Duration(1h));
  const RuleAnswer& left = decider.decide(same, attributes, 0, {}, Verb::kPeek);
  for (std::size_t i = 0; i < kLeft.size(); ++i) {
    EXPECT_EQ(left.limits[i].decision.remaining, kLeft[i]) << i;
  }
}

TEST_F(RuleWaitTest, ReportsWhatAShadowRuleWouldDeny) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(decider.decide(rules, attributes).decision);
    clock.advance(1min);
  }
  RuleWait wait(decider, rules, nullptr, attributes, costs);
  const Decision said = wait.ask(Verb::kReserve);
  const RuleAnswer& answer = *wait.end(said, Verb::kReserve);
  EXPECT_TRUE(answer.decision);
  EXPECT_EQ(answer.decision.reason, Reason::kShadow);
  EXPECT_EQ(answer.rule->name, "trial");
}

TEST_F(RuleWaitTest, ACallerWhoGivesUpIsDeniedByTheLimitForWhichItWaits) {
  const RuleSet two = *RuleSet::parse(R"(version: 1
rules:
  - name: two
    limits:
      - { name: many, algorithm: token_bucket, limit: 9, per: 1s }
      - { name: slow, algorithm: token_bucket, limit: 1, per: 10s }
)",
                                      "f");
  struct Leaving : RuleWait {
    using RuleWait::RuleWait;
    bool park(Instant) noexcept override { return false; }
  };
  EXPECT_TRUE(decider.decide(two, attributes).decision);
  detail::Waits waits(4, clock);
  Leaving wait(decider, two, nullptr, attributes, costs);
  const Decision denied = waits.acquire(wait, clock.now() + 1h);
  EXPECT_EQ(denied.retry_after, Duration(10s));
  const RuleAnswer& answer = *wait.end(denied, Verb::kReserve);
  EXPECT_EQ(answer.decision.retry_after, Duration(10s));
  EXPECT_TRUE(answer.limits[0].decision.allowed());
  EXPECT_EQ(answer.limits[1].decision.reason, Reason::kLimited);
  EXPECT_EQ(answer.limits[1].decision.retry_after, Duration(10s));
}

TEST_F(RuleWaitTest, ChargesShadowRulesIfTheWaitEndsWithoutUnits) {
  RuleWait wait(decider, rules, nullptr, attributes, costs);
  EXPECT_TRUE(wait.ask(Verb::kReserve));
  wait.ask(Verb::kRefund);
  const Decision gone = Decision::refused(Reason::kLimited);
  EXPECT_EQ(wait.end(gone, Verb::kReserve)->decision, gone);
  EXPECT_EQ(left(), 1u);
}

}  // namespace
}  // namespace sluice::rules
