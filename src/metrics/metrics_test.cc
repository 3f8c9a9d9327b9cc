#include "metrics/metrics.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "metrics/test_text.h"

namespace sluice::metrics {
namespace {

using std::chrono::nanoseconds;

RuleSet parse(const std::string& rules) {
  auto parsed = RuleSet::parse("version: 1\nrules:\n" + rules, "test");
  if (!parsed) throw std::runtime_error(parsed.error().front().to_string());
  return parsed.value();
}

// Returns a rule with limits of these names. If YAML needs quotes, the names contain them.
std::string rule(const std::string& name, const std::vector<std::string>& limits,
                 const std::string& more = "") {
  std::string text = "  - name: " + name + "\n" + more + "    limits:\n";
  for (const auto& limit : limits) {
    text += "      - { name: " + limit + ", algorithm: gcra, limit: 1, per: 1s }\n";
  }
  return text;
}

constexpr const char* kShadowMode = "    mode: shadow\n";

Decision decision(Outcome outcome, Reason reason) {
  Decision made;
  made.outcome = outcome;
  made.reason = reason;
  return made;
}
const Decision kAllowed = decision(Outcome::kAllowed, Reason::kOk);
const Decision kDenied = decision(Outcome::kDenied, Reason::kLimited);

// Returns the answer of the rule, with one answer for each of its limits in order.
RuleAnswer answer_of(const Rule& rule, const Decision& whole, const std::vector<Decision>& limits) {
  RuleAnswer answer;
  answer.decision = whole;
  answer.rule = &rule;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    answer.limits.push_back({&rule, &rule.limits[i], {}, {}, limits[i]});
  }
  return answer;
}

std::string requests(const std::string& rule, const std::string& outcome,
                     const std::string& reason) {
  return "sluice_requests_total{rule=\"" + rule + "\",outcome=\"" + outcome + "\",reason=\"" +
         reason + "\"}";
}

std::string decisions(const std::string& rule, const std::string& limit, const std::string& outcome,
                      const std::string& reason) {
  return "sluice_decisions_total{rule=\"" + rule + "\",limit=\"" + limit + "\",outcome=\"" +
         outcome + "\",reason=\"" + reason + "\"}";
}

std::string shadow_denials(const std::string& rule, const std::string& limit) {
  return "sluice_shadow_denials_total{rule=\"" + rule + "\",limit=\"" + limit + "\"}";
}

class Metrics : public ::testing::Test {
 protected:
  std::string value(const std::string& series) const { return value_of(registry_.text(), series); }

  Registry registry_;
  Recorder& recorder_ = registry_.make_recorder();
};

TEST_F(Metrics, CountEachLimitByOutcomeAndReason) {
  const RuleSet rules = parse(rule("first", {"x"}) + rule("order", {"global", "user"}));
  recorder_.use(rules);
  const Rule& order = rules.rules()[1];
  recorder_.count(answer_of(order, kAllowed, {kAllowed, kAllowed}));
  recorder_.count(answer_of(order, kDenied, {kAllowed, kDenied}));
  recorder_.count(answer_of(order, decision(Outcome::kAllowed, Reason::kFallback),
                            {decision(Outcome::kAllowed, Reason::kFallback)}));
  EXPECT_EQ(value(decisions("order", "global", "allowed", "ok")), "2");
  EXPECT_EQ(value(decisions("order", "global", "allowed", "fallback")), "1");
  EXPECT_EQ(value(decisions("order", "user", "allowed", "ok")), "1");
  EXPECT_EQ(value(decisions("order", "user", "denied", "limited")), "1");
  EXPECT_EQ(value(decisions("first", "x", "allowed", "ok")), "0");
}

TEST_F(Metrics, CountRequestsByTheRuleThatDecided) {
  const RuleSet rules = parse(rule("a", {"x"}) + rule("b", {"x"}));
  recorder_.use(rules);
  recorder_.count(answer_of(rules.rules()[1], kDenied, {kDenied}));
  recorder_.count(answer_of(rules.rules()[1], decision(Outcome::kAllowed, Reason::kShadow), {}));
  recorder_.count(RuleAnswer{});
  recorder_.count(RuleAnswer{});
  EXPECT_EQ(value(requests("b", "denied", "limited")), "1");
  EXPECT_EQ(value(requests("b", "allowed", "shadow")), "1");
  EXPECT_EQ(value(requests("b", "allowed", "ok")), "0");
  EXPECT_EQ(value(requests("a", "denied", "limited")), "0");
  EXPECT_EQ(value(requests("", "allowed", "ok")), "2");
}

TEST_F(Metrics, StartAtZeroIfRatesAreComputedFromThem) {
  recorder_.use(parse(rule("a", {"x"})));
  EXPECT_EQ(value(decisions("a", "x", "allowed", "ok")), "0");
  EXPECT_EQ(value(decisions("a", "x", "denied", "limited")), "0");
  EXPECT_EQ(value(decisions("a", "x", "denied", "never")), "absent");
  EXPECT_EQ(value(requests("", "allowed", "ok")), "0");
  EXPECT_EQ(value(requests("", "denied", "limited")), "absent");
  EXPECT_EQ(value(shadow_denials("a", "x")), "absent");
}

TEST_F(Metrics, CountBlocksThatStartAndNotTheDenialsOfOnesThatLast) {
  const RuleSet rules =
      parse(rule("plain", {"x"}) +
            "  - name: login\n    limits: [ { name: ip, algorithm: gcra, limit: 1, per: 1s,\n"
            "        block: { after: 1, within: 1s, for: 1s } } ]\n");
  recorder_.use(rules);
  const std::string blocks = "sluice_blocks_total{rule=\"login\",limit=\"ip\"}";
  EXPECT_EQ(value(blocks), "0");
  const Decision lasting = decision(Outcome::kDenied, Reason::kBlocked);
  Decision starting = lasting;
  starting.starts_block = true;
  for (const Decision& said : {starting, lasting, lasting}) {
    recorder_.count(answer_of(rules.rules()[1], said, {said}));
  }
  EXPECT_EQ(value(blocks), "1");
  EXPECT_EQ(value(decisions("login", "ip", "denied", "blocked")), "3");
  EXPECT_EQ(value("sluice_blocks_total{rule=\"plain\",limit=\"x\"}"), "absent");
}

TEST_F(Metrics, CountKeysNearLimitsThatWarn) {
  const RuleSet rules =
      parse(rule("plain", {"x"}) +
            "  - name: api\n    limits:\n"
            "      - { name: a, algorithm: gcra, limit: 1, per: 1s, warn: 80% }\n"
            "      - { name: b, algorithm: gcra, limit: 1, per: 1s, warn: 80% }\n");
  recorder_.use(rules);
  const auto near = [&](const std::string& limit) {
    return value("sluice_near_keys_total{rule=\"api\",limit=\"" + limit + "\"}");
  };
  EXPECT_EQ(near("a"), "0");
  recorder_.count(answer_of(rules.rules()[1], kAllowed, {kAllowed, kAllowed}), 0b10);
  recorder_.count_late(rules, answer_of(rules.rules()[1], kAllowed, {kAllowed, kAllowed}), 0b11);
  recorder_.count(answer_of(rules.rules()[1], kAllowed, {kAllowed, kAllowed}));
  EXPECT_EQ(near("a"), "1");
  EXPECT_EQ(near("b"), "2");
  EXPECT_EQ(value("sluice_near_keys_total{rule=\"plain\",limit=\"x\"}"), "absent");
}

TEST_F(Metrics, CountRequestsWithAnUnknownPlan) {
  const RuleSet rules = parse(rule("plain", {"x"}) +
                              "  - name: api\n    plan: { default: pro }\n"
                              "    limits: [ { name: y, algorithm: gcra } ]\n"
                              "plans: { pro: { y: { limit: 2, per: 1s } } }\n");
  recorder_.use(rules);
  const std::string unknown = "sluice_unknown_plans_total{rule=\"api\"}";
  EXPECT_EQ(value(unknown), "0");
  EXPECT_EQ(value("sluice_unknown_plans_total{rule=\"plain\"}"), "absent");
  RuleAnswer answer = answer_of(rules.rules()[1], kAllowed, {kAllowed});
  answer.matched = {{.rule = &rules.rules()[1], .plan = 0}};
  recorder_.count(answer);
  EXPECT_EQ(value(unknown), "0");
  answer.matched.front().has_unknown_plan = true;
  recorder_.count(answer);
  recorder_.count(answer);
  EXPECT_EQ(value(unknown), "2");
}

TEST_F(Metrics, CountLimitsThatWereSkipped) {
  const RuleSet rules = parse(
      "  - name: r\n    limits:\n"
      "      - { name: user, key: \"{header.x-user}\", algorithm: gcra, limit: 1, per: 1s }\n"
      "      - { name: all, algorithm: gcra, limit: 1, per: 1s }\n");
  recorder_.use(rules);
  const Rule& rule = rules.rules().front();
  const std::string of_user = "sluice_limits_skipped_total{rule=\"r\",limit=\"user\"}";
  EXPECT_EQ(value(of_user), "0");
  EXPECT_EQ(value("sluice_limits_skipped_total{rule=\"r\",limit=\"all\"}"), "absent");
  RuleAnswer answer = answer_of(rule, kAllowed, {});
  answer.skipped = {{&rule, &rule.limits.front()}};
  recorder_.count(answer);
  recorder_.count(answer);
  EXPECT_EQ(value(of_user), "2");
}

TEST_F(Metrics, CountShadowDenialsOfShadowRulesOnly) {
  const RuleSet rules = parse(rule("trial", {"x", "y"}, kShadowMode) + rule("real", {"x"}));
  recorder_.use(rules);
  EXPECT_EQ(value(shadow_denials("trial", "x")), "0");
  recorder_.count(answer_of(rules.rules()[0], kAllowed, {kDenied, kAllowed}));
  recorder_.count(answer_of(rules.rules()[1], kDenied, {kDenied}));
  EXPECT_EQ(value(shadow_denials("trial", "x")), "1");
  EXPECT_EQ(value(shadow_denials("trial", "y")), "0");
  EXPECT_EQ(value(shadow_denials("real", "x")), "absent");
  EXPECT_EQ(value(decisions("trial", "x", "denied", "limited")), "1");
}

TEST_F(Metrics, CountShadowRulesThatOnlyDeny) {
  const RuleSet rules = parse("  - { name: trial, action: deny, mode: shadow }\n" +
                              rule("real", {"x"}) + "  - { name: office, action: allow }\n");
  recorder_.use(rules);
  EXPECT_EQ(value(shadow_denials("trial", "")), "0");
  EXPECT_EQ(value(shadow_denials("office", "")), "absent");
  RuleAnswer answer = answer_of(rules.rules()[1], kDenied, {kDenied});
  answer.matched = {{&rules.rules()[0], true}, {&rules.rules()[1], true}};
  recorder_.count(answer);
  EXPECT_EQ(value(shadow_denials("trial", "")), "1");
  EXPECT_EQ(value(requests("real", "denied", "limited")), "1");
}

TEST_F(Metrics, OfRetainedNamesContinueInAnyPosition) {
  const RuleSet before = parse(rule("trial", {"x", "y"}, kShadowMode) + rule("gone", {"x"}));
  recorder_.use(before);
  recorder_.count(answer_of(before.rules()[0], kDenied, {kDenied, kAllowed}));
  recorder_.count(answer_of(before.rules()[1], kDenied, {kDenied}));
  const RuleSet after = parse(rule("new", {"x"}) + rule("trial", {"z", "x"}));
  recorder_.use(after);
  EXPECT_EQ(value(decisions("trial", "x", "denied", "limited")), "1");
  EXPECT_EQ(value(requests("trial", "denied", "limited")), "1");
  EXPECT_EQ(value(shadow_denials("trial", "x")), "1") << "though the rule is enforced now";
  recorder_.count(answer_of(after.rules()[1], kDenied, {kDenied, kDenied}));
  EXPECT_EQ(value(decisions("trial", "x", "denied", "limited")), "2");
  EXPECT_EQ(value(shadow_denials("trial", "x")), "1");
  EXPECT_EQ(value(decisions("trial", "z", "denied", "limited")), "1");
  EXPECT_EQ(value(decisions("new", "x", "denied", "limited")), "0");
}

TEST_F(Metrics, OfNamesThatAreGoneAreForgotten) {
  const RuleSet before = parse(rule("a", {"x", "y"}) + rule("gone", {"x"}));
  recorder_.use(before);
  recorder_.count(answer_of(before.rules()[0], kDenied, {kDenied, kDenied}));
  recorder_.count(answer_of(before.rules()[1], kDenied, {kDenied}));
  recorder_.use(parse(rule("a", {"x"})));
  EXPECT_EQ(value(decisions("a", "x", "denied", "limited")), "1");
  EXPECT_EQ(value(decisions("a", "y", "denied", "limited")), "absent");
  EXPECT_EQ(value(decisions("gone", "x", "denied", "limited")), "absent");
  EXPECT_EQ(value(requests("gone", "denied", "limited")), "absent");
  recorder_.use(before);
  EXPECT_EQ(value(decisions("gone", "x", "denied", "limited")), "0");
}

TEST_F(Metrics, OfAnswersThatComeLateCountForTheNamesThatAreStillUsed) {
  const RuleSet before = parse(rule("a", {"x", "y"}) + rule("gone", {"x"}));
  const RuleSet after = parse(rule("new", {"x"}) + rule("a", {"x"}));
  recorder_.use(before);
  EXPECT_TRUE(recorder_.uses(before));
  recorder_.use(after);
  EXPECT_FALSE(recorder_.uses(before));
  recorder_.count_late(before, answer_of(before.rules()[0], kDenied, {kDenied, kDenied}));
  recorder_.count_late(before, answer_of(before.rules()[1], kDenied, {kDenied}));
  EXPECT_TRUE(recorder_.uses(after));
  EXPECT_EQ(value(decisions("a", "x", "denied", "limited")), "1");
  EXPECT_EQ(value(requests("a", "denied", "limited")), "1");
  EXPECT_EQ(value(decisions("a", "y", "denied", "limited")), "absent");
  EXPECT_EQ(value(requests("gone", "denied", "limited")), "absent");
  EXPECT_EQ(value(decisions("new", "x", "denied", "limited")), "0");
}

TEST_F(Metrics, OfSeveralRecordersAreSummedAndShownWhileAnyUsesTheName) {
  Recorder& other = registry_.make_recorder();
  const RuleSet before = parse(rule("a", {"x"}));
  const RuleSet after = parse(rule("b", {"x"}));
  for (Recorder* recorder : {&recorder_, &other}) {
    recorder->use(before);
    recorder->count(answer_of(before.rules()[0], kDenied, {kDenied}));
  }
  EXPECT_EQ(value(decisions("a", "x", "denied", "limited")), "2");
  recorder_.use(after);
  EXPECT_EQ(value(decisions("a", "x", "denied", "limited")), "2") << "less would look like a reset";
  EXPECT_EQ(value(decisions("b", "x", "denied", "limited")), "0");
  other.use(after);
  EXPECT_EQ(value(decisions("a", "x", "denied", "limited")), "absent");
}

TEST_F(Metrics, KeepCountsWithoutARuleWhenRulesChange) {
  recorder_.count(RuleAnswer{});
  recorder_.use(parse(rule("a", {"x"})));
  recorder_.count(RuleAnswer{});
  recorder_.use(parse(rule("b", {"x"})));
  EXPECT_EQ(value(requests("", "allowed", "ok")), "2");
}

TEST_F(Metrics, DoNotCountAnswersOfRulesThatAreNotInUse) {
  recorder_.use(parse(rule("a", {"x"})));
  const RuleSet others = parse(rule("b", {"x"}));
  recorder_.count(answer_of(others.rules()[0], kDenied, {kDenied}));
  EXPECT_EQ(value(decisions("a", "x", "denied", "limited")), "0");
  EXPECT_EQ(value(decisions("b", "x", "denied", "limited")), "absent");
}

// A rules file cannot have names with control characters.
TEST_F(Metrics, EscapeLabelsOfOddNames) {
  recorder_.use(parse(rule(R"("quo\"te")", {R"("back\\slash")"}) + rule("限流", {"'{x=\"y\"}'"})));
  EXPECT_EQ(value(decisions(R"(quo\"te)", R"(back\\slash)", "allowed", "ok")), "0");
  EXPECT_EQ(value(decisions("限流", R"({x=\"y\"})", "allowed", "ok")), "0");
}

TEST_F(Metrics, PutDurationsIntoBucketsThatIncludeTheirBound) {
  const auto bucket = [&](const std::string& bound) {
    return value("sluice_request_duration_seconds_bucket{front_end=\"auth\",le=\"" + bound + "\"}");
  };
  recorder_.observe(FrontEnd::kAuth, nanoseconds(-5));
  recorder_.observe(FrontEnd::kAuth, nanoseconds(0));
  recorder_.observe(FrontEnd::kAuth, nanoseconds(1000));
  EXPECT_EQ(bucket("1e-06"), "3");
  recorder_.observe(FrontEnd::kAuth, nanoseconds(1001));
  recorder_.observe(FrontEnd::kAuth, nanoseconds(2000));
  EXPECT_EQ(bucket("1e-06"), "3");
  EXPECT_EQ(bucket("2e-06"), "5");
  recorder_.observe(FrontEnd::kAuth, nanoseconds(2001));
  recorder_.observe(FrontEnd::kAuth, nanoseconds(1'048'576'000));
  EXPECT_EQ(bucket("2e-06"), "5");
  EXPECT_EQ(bucket("4e-06"), "6");
  EXPECT_EQ(bucket("0.524288"), "6");
  EXPECT_EQ(bucket("1.048576"), "7");
  recorder_.observe(FrontEnd::kAuth, nanoseconds(1'048'576'001));
  EXPECT_EQ(bucket("1.048576"), "7");
  EXPECT_EQ(bucket("+Inf"), "8");
  EXPECT_EQ(value("sluice_request_duration_seconds_count{front_end=\"auth\"}"), "8");
  EXPECT_EQ(value("sluice_request_duration_seconds_count{front_end=\"check\"}"), "0");
}

TEST_F(Metrics, SumDurationsInSecondsByFrontEnd) {
  recorder_.observe(FrontEnd::kCheck, std::chrono::milliseconds(1500));
  registry_.make_recorder().observe(FrontEnd::kCheck, std::chrono::seconds(1));
  recorder_.observe(FrontEnd::kOther, std::chrono::hours(1));
  EXPECT_EQ(value("sluice_request_duration_seconds_sum{front_end=\"check\"}"), "2.5");
  EXPECT_EQ(value("sluice_request_duration_seconds_sum{front_end=\"other\"}"), "3600");
}

TEST_F(Metrics, CountRequestsThatArrivedTogetherAsEqualParts) {
  recorder_.observe_many(FrontEnd::kResp, 0, nanoseconds(5000));
  recorder_.observe_many(FrontEnd::kResp, 5, nanoseconds(4999));
  EXPECT_EQ(value("sluice_request_duration_seconds_bucket{front_end=\"resp\",le=\"1e-06\"}"), "5");
  EXPECT_EQ(value("sluice_request_duration_seconds_count{front_end=\"resp\"}"), "5");
  EXPECT_EQ(value("sluice_request_duration_seconds_sum{front_end=\"resp\"}"), "4.999e-06");
}

TEST_F(Metrics, CountConnectionsAndTheirEvents) {
  recorder_.add(Event::kAccepted, 5);
  registry_.make_recorder().add(Event::kAccepted);
  recorder_.add(Event::kRefused);
  recorder_.add(Event::kOutOfDescriptors, 3);
  recorder_.add(Event::kBadRequest, 4);
  recorder_.add(Event::kTimedOut, 7);
  recorder_.add(Event::kTlsFailed, 8);
  recorder_.add(Event::kNotAccepted, 9);
  EXPECT_EQ(value("sluice_connections_accepted_total"), "6");
  EXPECT_EQ(value("sluice_connections_refused_total{reason=\"cap\"}"), "1");
  EXPECT_EQ(value("sluice_connections_refused_total{reason=\"out_of_descriptors\"}"), "3");
  EXPECT_EQ(value("sluice_request_errors_total{reason=\"bad_request\"}"), "4");
  EXPECT_EQ(value("sluice_request_errors_total{reason=\"timed_out\"}"), "7");
  EXPECT_EQ(value("sluice_request_errors_total{reason=\"tls_failed\"}"), "8");
  EXPECT_EQ(value("sluice_request_errors_total{reason=\"not_accepted\"}"), "9");
}

}  // namespace
}  // namespace sluice::metrics
