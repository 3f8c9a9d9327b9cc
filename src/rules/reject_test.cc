// Reading the response of a rule that denies, and what is wrong with it.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sluice/rule_set.h"

namespace sluice::reject_test {
namespace {

using Kind = RejectPart::Kind;

std::string file(const std::string& rule) {
  return "version: 1\nrules:\n  - name: r\n    limits: [ { algorithm: gcra, limit: 1, per: 1s } "
         "]\n" +
         rule;
}

Reject reject_of(const std::string& reject) {
  const auto rules = RuleSet::parse(file("    reject: " + reject + "\n"), "f");
  if (!rules) throw std::runtime_error(rules.error().front().to_string());
  return rules->rules().front().reject;
}

std::string errors_of(const std::string& rule) {
  const auto rules = RuleSet::parse(file(rule), "f");
  if (rules) return "none";
  std::string out;
  for (const RuleError& error : rules.error()) out += (out.empty() ? "" : "\n") + error.to_string();
  return out;
}

std::vector<std::string> warnings_of(const std::string& rule) {
  const auto rules = RuleSet::parse(file(rule), "f");
  if (!rules) return {rules.error().front().to_string()};
  std::vector<std::string> out;
  for (const RuleError& warning : rules->warnings()) out.push_back(warning.to_string());
  return out;
}

TEST(Reject, FindsTheNamesWhenTheRulesLoad) {
  const Reject plain = reject_of(R"({ body: '{"code":429,"message":"{retry}"}' })");
  EXPECT_TRUE(plain.parts.empty());
  const Reject text = reject_of(R"({ body: "wait {retry_after} s of {limit}" })");
  ASSERT_EQ(text.parts.size(), 2u);
  EXPECT_EQ(text.parts[0].kind, Kind::kRetryAfter);
  EXPECT_FALSE(text.parts[0].is_json_value);
  EXPECT_TRUE(reject_of(R"({ body: '{"a":{limit}}' })").parts.front().is_json_value);
  EXPECT_FALSE(reject_of(R"({ body: '{"a":{limit}}', content_type: text/html })")
                   .parts.front()
                   .is_json_value);
  EXPECT_TRUE(reject_of("{ body: 'a {limit}', content_type: application/problem+JSON; a=b }")
                  .parts.front()
                  .is_json_value);
}

TEST(Reject, WarnsAboutAnUnknownNameWhereItIs) {
  const std::string names = "expected {retry_after}, {limit}, {remaining} or {reset_at}";
  EXPECT_EQ(warnings_of("    reject: { body: \"in {retry_afer} s\" }\n"),
            std::vector<std::string>{"f:5:25: warning: 'body' has the unknown name '{retry_afer}', "
                                     "which is sent as it is; " +
                                     names + "; did you mean 'retry_after'?"});
  EXPECT_EQ(warnings_of("    reject:\n      body: |\n        {x}\n"),
            std::vector<std::string>{"f:6:13: warning: 'body' has the unknown name '{x}', which is "
                                     "sent as it is; " +
                                     names});
  EXPECT_EQ(warnings_of("    reject: { headers: { X-Wait: \"{wait}\" } }\n"),
            std::vector<std::string>{"f:5:35: warning: 'X-Wait' has the unknown name '{wait}', "
                                     "which is sent as it is; " +
                                     names});
}

TEST(Reject, DoesNotWarnAboutOtherBraces) {
  for (const std::string body :
       {"{}", "{\"code\":1}", "{{limit}}", "a{1,3}", "p{color:red}", "{limit}", "{ x }"}) {
    EXPECT_EQ(warnings_of("    reject: { body: '" + body + "' }\n"), std::vector<std::string>{})
        << body;
  }
}

TEST(Reject, HasHeaders) {
  const Reject reject =
      reject_of("{ headers: { X-Reason: limited, x-wait: \"{retry_after}\", X-Code: 7 } }");
  ASSERT_EQ(reject.headers.size(), 3u);
  EXPECT_EQ(reject.headers[0].name, "X-Reason");
  EXPECT_EQ(reject.headers[0].value, "limited");
  EXPECT_TRUE(reject.headers[0].parts.empty());
  EXPECT_EQ(reject.headers[1].parts.front().kind, Kind::kRetryAfter);
  EXPECT_EQ(reject.headers[2].value, "7");
}

TEST(Reject, HasNoHeaderThatCouldChangeTheResponse) {
  const auto errors = [](const std::string& headers) {
    return errors_of("    reject: { headers: { " + headers + " } }\n");
  };
  for (const std::string name : {"Connection", "Content-Length", "transfer-encoding", "TE",
                                 "Upgrade", "Keep-Alive", "Trailer", "Retry-After"}) {
    EXPECT_EQ(errors(name + ": x"),
              "f:5:26: error: a rule cannot set the header '" + name +
                  "'; expected another name: the server sets this header itself");
  }
  EXPECT_EQ(
      errors("Content-Type: a/b"),
      "f:5:26: error: a rule cannot set the header 'Content-Type'; expected 'content_type' of "
      "'reject'");
  EXPECT_EQ(errors("\"X-A: b\": x"),
            "f:5:26: error: 'X-A: b' is not a header name; expected 1 to 64 letters, digits and "
            "'-', such as X-Reason");
  EXPECT_EQ(errors("X-A: \"a\\r\\nX-B: c\""),
            "f:5:31: error: 'X-A' is the text 'a\\x0D\\x0AX-B: c'; expected text of at most 1024 "
            "printable ASCII characters without blanks at its ends");
  EXPECT_EQ(errors("X-A: [1]"),
            "f:5:31: error: 'X-A' is a list; expected text of at most 1024 printable ASCII "
            "characters without blanks at its ends");
  EXPECT_EQ(
      errors("X-A: 1, x-a: 2"),
      "f:5:34: error: duplicate header 'x-a'; expected each header once; upper and lower case "
      "do not differ");
}

TEST(Reject, SetsTheLimitsOfAResponseOnlyIfSluiceDoesNot) {
  const std::string reject = "    reject: { headers: { X-RateLimit-Limit: \"{limit}\" } }\n";
  EXPECT_EQ(
      errors_of(reject),
      "f:5:26: error: a rule cannot set the header 'X-RateLimit-Limit'; expected another name, "
      "or 'headers: none' in the rule");
  EXPECT_EQ(errors_of("    headers: none\n" + reject), "none");
  EXPECT_EQ(errors_of("    headers: draft\n" + reject), "none");
}

TEST(Reject, HasAtMost16Headers) {
  std::string headers;
  for (int i = 0; i < 17; ++i) headers += "X-" + std::to_string(i) + ": a, ";
  EXPECT_EQ(errors_of("    reject: { headers: { " + headers + " } }\n"),
            "f:5:24: error: 'headers' has 17 headers; expected at most 16");
  EXPECT_EQ(errors_of("    reject: { headers: [a] }\n"),
            "f:5:24: error: 'headers' is a list; expected a map of headers, such as { X-Reason: "
            "limited }");
}

}  // namespace
}  // namespace sluice::reject_test
