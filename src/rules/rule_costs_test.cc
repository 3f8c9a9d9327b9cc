#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/memory_store.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_guard.h"
#include "sluice/rule_set.h"

// What requests cost by the `cost` of limits.
namespace sluice {
namespace {

constexpr const char* kNumbers = "algorithm: fixed_window, limit: 1000, per: 1h";

Expected<RuleSet, std::vector<RuleError>> load(const std::string& rules) {
  return RuleSet::parse("version: 1\nrules:\n" + rules, "f");
}

// A rule with a limit of these keys after its numbers.
std::string limit(const std::string& keys) {
  return "  - name: r\n    limits: [ { " + std::string(kNumbers) + ", " + keys + " } ]\n";
}

class RuleCosts : public ::testing::Test {
 protected:
  void use(const std::string& text) {
    auto rules = load(text);
    if (!rules) throw std::invalid_argument(rules.error().front().to_string());
    rules_ = *rules;
  }
  // A rule with limits of these keys; the numbers of each are 1000 units an hour.
  void use_limits(const std::vector<std::string>& limits, const std::string& more = "") {
    std::string text = "  - name: r\n" + more + "    limits:\n";
    for (const std::string& keys : limits) {
      text.append("      - { ").append(kNumbers).append(", ").append(keys).append(" }\n");
    }
    use(text);
  }
  const RuleAnswer& ask(const Attributes& request, const RequestCosts& costs = {},
                        Verb verb = Verb::kTake) {
    return decider_.decide(*rules_, request, costs, kNow, verb);
  }
  // The units that each limit has counted.
  std::vector<std::uint64_t> used() {
    std::vector<LimitCost> nothing;
    for (const Rule& rule : rules_->rules()) {
      for (const RuleLimit& limit : rule.limits) nothing.push_back({limit.name, 0});
    }
    std::vector<std::uint64_t> out;
    for (const LimitAnswer& limit : ask({}, {0, nothing}, Verb::kPeek).limits) {
      out.push_back(1000 - limit.decision.remaining);
    }
    return out;
  }
  using Units = std::vector<std::uint64_t>;
  static constexpr Instant kNow{Duration{1700000000000000}};

  std::optional<RuleSet> rules_;
  MemoryStore store_;
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_};
};

TEST_F(RuleCosts, AddProductsOfAmountsAndPrices) {
  use("  - name: r\n    limits:\n      - { " + std::string(kNumbers) +
      ", name: a, cost: '{body.in|0} * price.in + {body.out|10} * price.out', price: { of: "
      "'{body.model}' } }\nprices: { large: { in: 3, out: 15 }, small: { in: 1, out: 2 } }\n");
  EXPECT_TRUE(ask({{"body.model", "small"}, {"body.in", "100"}}).decision.allowed());
  EXPECT_EQ(used(), Units{120});
  EXPECT_TRUE(ask({{"body.model", "large"}, {"body.in", "100"}}).decision.allowed());
  EXPECT_EQ(used(), Units{570});
  EXPECT_EQ(ask({{"body.model", "other"}}).decision.reason, Reason::kInvalid);
  EXPECT_EQ(ask({{"body.model", "other"}}).mistake,
            "the cost of the limit 'a' reads the prices of a model that has none; expected a model "
            "of 'prices', or a default");
  const Attributes much{{"body.model", "large"}, {"body.in", "4294967295"}};
  EXPECT_EQ(ask(much).decision.reason, Reason::kInvalid);
  EXPECT_EQ(ask(much).mistake,
            "the cost of the limit 'a', {body.in|0} * price.in + {body.out|10} * price.out, is too "
            "large; expected at most 4294967295");
  EXPECT_EQ(used(), Units{570}) << "nothing else was counted";
}

TEST_F(RuleCosts, SettlesToTheActualCosts) {
  use_limits({"name: a, cost: 1", "name: b", "name: c, cost: request"});
  ask({}, 10);
  EXPECT_EQ(used(), (Units{1, 10, 10}));
  const std::vector<LimitCost> actual{{"b", 25}, {"c", 4}};
  EXPECT_TRUE(decider_.settle(*rules_, Attributes{}, 10, {10, actual}, kNow).decision.allowed());
  EXPECT_EQ(used(), (Units{1, 25, 4}));
  const std::vector<LimitCost> over{{"b", 1001}};
  const RuleAnswer& answer = decider_.settle(*rules_, Attributes{}, 25, {25, over}, kNow);
  EXPECT_EQ(answer.decision.reason, Reason::kOver);
  EXPECT_EQ(used(), (Units{1, 1000, 4}));
  const Decision less =
      decider_.settle(*rules_, Attributes{}, 4, 0, kNow, &rules_->rules().front()).decision;
  EXPECT_EQ(less.reason, Reason::kOk);
  EXPECT_EQ(less.remaining, 3u) << "of the tightest limit";
  EXPECT_EQ(used(), (Units{1, 997, 0}));
  const std::vector<LimitCost> unknown{{"z", 1}};
  EXPECT_EQ(decider_.settle(*rules_, Attributes{}, 1, {1, unknown}, kNow).decision.reason,
            Reason::kInvalid);
  ask({}, 3);  // no longer settles
  EXPECT_EQ(used(), (Units{2, 1000, 3}));
}

TEST_F(RuleCosts, WithoutCostALimitTakesTheNumberOfTheRequest) {
  use_limits({"name: a", "name: b, cost: request", "name: c, cost: 1", "name: d, cost: 0"});
  ask({});
  EXPECT_EQ(used(), (Units{1, 1, 1, 0}));
  const RuleAnswer& answer = ask({}, 5);
  EXPECT_EQ(answer.limits[0].cost, 5u);
  EXPECT_EQ(answer.limits[2].cost, 1u);
  EXPECT_EQ(used(), (Units{6, 6, 2, 0}));
  ask({}, 0);
  EXPECT_EQ(used(), (Units{6, 6, 3, 0}));
}

TEST_F(RuleCosts, OnlyLimitsThatSaySoTakeANumberThatIsOnlyIfWanted) {
  use_limits({"name: a", "name: b, cost: request"});
  RequestCosts costs = 5;
  costs.only_if_wanted = true;
  ask({}, costs);
  EXPECT_EQ(used(), (Units{1, 5}));
}

TEST_F(RuleCosts, AnAttributeIsTheCost) {
  use_limits({"name: requests, cost: 1", "name: tokens, cost: '{body.max_tokens|500}'"});
  EXPECT_TRUE(ask({{"body.max_tokens", "300"}}, 9).decision);
  EXPECT_EQ(used(), (Units{1, 300}));
  EXPECT_TRUE(ask({}).decision);
  EXPECT_EQ(used(), (Units{2, 800}));
  const RuleAnswer& denied = ask({{"body.max_tokens", "201"}});
  EXPECT_EQ(denied.decision.reason, Reason::kLimited);
  EXPECT_TRUE(denied.limits[0].decision.allowed());
  EXPECT_EQ(used(), (Units{2, 800})) << "all or nothing";
  EXPECT_EQ(ask({{"body.max_tokens", "1001"}}).decision.reason, Reason::kNever);
}

TEST_F(RuleCosts, AValueThatIsNoNumberMakesTheRequestInvalid) {
  use_limits({"name: requests, cost: 1", "name: tokens, cost: '{body.max_tokens|500}'"});
  for (const char* value : {"many", "-1", "4294967296", "1.0"}) {
    const RuleAnswer& answer = ask({{"body.max_tokens", value}});
    EXPECT_EQ(answer.decision, Decision::refused(Reason::kInvalid));
    EXPECT_EQ(answer.rule->name, "r");
    ASSERT_EQ(answer.limits.size(), 1u);
    EXPECT_EQ(answer.limits[0].limit->name, "tokens");
    EXPECT_EQ(answer.mistake, "the cost of the limit 'tokens', 'body.max_tokens', is '" +
                                  std::string(value) +
                                  "'; expected a whole number from 0 to 4294967295");
  }
  EXPECT_EQ(used(), (Units{0, 0}));
  EXPECT_TRUE(ask({}).mistake.empty());
}

TEST_F(RuleCosts, AShadowRuleNeverMakesTheRequestInvalid) {
  use("  - name: trial\n    mode: shadow\n    continue: true\n    limits: [ { name: t, cost: "
      "'{u}', " +
      std::string(kNumbers) + " } ]\n" + limit("name: a"));
  const RuleAnswer& answer = ask({{"u", "x"}});
  EXPECT_TRUE(answer.decision.allowed());
  EXPECT_EQ(answer.decision.reason, Reason::kShadow);
  EXPECT_EQ(answer.limits[0].decision.reason, Reason::kInvalid);
  EXPECT_TRUE(answer.mistake.empty());
}

TEST_F(RuleCosts, OnMissingDecidesIfTheAttributeIsMissing) {
  use_limits({"name: a", "name: b, cost: '{u}'"});
  EXPECT_EQ(ask({{"u", ""}}).limits.size(), 1u);
  use_limits({"name: a", "name: b, cost: '{u}', on_missing: deny"});
  EXPECT_EQ(ask({}).decision.reason, Reason::kMissing);
  EXPECT_TRUE(ask({{"u", "2"}}).decision);
}

TEST_F(RuleCosts, TheCostOfALimitByItsNameComesFirst) {
  use_limits({"name: requests, cost: 1", "name: tokens, cost: '{u}'", "name: bytes"});
  const LimitCost costs[] = {{"tokens", 700}, {"requests", 0}};
  const RuleAnswer& answer = ask({{"u", "no number"}}, {20, costs});
  EXPECT_TRUE(answer.decision);
  EXPECT_EQ(answer.limits[1].cost, 700u);
  EXPECT_EQ(used(), (Units{0, 700, 20}));
  EXPECT_TRUE(ask({}, {20, costs}, Verb::kRefund).decision);
  EXPECT_EQ(used(), (Units{0, 0, 0}));
}

TEST_F(RuleCosts, ANameThatNoLimitOfTheMatchingRulesHasIsInvalid) {
  use("  - name: first\n    match: { path: /a }\n    limits: [ { name: x, " +
      std::string(kNumbers) + " }, { " + kNumbers + " } ]\n" + "  - name: second\n" +
      "    match: { path: /b }\n    limits: [ { name: y, " + kNumbers + " } ]\n");
  const LimitCost costs[] = {{"first/1", 2}, {"y", 3}};
  const RuleAnswer& answer = ask({{"path", "/a"}}, {1, costs});
  EXPECT_EQ(answer.decision, Decision::refused(Reason::kInvalid));
  EXPECT_EQ(answer.rule->name, "first");
  EXPECT_TRUE(answer.limits.empty());
  EXPECT_EQ(answer.mistake,
            "the rules that apply have no limit 'y'; expected the name of a limit: "
            "x or first/1");
  EXPECT_TRUE(ask({{"path", "/c"}}, {1, costs}).decision) << "no rule applies";
  EXPECT_TRUE(ask({{"path", "/b"}}, {1, std::span(costs).last(1)}).decision);
  EXPECT_TRUE(ask({{"path", "/a"}}).mistake.empty());
  const Rule* const second = &rules_->rules()[1];
  EXPECT_EQ(decider_.decide(*rules_, Attributes{}, {1, costs}, {}, Verb::kTake, second).mistake,
            "the rules that apply have no limit 'first/1'; expected the name of a limit: y");
}

TEST_F(RuleCosts, PartsHaveCostsOfTheirOwn) {
  use_limits({"name: requests, cost: 1", "name: tokens, cost: request"});
  const Attributes attributes;
  const LimitCost tokens{"tokens", 40};
  const RequestPart parts[] = {{&attributes, 5}, {&attributes, {7, {&tokens, 1}}}};
  EXPECT_TRUE(decider_.decide_parts(*rules_, "default", parts, kNow).decision);
  EXPECT_EQ(used(), (Units{2, 45}));
}

TEST_F(RuleCosts, APartOfNoUnitsTakesNothing) {
  use_limits({"name: requests, cost: 1", "name: tokens, cost: '{u}'"});
  const Attributes attributes{{"u", "10"}};
  const LimitCost tokens{"tokens", 4};
  const RequestPart parts[] = {{&attributes, 0}, {&attributes, {0, {&tokens, 1}}}};
  EXPECT_TRUE(decider_.decide_parts(*rules_, "default", parts, kNow).decision);
  EXPECT_EQ(used(), (Units{0, 4}));
}

TEST_F(RuleCosts, AResetNeedsNoCost) {
  use_limits({"name: a, cost: '{u}', on_missing: deny"});
  ask({{"u", "10"}});
  EXPECT_TRUE(ask({}, {}, Verb::kReset).decision);
  EXPECT_EQ(used(), (Units{0}));
}

struct Call {
  std::uint32_t tokens;
  std::string bytes = "3";
};

TEST_F(RuleCosts, AGuardProvidesTheCostsOfLimits) {
  use_limits({"name: requests, cost: 1", "name: tokens, cost: '{bytes}'", "name: third"});
  const auto guard = guarded(*rules_, limiter_, "r").costing(2);
  EXPECT_THROW(guard.returning([](const Call&) {}), std::invalid_argument);
  const auto by_attribute = guard.with("bytes", &Call::bytes).returning([](const Call&) {});
  EXPECT_TRUE(by_attribute(Call{}));
  EXPECT_EQ(by_attribute(Call{0, "x"}).error().reason, Reason::kInvalid);
  const auto by_name = guard.costing("tokens", &Call::tokens)
                           .costing("third", 5)
                           .refunding_on_exception()
                           .throwing([](const Call& call) {
                             if (call.tokens == 50) throw std::runtime_error("x");
                           });
  by_name(Call{40});
  EXPECT_THROW(by_name(Call{50}), std::runtime_error);
  EXPECT_EQ(used(), (Units{2, 43, 7}));
}

TEST_F(RuleCosts, AGuardWithTheCostOfAnUnknownLimitIsRefused) {
  use_limits({"name: a"});
  try {
    guarded(*rules_, limiter_, "r").costing("b", 2).returning([] {});
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(),
                 "rule \"r\" has no limit \"b\"; expected .costing(LIMIT, UNITS) with the name of "
                 "one of its limits");
  }
}

}  // namespace
}  // namespace sluice
