#include <gtest/gtest.h>

#include <string>

#include "sluice/algorithm.h"
#include "sluice/attributes.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/rule_decider.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::rule_blocks_test {
namespace {

using namespace std::chrono_literals;

// A file with one rule, whose limit has this block. The block begins in line 5, column 16.
std::string file_with(const std::string& block, const std::string& more = {}) {
  return "version: 1\nrules:\n  - name: login\n    limits: [ { name: ip, key: \"{ip}\", algorithm: "
         "fixed_window, limit: 1, per: 1m,\n        block: " +
         block + " } ]\n" + more;
}

std::string errors_of(const std::string& block, const RuleTerms& terms = {}) {
  const auto rules = RuleSet::parse(file_with(block), "f", terms);
  if (rules) return "ok";
  std::string out;
  for (const RuleError& error : rules.error()) out += error.to_string() + "\n";
  return out;
}

// Fails each request.
class FailingStore final : public Store {
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    std::ranges::fill(each, Decision::refused(Reason::kStoreError));
    return each[0];
  }
};

TEST(RuleBlocks, AreReadWithTheirDefaults) {
  const auto rules =
      RuleSet::parse(file_with("{ after: 5, within: 10m, for: 15m, grow: 2, at_most: 24h }"), "f");
  ASSERT_TRUE(rules);
  const auto& block = rules->rules()[0].limits[0].block;
  ASSERT_TRUE(block);
  EXPECT_EQ(*block, *Block::make({.after = 5, .within = 10min, .time = 15min, .growth = 200}));
  const auto brief = RuleSet::parse(file_with("{ after: 1, within: 1s, for: 2d }"), "f");
  EXPECT_EQ(brief->rules()[0].limits[0].block->at_most(), 48h);
  EXPECT_EQ(brief->rules()[0].limits[0].block->growth(), 100u);
}

TEST(RuleBlocks, AreRefusedWithTheirPlaceAndWhatWouldBeRight) {
  EXPECT_EQ(errors_of("{ after: 0, within: 10m, for: 15m }"),
            "f:5:25: error: 'after' is '0'; expected a whole number from 1 to 100\n");
  EXPECT_EQ(errors_of("{ after: 101, within: 10m, for: 15m }"),
            "f:5:25: error: 'after' is '101'; expected a whole number from 1 to 100\n");
  EXPECT_EQ(errors_of("{ after: 5, within: 10m }"),
            "f:5:16: error: block lacks 'for'; expected 'for:' with a period from 1ms to 366d\n");
  EXPECT_EQ(
      errors_of("{ after: 5, within: 10, for: 15m }"),
      "f:5:36: error: 'within': '10' has no unit; expected a whole number and its unit (ms, s, "
      "m, h or d), such as 10s\n");
  EXPECT_EQ(errors_of("{ after: 5, within: 10m, for: 15m, grow: 1.5 }"),
            "f:5:57: error: 'grow' is '1.5'; expected a whole number from 1 to 100, in "
            "plain digits\n");
  EXPECT_EQ(errors_of("{ after: 5, within: 10m, for: 15m, grow: 0 }"),
            "f:5:57: error: 'grow' is '0'; expected a whole number from 1 to 100\n");
  EXPECT_EQ(errors_of("{ after: 5, within: 10m, for: 15m, at_most: 10m }"),
            "f:5:60: error: 'at_most' is 10m, and 'for' is 15m; expected at least 15m\n");
  EXPECT_EQ(errors_of("{ after: 5, within: 10m, for: 367d }"),
            "f:5:46: error: 'for' is '367d'; expected a period from 1ms to 366d\n");
}

TEST(RuleBlocks, NeedScripts) {
  const RuleTerms off{.scripting = false};
  EXPECT_NE(errors_of("{ after: 5, within: 10m, for: 15m }", off)
                .find("'block' needs scripts, and the store has none (scripting: off); expected no "
                      "'block'"),
            std::string::npos);
}

class DecidedBlocks : public ::testing::Test {
 protected:
  const RuleAnswer& ask(const std::string& ip = "192.0.2.1", Action action = Verb::kTake) {
    return decider_.decide(rules_, Attributes{{"ip", ip}}, {}, {}, action);
  }
  void load(const std::string& more) {
    rules_ = *RuleSet::parse(file_with("{ after: 2, within: 10m, for: 15m }", more), "f");
  }

  testing::ManualClock clock_;
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_};
  RuleSet rules_ = *RuleSet::parse(file_with("{ after: 2, within: 10m, for: 15m }"), "f");
};

TEST_F(DecidedBlocks, DenyAKeyAndNoOther) {
  EXPECT_TRUE(ask().decision);
  EXPECT_EQ(ask().decision.reason, Reason::kLimited);
  const RuleAnswer& third = ask();
  EXPECT_EQ(third.decision.reason, Reason::kBlocked);
  EXPECT_EQ(third.decision.retry_after, 15min);
  EXPECT_TRUE(third.limits[0].decision.starts_block);
  EXPECT_TRUE(ask("192.0.2.2").decision);
  clock_.advance(15min);
  EXPECT_TRUE(ask().decision);
}

TEST_F(DecidedBlocks, OfShadowRulesCountForThemselvesAndNeverDeny) {
  load("    mode: shadow\n");
  for (int i = 0; i < 5; ++i) {
    const RuleAnswer& answer = ask();
    EXPECT_TRUE(answer.decision);
    EXPECT_EQ(answer.limits[0].decision.reason, i == 0   ? Reason::kOk
                                                : i == 1 ? Reason::kLimited
                                                         : Reason::kBlocked);
  }
}

TEST_F(DecidedBlocks, EndWithAResetOfTheRule) {
  for (int i = 0; i < 3; ++i) ask();
  EXPECT_EQ(ask().decision.reason, Reason::kBlocked);
  ask("192.0.2.1", Verb::kReset);
  EXPECT_TRUE(ask().decision);
}

TEST_F(DecidedBlocks, DoNotStartByAStoreThatFails) {
  FailingStore failing;
  load("    on_store_error: deny\n");
  Limiter limiter(failing);
  RuleDecider decider(limiter);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(decider.decide(rules_, Attributes{{"ip", "192.0.2.1"}}).decision.reason,
              Reason::kFallback);
  }
  EXPECT_TRUE(ask().decision);
}

TEST_F(DecidedBlocks, OfTheLocalStoreStartInItToo) {
  FailingStore failing;
  load("    on_store_error: local\n");
  Limiter limiter(failing);
  RuleDecider decider(limiter, {.local = &store_});
  Duration waits{0};
  for (int i = 0; i < 3; ++i) {
    waits = decider.decide(rules_, Attributes{{"ip", "192.0.2.1"}})
                .decision.retry_after.value_or(Duration{0});
  }
  EXPECT_EQ(waits, 15min);
}

// A key whose override says `unlimited`, of a limit with a block.
class UnlimitedKeys : public DecidedBlocks {
 protected:
  UnlimitedKeys() { give({.kind = Override::Kind::kUnlimited}); }

  void give(const Override& given) {
    const auto key = name_override(rules_, "login", "ip", Attributes{{"ip", "192.0.2.1"}}, given);
    ASSERT_TRUE(key) << key.error();
    ASSERT_TRUE(overrides_.set(*key, given));
  }
  const RuleAnswer& decide(Action action = Verb::kTake, std::uint64_t cost = 1) {
    return overridden_.decide(rules_, ip_, cost, clock_.now(), action);
  }
  void block(Duration time) { EXPECT_TRUE(decide({Verb::kBlock, time}).decision); }

  const Attributes ip_{{"ip", "192.0.2.1"}};
  Overrides overrides_;
  RuleDecider overridden_{limiter_, {.overrides = &overrides_}};
};

TEST_F(UnlimitedKeys, AreDeniedWhileTheyAreBlocked) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(decide().decision, Decision{});
    EXPECT_TRUE(decide().limits.empty());
  }
  block(15min);
  for (const Verb verb : {Verb::kTake, Verb::kPeek, Verb::kTakeAtMost, Verb::kReserve}) {
    const RuleAnswer& answer = decide(verb);
    EXPECT_EQ(answer.decision.reason, Reason::kBlocked);
    EXPECT_EQ(answer.decision.retry_after, 15min);
    EXPECT_EQ(answer.decision.capacity, 1u);
    ASSERT_EQ(answer.limits.size(), 1u);
    EXPECT_EQ(answer.limits[0].decision, answer.decision);
    EXPECT_EQ(answer.limits[0].counter, "default|login|ip|ip=192.0.2.1");
  }
  clock_.advance(15min - 1us);
  EXPECT_EQ(decide().decision.retry_after, 1us);
  clock_.advance(1us);
  EXPECT_TRUE(decide(Verb::kTake, 1000).decision);
}

TEST_F(UnlimitedKeys, AreUnblockedByHandAndByAReset) {
  for (const Verb verb : {Verb::kUnblock, Verb::kReset}) {
    block(15min);
    EXPECT_FALSE(decide().decision);
    EXPECT_TRUE(decide(verb).decision);
    EXPECT_TRUE(decide().decision);
  }
}

TEST_F(UnlimitedKeys, StayBlockedAfterDenials) {
  overrides_.clear();
  for (int i = 0; i < 3; ++i) decide();
  give({.kind = Override::Kind::kUnlimited});
  clock_.advance(1min);  // the window is over
  EXPECT_EQ(decide().decision.retry_after, 14min);
  clock_.advance(14min);
  EXPECT_TRUE(decide().decision);
}

TEST_F(UnlimitedKeys, WaitForTheirBlockAndNotForTheLimitThatDoesNotApply) {
  overrides_.clear();
  EXPECT_TRUE(decide().decision);
  EXPECT_EQ(decide().decision.retry_after, 1min);
  give({.kind = Override::Kind::kUnlimited});
  block(1s);
  EXPECT_EQ(decide().decision.retry_after, 1s);
}

TEST_F(UnlimitedKeys, AreOfAnyAlgorithm) {
  for (const AlgorithmInfo& row : kAlgorithms) {
    std::string text =
        "version: 1\nrules:\n  - name: login\n    limits: [ { name: ip, key: "
        "\"{ip}\", limit: 0, per: 1m, algorithm: " +
        std::string(row.name) + ",\n block: { after: 2, within: 10m, for: 15m } } ]\n";
    if (row.state == StateKind::kPermits) text.replace(text.find("per:"), 4, "lease:");
    const auto rules = RuleSet::parse(text, "f");
    ASSERT_TRUE(rules) << text << rules.error().front().to_string();
    rules_ = *rules;
    EXPECT_TRUE(decide(Verb::kTake, 5).decision) << row.name;
    block(15min);
    EXPECT_EQ(decide(Verb::kTake, 5).decision.reason, Reason::kBlocked) << row.name;
    EXPECT_EQ(decide().decision.retry_after, 15min) << row.name;
    EXPECT_TRUE(decide(Verb::kUnblock).decision);
  }
}

TEST_F(UnlimitedKeys, AndOtherLimitsAreOneDecision) {
  std::string text = file_with("{ after: 2, within: 10m, for: 15m }",
                               "    continue: true\n  - name: all\n    limits: [ { name: all, "
                               "algorithm: fixed_window, limit: 3, per: 1h } ]\n");
  rules_ = *RuleSet::parse(text, "f");
  EXPECT_EQ(decide().decision.remaining, 2u);
  EXPECT_EQ(decide().decision.remaining, 1u);
  EXPECT_EQ(decide(Verb::kPeek).limits.size(), 1u);
  block(15min);
  const RuleAnswer& answer = decide();
  EXPECT_EQ(answer.decision.reason, Reason::kBlocked);
  EXPECT_EQ(answer.rule->name, "login");
  ASSERT_EQ(answer.limits.size(), 2u);
  EXPECT_EQ(answer.limits[1].decision.remaining, 1u) << "a denied request takes nothing";
  EXPECT_TRUE(decide(Verb::kUnblock).decision);
  EXPECT_EQ(decide().decision.remaining, 0u);
  EXPECT_EQ(decide().decision.reason, Reason::kLimited);
}

TEST_F(UnlimitedKeys, OfShadowRulesAreCountedAndPass) {
  load("    mode: shadow\n");
  EXPECT_EQ(decide().decision.reason, Reason::kOk);
  block(15min);
  const RuleAnswer& answer = decide();
  EXPECT_EQ(answer.decision.reason, Reason::kShadow);
  ASSERT_EQ(answer.limits.size(), 1u);
  EXPECT_EQ(answer.limits[0].decision.reason, Reason::kBlocked);
}

TEST_F(UnlimitedKeys, AreReportedRefundedAndChargedNowhere) {
  block(15min);
  for (const Verb verb : {Verb::kRefund, Verb::kCharge}) {
    EXPECT_EQ(decide(verb).decision, Decision{});
    EXPECT_TRUE(decide(verb).limits.empty());
  }
  EXPECT_EQ(store_.stats().keys, 0u);
}

TEST_F(UnlimitedKeys, FollowThePolicyIfTheStoreFails) {
  FailingStore failing;
  Limiter limiter(failing);
  RuleDecider decider(limiter, {.local = &store_, .overrides = &overrides_});
  for (const auto& [policy, allowed] :
       {std::pair{"allow", true}, std::pair{"deny", false}, std::pair{"local", true}}) {
    load("    on_store_error: " + std::string(policy) + "\n");
    const Decision decision = decider.decide(rules_, ip_, 1, clock_.now()).decision;
    EXPECT_EQ(decision.allowed(), allowed) << policy;
    EXPECT_EQ(decision.reason, Reason::kFallback) << policy;
  }
  block(15min);  // of the local store
  EXPECT_FALSE(decider.decide(rules_, ip_, 1, clock_.now()).decision);
}

class BlockedKeys : public UnlimitedKeys {};

TEST_F(BlockedKeys, WaitForTheLongerOfAnOverrideAndABlock) {
  block(15min);
  give({.kind = Override::Kind::kBlocked, .until = clock_.now() + 5min});
  EXPECT_EQ(decide().decision.retry_after, 15min);
  EXPECT_EQ(decide().limits[0].decision.retry_after, 15min);
  EXPECT_EQ(decide().decision.reset_after, 15min);
  give({.kind = Override::Kind::kBlocked, .until = clock_.now() + 20min});
  EXPECT_EQ(decide().decision.retry_after, 20min);
  give({.kind = Override::Kind::kBlocked});
  EXPECT_EQ(decide().decision.retry_after, std::nullopt);
  EXPECT_EQ(decide().decision.reason, Reason::kBlocked);
}

TEST_F(BlockedKeys, StayBlockedByAnOverrideIfTheStoreFails) {
  FailingStore failing;
  Limiter limiter(failing);
  RuleDecider decider(limiter, {.local = &store_, .overrides = &overrides_});
  give({.kind = Override::Kind::kBlocked, .until = clock_.now() + 5min});
  for (const char* const policy : {"allow", "deny", "local"}) {
    load("    on_store_error: " + std::string(policy) + "\n");
    const RuleAnswer& answer = decider.decide(rules_, ip_, 1, clock_.now());
    EXPECT_EQ(answer.decision.reason, Reason::kBlocked) << policy;
    EXPECT_EQ(answer.decision.retry_after, 5min) << policy;
    EXPECT_EQ(answer.limits[0].decision.capacity, 1u) << policy;
    EXPECT_FALSE(decider.decide(rules_, ip_, 1, clock_.now()).decision) << policy;
  }
  give({.kind = Override::Kind::kBlocked});
  EXPECT_EQ(decider.decide(rules_, ip_, 1, clock_.now()).decision.retry_after, std::nullopt);
}

// A limit of the request has no policy that could answer for it.
TEST_F(BlockedKeys, AreDeniedNextToALimitThatFails) {
  FailingStore failing;
  Limiter limiter(failing);
  RuleDecider decider(limiter, {.overrides = &overrides_});
  std::string text =
      file_with("{ after: 2, within: 10m, for: 15m }", "    on_store_error: local\n");
  text.insert(text.find("  - name: login"),
              "  - name: all\n    continue: true\n    on_store_error: local\n    limits: [ { "
              "algorithm: fixed_window, limit: 3, per: 1h } ]\n");
  rules_ = *RuleSet::parse(text, "f");
  give({.kind = Override::Kind::kBlocked, .until = clock_.now() + 5min});
  const RuleAnswer& answer = decider.decide(rules_, ip_, 1, clock_.now());
  ASSERT_EQ(answer.limits.size(), 2u);
  EXPECT_EQ(answer.decision.outcome, Outcome::kDenied);
  EXPECT_EQ(answer.decision.reason, Reason::kBlocked);
  EXPECT_EQ(answer.decision.retry_after, 5min);
}

TEST_F(BlockedKeys, OfShadowRulesAreCountedAndPass) {
  load("    mode: shadow\n");
  give({.kind = Override::Kind::kBlocked});
  const RuleAnswer& answer = decide();
  EXPECT_EQ(answer.decision.reason, Reason::kShadow);
  EXPECT_EQ(answer.limits[0].decision.reason, Reason::kBlocked);
}

}  // namespace
}  // namespace sluice::rule_blocks_test
