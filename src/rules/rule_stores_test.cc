// Tests RuleStores: the stores that a decider uses in addition to that of the limiter.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/memory_store.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::rule_stores_test {
namespace {

using namespace std::chrono_literals;

RuleSet rules_of(const std::vector<std::string>& rules) {
  std::string yaml = "version: 1\ndomain: d\nrules:\n";
  for (const std::string& rule : rules) yaml += "  - { " + rule + " }\n";
  auto parsed = RuleSet::parse(yaml, "f");
  if (!parsed) throw std::invalid_argument(parsed.error().front().to_string());
  return *parsed;
}

// Returns "name: a, on_store_error: local, ..." with these limits per hour.
std::string rule(const std::string& name, const std::string& policy, std::vector<int> limits,
                 const std::string& more = "continue: true") {
  std::string out = "name: " + name + ", on_store_error: " + policy + ", " + more + ", limits: [";
  for (std::size_t i = 0; i < limits.size(); ++i) {
    out += (i > 0 ? ", " : " ") + std::string("{ name: ") + static_cast<char>('x' + i) +
           ", algorithm: fixed_window, limit: " + std::to_string(limits[i]) + ", per: 1h }";
  }
  return out + " ]";
}

// Fails until `works` is true; then it uses a memory store.
class Faulty final : public Store {
 public:
  explicit Faulty(const Clock& clock) : memory_({}, clock) {}
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    ++asked;
    if (works) return memory_.apply(action, charges, now, each);
    const Decision failed = Decision::refused(Reason::kStoreTimeout);
    std::fill(each.begin(), each.end(), failed);
    return failed;
  }
  bool works = false;
  int asked = 0;

 private:
  MemoryStore memory_;
};

class RuleStoresTest : public ::testing::Test {
 protected:
  const RuleAnswer& decide(const RuleSet& rules, std::uint64_t cost = 1, Verb verb = Verb::kTake) {
    return request_.decide(rules, Attributes{}, cost, {}, verb);
  }
  std::uint64_t left(const RuleSet& rules, std::size_t limit = 0) {
    return decide(rules, 0, Verb::kPeek).limits[limit].decision.remaining;
  }

  testing::ManualClock clock_;
  Faulty store_{clock_};
  MemoryStore local_{{}, clock_};
  Limiter limiter_{store_};
  RuleDecider request_{limiter_, {.local = &local_}};
};

TEST_F(RuleStoresTest, LocalRulesAreDecidedLocallyIfTheStoreFails) {
  const RuleSet rules = rules_of({rule("a", "local", {2, 5})});
  const RuleAnswer& first = decide(rules);
  EXPECT_EQ(
      first.decision,
      (Decision{.reason = Reason::kFallback, .capacity = 2, .remaining = 1, .reset_after = 1h}));
  EXPECT_EQ(
      first.limits[1].decision,
      (Decision{.reason = Reason::kFallback, .capacity = 5, .remaining = 4, .reset_after = 1h}));
  EXPECT_TRUE(decide(rules).decision);
  const RuleAnswer& denied = decide(rules);
  EXPECT_FALSE(denied.decision);
  EXPECT_EQ(denied.decision.reason, Reason::kFallback);
  EXPECT_EQ(denied.decision.retry_after, Duration{1h});
  EXPECT_EQ(denied.rule->name, "a");
  EXPECT_FALSE(denied.limits[0].decision);
  EXPECT_TRUE(denied.limits[1].decision);
  EXPECT_EQ(left(rules, 1), 3u) << "what was denied took nothing";
}

// FailurePolicyStore.AllowsReservationsAndTakesOfAtMostTheLeastCost says the same.
TEST_F(RuleStoresTest, ATakeOfAtMostIsAllowedTheLeastCost) {
  for (const std::string policy : {"allow", "local"}) {
    const RuleSet rules = rules_of({rule("a", "allow", {20, 9}), rule("b", policy, {20})});
    const RuleAnswer& answer = decide(rules, 7, Verb::kTakeAtMost);
    EXPECT_TRUE(answer.decision) << policy;
    EXPECT_EQ(answer.decision.taken, 7u) << policy;
    for (const LimitAnswer& limit : answer.limits) EXPECT_EQ(limit.decision.taken, 7u) << policy;
  }
  const RuleSet shadow = rules_of(
      {rule("a", "allow", {20}, "mode: shadow, continue: true"), rule("b", "allow", {20})});
  EXPECT_EQ(decide(shadow, 7, Verb::kTakeAtMost).decision.taken, 7u);
}

TEST_F(RuleStoresTest, TheLocalStoreIsUnusedWhileTheStoreAnswers) {
  const RuleSet rules = rules_of({rule("a", "local", {2})});
  store_.works = true;
  EXPECT_EQ(decide(rules).decision.reason, Reason::kOk);
  EXPECT_EQ(decide(rules).decision.remaining, 0u);
  store_.works = false;
  EXPECT_EQ(decide(rules).decision.remaining, 1u) << "it begins untouched";
}

TEST_F(RuleStoresTest, LocalRulesAreOneRequest) {
  const RuleSet rules = rules_of({rule("a", "local", {5}), rule("b", "local", {1})});
  EXPECT_TRUE(decide(rules).decision);
  const RuleAnswer& denied = decide(rules);
  EXPECT_FALSE(denied.decision);
  EXPECT_EQ(denied.rule->name, "b");
  EXPECT_FALSE(denied.matched[0].denied);
  EXPECT_EQ(left(rules), 4u);
}

TEST_F(RuleStoresTest, RulesThatAllowAddNothingToLocalOnes) {
  const RuleSet rules =
      rules_of({rule("a", "allow", {7}), rule("b", "local", {1}), rule("c", "allow", {9})});
  const RuleAnswer& first = decide(rules);
  EXPECT_EQ(
      first.decision,
      (Decision{.reason = Reason::kFallback, .capacity = 1, .remaining = 0, .reset_after = 1h}));
  EXPECT_EQ(first.limits[0].decision, (Decision{.reason = Reason::kFallback, .capacity = 7}));
  EXPECT_EQ(first.limits[1].decision.reset_after, Duration{1h});
  EXPECT_EQ(first.limits[2].decision, (Decision{.reason = Reason::kFallback, .capacity = 9}));
  const RuleAnswer& denied = decide(rules);
  EXPECT_FALSE(denied.decision);
  EXPECT_EQ(denied.rule->name, "b");
}

TEST_F(RuleStoresTest, NothingIsTakenLocallyIfAnotherRuleDenies) {
  const RuleSet rules = rules_of({rule("a", "local", {2}), rule("b", "deny", {9})});
  for (int i = 0; i < 5; ++i) {
    const RuleAnswer& answer = decide(rules);
    EXPECT_EQ(answer.decision,
              (Decision{.outcome = Outcome::kDenied, .reason = Reason::kFallback}));
    EXPECT_EQ(answer.rule->name, "b");
    EXPECT_FALSE(answer.matched[0].denied);
    EXPECT_EQ(answer.limits[0].decision, (Decision{.reason = Reason::kFallback, .capacity = 2}));
  }
  const RuleSet alone = rules_of({rule("a", "local", {2})});
  EXPECT_EQ(left(alone), 2u);
}

TEST_F(RuleStoresTest, RefundsAndResetsAreNotAnsweredByPolicyButDoneLocally) {
  for (const char* policy : {"allow", "deny", "local"}) {
    const RuleSet rules = rules_of({rule("a", policy, {2})});
    decide(rules, 2);
    for (const Verb verb : {Verb::kRefund, Verb::kReset}) {
      const RuleAnswer& answer = decide(rules, 1, verb);
      EXPECT_EQ(answer.decision, Decision::refused(Reason::kStoreTimeout)) << policy;
      if (policy == std::string("local")) {
        EXPECT_EQ(left(rules), verb == Verb::kRefund ? 1u : 2u);
      }
    }
  }
}

TEST_F(RuleStoresTest, WithoutALocalStoreLocalRulesDeny) {
  RuleDecider request(limiter_);
  const RuleSet rules = rules_of({rule("a", "local", {2})});
  EXPECT_EQ(request.decide(rules, Attributes{}).decision, Decision::refused(Reason::kStoreTimeout));
}

TEST_F(RuleStoresTest, ALocalStoreThatFailsDenies) {
  Faulty local(clock_);
  RuleDecider request(limiter_, {.local = &local});
  const RuleSet rules = rules_of({rule("a", "local", {2}), rule("b", "allow", {2})});
  const RuleAnswer& answer = request.decide(rules, Attributes{});
  EXPECT_EQ(answer.decision.reason, Reason::kStoreTimeout);
  EXPECT_FALSE(answer.decision);
  EXPECT_EQ(answer.rule->name, "a");
}

TEST_F(RuleStoresTest, ShadowRulesUseTheirStore) {
  Faulty shadow(clock_);
  shadow.works = true;
  store_.works = true;
  RuleDecider request(limiter_, {.shadow = &shadow});
  const RuleSet rules =
      rules_of({rule("t", "allow", {1}, "mode: shadow, continue: true"), rule("a", "allow", {5})});
  EXPECT_EQ(request.decide(rules, Attributes{}).decision.remaining, 4u);
  EXPECT_EQ(shadow.asked, 1);
  EXPECT_EQ(store_.asked, 1);
  const RuleAnswer& answer = request.decide(rules, Attributes{});
  EXPECT_TRUE(answer.decision);
  EXPECT_TRUE(answer.matched[0].denied);
  EXPECT_EQ(answer.limits[0].decision.reason, Reason::kLimited);
}

TEST_F(RuleStoresTest, ShadowRulesAreDecidedLocallyOnTheirOwn) {
  const RuleSet rules =
      rules_of({rule("t", "local", {1}, "mode: shadow, continue: true"), rule("a", "local", {2})});
  EXPECT_TRUE(decide(rules).decision);
  const RuleAnswer& second = decide(rules);
  EXPECT_TRUE(second.decision);
  EXPECT_TRUE(second.matched[0].denied);
  EXPECT_EQ(second.limits[0].decision.reason, Reason::kFallback);
  EXPECT_EQ(second.limits[0].decision.retry_after, Duration{1h});
  EXPECT_EQ(decide(rules).rule->name, "a");
}

}  // namespace
}  // namespace sluice::rule_stores_test
