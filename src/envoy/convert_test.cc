#include "envoy/config.h"

#include <gtest/gtest.h>

#include "envoy/test_config.h"
#include "sluice/attributes.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::envoy {
namespace {

constexpr std::string_view kEnvoy = R"(
domain: "d|\"x\""
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: user, value: root, rate_limit: { unlimited: true } }
  - { key: user, value: "bot*", share_threshold: true, shadow_mode: true,
      rate_limit: { name: bots, unit: day, requests_per_unit: 1, replaces: [ { name: other } ] } }
  - key: path
    value: "/a.b"
    descriptors:
      - { key: user, rate_limit: { algorithm: gcra, period: 10s, requests_per_unit: 5, burst: 2 } }
      - { key: path, rate_limit: { unit: second, requests_per_unit: 1 } }
  - { key: "not|a name", rate_limit: { unit: second, requests_per_unit: 1 } }
)";

std::vector<std::string> remarks;  // of the latest one

std::string converted(std::string_view yaml = kEnvoy) {
  remarks.clear();
  return convert(*config_of(yaml).domains().front(), remarks);
}

std::string decided_by(const RuleSet& rules, const Attributes& attributes) {
  MemoryStore store;
  Limiter limiter(store);
  RuleDecider request(limiter);
  const RuleAnswer& answer = request.decide(rules, attributes);
  return answer.rule != nullptr ? answer.rule->name : "";
}

TEST(Convert, MakesRulesThatLoad) {
  const auto rules = RuleSet::parse(converted(), "f");
  ASSERT_TRUE(rules) << rules.error().front().to_string() << "\n" << converted();
  EXPECT_EQ(rules->domain(), "d|\"x\"");
  ASSERT_EQ(rules->rules().size(), 4U);
  EXPECT_EQ(rules->find("user_bot*")->mode, RuleMode::kShadow);
  EXPECT_EQ(rules->find("user_bot*")->limits[0].name, "bots");
  EXPECT_EQ(rules->find("user_bot*")->limits[0].key, "");
  EXPECT_EQ(rules->find("path_/a.b.user")->limits[0].limit,
            gcra(5).per(std::chrono::seconds{10}).burst(2));
  EXPECT_EQ(rules->find("user")->limits[0].limit,
            fixed_window(2).per(std::chrono::minutes{1}).aligned_to_clock());
}

TEST(Convert, TriesRulesInTheOrderInWhichEnvoyMatches) {
  const auto rules = RuleSet::parse(converted(), "f");
  ASSERT_TRUE(rules);
  EXPECT_EQ(decided_by(*rules, {{"user", "root"}}), "user_root");
  EXPECT_EQ(decided_by(*rules, {{"user", "bot7"}}), "user_bot*");
  EXPECT_EQ(decided_by(*rules, {{"user", "anna"}}), "user");
  EXPECT_EQ(decided_by(*rules, {{"user", "root"}, {"path", "/a.b"}}), "path_/a.b.user");
  EXPECT_EQ(decided_by(*rules, {{"path", "/aXb"}}), "");
}

TEST(Convert, TriesWildcardsOfAKeyInTheOrderOfTheFile) {
  const auto rules = RuleSet::parse(converted(R"(
domain: d
descriptors:
  - key: a
    value: "x*"
    descriptors: [ { key: b, rate_limit: { unit: day, requests_per_unit: 5 } } ]
  - key: a
    value: "*y"
    descriptors: [ { key: b, value: z, rate_limit: { unit: day, requests_per_unit: 100 } } ]
  - { key: c, value: "*1", rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: c, value: "2*", rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: c, value: "21", rate_limit: { unit: day, requests_per_unit: 1 } }
)"),
                                    "f");
  ASSERT_TRUE(rules);
  EXPECT_EQ(decided_by(*rules, {{"a", "xy"}, {"b", "z"}}), "a_x*.b");
  EXPECT_EQ(decided_by(*rules, {{"a", "y"}, {"b", "z"}}), "a_*y.b_z");
  EXPECT_EQ(decided_by(*rules, {{"c", "201"}}), "c_*1");
  EXPECT_EQ(decided_by(*rules, {{"c", "21"}}), "c_21");
}

TEST(Convert, WritesRulesThatLoadWhateverTheTexts) {
  const std::string name = std::string(127, 'n') + "\u00e9";
  const std::string text = converted(
      "domain: d\n"
      "descriptors:\n"
      "  - { key: method, value: get, rate_limit: { unit: day, requests_per_unit: 1 } }\n"
      "  - { key: ip, value: \"127\", rate_limit: { unit: day, requests_per_unit: 1, name: " +
      name +
      " } }\n"
      "  - { key: not, value: x, rate_limit: { unit: day, requests_per_unit: 1 } }\n");
  const auto rules = RuleSet::parse(text, "f");
  ASSERT_TRUE(rules) << rules.error().front().to_string() << "\n" << text;
  EXPECT_EQ(decided_by(*rules, {{"method", "get"}}), "method_get");
  EXPECT_EQ(decided_by(*rules, {{"method", "GET"}}), "");
  EXPECT_EQ(decided_by(*rules, {{"ip", "127"}}), "ip_127");
  EXPECT_EQ(decided_by(*rules, {{"not", "x"}}), "");
  EXPECT_EQ(rules->find("ip_127")->limits[0].name, name.substr(0, 127));
  EXPECT_EQ(remarks.back(), "d/not_x: omitted: its key 'not' cannot be the name of an attribute");
}

TEST(Convert, KeepsTheLettersOfNames) {
  const std::string longest = std::string(94, 'n') + "\u00e9" + "x";  // of "city_" and 100 bytes
  const auto rules =
      RuleSet::parse(converted("domain: d\ndescriptors:\n"
                               "  - { key: city, value: \"\u65e5\u672c\", rate_limit: { unit: day, "
                               "requests_per_unit: 1 } }\n"
                               "  - { key: city, value: " +
                               longest + ", rate_limit: { unit: day, requests_per_unit: 1 } }\n"),
                     "f");
  ASSERT_TRUE(rules) << rules.error().front().to_string();
  EXPECT_EQ(decided_by(*rules, {{"city", "\u65e5\u672c"}}), "city_\u65e5\u672c");
  EXPECT_EQ(decided_by(*rules, {{"city", longest}}), "city_" + std::string(94, 'n'));
}

TEST(Convert, RemarksOnWhatItOmitsOrChanges) {
  converted();
  const auto remarked = [&](std::string_view text) {
    for (const std::string& remark : remarks) {
      if (remark.find(text) != remark.npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(remarked("user_bot*: 'replaces' is omitted"));
  EXPECT_TRUE(remarked("user_root: limited to 4294967295 per second"));
  EXPECT_TRUE(remarked("its key 'not|a name' cannot be the name of an attribute"));
  EXPECT_TRUE(remarked("its path contains the key 'path' more than once"));
}

TEST(Convert, MakesAnEmptyListOfADomainWithoutDescriptors) {
  const Config config = config_of("domain: d\n");
  EXPECT_TRUE(RuleSet::parse(convert(*config.domains().front(), remarks), "f"));
}

}  // namespace
}  // namespace sluice::envoy
