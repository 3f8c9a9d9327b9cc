#include "rules/rule_changes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice::rules {
namespace {

using Numbers = std::vector<RuleChanges::Number>;

// Changes the rule "api" of a text, and returns the new text or the error.
std::string edited(std::string_view text, const Numbers& numbers,
                   std::optional<std::string> mode = {}) {
  const RuleText file{"a.yaml", text};
  const auto edit = edit_rule({&file, 1}, "api", {numbers, std::move(mode)});
  return edit ? edit->text : "error: " + edit.error().message;
}

constexpr std::string_view kBlock =
    "version: 1  # the format\n"
    "rules:\n"
    "  - name: other\n"
    "    limits: [ { name: user, algorithm: gcra, limit: 5, per: 1s } ]\n"
    "\n"
    "  - name: api   # of the shop\n"
    "    limits:\n"
    "      - name: user\n"
    "        limit: 5  # per customer\n"
    "        per: \"1s\"\n"
    "        algorithm: token_bucket\n"
    "      - { algorithm: gcra, limit: 100, per: 1m }\n";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(RuleEdit, ReplacesOnlyTheValues) {
  EXPECT_EQ(
      edited(kBlock, {{"user", "limit", "20"}, {"user", "per", "10s"}}),
      replaced(replaced(std::string(kBlock), "limit: 5  #", "limit: 20  #"), "\"1s\"", "\"10s\""));
  EXPECT_EQ(edited(kBlock, {{"api/1", "limit", "7"}}),
            replaced(std::string(kBlock), "limit: 100", "limit: 7"));
}

TEST(RuleEdit, AddsKeysNextToTheirNeighbours) {
  EXPECT_EQ(
      edited(kBlock, {{"user", "burst", "9"}, {"user", "limit", "3"}}, "shadow"),
      replaced(replaced(std::string(kBlock), "limit: 5  # per customer\n",
                        "limit: 3  # per customer\n        burst: 9\n"),
               "name: api   # of the shop\n", "name: api   # of the shop\n    mode: shadow\n"));
  EXPECT_EQ(edited(kBlock, {{"user", "limit", "3"}, {"user", "burst", "9"}}),
            replaced(std::string(kBlock), "limit: 5  # per customer\n",
                     "limit: 3  # per customer\n        burst: 9\n"));
  EXPECT_EQ(edited(kBlock, {{"api/1", "burst", "9"}}),
            replaced(std::string(kBlock), "limit: 100,", "limit: 100, burst: 9,"));
}

TEST(RuleEdit, KeepsLineEndsAndTheMarkOfTheFile) {
  const std::string text =
      "\xEF\xBB\xBF# \xC3\xA4\r\nversion: 1\r\nrules:\r\n  - name: api\r\n    limits:\r\n"
      "      - limit: 5\r\n        per: 1s\r\n        algorithm: gcra\r\n";
  EXPECT_EQ(edited(text, {{"api/0", "limit", "6"}, {"api/0", "burst", "2"}}),
            replaced(text, "limit: 5\r\n", "limit: 6\r\n        burst: 2\r\n"));
}

TEST(RuleEdit, FindsTheFileOfTheRule) {
  const std::string second = "version: 1\nrules: [ { name: x, limits: [ { limit: 1 } ] } ]";
  const std::array<RuleText, 2> files{{{"a", kBlock}, {"b", second}}};
  const auto edit = edit_rule(files, "x", {{{"x/0", "limit", "2"}}, {}});
  ASSERT_TRUE(edit);
  EXPECT_EQ(edit->file, 1U);
  EXPECT_EQ(edit->text, replaced(second, "limit: 1 ", "limit: 2 "));
  const auto none = edit_rule(files, "y", {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().unknown, EditError::Unknown::kWhole);
  EXPECT_EQ(none.error().message, "there is no rule 'y'");
}

TEST(RuleEdit, AnUnknownLimitIsNamedWithThoseThatExist) {
  EXPECT_EQ(edited(kBlock, {{"usr", "limit", "20"}}),
            "error: rule 'api' has no limit 'usr'; expected user or api/1");
  EXPECT_EQ(edited("rules: [ { name: api, action: deny } ]", {{"user", "limit", "20"}}),
            "error: rule 'api' has no limit 'user'; expected no 'limits', the rule has none");
}

TEST(RuleEdit, FindsTheBudgetsAfterAnother) {
  const std::string text =
      "version: 1\nrules:\n  - name: api\n    limits:\n"
      "      - { name: a, algorithm: budget, limit: 5, per: 1h,\n"
      "          overflow: { name: b, limit: 6, per: never } }\n";
  EXPECT_EQ(edited(text, {{"b", "limit", "7"}}), replaced(text, "limit: 6", "limit: 7"));
  EXPECT_EQ(edited(text, {{"c", "limit", "7"}}),
            "error: rule 'api' has no limit 'c'; expected a or b");
}

TEST(RuleEdit, RefusesNumbersOfPlans) {
  EXPECT_EQ(edited("plans: { a: { other: { limit: 1 } }, free: { user: { limit: 2 } } }\n"
                   "rules: [ { name: api, limits: [ { name: user, algorithm: gcra } ] } ]",
                   {{"user", "limit", "20"}}),
            "error: limit 'user' of rule 'api' has no 'limit' of its own, its numbers come from "
            "plans, which limits of other rules share; expected a change of a plan, such as sluice "
            "rules set plans/free/user limit=20 (PATCH /v1/plans/free)");
}

constexpr std::string_view kPlans =
    "version: 1\n"
    "plans:\n"
    "  free:  # of charge\n"
    "    requests: { limit: 10, per: 1m }\n"
    "    exports: { limit: 1, per: 1d }\n"
    "  pro: { requests: { limit: 100, per: 1m, burst: 200 } }\n"
    "rules: []\n";

// Changes the plan "free" of files, and returns the new text of one or the error.
std::string edited_plan(const std::vector<std::string_view>& texts, const Numbers& numbers,
                        std::string_view plan = "free", const Shared& kind = kSharedPlans) {
  std::vector<RuleText> files;
  for (const std::string_view text : texts) {
    files.push_back({std::string_view("abc").substr(files.size(), 1), text});
  }
  const auto edit = edit_shared(files, kind, plan, {numbers, {}});
  return edit ? edit->text : "error: " + edit.error().message;
}

TEST(RuleEdit, ChangesNumbersOfAPlan) {
  EXPECT_EQ(edited_plan({kPlans}, {{"requests", "limit", "20"}, {"requests", "burst", "5"}}),
            replaced(std::string(kPlans), "limit: 10,", "limit: 20, burst: 5,"));
  EXPECT_EQ(edited_plan({kPlans}, {{"requests", "burst", "9"}}, "pro"),
            replaced(std::string(kPlans), "burst: 200", "burst: 9"));
}

TEST(RuleEdit, NamesThePlansAndLimitsThatAreUnknown) {
  EXPECT_EQ(
      edited_plan({kPlans}, {{"request", "limit", "20"}}),
      "error: the plan 'free' has no limit 'request'; expected requests or exports, or sluice "
      "rules set RULE/request for numbers that the limit has in its rule");
  EXPECT_EQ(edited_plan({kPlans}, {{"requests", "limit", "20"}}, "fre"),
            "error: there is no plan 'fre'; expected free or pro");
  EXPECT_EQ(edited_plan({"rules: []\n"}, {{"requests", "limit", "20"}}),
            "error: there is no plan 'free'; expected 'plans' in the rules");
}

TEST(RuleEdit, ChangesAPlanInTheOnlyFileThatHasItsLimit) {
  const std::string other = "plans: { free: { requests: { limit: 3, per: 1s } } }\nrules: []\n";
  EXPECT_EQ(edited_plan({other, kPlans}, {{"exports", "limit", "2"}}),
            replaced(std::string(kPlans), "limit: 1,", "limit: 2,"));
  EXPECT_EQ(edited_plan({other, kPlans}, {{"requests", "limit", "2"}}),
            "error: the plan 'free' of 'a' and of 'b' has these limits; expected a change of the "
            "files");
}

TEST(RuleEdit, ChangesPricesOfAModel) {
  const std::string prices =
      "prices:\n"
      "  large: { in: 1_000, out: 15 }  # since May\n"
      "  small: &s { in: 1, out: 2 }\n"
      "  tiny: *s\n"
      "rules: []\n";
  const auto edited_model = [](const std::vector<std::string_view>& texts, const Numbers& numbers,
                               std::string_view model) {
    return edited_plan(texts, numbers, model, kSharedPrices);
  };
  EXPECT_EQ(edited_model({prices}, {{"", "out", "16"}, {"", "in", "4"}}, "large"),
            replaced(prices, "in: 1_000, out: 15", "in: 4, out: 16"));
  EXPECT_EQ(edited_model({prices}, {{"", "inn", "4"}}, "large"),
            "error: the model 'large' has no price 'inn'; expected in or out");
  EXPECT_EQ(edited_model({prices, kPlans}, {{"", "in", "4"}}, "huge"),
            "error: there is no model 'huge'; expected large, small or tiny");
  EXPECT_EQ(edited_model({kPlans, prices, prices}, {{"", "in", "4"}}, "large"),
            "error: the model 'large' of 'b' and of 'c' has these prices; expected a change of the "
            "files");
  EXPECT_EQ(edited_model({prices}, {{"", "in", "4"}}, "tiny"),
            "error: 'prices' of model 'tiny' cannot be changed alone: its text is shared by an "
            "anchor, or on several lines; expected a change of the rules file, or PUT /v1/rules");
}

TEST(RuleEdit, ChangesPricesOfAPlan) {
  const std::string text =
      "plans:\n"
      "  free:\n"
      "    month: { limit: 10, prices: { gpt-4.1: { in: 1, out: 2 } } }  # cheap\n"
      "    credits: { limit: 5 }\n"
      "rules: []\n";
  EXPECT_EQ(edited_plan({text}, {{"month", "prices.gpt-4.1.out", "3"}, {"month", "limit", "11"}}),
            replaced(replaced(text, "out: 2", "out: 3"), "limit: 10", "limit: 11"));
  EXPECT_EQ(edited_plan({text}, {{"month", "prices.gpt-4.1.inn", "3"}}),
            "error: limit 'month' of plan 'free' has no price 'gpt-4.1.inn' of its own; expected "
            "gpt-4.1.in, gpt-4.1.out or sluice rules set prices/gpt-4.1 inn=3 for the price of the "
            "file");
  EXPECT_EQ(edited_plan({text}, {{"credits", "prices.a.in", "3"}}),
            "error: limit 'credits' of plan 'free' has no price 'a.in' of its own; expected sluice "
            "rules set prices/a in=3 for the price of the file");
  EXPECT_EQ(edited(kBlock, {{"user", "prices.a.in", "3"}}),
            "error: limit 'user' of rule 'api' has no prices of its own; expected sluice rules set "
            "prices/MODEL NAME=NUMBER for those of the file, or plans/PLAN/user prices.a.in=3 for "
            "those of a plan");
}

TEST(RuleEdit, RefusesValuesThatAnAnchorShares) {
  const std::string shared =
      "rules:\n"
      "  - { name: other, limits: [ { limit: &n 5 } ] }\n"
      "  - { name: api, limits: [ { limit: *n } ] }\n";
  EXPECT_EQ(
      edited(shared, {{"api/0", "limit", "6"}}).rfind("error: 'limits' of rule 'api' cannot", 0),
      0U);
  const std::string whole =
      "rules:\n"
      "  - { name: other, limits: &all [ { limit: 5 } ] }\n"
      "  - { name: api, limits: *all }\n";
  EXPECT_EQ(edited(whole, {{"api/0", "limit", "6"}}).rfind("error: ", 0), 0U);
  const std::string unshared = "rules: [ { name: api, limits: [ { limit: &n 5 } ] } ]";
  EXPECT_EQ(edited(unshared, {{"api/0", "limit", "6"}}), replaced(unshared, "&n 5", "&n 6"));
}

TEST(RuleEdit, RefusesValuesInOtherSpellings) {
  EXPECT_EQ(edited("rules: [ { name: api, limits: [ { limit: 5, per: \"1\\x73\" } ] } ]",
                   {{"api/0", "per", "2s"}}),
            "error: 'per' of limit 'api/0' of rule 'api' cannot be changed alone: its text is "
            "shared by an anchor, or on several lines; expected a change of the rules file, or PUT "
            "/v1/rules");
}

}  // namespace
}  // namespace sluice::rules
