#include "server/decide/rejection.h"

#include <gtest/gtest.h>

#include "limiter/reason_report.h"
#include "rules/test_answers.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

const Limit kTenASecond = token_bucket(10).per(1s);

// Returns the body for a request that a rule without a body denies for this reason.
std::string problem_for(Reason reason) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", kTenASecond, denied(0, 1s, {}, reason));
  http::Response response;
  response.text = "old";
  put_rejection(test.answer, response);
  EXPECT_EQ(response.content_type, "application/problem+json");
  return std::string(response.body);
}

TEST(Rejection, HasAStatusForEveryReason) {
  struct Row {
    Reason reason;
    int by_default;
    int by_rule;
  };
  for (const Row& row : {Row{Reason::kLimited, 429, 503}, Row{Reason::kNever, 429, 503},
                         Row{Reason::kDenyCache, 429, 503}, Row{Reason::kFallback, 429, 503},
                         Row{Reason::kStoreTimeout, 429, 503}, Row{Reason::kStoreError, 429, 503},
                         Row{Reason::kForeignValue, 429, 503}, Row{Reason::kStoreFull, 429, 503},
                         Row{Reason::kMissing, 429, 503}, Row{Reason::kInvalid, 400, 400}}) {
    TestAnswer test;
    Rule& rule = test.rule("r");
    test.limit("a", kTenASecond, denied(0, 1s, {}, row.reason));
    EXPECT_EQ(http_status(test.answer), row.by_default) << to_string(row.reason);
    rule.reject.status = 503;
    EXPECT_EQ(http_status(test.answer), row.by_rule) << to_string(row.reason);
  }
}

TEST(Rejection, IsNoneForAnAllowedRequest) {
  EXPECT_EQ(http_status({}), 200);
  for (const Reason reason : {Reason::kOk, Reason::kShadow, Reason::kFallback}) {
    TestAnswer test;
    test.rule("r").reject.status = 503;
    test.answer.decision.reason = reason;
    EXPECT_EQ(http_status(test.answer), 200) << to_string(reason);
  }
}

TEST(Rejection, NeedsNoRule) {
  RuleAnswer answer;
  answer.decision = denied(0, 0s, {}, Reason::kInvalid);
  EXPECT_EQ(http_status(answer), 400);
  answer.decision.reason = Reason::kLimited;
  EXPECT_EQ(http_status(answer), 429);
  http::Response response;
  put_rejection(answer, response);
  EXPECT_NE(response.body.find("\"violated-policies\":[]"), std::string::npos);
}

TEST(Rejection, IsTheRulesOwnBody) {
  TestAnswer test;
  Rule& rule = test.rule("r");
  rule.reject = {.status = 429, .body = "请求过于频繁", .content_type = "text/plain"};
  test.limit("a", kTenASecond, denied(0, 1s, 1s));
  http::Response response;
  response.text = "kept";
  put_rejection(test.answer, response);
  EXPECT_EQ(response.content_type, "text/plain");
  EXPECT_EQ(response.body, "请求过于频繁");
  EXPECT_EQ(response.text, "kept");
  test.answer.decision.reason = Reason::kInvalid;
  put_rejection(test.answer, response);
  EXPECT_EQ(response.content_type, "application/problem+json");
}

TEST(Rejection, HasTheNumbersOfTheDecisionAtTheTimeOfTheClock) {
  testing::ManualClock clock(Instant{Duration{1'700'000'000'000'000}});
  TestAnswer test;
  test.rule("r").reject = {
      .body = "{retry_after} s, {reset_at}",
      .content_type = "text/plain",
      .parts = {{0, 13, RejectPart::Kind::kRetryAfter}, {17, 10, RejectPart::Kind::kResetAt}}};
  test.limit("a", kTenASecond, denied(0, 60s, 1500ms));
  http::Response response;
  response.text = "old";
  put_rejection(test.answer, response, clock);
  EXPECT_EQ(response.body, "2 s, 2023-11-14T22:14:20Z");
}

TEST(Rejection, HasTheHeadersWhoseNumbersAreKnown) {
  TestAnswer test;
  test.rule("r").reject = {
      .body = {},
      .headers = {{"X-Reason", "limited"},
                  {"X-Wait", "{retry_after} s", {{0, 13, RejectPart::Kind::kRetryAfter}}}}};
  const auto headers = [&] {
    std::string fields = "A: b\r\n";
    append_rule_headers(test.answer, fields);
    return fields;
  };
  EXPECT_EQ(headers(), "A: b\r\n") << "the request is allowed";
  test.limit("a", kTenASecond, denied(0, 60s, 1500ms));
  EXPECT_EQ(headers(), "A: b\r\nX-Reason: limited\r\nX-Wait: 2 s\r\n");
  test.answer.decision.retry_after.reset();
  EXPECT_EQ(headers(), "A: b\r\nX-Reason: limited\r\n");
  test.answer.decision.reason = Reason::kInvalid;
  EXPECT_EQ(headers(), "A: b\r\n");
}

TEST(Rejection, NamesThePoliciesThatDeny) {
  TestAnswer test;
  test.rule("r");
  test.limit("用\"户", kTenASecond, denied(0, 1s, 1s));
  test.limit("fine", kTenASecond, allowed(1, 1s));
  test.limit("user", kTenASecond, denied(0, 1s, 1s));
  test.rule("trial").mode = RuleMode::kShadow;
  test.limit("user", kTenASecond, denied(0, 1s, 1s));
  http::Response response;
  put_rejection(test.answer, response);
  EXPECT_EQ(response.body,
            "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
            "\"title\":\"Quota exceeded\",\"status\":429,"
            "\"detail\":\"The request exceeds what these policies allow for now.\","
            "\"violated-policies\":[\"%E7%94%A8\\\"%E6%88%B7\",\"r/user\"]}");
}

TEST(Rejection, OfARuleThatDeniesNamesNoPolicies) {
  TestAnswer test;
  Rule& rule = test.rule("scanners");
  rule.action = RuleAction::kDeny;
  rule.reject.status = 403;
  test.answer.decision = Decision::refused(Reason::kDenyRule);
  http::Response response;
  EXPECT_EQ(http_status(test.answer), 403);
  put_rejection(test.answer, response);
  EXPECT_EQ(response.body,
            "{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,"
            "\"detail\":\"A rule denies the request.\"}");
  rule.reject = {.status = 404, .body = "gone", .content_type = "text/plain"};
  EXPECT_EQ(http_status(test.answer), 404);
  put_rejection(test.answer, response);
  EXPECT_EQ(response.body, "gone");
}

TEST(Rejection, IsTheProblemOfItsReason) {
  for (const Reason reason : {Reason::kLimited, Reason::kNever, Reason::kFallback,
                              Reason::kStoreError, Reason::kMissing, Reason::kInvalid}) {
    const ReasonReport& report = report_of(reason);
    const std::string type(report.type.empty() ? "about:blank" : report.type);
    const std::string text = problem_for(reason);
    EXPECT_NE(text.find("\"type\":\"" + type + "\""), std::string::npos) << text;
    EXPECT_NE(text.find(report.detail), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace sluice::server
