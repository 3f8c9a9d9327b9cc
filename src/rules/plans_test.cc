#include "rules/plans.h"

#include <gtest/gtest.h>

#include <string>

#include "core/limit.h"
#include "sluice/memory_store.h"
#include "sluice/rule_decider.h"

namespace sluice::plans_test {
namespace {

using namespace std::chrono_literals;

std::string messages(const auto& of) {
  std::string out;
  for (const RuleError& one : of) out.append(out.empty() ? "" : "\n").append(one.to_string());
  return out;
}

std::string errors_of(const std::string& yaml) {
  const auto rules = RuleSet::parse("version: 1\n" + yaml, "f");
  return rules ? "ok" : messages(rules.error());
}

constexpr const char* kPlans =
    "plans:\n"
    "  free: { requests: { limit: 2, per: 1m } }\n"
    "  pro:  { requests: { limit: 5, per: 1m, burst: 7 } }\n";

std::string with_limit(const std::string& limit) {
  return std::string(kPlans) +
         "rules:\n  - name: api\n    plan: { default: free }\n    limits: [ { " + limit + " } ]\n";
}

std::string with_plan(const std::string& plan) {
  return std::string(kPlans) + "rules:\n  - name: api\n    plan: { " + plan +
         " }\n    limits: [ { name: requests, algorithm: token_bucket } ]\n";
}

RuleSet parsed(const std::string& yaml) {
  auto rules = RuleSet::parse("version: 1\n" + yaml, "f");
  EXPECT_TRUE(rules) << messages(rules.error());
  return std::move(rules.value());
}

TEST(Plans, ReadsTheExampleOfTheContract) {
  const RuleSet rules = parsed(R"(
trusted: [header.x-plan, header.x-customer]
plans:                                    # numbers by name
  free: { requests: { limit: 60,   per: 1m }, tokens: { limit: 10000,  per: 1m } }
  pro:  { requests: { limit: 6000, per: 1m }, tokens: { limit: 500000, per: 1m } }
rules:
  - name: api
    match: { path: /v1/** }
    plan: { from: "{header.x-plan}", default: free }     # or: by key, through overrides
    limits:
      - { name: requests, key: "{header.x-customer}", algorithm: token_bucket }     # from the plan
      - { name: tokens,   key: "{header.x-customer}", algorithm: token_bucket, cost: "{body.max_tokens|500}" }
)");
  EXPECT_EQ(messages(rules.warnings()), "");
  const Rule& rule = rules.rules().front();
  EXPECT_EQ(rule.plans, (std::vector<std::string>{"free", "pro"}));
  EXPECT_EQ(rule.default_plan, "free");
  EXPECT_EQ(rule.plan_from, "{header.x-plan}");
  EXPECT_EQ(rule.limits[1].limit, token_bucket(10000).per(1min));
  EXPECT_EQ(rule.limits[1].by_plan,
            (std::vector<Limit>{token_bucket(10000).per(1min), token_bucket(500000).per(1min)}));
}

TEST(Plans, ExplainsAPlanThatLacksNumbers) {
  EXPECT_EQ(
      errors_of(with_limit("name: request, algorithm: gcra")),
      "f:3:3: error: the plan 'free' lacks numbers for the limit 'request' of the rule 'api'; "
      "expected request: { limit: ..., per: ... }; did you mean 'requests'?\n"
      "f:4:3: error: the plan 'pro' lacks numbers for the limit 'request' of the rule 'api'; "
      "expected request: { limit: ..., per: ... }; did you mean 'requests'?");
}

TEST(Plans, ExplainsTheChoiceOfAPlan) {
  EXPECT_EQ(errors_of(with_plan("default: fre")),
            "f:7:22: error: there is no plan 'fre'; expected one of: free or pro; did you mean "
            "'free'?");
  EXPECT_EQ(errors_of(with_plan("from: \"{ip}\"")),
            "f:7:11: error: plan lacks 'default'; expected 'default:' with text of 1 to 128 bytes");
  EXPECT_EQ(errors_of(with_plan("from: \"{ip} x\", default: free")),
            "f:7:19: error: 'from' is the text '{ip} x'; expected one attribute, such as "
            "\"{header.x-plan}\"");
  EXPECT_EQ(errors_of(with_plan("from: \"{ip\", default: free")),
            "f:7:20: error: '{' without '}'; expected {ATTRIBUTE}, or '{{' for the character "
            "itself");
  EXPECT_EQ(errors_of(with_plan("from: [x], default: free")),
            "f:7:19: error: 'from' is a list; expected a template in quotes, such as \"{ip}\"");
  EXPECT_EQ(errors_of(with_plan("defalt: free, default: pro")),
            "f:7:13: error: unknown key 'defalt'; expected one of: from, default; did you mean "
            "'default'?");
}

TEST(Plans, ExplainsNumbersThatTheAlgorithmCannotHave) {
  EXPECT_EQ(errors_of(with_limit("name: requests, algorithm: fixed_window")),
            "f:4:49: error: burst does not apply to fixed_window; it applies to leaky_bucket, "
            "token_bucket and gcra");
  EXPECT_NE(errors_of(with_limit("name: requests, algorithm: concurrency"))
                .find("'per' does not apply to concurrency; expected 'lease:'"),
            std::string::npos);
}

TEST(Plans, ExplainsNumbersThatAreMissingOrUnknown) {
  EXPECT_EQ(errors_of(std::string(kPlans) +
                      "rules:\n  - name: api\n    limits: [ { algorithm: gcra, per: 1s } ]\n"),
            "f:7:15: error: limit lacks 'limit'; expected 'limit:' with a whole number from 0 to "
            "9007199254740991, or 'plan:' in the rule");
  EXPECT_EQ(
      errors_of("plans: { free: { a: { limit: 1, per: 1s, brust: 2 } } }\nrules: []\n"),
      "f:2:42: error: unknown key 'brust'; expected one of: limit, per, lease, burst, prices; did "
      "you mean 'burst'?");
  EXPECT_EQ(errors_of("plans: { free: 5 }\nrules: []\n"),
            "f:2:16: error: the plan 'free' is '5'; expected a map from names of limits to their "
            "numbers");
}

TEST(Plans, KeepsTheLeaseOfALimitUnlessThePlanHasItsOwn) {
  const auto leased = [](auto limit, std::chrono::milliseconds lease) {
    LimitSpec spec = core::spec_of(limit);
    spec.lease = lease;
    return *Limit::make(spec);
  };
  const auto rules_with = [](const std::string& more) {
    return "plans:\n"
           "  free: { requests: { limit: 2, per: 1m } }\n"
           "  pro:  { requests: { limit: 5, per: 1m, lease: 2s } }\n"
           "rules:\n  - name: api\n    plan: { default: free }\n"
           "    limits: [ { name: requests, algorithm: token_bucket, lease: " +
           more + " } ]\n";
  };
  const std::vector<Limit> by_plan{leased(token_bucket(2).per(1min), 100ms),
                                   leased(token_bucket(5).per(1min), 2s)};
  for (const char* more : {"100ms", "100ms, limit: 9, per: 1s"}) {
    const auto rules = RuleSet::parse("version: 1\n" + rules_with(more), "f");
    ASSERT_TRUE(rules) << messages(rules.error());
    EXPECT_EQ(rules->rules().front().limits.front().by_plan, by_plan);
  }
  EXPECT_EQ(errors_of(rules_with("100ms, limit: 9")),
            "f:8:15: error: limit lacks 'per'; expected 'per:' with a whole number and its unit "
            "(ms, s, m, h or d), such as 60s, or day, week, month, year or never");
  EXPECT_EQ(errors_of(rules_with("11s")),
            "f:8:65: error: lease 11s is out of range; it must be 1ms to 10s");
}

TEST(Plans, WarnsAboutNumbersThatNoLimitTakes) {
  const RuleSet rules =
      parsed(with_limit("name: request, algorithm: token_bucket, limit: 9, per: 1s"));
  EXPECT_EQ(messages(rules.warnings()),
            "f:3:11: warning: the plan 'free' has numbers for 'requests', which no limit with a "
            "plan is called; expected the name of a limit of a rule with 'plan'\n"
            "f:4:11: warning: the plan 'pro' has numbers for 'requests', which no limit with a "
            "plan is called; expected the name of a limit of a rule with 'plan'");
  EXPECT_EQ(rules.rules().front().limits.front().limit, token_bucket(9).per(1s));
}

TEST(Plans, BoundsTheNumbersOfAFile) {
  std::string yaml = "plans:\n";
  for (int i = 0; i < 1000; ++i)
    yaml += "  p" + std::to_string(i) + ": { a: &n { limit: 1, per: 1s } }\n";
  for (std::size_t at = yaml.find("&n", yaml.find("&n") + 1); at != yaml.npos;
       at = yaml.find("&n", at)) {
    yaml.erase(at, 3);
  }
  yaml += "rules:\n";
  for (int i = 0; i < 101; ++i) {
    yaml += "  - { name: r" + std::to_string(i) +
            ", plan: { default: p1 }, limits: [ { name: a, algorithm: gcra } ] }\n";
  }
  EXPECT_NE(errors_of(yaml).find("too many limits with plans; expected at most 100000 in a file"),
            std::string::npos);
}

class PlanDecisions : public ::testing::Test {
 protected:
  const RuleAnswer& ask(std::string_view plan, Verb verb = Verb::kTake) {
    return decider_.decide(rules_, Attributes{{"ip", "::1"}, {"header.x-plan", plan}}, {},
                           Instant{1s}, verb);
  }

  RuleSet rules_ = parsed(with_plan("from: \"{header.x-plan}\", default: free"));
  MemoryStore store_;
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_};
};

TEST_F(PlanDecisions, TakesTheNumbersOfTheRequestsPlan) {
  EXPECT_EQ(ask("pro").limits.front().numbers, token_bucket(5).per(1min).burst(7));
  EXPECT_EQ(ask("pro").decision.capacity, 7u);
  EXPECT_EQ(ask("free").decision.capacity, 2u);
  EXPECT_EQ(ask("").limits.front().numbers, token_bucket(2).per(1min));
  EXPECT_FALSE(ask("").matched.front().has_unknown_plan);
}

TEST_F(PlanDecisions, GivesAnUnknownPlanTheDefault) {
  const RuleAnswer& answer = ask("gold");
  EXPECT_EQ(answer.limits.front().numbers, token_bucket(2).per(1min));
  EXPECT_TRUE(answer.matched.front().has_unknown_plan);
  EXPECT_EQ(answer.matched.front().plan, 0u);
  EXPECT_EQ(ask("pro").matched.front().plan, 1u);
  EXPECT_FALSE(ask("pro").matched.front().has_unknown_plan);
}

TEST_F(PlanDecisions, KeepsWhatWasConsumedWhenThePlanChanges) {
  EXPECT_TRUE(ask("free").decision.allowed());
  EXPECT_TRUE(ask("free").decision.allowed());
  EXPECT_FALSE(ask("free").decision.allowed());
  EXPECT_EQ(ask("pro", Verb::kPeek).decision.remaining, 4u);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(ask("pro").decision.allowed());
  EXPECT_FALSE(ask("pro").decision.allowed());
  EXPECT_FALSE(ask("free").decision.allowed());
}

}  // namespace
}  // namespace sluice::plans_test
