#include "server/api/check/check_endpoint.h"

#include <gtest/gtest.h>

#include "rules/test_answers.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

const Limit kTenASecond = token_bucket(10).per(1s);

std::string text_of(const RuleAnswer& answer) {
  TextBuffer out;
  put_check_answer(out, answer);
  EXPECT_EQ(find_undocumented(out.view()), "");
  return std::string(out.view());
}

TEST(CheckAnswer, IsAsTheContractSpellsIt) {
  TestAnswer test;
  test.rule("send-code");
  test.limit("send-code/0", fixed_window(3).per(60s), allowed(2, 60s));
  EXPECT_EQ(text_of(test.answer),
            "{\"outcome\":\"allowed\",\"rule\":\"send-code\",\"reason\":\"ok\",\"limits\":["
            "{\"name\":\"send-code/0\",\"limit\":3,\"remaining\":2,\"reset_after_ms\":60000}]}");
}

TEST(CheckAnswer, HasNoRuleIfNoneMatched) {
  EXPECT_EQ(text_of({}), "{\"outcome\":\"allowed\",\"rule\":null,\"reason\":\"ok\",\"limits\":[]}");
}

TEST(CheckAnswer, SaysTheWaitAtTheTopAndAtTheLimitThatDenied) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", kTenASecond, allowed(4, 1s));
  test.limit("b", kTenASecond, denied(0, 1s, 1us));
  EXPECT_EQ(text_of(test.answer),
            "{\"outcome\":\"denied\",\"rule\":\"r\",\"reason\":\"limited\",\"retry_after_ms\":1,"
            "\"limits\":[{\"name\":\"a\",\"limit\":10,\"remaining\":4,\"reset_after_ms\":1000},"
            "{\"name\":\"b\",\"limit\":10,\"remaining\":0,\"reset_after_ms\":1000,"
            "\"retry_after_ms\":1}]}");
}

TEST(CheckAnswer, RoundsTimesUpToMilliseconds) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", kTenASecond, denied(0, 1s + 1us, 2s + 1us));
  const std::string text = text_of(test.answer);
  EXPECT_NE(text.find("\"reset_after_ms\":1001"), std::string::npos) << text;
  EXPECT_NE(text.find("\"retry_after_ms\":2001"), std::string::npos) << text;
}

TEST(CheckAnswer, HasNoWaitIfWaitingNeverHelps) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", kTenASecond, denied(0, 1s, {}, Reason::kNever));
  EXPECT_EQ(text_of(test.answer).find("retry_after"), std::string::npos);
}

TEST(CheckAnswer, SaysNotWhenABudgetThatDoesNotRenewIsFull) {
  for (const auto& [reset_after, is_said] :
       {std::pair{Duration{kNeverEnds - 56 * 365 * 24h}, false}, {kMaxHold, true}}) {
    TestAnswer test;
    test.rule("r");
    test.limit("a", budget(10).never(), allowed(1, reset_after));
    const std::string text = text_of(test.answer);
    EXPECT_EQ(text.find("reset_after_ms") != std::string::npos, is_said) << text;
    EXPECT_NE(text.find("\"remaining\":1"), std::string::npos) << text;
  }
}

TEST(CheckAnswer, SaysHowLongAQueuedRequestWaits) {
  TestAnswer test;
  test.rule("r");
  Decision decision = allowed(1, 1s);
  decision.delay = 2500us;
  test.answer.decision = decision;
  test.limit("a", leaky_bucket(10).per(1s).queueing(), decision);
  EXPECT_EQ(text_of(test.answer),
            "{\"outcome\":\"allowed\",\"rule\":\"r\",\"reason\":\"ok\",\"delay_ms\":3,\"limits\":["
            "{\"name\":\"a\",\"limit\":10,\"remaining\":1,\"reset_after_ms\":1000,"
            "\"delay_ms\":3}]}");
}

TEST(CheckAnswer, NamesTheRuleOfALimitIfItIsAnotherAndMarksShadowRules) {
  TestAnswer test;
  test.rule("trial").mode = RuleMode::kShadow;
  test.limit("a", kTenASecond, denied(0, 1s, 1s));
  test.answer.rule = &test.rule("real");
  test.limit("a", kTenASecond, allowed(1, 0s));
  EXPECT_EQ(text_of(test.answer),
            "{\"outcome\":\"allowed\",\"rule\":\"real\",\"reason\":\"ok\",\"limits\":["
            "{\"name\":\"a\",\"rule\":\"trial\",\"shadow\":true,\"limit\":10,\"remaining\":0,"
            "\"reset_after_ms\":1000,\"retry_after_ms\":1000},"
            "{\"name\":\"a\",\"limit\":10,\"remaining\":1,\"reset_after_ms\":0}]}");
}

TEST(CheckAnswer, OmitsUnknownNumbers) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", kTenASecond, denied(0, 0s, {}, Reason::kMissing));
  EXPECT_EQ(text_of(test.answer),
            "{\"outcome\":\"denied\",\"rule\":\"r\",\"reason\":\"missing\",\"limits\":["
            "{\"name\":\"a\",\"limit\":10}]}");
}

TEST(CheckAnswer, MembersThatTheReferenceLacksAreFound) {
  EXPECT_NE(find_undocumented(R"({"outcome":"allowed","reason":"ok","near":true})"), "");
  EXPECT_NE(find_undocumented(R"({"outcome":"allowed"})"), "");
  EXPECT_EQ(find_undocumented(R"([{"outcome":"denied","reason":"limited"}])"), "");
}

TEST(CheckAnswer, EscapesNames) {
  TestAnswer test;
  test.rule("验\"证\\码\n");
  EXPECT_NE(text_of(test.answer).find("\"rule\":\"验\\\"证\\\\码\\u000A\""), std::string::npos);
}

}  // namespace
}  // namespace sluice::server
