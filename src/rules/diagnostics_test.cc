#include "rules/diagnostics.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace sluice::rules {
namespace {

constexpr std::string_view kText = "first\nsecond\nthird\n";

TEST(Diagnostics, CountsLinesAndCharactersFromOne) {
  const Diagnostics source("ab\nçé: x\n", "f");
  EXPECT_EQ(source.error(0).line, 1);
  EXPECT_EQ(source.error(0).column, 1);
  EXPECT_EQ(source.error(1).column, 2);
  EXPECT_EQ(source.error(3).line, 2);
  EXPECT_EQ(source.error(3).column, 1);
  EXPECT_EQ(source.error(7).column, 3);
  EXPECT_EQ(source.error(1000).line, 3);
  EXPECT_EQ(source.error(1000).column, 1);
}

TEST(Diagnostics, LeavesTheByteOrderMarkOut) {
  const Diagnostics source("\xEF\xBB\xBFversion", "f");
  EXPECT_EQ(source.text(), "version");
  EXPECT_EQ(source.error(0).column, 1);
}

TEST(Diagnostics, ReturnsErrorsInFileOrderWithoutRepetitions) {
  Diagnostics diagnostics(kText, "rules.yaml");
  diagnostics.add(13, "a late error");
  diagnostics.add(6, "an early error", "expected another");
  diagnostics.add(13, "a late error");
  const std::vector<RuleError> errors = diagnostics.take();
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].to_string(), "rules.yaml:2:1: error: an early error; expected another");
  EXPECT_EQ(errors[1].to_string(), "rules.yaml:3:1: error: a late error");
  EXPECT_TRUE(diagnostics.empty());
}

TEST(Diagnostics, KeepsDifferentErrorsOfOnePosition) {
  Diagnostics diagnostics(kText, "f");
  diagnostics.add(0, "what", "expected b");
  diagnostics.add(0, "what", "expected a");
  const std::vector<RuleError> errors = diagnostics.take();
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].expected, "expected a");
  EXPECT_EQ(errors[1].expected, "expected b");
}

TEST(Diagnostics, SplitsAMessageAtItsFirstSemicolon) {
  Diagnostics diagnostics(kText, "f");
  diagnostics.add_message(0, "no unit; expected 10s; or 5m");
  diagnostics.add_message(1, "no unit");
  const std::vector<RuleError> errors = diagnostics.take();
  EXPECT_EQ(errors[0].what, "no unit");
  EXPECT_EQ(errors[0].expected, "expected 10s; or 5m");
  EXPECT_EQ(errors[1].expected, "");
}

TEST(Diagnostics, CountsTheErrorsPastItsBound) {
  Diagnostics diagnostics(kText, "f");
  for (std::size_t i = 0; i < Diagnostics::kMost + 7; ++i) {
    diagnostics.add(0, "error " + std::to_string(i));
  }
  const std::vector<RuleError> errors = diagnostics.take();
  ASSERT_EQ(errors.size(), Diagnostics::kMost);
  EXPECT_EQ(errors.back().expected, " (and 7 more errors)");
}

TEST(Either, JoinsNamesWithCommasAndOr) {
  EXPECT_EQ(either(std::vector<std::string_view>{}), "");
  EXPECT_EQ(either(std::vector<std::string_view>{"a"}), "a");
  EXPECT_EQ(either(std::vector<std::string_view>{"a", "b"}), "a or b");
  EXPECT_EQ(either(std::vector<std::string_view>{"a", "b", "c"}), "a, b or c");
}

TEST(FullName, HasTheRuleOnce) {
  EXPECT_EQ(full_name("api", "requests"), "api/requests");
  EXPECT_EQ(full_name("api", "api/0"), "api/0");
}

TEST(DidYouMean, FindsTheNearestName) {
  const std::vector<std::string_view> names{"limit", "limits", "match", "per", "on_store_error"};
  EXPECT_EQ(did_you_mean("limt", names), "; did you mean 'limit'?");
  EXPECT_EQ(did_you_mean("limtis", names), "; did you mean 'limits'?");  // a swap is one edit
  EXPECT_EQ(did_you_mean("mtch", names), "; did you mean 'match'?");
  EXPECT_EQ(did_you_mean("Match", names), "; did you mean 'match'?");
  EXPECT_EQ(did_you_mean("on-store-error", names), "; did you mean 'on_store_error'?");
  EXPECT_EQ(did_you_mean("trusted_proxy", {"threads", "trusted_proxies"}),
            "; did you mean 'trusted_proxies'?");
}

TEST(FullWidthHint, NamesTheFirstPunctuation) {
  EXPECT_EQ(full_width_hint("limit：5， per"),
            "; did you mean ':' instead of the full-width '：'?");
  EXPECT_EQ(full_width_hint("key: “{ip}”， limit"),
            "; did you mean '\"' instead of the full-width '“'?");
  EXPECT_EQ(full_width_hint("limit, 限制。"), "");
}

TEST(HalfWidth, ReplacesWhatAnInputMethodWrites) {
  EXPECT_EQ(half_width("／ｌｏｇｉｎ／＊＊"), "/login/**");
  EXPECT_EQ(half_width("【ＧＥＴ、ＰＯＳＴ】，～！　。"), "[GET,POST],~! .");
  EXPECT_EQ(half_width("/商品/é/\xEF\xBC"), "/商品/é/\xEF\xBC");
  EXPECT_EQ(half_width("｠￥"), "｠￥");
}

TEST(DidYouMean, IsSilentIfNoNameIsNear) {
  const std::vector<std::string_view> names{"limit", "per"};
  EXPECT_EQ(did_you_mean("", names), "");
  EXPECT_EQ(did_you_mean("burst", names), "");
  EXPECT_EQ(did_you_mean("px", names), "");  // short names allow one edit
  EXPECT_EQ(did_you_mean(std::string(33, 'l'), names), "");
}

}  // namespace
}  // namespace sluice::rules
