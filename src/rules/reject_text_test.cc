#include "rules/rule_set.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{Duration{1'700'000'000'000'000}};  // 2023-11-14T22:13:20Z

Decision denial() {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kLimited,
          .capacity = 10,
          .remaining = 2,
          .reset_after = 59999999us,
          .retry_after = 12000001us};
}

std::vector<RejectPart> parsed(std::string_view text, bool json) {
  return rules::parse_reject_text(text, json, [](std::size_t, std::string_view) {});
}

std::string filled(std::string_view text, const Decision& decision = denial(), bool json = false) {
  std::string out;
  append_reject(text, parsed(text, json), decision, kNow, out);
  return out;
}

TEST(RejectText, HasTheNumbersOfTheDecision) {
  EXPECT_EQ(filled("{retry_after} {limit} {remaining} {reset_at}"), "13 10 2 2023-11-14T22:14:20Z");
  EXPECT_EQ(filled("{limit}{limit}"), "1010");
  EXPECT_EQ(filled("<p>{retry_after}</p>"), "<p>13</p>");
  Decision soon = denial();
  soon.retry_after = 1us;
  soon.reset_after = 0us;
  EXPECT_EQ(filled("{retry_after} {reset_at}", soon), "1 2023-11-14T22:13:20Z");
}

TEST(RejectText, IsUnchangedWithoutKnownNames) {
  for (const std::string_view text :
       {"", "{", "{}", "}{", "{{}}", "{ limit }", "{limit", "limit}", "{Limit}", "{limits}",
        "{retry-after}", R"({"code":429,"message":"too many requests","data":{}})",
        "body{margin:0}", "{{name}}", "请求{过}于频繁"}) {
    EXPECT_TRUE(parsed(text, true).empty()) << text;
    EXPECT_EQ(filled(text), text);
  }
}

TEST(RejectText, HasLiteralBracesForDoubleBraces) {
  EXPECT_EQ(filled("{{limit}} is {limit}"), "{limit} is 10");
  EXPECT_EQ(filled("{{{limit}}}"), "{{limit}}");
  EXPECT_EQ(filled("{{limit}"), "{10");
  EXPECT_EQ(filled("{limit}}"), "10}");
}

TEST(RejectText, IsValidJson) {
  const std::string text =
      R"({"at":{reset_at},"s":{"wait":{retry_after}},"m":"\"{reset_at}\", {retry_after} s"})";
  EXPECT_EQ(
      filled(text, denial(), true),
      R"({"at":"2023-11-14T22:14:20Z","s":{"wait":13},"m":"\"2023-11-14T22:14:20Z\", 13 s"})");
  EXPECT_EQ(filled(text, Decision::refused(Reason::kDenyRule), true),
            R"({"at":null,"s":{"wait":null},"m":"\"-\", - s"})");
}

TEST(RejectText, HasADashForANumberThatTheDecisionLacks) {
  const std::string_view text = "{retry_after} {limit} {remaining} {reset_at}";
  Decision never = denial();
  never.reason = Reason::kNever;
  never.retry_after.reset();
  EXPECT_EQ(filled(text, never), "- 10 2 2023-11-14T22:14:20Z");
  for (const Reason reason : {Reason::kDenyRule, Reason::kFallback, Reason::kStoreError}) {
    EXPECT_EQ(filled(text, Decision::refused(reason)), "- - - -") << to_string(reason);
  }
}

TEST(RejectText, OfABlockHasItsEndIfThereIsOne) {
  const std::string_view text = "{retry_after} {limit} {remaining} {reset_at}";
  Decision blocked = denial();
  blocked.reason = Reason::kBlocked;
  blocked.remaining = 0;
  EXPECT_EQ(filled(text, blocked), "13 10 0 2023-11-14T22:14:20Z");
  blocked.retry_after.reset();
  EXPECT_EQ(filled(text, blocked), "- 10 0 -");
}

TEST(RejectText, AllocatesNothingIfThereIsRoom) {
  const std::string_view text = "{retry_after} {limit} {remaining} {reset_at}";
  const auto parts = parsed(text, false);
  std::string out;
  out.reserve(100);
  const char* const data = out.data();
  EXPECT_TRUE(append_reject(text, parts, denial(), kNow, out));
  EXPECT_EQ(out.data(), data);
  EXPECT_FALSE(append_reject(text, parts, Decision::refused(Reason::kDenyRule), kNow, out));
}

}  // namespace
}  // namespace sluice
