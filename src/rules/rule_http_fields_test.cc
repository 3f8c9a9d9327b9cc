#include "sluice/rule_answer.h"

#include <gtest/gtest.h>

#include "rules/test_answers.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

std::string lines(const RuleAnswer& answer) {
  RuleHttpFields fields;
  return std::string(fields.lines(answer));
}

std::string value(const RuleAnswer& answer, std::string_view name) {
  RuleHttpFields fields;
  for (const HttpField& field : fields.of(answer)) {
    if (field.name == name) return std::string(field.value);
  }
  return "(absent)";
}

const Limit kTenASecond = token_bucket(10).per(1s);

TEST(RuleHttpFields, AreAsTheContractSpellsThem) {
  TestAnswer test;
  test.rule("r");
  test.limit("api", token_bucket(1000).per(1s), allowed(999, 10ms));
  test.limit("user", kTenASecond, allowed(9, 100ms));
  EXPECT_EQ(lines(test.answer),
            "RateLimit-Policy: \"user\";q=10;w=1, \"api\";q=1000;w=1\r\n"
            "RateLimit: \"user\";r=9;t=1, \"api\";r=999;t=1\r\n"
            "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 9\r\nX-RateLimit-Reset: 1\r\n");
}

TEST(RuleHttpFields, AreTheSameByNameAndValue) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", kTenASecond, denied(0, 1s, 90s));
  RuleHttpFields fields;
  std::string joined;
  for (const HttpField& field : fields.of(test.answer)) {
    joined.append(field.name).append(": ").append(field.value).append("\r\n");
  }
  EXPECT_EQ(joined, lines(test.answer));
  EXPECT_EQ(fields.of(test.answer).size(), 6u);
}

TEST(RuleHttpFields, AreEmptyIfNoLimitApplied) {
  EXPECT_EQ(lines({}), "");
  TestAnswer test;
  test.rule("without limits");
  EXPECT_EQ(lines(test.answer), "");
}

TEST(RuleHttpFields, RoundTimesUpToSeconds) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", sliding_window_log(10).per(1500ms), denied(0, 1s + 1us, 2s + 1us));
  EXPECT_EQ(value(test.answer, "RateLimit-Policy"), "\"a\";q=10;w=2");
  EXPECT_EQ(value(test.answer, "RateLimit"), "\"a\";r=0;t=2");
  EXPECT_EQ(value(test.answer, "X-RateLimit-Reset"), "2");
  EXPECT_EQ(value(test.answer, "Retry-After"), "3");
}

TEST(RuleHttpFields, NeverSayAtOnce) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", token_bucket(10).per(1ms), denied(10, 0s, Duration{0}));
  EXPECT_EQ(value(test.answer, "RateLimit-Policy"), "\"a\";q=10;w=1");
  EXPECT_EQ(value(test.answer, "RateLimit"), "\"a\";r=10;t=1");
  EXPECT_EQ(value(test.answer, "Retry-After"), "1");
}

TEST(RuleHttpFields, HoldTheLargestNumbers) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", token_bucket(kMaxUnits).per(kMaxPeriod), denied(4294967295, kMaxWait, kMaxWait));
  EXPECT_EQ(value(test.answer, "RateLimit-Policy"), "\"a\";q=4294967295;w=31622400");
  EXPECT_EQ(value(test.answer, "RateLimit"), "\"a\";r=4294967295;t=4503599628");
  EXPECT_EQ(value(test.answer, "Retry-After"), "4503599628");
}

TEST(RuleHttpFields, PutDenyingLimitsFirstThenThoseWithTheLeastLeft) {
  TestAnswer test;
  test.rule("r");
  test.limit("most", kTenASecond, allowed(7, 0s));
  test.limit("equal", kTenASecond, allowed(3, 0s));
  test.limit("denies", kTenASecond, denied(5, 0s, 1s));
  test.limit("equal too", kTenASecond, allowed(3, 0s));
  test.limit("denies more", kTenASecond, denied(4, 0s, 1s));
  EXPECT_EQ(value(test.answer, "RateLimit"),
            "\"denies more\";r=4;t=1, \"denies\";r=5;t=1, \"equal\";r=3;t=1, "
            "\"equal too\";r=3;t=1, \"most\";r=7;t=1");
  EXPECT_EQ(value(test.answer, "X-RateLimit-Remaining"), "4");
}

TEST(RuleHttpFields, AreThoseThatTheRuleWants) {
  const auto names = [](HeaderFields headers) {
    TestAnswer test;
    test.rule("r").headers = headers;
    test.limit("a", kTenASecond, denied(0, 1s, 1s));
    std::string out;
    RuleHttpFields fields;
    for (const HttpField& field : fields.of(test.answer)) out.append(field.name) += ' ';
    return out;
  };
  const std::string draft = "RateLimit-Policy RateLimit ";
  const std::string legacy = "X-RateLimit-Limit X-RateLimit-Remaining X-RateLimit-Reset ";
  EXPECT_EQ(names(HeaderFields::kDraft), draft + "Retry-After ");
  EXPECT_EQ(names(HeaderFields::kLegacy), legacy + "Retry-After ");
  EXPECT_EQ(names(HeaderFields::kBoth), draft + legacy + "Retry-After ");
  EXPECT_EQ(names(HeaderFields::kNone), "Retry-After ");
}

TEST(RuleHttpFields, OmitRetryAfterIfWaitingNeverHelpsOrTheWaitIsUnknown) {
  for (const Reason reason : {Reason::kNever, Reason::kMissing, Reason::kStoreTimeout}) {
    TestAnswer test;
    test.rule("r");
    test.limit("a", kTenASecond, denied(0, 1s, {}, reason));
    EXPECT_EQ(value(test.answer, "Retry-After"), "(absent)") << to_string(reason);
  }
}

TEST(RuleHttpFields, ReportOnlyThePolicyOfALimitThatWasNotRead) {
  for (const Reason reason :
       {Reason::kMissing, Reason::kTooManyWaiters, Reason::kFallback, Reason::kStoreError,
        Reason::kForeignValue, Reason::kStoreFull, Reason::kStoreTimeout, Reason::kInvalid}) {
    TestAnswer test;
    test.rule("r");
    test.limit("a", kTenASecond, denied(0, 0s, {}, reason));
    EXPECT_EQ(lines(test.answer), "RateLimit-Policy: \"a\";q=10;w=1\r\n") << to_string(reason);
  }
}

TEST(RuleHttpFields, ReportOnlyThePolicyOfALimitThatTheDenyCacheSkipped) {
  TestAnswer test;
  test.rule("r");
  test.limit("a", kTenASecond, {.reason = Reason::kDenyCache, .capacity = 10});
  test.limit("b", kTenASecond, denied(0, 2s, 1s, Reason::kDenyCache));
  EXPECT_EQ(value(test.answer, "RateLimit"), "\"b\";r=0;t=1");
  EXPECT_EQ(value(test.answer, "RateLimit-Policy"), "\"b\";q=10;w=1, \"a\";q=10;w=1");
  EXPECT_EQ(value(test.answer, "X-RateLimit-Reset"), "2");
  EXPECT_EQ(value(test.answer, "Retry-After"), "1");
}

TEST(RuleHttpFields, OmitShadowRules) {
  TestAnswer test;
  Rule& trial = test.rule("trial");
  trial.mode = RuleMode::kShadow;
  trial.headers = HeaderFields::kNone;
  test.limit("hidden", kTenASecond, denied(0, 1s, 1s));
  EXPECT_EQ(lines(test.answer), "");
  test.answer.decision.reason = Reason::kShadow;
  test.rule("enforced").headers = HeaderFields::kLegacy;
  test.limit("shown", kTenASecond, allowed(4, 1s));
  EXPECT_EQ(lines(test.answer),
            "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 4\r\nX-RateLimit-Reset: 1\r\n");
}

TEST(RuleHttpFields, SpellNamesAsStructuredStrings) {
  TestAnswer test;
  test.rule("r");
  test.limit("用\"\\%", kTenASecond, allowed(1, 0s));
  EXPECT_EQ(value(test.answer, "RateLimit"), "\"%E7%94%A8\\\"\\\\%25\";r=1;t=1");
}

TEST(RuleHttpFields, DistinguishLimitsOfTheSameNameByTheirRules) {
  TestAnswer test;
  test.rule("x/y");
  test.limit("user", kTenASecond, allowed(1, 0s));
  test.limit("other", kTenASecond, allowed(2, 0s));
  test.rule("b");
  test.limit("user", kTenASecond, allowed(3, 0s));
  EXPECT_EQ(value(test.answer, "RateLimit"),
            "\"x%2Fy/user\";r=1;t=1, \"other\";r=2;t=1, \"b/user\";r=3;t=1");
}

TEST(RuleHttpFields, DistinguishANameFromARuleAndANameThatSpellIt) {
  TestAnswer test;
  test.rule("a");
  test.limit("a/0", kTenASecond, allowed(1, 0s));
  test.limit("0", kTenASecond, allowed(2, 0s));
  test.rule("b");
  test.limit("0", kTenASecond, allowed(3, 0s));
  EXPECT_EQ(value(test.answer, "RateLimit"),
            "\"a/a%2F0\";r=1;t=1, \"a/0\";r=2;t=1, \"b/0\";r=3;t=1");
}

TEST(RuleHttpFields, EndBeforeTheyBecomeTooLongForProxies) {
  TestAnswer test;
  test.rule("r");
  for (std::uint32_t i = 0; i < 64; ++i) {
    test.limit(std::string(125, 'x') + std::to_string(i), kTenASecond, allowed(i, 0s));
  }
  for (const char* name : {"RateLimit", "RateLimit-Policy"}) {
    const std::string text = value(test.answer, name);
    EXPECT_GT(text.size(), 1800u);
    EXPECT_LE(text.size(), 2048u);
    EXPECT_EQ(text.rfind('"' + std::string(125, 'x') + "0\"", 0), 0u);
    EXPECT_NE(text.back(), ' ');
  }
}

}  // namespace
}  // namespace sluice
