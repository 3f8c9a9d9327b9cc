#include "rules/rule_changes.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice::rules {
namespace {

std::string shown(const RuleDifference& one) {
  return std::string(1, "+-~"[static_cast<std::size_t>(one.kind)]) + " " + one.rule + "|" +
         one.limit + "|" + one.key + "|" + one.before + "|" + one.after;
}

std::vector<std::string> compared(std::string_view before, std::string_view after) {
  const RuleText old{"a", before};
  const RuleText now{"b", after};
  std::vector<std::string> out;
  for (const RuleDifference& one : compare_rules({&old, 1}, {&now, 1})) out.push_back(shown(one));
  return out;
}

using Lines = std::vector<std::string>;

TEST(RuleDiff, EqualRulesMayBeSpelledInOtherWays) {
  EXPECT_EQ(compared("version: 1\n"
                     "rules:\n"
                     "  - name: api  # a comment\n"
                     "    mode: enforce\n"
                     "    limits: [ { name: user, algorithm: gcra, limit: 5, per: 60s } ]\n",
                     "version: 1\n"
                     "defaults: { on_missing: skip }\n"
                     "rules: [ { limits: [ { per: \"1m\", limit: 5, algorithm: gcra, name: user, "
                     "on_missing: skip } ], name: api } ]"),
            Lines{});
}

TEST(RuleDiff, DefaultsAndSpellingAreNoDifferences) {
  EXPECT_EQ(
      compared(
          "plans: { pro: { b: { limit: 9, per: 1s } } }\n"
          "rules:\n"
          "  - { name: api, match: { path: [/a, /b], header.X-A: b }, plan: { default: pro },\n"
          "      limits: [ { name: a, key: \"{header.X-Id}\", algorithm: gcra, limit: 5, per: 1s "
          "},\n"
          "        { name: b, algorithm: token_bucket },\n"
          "        { name: c, algorithm: sliding_window_counter, limit: 5, per: 1s },\n"
          "        { name: d, algorithm: fixed_window, limit: 5, per: month } ] }\n",
          "plans: { pro: { b: { limit: 9, per: 1s, burst: 9 } } }\n"
          "rules:\n"
          "  - { name: api, match: { path: [/b, /a], header.x-a: [b] }, plan: { default: pro },\n"
          "      limits: [ { name: a, key: \"{header.x-id}\", algorithm: gcra, limit: 5, per: 1s,\n"
          "          burst: 4 },\n"
          "        { name: b, algorithm: token_bucket, refill: continuous },\n"
          "        { name: c, algorithm: sliding_window_counter, limit: 5, per: 1s, slices: 10,\n"
          "          weighting: linear },\n"
          "        { name: d, algorithm: fixed_window, limit: 5, per: month } ] }\n"),
      Lines{});
}

TEST(RuleDiff, ComparesTemplatesOfTagsAndTextsOfAttributes) {
  EXPECT_EQ(compared("rules: [ { name: api, tag: \"{header.X-Id}\", match: { query.per: 60s, "
                     "query.key: header.A } } ]",
                     "rules: [ { name: api, tag: \"{header.x-id}\", match: { query.per: 1m, "
                     "query.key: header.a } } ]"),
            (Lines{"~ api||match.query.key|header.A|header.a", "~ api||match.query.per|60s|1m"}));
}

TEST(RuleDiff, ComparesEachItemOfAListOfConditions) {
  const auto matching = [](std::string_view conditions) {
    return "rules: [ { name: api, match: { " + std::string(conditions) + " } } ]";
  };
  EXPECT_EQ(compared(matching("ip: [192.0.2.1, { network: 10.0.0.0/8 }, { in: a.txt }]"),
                     matching("ip: [{ in: b.txt }, { network: 11.0.0.0/8 }, 192.0.2.1]")),
            Lines{"~ api||match.ip|192.0.2.1, { in: a.txt }, { network: 10.0.0.0/8 }|192.0.2.1, "
                  "{ in: b.txt }, { network: 11.0.0.0/8 }"});
  EXPECT_EQ(compared(matching("query.a: [x, { network: [192.0.2.1, { in: a.txt }] }]"),
                     matching("query.a: [x, { network: [192.0.2.1, { in: b.txt }] }]")),
            Lines{"~ api||match.query.a|x, { network: [192.0.2.1, { in: a.txt }] }|x, { network: "
                  "[192.0.2.1, { in: b.txt }] }"});
  EXPECT_EQ(compared(matching("query.a: [x, { network: [192.0.2.1] }]"),
                     matching("query.a: [{ network: 192.0.2.1 }, x, x]")),
            Lines{});
}

TEST(RuleDiff, TellsATextWithACommaFromAList) {
  const auto agent = [](std::string_view texts) {
    return "rules: [ { name: api, match: { header.user-agent: " + std::string(texts) + " } } ]";
  };
  const std::string one = "~ api||match.header.user-agent|\"a, b\"|";
  EXPECT_EQ(compared(agent("\"a, b\""), agent("[a, b]")), Lines{one + "a, b"});
  EXPECT_EQ(compared(agent("[\"a, b\"]"), agent("[a, b]")), Lines{one + "a, b"});
  EXPECT_EQ(compared(agent("[\"a, b\"]"), agent("\"a, b\"")), Lines{});
  EXPECT_EQ(compared(agent("[\"a, b\", c]"), agent("[a, \"b, c\"]")),
            Lines{one.substr(0, one.size() - 1) + ", c|\"b, c\", a"});
}

TEST(RuleDiff, NamesWhatChangedInALimitAndARule) {
  EXPECT_EQ(compared("rules: [ { name: api, limits: [ { name: user, limit: 5, per: 1s } ] } ]",
                     "rules: [ { name: api, mode: shadow, match: { path: [/a, /b] }, limits: [ { "
                     "name: user, limit: 20, per: 1s, burst: 9 } ] } ]"),
            (Lines{"~ api||match.path||/a, /b", "~ api||mode|enforce|shadow", "~ api|user|burst||9",
                   "~ api|user|limit|5|20"}));
}

TEST(RuleDiff, NamesRulesAndLimitsThatWereAddedAndRemoved) {
  EXPECT_EQ(compared("rules: [ { name: a, limits: [ { name: x }, { name: y } ] }, { name: b } ]",
                     "rules: [ { name: a, limits: [ { name: y }, { name: z } ] }, { name: c } ]"),
            (Lines{"+ a|z|||", "- a|x|||", "+ c||||", "- b||||"}));
}

TEST(RuleDiff, UnderstandsDefaultsDomainsAndPlans) {
  EXPECT_EQ(
      compared("domain: d\n"
               "plans: { pro: { user: { limit: 10, per: 1s } } }\n"
               "rules: [ { name: api, plan: { default: pro }, limits: [ { name: user } ] } ]",
               "defaults: { on_store_error: deny, on_missing: deny }\n"
               "plans: { pro: { user: { limit: 20, per: 1000ms } } }\n"
               "rules: [ { name: api, plan: { default: pro }, limits: [ { name: user } ] } ]"),
      (Lines{"~ api||domain|d|default", "~ api||on_store_error|allow|deny",
             "~ api|user|on_missing|skip|deny", "~ api|user|plans.pro.limit|10|20"}));
}

TEST(RuleDiff, NamesPricesThatCostsRead) {
  const std::string rules =
      "rules: [ { name: api, limits: [ { name: user, cost: 'price.in', price: { of: '{m}' } }, { "
      "name: all } ] } ]";
  EXPECT_EQ(
      compared("prices: { a: { in: 1_000 } }\n" + rules, "prices: { a: { in: 2_000 } }\n" + rules),
      (Lines{"~ api|user|prices.a.in|1000|2000"}));
  const std::string plan =
      "rules: [ { name: api, plan: { default: pro }, limits: [ { name: user, cost: 'price.in', "
      "price: { of: '{m}' } } ] } ]";
  EXPECT_EQ(
      compared("plans: { pro: { user: { limit: 1, prices: { a: { in: 1_000 } } } } }\n" + plan,
               "plans: { pro: { user: { limit: 1, prices: { a: { in: 900 } } } } }\n" + plan),
      (Lines{"~ api|user|plans.pro.prices.a.in|1000|900"}));
}

TEST(RuleDiff, ReportsAnotherOrderAndIgnoresTheFiles) {
  EXPECT_EQ(compared("rules: [ { name: a }, { name: b } ]", "rules: [ { name: b }, { name: a } ]"),
            Lines{"~ ||order||"});
  const std::array<RuleText, 2> two{
      {{"a", "rules: [ { name: a } ]"}, {"b", "rules: [ { name: b } ]"}}};
  const RuleText one{"c", "rules: [ { name: a }, { name: b } ]"};
  EXPECT_EQ(compare_rules(two, {&one, 1}), std::vector<RuleDifference>{});
}

}  // namespace
}  // namespace sluice::rules
