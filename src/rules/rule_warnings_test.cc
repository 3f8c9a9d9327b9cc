// Warnings about rules that limit nothing, or less than they seem to.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rules/rule_set.h"

namespace sluice::rules::rule_warnings_test {
namespace {

std::string rule(const std::string& name, const std::string& match,
                 const std::string& key = "\"{ip}\"") {
  return "  - name: " + name + "\n" + (match.empty() ? "" : "    match: { " + match + " }\n") +
         "    limits: [ { name: l, key: " + key + ", algorithm: gcra, limit: 1, per: 1s } ]\n";
}

using Texts = std::vector<std::string>;

// Every value of up to six of these characters.
Texts short_values() {
  Texts values{""};
  for (std::size_t i = 0; values[i].size() < 6; ++i) {
    for (const char c : {'/', 'a', 'b'}) values.push_back(values[i] + c);
  }
  return values;
}

TEST(RuleWarnings, APatternCoversOnlyWhatItMatches) {
  const Texts values = short_values();
  std::vector<Pattern> patterns;
  for (const char* text :
       {"",      "/",   "/a",   "/a/b",   "/ab",   "a",     "*",     "**",      "/*",     "/**",
        "/a/**", "/a*", "/a/*", "/ab/**", "/a**",  "/**/b", "/*/a",  "/*/a/**", "/a*/**", "/a/b/**",
        "a*",    "*a",  "*a*",  "a*b",    "~/a.*", "~a*",   "/a/b*", "/a/*b/**"}) {
    patterns.push_back(Pattern::compile(text).value());
  }
  std::size_t covered = 0;
  for (const Pattern& wide : patterns) {
    EXPECT_TRUE(wide.covers(wide));
    for (const Pattern& narrow : patterns) {
      if (!wide.covers(narrow)) continue;
      ++covered;
      for (const std::string& value : values) {
        if (narrow.matches(value)) ASSERT_TRUE(wide.matches(value)) << value;
      }
    }
  }
  EXPECT_GT(covered, 3 * patterns.size()) << "most of what there is to find";
}

TEST(RuleWarnings, AreFoundInLargeFilesInLittleTime) {
  std::string yaml = "rules:\n";
  for (int i = 0; i < 5'000; ++i)
    yaml += rule("r" + std::to_string(i), "path: /" + std::to_string(i));
  std::size_t steps = 1'000;
  const auto rules = RuleSet::parse("version: 1\n" + yaml + rule("last", "path: /7"), "f");
  const RuleSet::Impl& set = Access::impl(*rules);
  EXPECT_NE(find_cover(set, 5'000, steps), nullptr);
  EXPECT_LT(steps, 1'000U);
  steps = 5;
  EXPECT_EQ(find_cover(set, 5'000, steps), nullptr);
  EXPECT_EQ(steps, 0U);
}

}  // namespace
}  // namespace sluice::rules::rule_warnings_test
