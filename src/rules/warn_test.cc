// Limits with `warn` and rules with `degrade`: which answers are near, and what is wrong in a file.

#include <gtest/gtest.h>

#include <string>

#include "sluice/memory_store.h"
#include "sluice/rule_decider.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::warn_test {
namespace {

using namespace std::chrono_literals;

std::string file_with(const std::string& limit) {
  return "version: 1\nrules:\n  - name: r\n    limits: [ { name: a, key: \"{ip}\", " + limit +
         " } ]\n";
}

std::string errors_of(const std::string& warn) {
  const auto rules =
      RuleSet::parse(file_with("algorithm: gcra, limit: 1, per: 1s,\n        warn: " + warn), "f");
  return rules ? "ok" : rules.error().front().to_string();
}

class Warn : public ::testing::Test {
 protected:
  // Sets the limit of all requests.
  void use(const std::string& limit) { rules_ = RuleSet::parse(file_with(limit), "f").value(); }
  const LimitAnswer& ask(std::uint64_t cost = 1, Verb verb = Verb::kTake) {
    return decider_.decide(*rules_, Attributes{{"ip", "192.0.2.1"}}, {cost}, {}, verb).limits[0];
  }

  testing::ManualClock clock_;

 private:
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_};
  std::optional<RuleSet> rules_;
};

TEST(WarnField, IsAWholePercentage) {
  const auto rules =
      RuleSet::parse(file_with("algorithm: gcra, limit: 1, per: 1s, warn: 80%"), "f");
  EXPECT_EQ(rules->rules()[0].limits[0].warn_percent, 80);
  EXPECT_EQ(RuleSet::parse(file_with("algorithm: gcra, limit: 1, per: 1s"), "f")
                ->rules()[0]
                .limits[0]
                .warn_percent,
            0);
  EXPECT_EQ(errors_of("1%"), "ok");
  EXPECT_EQ(errors_of("100%"), "ok");
  EXPECT_EQ(errors_of("'80%'"), "ok");
  for (const std::string wrong : {"0%", "101%", "80", "80.5%", "-1%", "08%", "80 %", "most"}) {
    EXPECT_EQ(errors_of(wrong), "f:5:15: error: 'warn' is '" + wrong +
                                    "'; expected a whole percentage from 1% to 100%, such as 80%");
  }
  EXPECT_EQ(errors_of("[80%]"),
            "f:5:15: error: 'warn' is a list; expected a whole percentage from 1% to 100%, such as "
            "80%");
}

TEST_F(Warn, IsNearFromThePercentageOn) {
  use("algorithm: fixed_window, limit: 10, per: 1m, warn: 80%");
  for (int used = 1; used <= 10; ++used) EXPECT_EQ(ask().near, used >= 8) << used;
  EXPECT_TRUE(ask().near) << "a request that is denied";
  EXPECT_TRUE(ask(1, Verb::kPeek).near);
  clock_.advance(1min);
  EXPECT_FALSE(ask().near);
  EXPECT_FALSE(ask(100).near) << "denied, and most of the limit is left";
}

TEST_F(Warn, IsExactIfThePercentageIsNoWholeNumberOfUnits) {
  use("algorithm: fixed_window, limit: 3, per: 1m, warn: 67%");
  EXPECT_FALSE(ask(2).near) << "2 of 3 are 66.7 %";
  EXPECT_TRUE(ask().near);
  clock_.advance(1min);
  use("algorithm: fixed_window, limit: 4294967295, per: 1m, warn: 99%");
  EXPECT_FALSE(ask(4252017622).near);
  EXPECT_TRUE(ask(1).near);
}

TEST_F(Warn, IsOfTheBurstOfABucketAndEndsWhenItFills) {
  use("algorithm: token_bucket, limit: 1, per: 1s, burst: 10, warn: 50%");
  EXPECT_FALSE(ask(4).near);
  EXPECT_TRUE(ask(1).near);
  clock_.advance(2s);
  EXPECT_FALSE(ask(1).near);
}

TEST_F(Warn, CountsPermits) {
  use("algorithm: concurrency, limit: 2, lease: 1m, warn: 100%");
  EXPECT_FALSE(ask().near);
  EXPECT_TRUE(ask().near);
}

TEST_F(Warn, IsNotNearWithoutAPercentageOrAnythingToUse) {
  use("algorithm: fixed_window, limit: 1, per: 1m");
  EXPECT_FALSE(ask().near);
  use("algorithm: gcra, limit: 0, per: 1m, warn: 1%");
  EXPECT_FALSE(ask().near);
}

std::string degrade_errors(const std::string& degrade) {
  const auto rules =
      RuleSet::parse("version: 1\nrules:\n  - name: r\n    degrade: " + degrade +
                         "\n    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n",
                     "f");
  return rules ? "ok" : rules.error().front().to_string();
}

TEST(Degrade, HasAPercentageAndHeaders) {
  EXPECT_EQ(degrade_errors("{ at: 90%, headers: { x-model: small } }"), "ok");
  EXPECT_EQ(degrade_errors("{ at: 90% }"), "ok");
  EXPECT_EQ(degrade_errors("{ headers: { x-model: small } }"),
            "f:4:14: error: degrade lacks 'at'; expected 'at:' with a whole percentage from 1% to "
            "100%, such as 80%");
  EXPECT_EQ(degrade_errors("{ at: 90%, headers: { retry-after: 1 } }"),
            "f:4:36: error: a rule cannot set the header 'retry-after'; expected another name: the "
            "server sets this header itself");
  EXPECT_EQ(
      degrade_errors("{ at: 90%, headers: { x-model: \"{body.model}-small\" } }"),
      "f:4:45: error: 'x-model' has braces; expected text without '{' and '}': only headers of "
      "'reject' have names");
  EXPECT_EQ(degrade_errors("{ at: 90%, headers: { x-a: 1, X-A: 2 } }"),
            "f:4:44: error: duplicate header 'X-A'; expected each header once; upper and lower "
            "case do not differ");
}

TEST(Degrade, IsOfAllowedAnswersOfEnforcedRules) {
  const auto rules = RuleSet::parse(
      "version: 1\nrules:\n"
      "  - { name: a, continue: true, degrade: { at: 50%, headers: { x-m: a } },"
      " limits: [ { algorithm: fixed_window, limit: 4, per: 1m } ] }\n"
      "  - { name: b, continue: true, mode: shadow, degrade: { at: 1% },"
      " limits: [ { algorithm: fixed_window, limit: 4, per: 1m } ] }\n"
      "  - { name: c, degrade: { at: 75% },"
      " limits: [ { algorithm: fixed_window, limit: 4, per: 1m } ] }\n",
      "f");
  ASSERT_TRUE(rules) << rules.error().front().to_string();
  MemoryStore store;
  Limiter limiter(store);
  RuleDecider decider(limiter);
  const auto degraded = [&](Verb verb = Verb::kTake) {
    const RuleAnswer& answer = decider.decide(*rules, Attributes{}, {}, {}, verb);
    std::string out;
    for (const auto& matched : answer.matched) out += matched.degraded ? matched.rule->name : "-";
    EXPECT_EQ(answer.degraded(), out != "---");
    return out;
  };
  EXPECT_EQ(degraded(), "---");
  EXPECT_EQ(degraded(), "a--");
  EXPECT_EQ(degraded(), "a-c");
  EXPECT_EQ(degraded(Verb::kPeek), "a-c");
  EXPECT_EQ(degraded(), "a-c");
  EXPECT_EQ(degraded(), "---") << "it is denied";
}

}  // namespace
}  // namespace sluice::warn_test
