#include "rules/cost_template.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sluice/memory_store.h"
#include "sluice/permit_id.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_guard.h"
#include "sluice/rule_set.h"

// Limits that count responses: they are looked at before, and charged by reports.
namespace sluice::response_count_test {
namespace {

Expected<RuleSet, std::vector<RuleError>> load(const std::string& count,
                                               const std::string& more = "") {
  return RuleSet::parse(
      "version: 1\nrules:\n  - name: login\n    match: { path: /login }\n    limits:\n"
      "      - { name: failures, key: \"{ip}\", algorithm: fixed_window, limit: 5, per: 1h,\n"
      "          count: " +
          count + " }\n" + more,
      "f");
}

std::string error_of(const std::string& count) {
  const auto rules = load(count);
  return rules ? "no error" : rules.error().front().to_string();
}

const std::string kOthers = "      - { name: all, algorithm: token_bucket, limit: 9, per: 1h }\n";

class ResponseCountTest : public ::testing::Test {
 protected:
  void use(const std::string& count, const std::string& more = "") {
    auto rules = load(count, more);
    if (!rules) throw std::invalid_argument(rules.error().front().to_string());
    rules_ = *rules;
  }
  const RuleAnswer& ask(Action action = Verb::kTake, const RequestCosts& costs = {}) {
    return decider_.decide(*rules_, request_, costs, kNow, action);
  }
  const RuleAnswer& report(const Attributes& response, const RequestCosts& costs = {}) {
    return decider_.report(*rules_, request_, response, costs, kNow);
  }
  // The units of the failures that are left.
  std::uint64_t left() {
    const LimitCost nothing{"failures", 0};
    return ask(Verb::kPeek, {1, {&nothing, 1}}).limits.front().decision.remaining;
  }
  static constexpr Instant kNow{Duration{1700000000000000}};

  std::optional<RuleSet> rules_;
  Attributes request_{{"path", "/login"}, {"ip", "203.0.113.9"}};
  MemoryStore store_;
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_};
};

TEST_F(ResponseCountTest, RequestsAreLookedAtAndResponsesAreCounted) {
  use("{ on: [401, 5xx] }");
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(ask().decision.allowed());
  EXPECT_EQ(left(), 5u);
  for (const char* status : {"200", "302", "400", "404"}) {
    EXPECT_EQ(report({{"status", status}}).decision.reason, Reason::kOk);
  }
  EXPECT_EQ(left(), 5u) << "none of these counts";
  for (const char* status : {"401", "500", "599", "401", "401"}) report({{"status", status}});
  const RuleAnswer& denied = ask();
  EXPECT_EQ(denied.decision.reason, Reason::kLimited);
  EXPECT_EQ(denied.decision.retry_after, denied.decision.reset_after);
  EXPECT_EQ(denied.rule->name, "login");
  const RuleAnswer& over = report({{"status", "401"}});
  EXPECT_EQ(over.decision.reason, Reason::kOver) << "the response is there already";
  EXPECT_EQ(over.limits.size(), 1u);
}

TEST_F(ResponseCountTest, AttributesOfTheResponseAddTheirNumbers) {
  use("{ on: 401, header.X-Cost: add, body.tokens: add }");
  report({{"status", "200"}, {"header.x-cost", "2"}});
  EXPECT_EQ(left(), 3u);
  report({{"status", "401"}, {"body.tokens", "1"}, {"header.x-cost", ""}});
  EXPECT_EQ(left(), 1u) << "one for the status, one that is added; an empty one counts as absent";
  use("{ header.x-cost: add }");
  report({{"header.x-cost", "1"}});
  EXPECT_EQ(left(), 0u) << "without `on` there need be no status";
}

TEST_F(ResponseCountTest, TheCostOfTheLimitIsThatOfAResponse) {
  use("{ on: 401 }, cost: \"{header.x-weight|3}\"");
  report({{"status", "401"}});
  EXPECT_EQ(left(), 2u);
  EXPECT_FALSE(ask().decision.allowed()) << "3 are not left";
}

TEST_F(ResponseCountTest, OtherLimitsOfTheRuleAreTakenOnlyIfTheCountedOneAllows) {
  use("{ on: 401 }", kOthers);
  EXPECT_EQ(ask().limits[1].decision.remaining, 8u);
  EXPECT_EQ(report({{"status", "401"}}).limits.size(), 1u) << "reports charge no other limit";
  EXPECT_EQ(ask().limits[1].decision.remaining, 7u);
  report({{"status", "401"}}, {1, {}});
  for (int i = 0; i < 4; ++i) report({{"status", "401"}});
  const RuleAnswer& denied = ask();
  EXPECT_FALSE(denied.decision.allowed());
  EXPECT_FALSE(denied.limits[0].decision.allowed());
  EXPECT_TRUE(denied.limits[1].decision.allowed());
  EXPECT_EQ(ask(Verb::kPeek, 0).limits[1].decision.remaining, 7u);
}

TEST_F(ResponseCountTest, ADenialByAnotherLimitIsReported) {
  use("{ on: 401 }", kOthers);
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(ask().decision.allowed());
  const RuleAnswer& denied = ask();
  EXPECT_EQ(denied.decision.reason, Reason::kLimited);
  EXPECT_TRUE(denied.limits[0].decision.allowed());
  EXPECT_EQ(denied.limits[0].decision.remaining, 5u);
}

TEST_F(ResponseCountTest, VerbsThatGiveBackOrChargeLeaveItAlone) {
  use("{ on: 401 }", kOthers);
  report({{"status", "401"}});
  ask();
  EXPECT_EQ(ask(Verb::kRefund).limits.size(), 1u);
  EXPECT_EQ(ask(Verb::kCharge).limits.size(), 1u);
  EXPECT_EQ(decider_.settle(*rules_, request_, 1, 3, kNow).limits.size(), 1u);
  EXPECT_EQ(left(), 4u);
  EXPECT_EQ(ask(Verb::kTakeAtMost, 7).decision.taken, 6u) << "what the other limit has";
  ask(Verb::kReset);
  EXPECT_EQ(left(), 5u);
}

TEST_F(ResponseCountTest, AReservationLooksFirst) {
  use("{ on: 401 }", kOthers);
  EXPECT_TRUE(ask({Verb::kReserve, std::chrono::hours{1}}).decision.allowed());
  for (int i = 0; i < 5; ++i) report({{"status", "401"}});
  EXPECT_FALSE(ask({Verb::kReserve, std::chrono::hours{1}}).decision.allowed());
  EXPECT_EQ(ask(Verb::kPeek, 0).limits[1].decision.remaining, 8u);
}

// A store that forgets the counters of its next request.
class ForgetfulStore final : public Store {
 public:
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    const Decision said = memory_.apply(action, charges, now, each);
    if (std::exchange(forgets, false)) {
      for (const Charge& charge : charges) memory_.apply_one(Verb::kReset, charge, now);
    }
    return said;
  }
  bool forgets = false;

 private:
  MemoryStore memory_;
};

TEST_F(ResponseCountTest, ABudgetIsNotTakenUnderAnIdIfUnitsComeMeanwhile) {
  use("{ on: 401 }",
      "      - { name: amounts, algorithm: budget, limit: 5, per: 1h, count: { on: 401 } }\n"
      "      - { name: all, algorithm: budget, limit: 9, per: 1h }\n");
  ForgetfulStore store;
  Limiter limiter{store};
  RuleDecider decider{limiter};
  const PermitId id = PermitId::named("a");
  RequestCosts costs(2);
  costs.id = &id;
  decider.report(*rules_, request_, Attributes{{"status", "401"}}, 5, kNow);
  EXPECT_FALSE(decider.decide(*rules_, request_, costs, kNow).decision.allowed());
  store.forgets = true;
  EXPECT_TRUE(decider.decide(*rules_, request_, costs, kNow).decision.allowed());
  const auto& limits = decider.decide(*rules_, request_, 0, kNow, Verb::kPeek).limits;
  for (const auto& [index, left] : {std::pair{0u, 5u}, {1u, 5u}, {2u, 7u}}) {
    EXPECT_EQ(limits[index].decision.remaining, left) << index;
  }
}

TEST_F(ResponseCountTest, ARequestThatIsDeniedCanStartABlock) {
  use("{ on: 401 }, block: { after: 2, within: 10m, for: 3h }", kOthers);
  for (int i = 0; i < 5; ++i) report({{"status", "401"}});
  EXPECT_EQ(ask().decision.reason, Reason::kLimited);
  const RuleAnswer& second = ask();
  EXPECT_EQ(second.decision.reason, Reason::kBlocked);
  EXPECT_EQ(second.decision.retry_after, std::chrono::hours{3});
  EXPECT_EQ(ask().decision.reason, Reason::kBlocked);
  EXPECT_EQ(ask(Verb::kPeek, 0).limits[1].decision.remaining, 9u) << "nothing was taken";
}

TEST_F(ResponseCountTest, AShadowRuleCountsAndNeverDenies) {
  use("{ on: 401 }", "    mode: shadow\n");
  for (int i = 0; i < 6; ++i) report({{"status", "401"}});
  EXPECT_EQ(left(), 0u);
  const RuleAnswer& answer = ask();
  EXPECT_TRUE(answer.decision.allowed());
  EXPECT_EQ(answer.decision.reason, Reason::kShadow);
}

TEST_F(ResponseCountTest, AReportWithoutALimitThatCountsChargesNothing) {
  use("{ on: 401 }");
  request_.set("path", "/other");
  const RuleAnswer& answer = report({{"status", "401"}});
  EXPECT_TRUE(answer.decision.allowed());
  EXPECT_TRUE(answer.limits.empty());
  EXPECT_EQ(answer.rule, nullptr);
}

TEST_F(ResponseCountTest, AReportNeedsARightStatus) {
  use("{ on: 401, header.x-cost: add }");
  const auto mistake = [&](const Attributes& response) {
    const RuleAnswer& answer = report(response);
    EXPECT_EQ(answer.decision.reason, Reason::kInvalid);
    return std::string(answer.mistake);
  };
  EXPECT_EQ(mistake({}),
            "the status of the response is missing; expected a number from 100 to 599");
  for (const char* wrong : {"", "99", "600", "4o1", "0401", "+401"}) {
    EXPECT_EQ(mistake({{"status", wrong}}), "the status of the response is '" + std::string(wrong) +
                                                "'; expected a number from 100 to 599");
  }
  EXPECT_EQ(mistake({{"status", "200"}, {"header.x-cost", "-1"}}),
            "the attribute 'header.x-cost' of the response is '-1'; expected a whole number from 0 "
            "to 9007199254740991");
  EXPECT_EQ(left(), 5u) << "a wrong report charges nothing";
}

TEST_F(ResponseCountTest, CanReportByOneRule) {
  use("{ on: 401 }");
  decider_.report(*rules_, request_, Attributes{{"status", "401"}}, {}, kNow,
                  &rules_->rules().front());
  EXPECT_EQ(left(), 4u);
}

TEST(ResponseCountRules, WrongCountsAreErrorsOfTheFile) {
  const std::string statuses =
      "; expected a status from 100 to 599, or a class of them from 1xx to 5xx";
  const std::string keys =
      "; expected 'on' with statuses, or an attribute of the response with 'add', such as "
      "{ on: [401, 5xx], header.x-cost: add }";
  EXPECT_EQ(error_of("{ on: 600 }"), "f:7:24: error: 'on' is '600'" + statuses);
  EXPECT_EQ(error_of("{ on: [401, 6xx] }"), "f:7:30: error: 'on' is '6xx'" + statuses);
  EXPECT_EQ(error_of("{ on: [] }"), "f:7:24: error: 'on' is empty" + statuses);
  EXPECT_EQ(error_of("{}"), "f:7:18: error: 'count' is empty" + keys);
  EXPECT_EQ(error_of("{ header.x-cost: subtract }"),
            "f:7:35: error: 'header.x-cost' is 'subtract'" + keys);
  EXPECT_EQ(error_of("401"),
            "f:7:18: error: 'count' is '401'; expected a map such as "
            "{ on: [401, 5xx], header.x-cost: add }");
  EXPECT_EQ(error_of("{ onn: 401 }"), "f:7:25: error: 'onn' is '401'" + keys);
  EXPECT_EQ(error_of("{ header.: add }"),
            "f:7:20: error: 'header.' lacks its name; expected header.NAME");
  const auto permits = RuleSet::parse(
      "version: 1\nrules:\n  - name: r\n    limits: [ { algorithm: concurrency, limit: 1, lease: "
      "1s, count: { on: 401 } } ]\n",
      "f");
  EXPECT_EQ(permits.error().front().to_string(),
            "f:4:69: error: 'count' does not apply to concurrency; expected another algorithm: "
            "permits are taken before the response");
}

}  // namespace
}  // namespace sluice::response_count_test
