#include "rules/rule_set.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sluice/attributes.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_guard.h"
#include "sluice/rule_set.h"

namespace sluice::rule_action_test {
namespace {

// Returns every error of a file with one rule `r` of these keys, one per line, or "ok".
std::string errors_of(const std::string& keys) {
  const auto rules = RuleSet::parse("version: 1\nrules:\n  - name: r\n" + keys, "f");
  if (rules) return "ok";
  std::string out;
  for (const RuleError& error : rules.error()) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

TEST(RuleAction, IsReadWithItsReject) {
  const auto rules = RuleSet::parse(R"(version: 1
rules:
  - { name: a, action: allow }
  - { name: d, action: deny }
  - { name: e, action: deny, mode: shadow, continue: true, reject: { status: 404, body: no } }
)",
                                    "f");
  ASSERT_TRUE(rules) << rules.error().front().to_string();
  EXPECT_EQ(rules->find("a")->action, RuleAction::kAllow);
  EXPECT_EQ(rules->find("d")->action, RuleAction::kDeny);
  EXPECT_EQ(rules->find("d")->reject.status, 403);
  EXPECT_EQ(rules->find("e")->reject.status, 404);
  EXPECT_EQ(rules->find("e")->reject.body, "no");
}

TEST(RuleAction, RefusesKeysThatContradictIt) {
  EXPECT_EQ(errors_of("    action: allow\n    limits: []\n    tag: t\n"),
            "f:5:13: error: 'limits' has 0 items; expected 1 to 64\n"
            "f:5:13: error: 'limits' with 'action: allow'; expected a rule without 'limits'\n"
            "f:6:10: error: 'tag' with 'action: allow'; expected a rule without 'tag'");
  EXPECT_EQ(errors_of("    action: deny\n    max_new_keys: 1\n"),
            "f:5:19: error: 'max_new_keys' with 'action: deny'; expected a rule without "
            "'max_new_keys'");
  EXPECT_EQ(errors_of("    action: allow\n    reject: { status: 400 }\n    continue: true\n"),
            "f:5:13: error: 'reject' with 'action: allow'; expected a rule without 'reject'\n"
            "f:6:15: error: 'continue' with 'action: allow'; expected a rule without 'continue'");
  EXPECT_EQ(errors_of("    action: allow\n    mode: shadow\n"),
            "f:5:11: error: 'mode: shadow' with 'action: allow'; expected 'mode: enforce', or no "
            "'mode'");
}

TEST(RuleAction, IsOneOfTwo) {
  EXPECT_EQ(errors_of("    action: block\n"),
            "f:4:13: error: 'action' is 'block'; expected allow or deny");
  EXPECT_EQ(errors_of("    mode: enforce\n"),
            "f:3:5: error: rule lacks 'limits'; expected 'limits:' with a list of limits, each "
            "starting with '- ', or 'action:'");
}

RuleSet parse(std::string_view rules) {
  auto set = RuleSet::parse("version: 1\nrules:\n" + std::string(rules), "f");
  if (!set) throw std::invalid_argument(set.error().front().to_string());
  return *set;
}

class RuleActionTest : public ::testing::Test {
 protected:
  const RuleAnswer& decide(const RuleSet& rules, std::string_view ip, Verb verb = Verb::kTake,
                           const RequestCosts& costs = {}) {
    return decider_.decide(rules, Attributes{{"ip", ip}}, costs, kNow, verb);
  }
  std::string rule_of(const RuleAnswer& answer) {
    return answer.rule == nullptr ? "none" : answer.rule->name;
  }
  static constexpr Instant kNow{Duration{1700000000000000}};

  MemoryStore store_;
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_};
  const RuleSet rules_ = parse(R"(
  - { name: total, continue: true, limits: [ { algorithm: fixed_window, limit: 2, per: 1h } ] }
  - { name: office, match: { ip: 10.0.0.0/8 }, action: allow }
  - { name: scanners, match: { ip: 192.0.2.0/24 }, action: deny }
  - { name: rest, limits: [ { algorithm: fixed_window, limit: 1, per: 1h } ] }
)");
};

TEST_F(RuleActionTest, AllowAppliesNoLaterRule) {
  for (int i = 0; i < 2; ++i) {
    const RuleAnswer& answer = decide(rules_, "10.1.2.3");
    EXPECT_EQ(answer.decision.reason, Reason::kOk);
    EXPECT_EQ(rule_of(answer), "office");
    ASSERT_EQ(answer.limits.size(), 1u);
    EXPECT_EQ(answer.limits.front().rule->name, "total");
  }
}

TEST_F(RuleActionTest, AllowKeepsTheLimitsOfEarlierRules) {
  decide(rules_, "10.1.2.3");
  decide(rules_, "10.1.2.3");
  const RuleAnswer& answer = decide(rules_, "10.1.2.3");
  EXPECT_EQ(answer.decision.reason, Reason::kLimited);
  EXPECT_EQ(rule_of(answer), "total");
}

TEST_F(RuleActionTest, AllowIgnoresCostsOfOtherLimits) {
  const RuleSet rules = parse(R"(
  - { name: office, match: { ip: 10.0.0.0/8 }, action: allow }
  - { name: rest, limits: [ { name: tokens, algorithm: fixed_window, limit: 9, per: 1h } ] }
)");
  const std::array<LimitCost, 1> costs{LimitCost{"tokens", 100}};
  EXPECT_TRUE(decide(rules, "10.1.2.3", Verb::kTake, {1, costs}).decision);
  EXPECT_EQ(decide(rules, "192.0.2.1", Verb::kTake, {1, costs}).decision.reason, Reason::kNever);
}

TEST_F(RuleActionTest, DenyCountsNothing) {
  for (int i = 0; i < 3; ++i) {
    const RuleAnswer& answer = decide(rules_, "192.0.2.1");
    EXPECT_EQ(answer.decision, Decision::refused(Reason::kDenyRule));
    EXPECT_EQ(rule_of(answer), "scanners");
    EXPECT_TRUE(answer.limits.empty());
    ASSERT_EQ(answer.matched.size(), 2u);
    EXPECT_FALSE(answer.matched[0].denied);
    EXPECT_TRUE(answer.matched[1].denied);
  }
  EXPECT_EQ(decide(rules_, "198.51.100.1").limits.front().decision.remaining, 1u)
      << "the rule 'total' counted denied requests";
}

TEST_F(RuleActionTest, DenyWinsOverAMissingAttribute) {
  const RuleSet rules = parse(R"(
  - name: keyed
    continue: true
    limits: [ { key: "{header.x}", on_missing: deny, algorithm: fixed_window, limit: 2, per: 1h } ]
  - { name: never, action: deny }
)");
  const RuleAnswer& answer = decide(rules, "192.0.2.1");
  EXPECT_EQ(answer.decision.reason, Reason::kDenyRule);
  EXPECT_EQ(rule_of(answer), "never");
}

TEST_F(RuleActionTest, DenyAnswersAPeekButDoesNotStopReports) {
  EXPECT_EQ(decide(rules_, "192.0.2.1", Verb::kPeek).decision.reason, Reason::kDenyRule);
  EXPECT_EQ(decide(rules_, "192.0.2.1", Verb::kReserve).decision.reason, Reason::kDenyRule);
  decide(rules_, "198.51.100.1");
  EXPECT_TRUE(decide(rules_, "192.0.2.1", Verb::kRefund).decision);
  EXPECT_EQ(decide(rules_, "198.51.100.2", Verb::kPeek).limits.front().decision.remaining, 2u)
      << "the refund did not reach the rule 'total'";
  EXPECT_TRUE(decide(rules_, "192.0.2.1", Verb::kCharge).decision);
}

TEST_F(RuleActionTest, DenyInShadowModeIsOnlyCounted) {
  const RuleSet rules = parse(R"(
  - { name: trial, match: { ip: 192.0.2.0/24 }, action: deny, mode: shadow }
  - { name: rest, limits: [ { algorithm: fixed_window, limit: 1, per: 1h } ] }
)");
  const RuleAnswer& first = decide(rules, "192.0.2.1");
  EXPECT_TRUE(first.decision);
  EXPECT_EQ(first.decision.reason, Reason::kShadow);
  EXPECT_EQ(rule_of(first), "trial");
  ASSERT_EQ(first.matched.size(), 2u);
  EXPECT_TRUE(first.matched[0].denied);
  const RuleAnswer& second = decide(rules, "192.0.2.1");
  EXPECT_EQ(second.decision.reason, Reason::kLimited) << "the shadow rule hid the limit";
  EXPECT_EQ(rule_of(second), "rest");
}

TEST_F(RuleActionTest, OfOnePartDeniesAllParts) {
  const Attributes good{{"ip", "198.51.100.1"}};
  const Attributes bad{{"ip", "192.0.2.1"}};
  const std::array parts{RequestPart{&good}, RequestPart{&bad}};
  const RuleAnswer& answer = decider_.decide_parts(rules_, "default", parts, kNow);
  EXPECT_EQ(answer.decision.reason, Reason::kDenyRule);
  EXPECT_EQ(answer.matched.back().part, 1u);
  EXPECT_TRUE(answer.matched.back().denied);
}

TEST_F(RuleActionTest, WorksInGuards) {
  int calls = 0;
  const auto count = [&calls](std::string_view) { ++calls; };
  auto open = guarded(rules_, limiter_, "office")
                  .with("ip", [](std::string_view ip) { return ip; })
                  .throwing(count);
  open("10.0.0.1");
  EXPECT_EQ(calls, 1);
  auto closed = guarded(rules_, limiter_, "scanners")
                    .with("ip", [](std::string_view ip) { return ip; })
                    .throwing(count);
  try {
    closed("10.0.0.1");
    FAIL() << "the guard did not deny";
  } catch (const RateLimited& denied) {
    EXPECT_STREQ(denied.what(), "scanners: denied without the decision of a limit (deny_rule)");
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace sluice::rule_action_test
