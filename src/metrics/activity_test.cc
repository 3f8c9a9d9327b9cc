#include "metrics/counts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string_view>

#include "sluice/rule_answer.h"

namespace sluice::metrics {
namespace {

constexpr std::string_view kRules = R"(
version: 1
rules:
  - { name: a, limits: [{ name: x, algorithm: gcra, limit: 1, per: 1s }] }
  - name: b
    mode: shadow
    limits:
      - { name: x, algorithm: gcra, limit: 1, per: 1s }
      - { name: y, algorithm: gcra, limit: 1, per: 1s }
)";

class ActivityTest : public ::testing::Test {
 protected:
  ActivityTest() {
    one_.use(rules_);
    other_.use(rules_);
  }
  RuleAnswer answer(std::size_t place, Outcome outcome, Reason reason) const {
    RuleAnswer answer;
    answer.rule = place < rules_.rules().size() ? &rules_.rules()[place] : nullptr;
    answer.decision.outcome = outcome;
    answer.decision.reason = reason;
    return answer;
  }

  const RuleSet rules_ = *RuleSet::parse(kRules, "test");
  Registry registry_;
  Recorder& one_ = registry_.make_recorder();
  Recorder& other_ = registry_.make_recorder();
};

TEST_F(ActivityTest, AddsTheRequestsOfAllRecorders) {
  one_.count(answer(0, Outcome::kAllowed, Reason::kOk));
  other_.count(answer(0, Outcome::kDenied, Reason::kLimited));
  other_.count(answer(9, Outcome::kAllowed, Reason::kOk));
  one_.observe(FrontEnd::kGrpc, std::chrono::microseconds(3));
  other_.observe(FrontEnd::kGrpc, std::chrono::microseconds(4));
  other_.observe(FrontEnd::kGrpc, std::chrono::seconds(9));
  const Activity all = registry_.activity(rules_);
  ASSERT_EQ(all.rules.size(), 3U);
  EXPECT_EQ(all.rules[0].allowed, 1U);
  EXPECT_EQ(all.rules[0].denied, 1U);
  EXPECT_EQ(all.rules[1].allowed + all.rules[1].denied, 0U);
  EXPECT_EQ(all.rules[2].allowed, 1U) << "of no rule";
  EXPECT_EQ(all.reasons[static_cast<std::size_t>(Reason::kOk)], 2U);
  EXPECT_EQ(all.reasons[static_cast<std::size_t>(Reason::kLimited)], 1U);
  const auto& grpc = all.durations[static_cast<std::size_t>(FrontEnd::kGrpc)].buckets;
  EXPECT_EQ(grpc[2], 2U) << "of at most 4 µs";
  EXPECT_EQ(grpc[21], 1U) << "all others";
}

TEST_F(ActivityTest, TakesTheLimitOfAShadowRuleThatWouldHaveDeniedMost) {
  const Rule& shadow = rules_.rules()[1];
  for (const int denied : {1, 0, 2}) {  // 1: only x; 2: both
    RuleAnswer one = answer(1, Outcome::kAllowed, Reason::kShadow);
    Decision would;
    would.outcome = denied > 0 ? Outcome::kDenied : Outcome::kAllowed;
    one.limits.push_back({&shadow, &shadow.limits[0], {}, {}, would});
    would.outcome = denied > 1 ? Outcome::kDenied : Outcome::kAllowed;
    one.limits.push_back({&shadow, &shadow.limits[1], {}, {}, would});
    (denied == 2 ? one_ : other_).count(one);
  }
  const Activity all = registry_.activity(rules_);
  ASSERT_EQ(all.limits.size(), 3U);
  EXPECT_EQ(all.limits[0].would_deny, 0U);
  EXPECT_EQ(all.limits[1].would_deny, 2U);
  EXPECT_EQ(all.limits[2].would_deny, 1U);
  EXPECT_EQ(all.limits[1].asked, 3U);
  EXPECT_EQ(all.limits[1].denied, 0U) << "it is a shadow rule";
  EXPECT_EQ(all.rules[1].would_deny, 2U);
}

TEST_F(ActivityTest, CountsWhatEachLimitDid) {
  const Rule& rule = rules_.rules()[0];
  RuleAnswer one = answer(0, Outcome::kAllowed, Reason::kOk);
  one.limits.push_back({&rule, &rule.limits[0], {}, {}, {}});
  one_.count(one, 1);
  one.limits[0].decision = Decision::refused(Reason::kLimited);
  one_.count(one);
  one.limits[0].decision = {.outcome = Outcome::kAllowed, .reason = Reason::kFallback};
  one.decision.reason = Reason::kFallback;
  other_.count(one);
  RuleAnswer without = answer(0, Outcome::kAllowed, Reason::kOk);
  without.skipped.push_back({&rule, &rule.limits[0]});
  other_.count(without);
  const Activity all = registry_.activity(rules_);
  const Activity::Counts& limit = all.limits[0];
  EXPECT_EQ(limit.asked, 3U);
  EXPECT_EQ(limit.denied, 1U);
  EXPECT_EQ(limit.failed, 1U);
  EXPECT_EQ(limit.near, 1U);
  EXPECT_EQ(limit.skipped, 1U);
  EXPECT_EQ(all.rules[0].failed, 1U);
}

TEST_F(ActivityTest, ARuleIsAskedAsOftenAsItsLimits) {
  const Rule& rule = rules_.rules()[0];
  RuleAnswer one = answer(1, Outcome::kAllowed, Reason::kOk);  // another rule allows it first
  one.limits.push_back({&rule, &rule.limits[0], {}, {}, {}});
  one_.count(one);
  other_.count(one);
  RuleAnswer denied = answer(0, Outcome::kDenied, Reason::kLimited);
  denied.limits.push_back({&rule, &rule.limits[0], {}, {}, Decision::refused(Reason::kLimited)});
  one_.count(denied);
  one_.count(answer(9, Outcome::kAllowed, Reason::kOk));
  const Activity all = registry_.activity(rules_);
  EXPECT_EQ(all.rules[0].asked, 3U);
  EXPECT_EQ(all.rules[0].denied, 1U);
  EXPECT_EQ(all.rules[0].allowed, 0U);
  EXPECT_EQ(all.rules[1].asked, 2U);
  EXPECT_EQ(all.rules[2].asked, 1U) << "of no rule";
}

TEST_F(ActivityTest, LeavesOutWhatOtherRulesHaveCounted) {
  one_.count(answer(0, Outcome::kAllowed, Reason::kOk));
  const RuleSet next = *RuleSet::parse(kRules, "test");
  EXPECT_EQ(registry_.activity(next).rules[0].allowed, 0U);
  one_.use(next);
  EXPECT_EQ(registry_.activity(next).rules[0].allowed, 0U);
}

}  // namespace
}  // namespace sluice::metrics
