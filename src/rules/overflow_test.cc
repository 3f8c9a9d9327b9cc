// Limits with `overflow`: what is wrong in a file, and which budget of a row a request charges.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "rules/rule_changes.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/permit_id.h"
#include "sluice/rule_decider.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::overflow_test {
namespace {

using namespace std::chrono_literals;

const std::string kKey = "key: \"{org}\", ";
const std::string kMonth =
    "name: month, " + kKey + "algorithm: budget, limit: 100, per: 1h, cost: \"{units|10}\"";

std::string file_with(const std::string& limit, const std::string& more = "") {
  return "version: 1\nrules:\n  - name: r\n    limits:\n      - { " + limit + " }\n" + more;
}

std::string first_error(const std::string& limit, const RuleTerms& terms = {}) {
  const auto rules = RuleSet::parse(file_with(limit), "f", terms);
  return rules ? "ok" : rules.error().front().to_string();
}

TEST(OverflowField, IsForBudgetsAndAtMostFourAreInARow) {
  const auto of = [](const std::string& name, const std::string& more) {
    return ",\n        overflow: { name: " + name + ", limit: 5, per: never" + more + " }";
  };
  EXPECT_EQ(first_error(kMonth + of("a", "")), "ok");
  EXPECT_EQ(first_error(kMonth + of("a", of("b", of("c", "")))), "ok");
  EXPECT_EQ(first_error(kMonth + of("a", of("b", of("c", of("d", ""))))),
            "f:9:19: error: more than 4 budgets in a row; expected at most 4, with the first; "
            "leave out this 'overflow'");
  EXPECT_EQ(first_error("algorithm: gcra, limit: 1, per: 1s" + of("a", "")),
            "f:6:19: error: 'overflow' does not apply to gcra; expected 'algorithm: budget', or no "
            "'overflow'");
  EXPECT_EQ(first_error(kMonth + of("month", "")),
            "f:6:27: error: duplicate limit 'month'; expected a name other than that of line 5, "
            "column 17");
  EXPECT_EQ(first_error(kMonth + ",\n        overflow: { limit: 5, per: never }"),
            "f:6:19: error: overflow lacks 'name'; expected 'name:' with text of 1 to 128 bytes");
  EXPECT_EQ(first_error(kMonth + ",\n        overflow: { name: a, per: never }").substr(0, 36),
            "f:6:19: error: limit lacks 'limit'; ");
  EXPECT_EQ(first_error(kMonth + of("a", ", algorithm: gcra")).substr(0, 40),
            "f:6:52: error: unknown key 'algorithm'; ");
  EXPECT_EQ(first_error(kMonth + ", block: { after: 1, within: 1s, for: 1s }" + of("a", ""))
                .substr(0, 60),
            "f:5:105: error: 'block' and 'overflow' in one limit; expecte");
  EXPECT_EQ(first_error(kMonth + of("a", ""), {.in_cluster = true}),
            "f:6:19: error: budgets in a row need a tag in a Redis Cluster; expected 'tag:' in the "
            "rule, such as \"{header.x-org}\"");
}

TEST(OverflowField, CountsAmongTheLimitsOfItsRule) {
  std::string limits;
  for (int i = 0; i < 33; ++i) {
    const std::string n = std::to_string(i);
    if (i > 0) limits += " }\n      - { ";
    limits += "name: a" + n + ", algorithm: budget, limit: 1, per: 1h, overflow: { name: b" + n +
              ", limit: 5, per: never }";
  }
  EXPECT_EQ(first_error(limits),
            "f:5:7: error: the rule has 66 limits with those of 'overflow'; expected at most 64");
}

TEST(OverflowField, InheritsFromTheFirst) {
  const auto rules = RuleSet::parse(
      file_with(kMonth +
                ", on_expiry: release, holds: 7, warn: 80%,\n        overflow: { name: a, "
                "limit: 5, per: never, holds: 8, overflow: { name: b, limit: 6, per: 1h }}"),
      "f");
  ASSERT_TRUE(rules) << rules.error().front().to_string();
  const auto& limits = rules->rules()[0].limits;
  ASSERT_EQ(limits.size(), 3u);
  EXPECT_FALSE(limits[0].alternative);
  for (const std::size_t i : {1u, 2u}) {
    EXPECT_TRUE(limits[i].alternative);
    EXPECT_EQ(limits[i].limit.on_expiry(), OnExpiry::kRelease);
    EXPECT_EQ(limits[i].cost, "{units|10}");
    EXPECT_EQ(limits[i].warn_percent, 80);
    EXPECT_EQ(limits[i].key, "");
  }
  EXPECT_EQ(limits[1].limit.holds(), 8u);
  EXPECT_EQ(limits[2].limit.holds(), 7u);  // of the first, not of the one before
}

class Overflow : public ::testing::Test {
 protected:
  Overflow() {
    use(kMonth + ",\n        overflow: { name: credits, " + kKey + "limit: 50, per: never }");
  }
  void use(const std::string& limit, const std::string& more = "") {
    rules_ = RuleSet::parse(file_with(limit, more), "f").value();
  }
  // As a running server.
  void reload(const std::string& limit, const std::string& more = "") {
    const RuleSet before = *rules_;
    use(limit, more);
    rules_ = rules::keep_removed(before, *rules_, clock_.now());
  }
  void set(const char* limit, const Override& value) {
    const auto key = name_override(*rules_, "r", limit, Attributes{{"org", "acme"}}, value);
    ASSERT_TRUE(key) << key.error();
    ASSERT_TRUE(overrides_.set(*key, value));
  }

  // Asks for units under an id, if there is one.
  const RuleAnswer& ask(std::uint64_t units, Action action = Verb::kTake,
                        const std::string& id = "", std::span<const LimitCost> named = {}) {
    id_ = PermitId::named(id);
    RequestCosts costs(units, named);
    if (!id.empty()) costs.id = &id_;
    attributes_ = {{"org", "acme"}, {"units", std::to_string(units)}};
    return decider_.decide(*rules_, attributes_, costs, {}, action);
  }
  static std::string charged(const RuleAnswer& answer) {
    return answer.charged() != nullptr ? answer.charged()->limit->name : "none";
  }
  std::string left() {
    std::string out;
    for (const LimitAnswer& one : ask(0, Verb::kPeek).limits) {
      out += std::to_string(one.decision.remaining) + " ";
    }
    return out;
  }

  testing::ManualClock clock_;
  Overrides overrides_;
  std::optional<RuleSet> rules_;

 private:
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_, {.overrides = &overrides_}};
  PermitId id_;
  Attributes attributes_;
};

TEST_F(Overflow, ChargesTheFirstWithRoomForAllOfTheCost) {
  EXPECT_EQ(charged(ask(70)), "month");
  const RuleAnswer& answer = ask(40);
  EXPECT_EQ(charged(answer), "credits");
  EXPECT_TRUE(answer.limits[0].decision.passed_over);
  EXPECT_TRUE(answer.limits[0].decision.allowed());
  EXPECT_EQ(answer.decision.remaining, 10u);  // of the one that was charged
  EXPECT_EQ(left(), "30 10 ");
  EXPECT_EQ(charged(ask(30)), "month");  // fits again
  const RuleAnswer& denied = ask(11);
  EXPECT_EQ(denied.decision.reason, Reason::kLimited);
  EXPECT_EQ(denied.decision.capacity, 100u);
  EXPECT_LE(*denied.decision.retry_after, 1h);
  EXPECT_EQ(charged(denied), "none");
  EXPECT_EQ(ask(101).decision.reason, Reason::kNever);  // more than each of them
  EXPECT_EQ(left(), "0 10 ");
}

TEST_F(Overflow, WhatIsAboutAnIdGoesToTheBudgetThatKnowsIt) {
  const Action hold{Verb::kHold, 1min};
  EXPECT_EQ(charged(ask(80, hold, "a")), "month");
  EXPECT_EQ(charged(ask(30, hold, "b")), "credits");
  EXPECT_EQ(charged(ask(0, Verb::kSettle, "a")), "month");
  // There is room in the first again, and the second knows the id.
  const RuleAnswer& again = ask(30, hold, "b");
  EXPECT_EQ(charged(again), "credits");
  EXPECT_TRUE(again.decision.repeated);
  EXPECT_EQ(charged(ask(0, {Verb::kExtend, 1min}, "b")), "credits");
  EXPECT_EQ(charged(ask(20, Verb::kSettle, "b")), "credits");
  EXPECT_TRUE(ask(20, Verb::kSettle, "b").decision.repeated);
  EXPECT_EQ(left(), "100 30 ");
  const RuleAnswer& late = ask(5, Verb::kSettle, "c");
  EXPECT_TRUE(late.decision.late);
  EXPECT_EQ(charged(late), "month");
  EXPECT_EQ(left(), "95 30 ");
}

TEST_F(Overflow, WithoutAnIdWhatIsDoneCountsInTheFirst) {
  EXPECT_EQ(charged(ask(120, Verb::kCharge)), "month");
  EXPECT_EQ(left(), "0 50 ");
  ask(50);
  EXPECT_EQ(left(), "0 0 ");
  ask(50, Verb::kRefund);
  EXPECT_EQ(left(), "30 0 ");
  EXPECT_EQ(ask(40, Verb::kTakeAtMost).decision.taken, 30u);
  ask(0, Verb::kReset);
  EXPECT_EQ(left(), "100 50 ");
}

TEST_F(Overflow, WithoutAnIdTheLaterOnesArePassedOver) {
  use(kMonth + ", warn: 80%,\n        overflow: { name: credits, " + kKey +
      "limit: 50, per: never }");
  ask(50, {Verb::kTake}, "", std::array<LimitCost, 2>{{{"month", 200}, {"credits", 50}}});
  for (const Verb verb : {Verb::kCharge, Verb::kRefund}) {
    const RuleAnswer& answer = ask(1, verb);
    EXPECT_TRUE(answer.limits[1].decision.passed_over);
    EXPECT_FALSE(answer.limits[1].near) << "credits have nothing left, and are not charged";
    EXPECT_EQ(answer.decision.capacity, 100u) << "of the one that is charged";
    EXPECT_EQ(charged(answer), "month");
  }
  const LimitCost own{"credits", 5};
  const RuleAnswer& named = ask(1, Verb::kRefund, "", {&own, 1});
  EXPECT_FALSE(named.limits[1].decision.passed_over) << "it has a cost of its own";
  EXPECT_EQ(left(), "100 5 ");
  EXPECT_FALSE(ask(0, Verb::kReset).limits[1].decision.passed_over);
}

TEST_F(Overflow, ACostThatIsGivenForTheFirstIsThatOfTheRow) {
  const LimitCost cost{"month", 200};
  EXPECT_EQ(ask(1, Verb::kTake, "", {&cost, 1}).decision.reason, Reason::kNever);
  const std::array<LimitCost, 2> costs{{{"month", 200}, {"credits", 20}}};
  EXPECT_EQ(charged(ask(1, Verb::kTake, "", costs)), "credits");
  EXPECT_EQ(left(), "100 30 ");
}

TEST_F(Overflow, HasOverridesForEachOfTheRow) {
  set("credits", {.kind = Override::Kind::kUnlimited});
  ask(100);
  EXPECT_EQ(charged(ask(1000)), "credits");
  set("credits", {.kind = Override::Kind::kBlocked});
  EXPECT_EQ(ask(1).decision.reason, Reason::kLimited);
  set("month", {.kind = Override::Kind::kBlocked});
  EXPECT_EQ(ask(1).decision.reason, Reason::kBlocked);
  set("month", {.kind = Override::Kind::kUnlimited});
  EXPECT_TRUE(ask(1000).limits.empty());
}

TEST_F(Overflow, ABudgetThatLeavesItsRowEndsItsHolds) {
  const Action hold{Verb::kHold, 1min};
  ask(80, hold, "a");
  EXPECT_EQ(charged(ask(30, hold, "b")), "credits");
  EXPECT_EQ(charged(ask(20, hold, "f")), "month");
  EXPECT_EQ(charged(ask(10, hold, "c")), "credits");
  // In these rules, `org` is not the first attribute.
  reload(
      "name: month, key: \"{zone|org}\", algorithm: budget, limit: 100, per: 1h, cost: "
      "\"{units|10}\"");
  EXPECT_EQ(charged(ask(0, Verb::kCancel, "f")), "month");
  EXPECT_EQ(charged(ask(15, hold, "d")), "month");
  EXPECT_EQ(ask(15, hold, "e").decision.reason, Reason::kLimited);
  EXPECT_TRUE(ask(30, hold, "b").decision.repeated);
  const RuleAnswer& settled = ask(20, Verb::kSettle, "b");
  EXPECT_EQ(charged(settled), "credits");
  EXPECT_EQ(settled.decision.reason, Reason::kOk);
  EXPECT_FALSE(settled.decision.late);
  EXPECT_EQ(charged(ask(0, {Verb::kExtend, 2min}, "c")), "credits");
  EXPECT_EQ(charged(ask(0, Verb::kCancel, "c")), "credits");
  EXPECT_TRUE(ask(5, Verb::kSettle, "unknown").decision.late);
  EXPECT_EQ(left(), "0 ");
  // The first one leaves, too; then the other one comes back.
  reload("name: credits, " + kKey + "algorithm: budget, limit: 50, per: never");
  EXPECT_EQ(charged(ask(70, Verb::kSettle, "a")), "month");
  EXPECT_EQ(left(), "30 ");
  clock_.advance(49h);
  reload("name: credits, " + kKey + "algorithm: budget, limit: 60, per: never");
  EXPECT_EQ(ask(1, hold, "g").limits.size(), 1u);
  reload("name: credits, " + kKey + "algorithm: budget, limit: 60, per: never, overflow: { name: " +
         "month, limit: 1, per: never }");
  reload("name: other, " + kKey + "algorithm: budget, limit: 60, per: never");
  EXPECT_TRUE(ask(1, Verb::kSettle, "g").decision.late);
}

TEST_F(Overflow, AHoldIsExtendedWhileItsKeyIsUnlimited) {
  const Action hold{Verb::kHold, 1min};
  const Action extend{Verb::kExtend, 2min};
  ask(80, hold, "a");
  EXPECT_EQ(charged(ask(30, hold, "b")), "credits");
  set("month", {.kind = Override::Kind::kUnlimited});
  for (const auto& [id, of] : {std::pair{"a", "month"}, {"b", "credits"}}) {
    const RuleAnswer& extended = ask(0, extend, id);
    EXPECT_EQ(charged(extended), of);
    EXPECT_EQ(extended.decision.ends_after, Duration{2min});
  }
  ask(10, hold, "c");
  EXPECT_TRUE(ask(0, extend, "c").decision.allowed()) << "nothing was held";
  EXPECT_TRUE(ask(0, extend, "c").limits.empty());
  overrides_.clear();
  EXPECT_EQ(ask(0, extend, "c").decision.reason, Reason::kGone);
  EXPECT_EQ(charged(ask(50, Verb::kSettle, "a")), "month");
  EXPECT_FALSE(ask(20, Verb::kSettle, "b").decision.late);
}

TEST_F(Overflow, AnExtensionGoesOnWithoutTheUnlimitedKeyThatHeldNothing) {
  use("name: month, " + kKey + "algorithm: budget, limit: 100, per: 1h }\n      - { name: day, " +
      kKey + "algorithm: budget, limit: 100, per: 1h");
  const Action extend{Verb::kExtend, 2min};
  ask(1, {Verb::kHold, 1min}, "both");
  set("month", {.kind = Override::Kind::kUnlimited});
  ask(1, {Verb::kHold, 1min}, "day");
  EXPECT_EQ(ask(0, extend, "both").limits.size(), 2u);
  const RuleAnswer& extended = ask(0, extend, "day");
  EXPECT_EQ(extended.decision.ends_after, Duration{2min});
  ASSERT_EQ(extended.limits.size(), 1u);
  EXPECT_EQ(extended.limits[0].limit->name, "day");
  EXPECT_EQ(ask(0, extend, "none").decision.reason, Reason::kGone);
}

TEST_F(Overflow, ABlockedBudgetAnswersForTheIdsThatItKnows) {
  const Action hold{Verb::kHold, 1min};
  ask(90);
  EXPECT_EQ(charged(ask(30, Verb::kTake, "a")), "credits");
  EXPECT_EQ(charged(ask(15, hold, "b")), "credits");
  ask(90, Verb::kRefund);
  set("credits", {.kind = Override::Kind::kBlocked});
  EXPECT_TRUE(ask(30, Verb::kTake, "a").decision.repeated);
  EXPECT_TRUE(ask(15, hold, "b").decision.repeated);
  EXPECT_EQ(charged(ask(20, hold, "c")), "month");
  EXPECT_EQ(ask(90, hold, "d").decision.reason, Reason::kLimited);
  EXPECT_EQ(charged(ask(10, Verb::kSettle, "b")), "credits");
  ask(0, Verb::kCancel, "c");
  overrides_.clear();
  EXPECT_EQ(left(), "100 10 ");
}

TEST_F(Overflow, ABudgetThatLeavesItsRowKeepsTheNumbersOfPlansAndOverrides) {
  const auto row = [](const std::string& credits) {
    return "name: month, " + kKey +
           "algorithm: budget, limit: 100, per: 1h,\n        overflow: { " + "name: " + credits +
           ", " + kKey + "limit: 100, per: 2s }";
  };
  const auto plans = [](const std::string& credits, const std::string& names) {
    std::string text = "    plan: { from: \"{plan}\", default: pro }\nplans:\n";
    for (const char name : names) {
      const std::string own = name == 'p' ? "limit: 1000, per: never" : "limit: 1, per: 2s";
      text += std::string("  ") + (name == 'p' ? "pro" : std::string(1, name)) +
              ": { month: { limit: 100, per: 1h }, " + credits + ": { " + own + " } }\n";
    }
    return text;
  };
  const Action hold{Verb::kHold, 1min};
  for (const bool has_plans : {true, false}) {
    use(row("credits"), has_plans ? plans("credits", "acp") : "");
    if (!has_plans) {
      set("credits", {.kind = Override::Kind::kNumbers, .limit = 1000, .per = kNeverEnds});
    }
    ask(0, Verb::kReset);
    EXPECT_EQ(charged(ask(100)), "month");
    EXPECT_EQ(charged(ask(600)), "credits");
    EXPECT_EQ(charged(ask(100, hold, "a")), "credits");
    reload(row("other"), has_plans ? plans("other", "bp") : "");
    clock_.advance(3s);
    EXPECT_NE(charged(ask(90, hold, "b")), "credits") << "it admits nothing";
    EXPECT_TRUE(ask(100, hold, "a").decision.repeated);
    const RuleAnswer& settled = ask(110, Verb::kSettle, "a");
    EXPECT_EQ(charged(settled), "credits");
    EXPECT_EQ(settled.decision.reason, Reason::kOk);
    EXPECT_EQ(settled.decision.spent, 710u);
  }
}

TEST_F(Overflow, TwelveBudgetsThatHaveLeftTheirRowEndTheirHolds) {
  const auto row = [&](int version) {
    std::string text;
    for (int i = 0; i < 4; ++i) {
      const std::string name = i == 0 ? "month" : "b" + std::to_string(version * 4 + i);
      text += i == 0 ? "name: month, algorithm: budget, " : ", overflow: { name: " + name + ", ";
      text += kKey + "limit: " + std::to_string(10 + i) + ", per: never";
    }
    return text + " } } }";
  };
  const Action hold{Verb::kHold, 1h};
  use(row(0));
  for (int version = 0; version < 5; ++version) {
    if (version > 0) reload(row(version));
    EXPECT_EQ(charged(ask(13, hold, std::to_string(version))),
              "b" + std::to_string(version * 4 + 3));
  }
  for (int version = 0; version < 5; ++version) {
    const RuleAnswer& settled = ask(1, Verb::kSettle, std::to_string(version));
    EXPECT_EQ(charged(settled), "b" + std::to_string(version * 4 + 3));
    EXPECT_FALSE(settled.decision.late);
  }
}

TEST_F(Overflow, WithoutTheAttributesOfOneOfTheRow) {
  use("name: month, key: \"{org}\", algorithm: budget, limit: 10, per: 1h, cost: \"{units}\",\n"
      "        overflow: { name: credits, key: \"{card}\", limit: 50, per: never }");
  EXPECT_EQ(charged(ask(5)), "none");
  EXPECT_EQ(ask(6).decision.reason, Reason::kLimited);
  EXPECT_EQ(ask(6).limits.size(), 1u);
  use("name: month, key: \"{card}\", algorithm: budget, limit: 10, per: 1h,\n"
      "        overflow: { name: credits, key: \"{org}\", limit: 50, per: never }");
  EXPECT_TRUE(ask(60).limits.empty());
}

}  // namespace
}  // namespace sluice::overflow_test
