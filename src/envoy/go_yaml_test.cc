#include <gtest/gtest.h>

#include <string>

#include "envoy/config.h"
#include "envoy/test_config.h"

namespace sluice::envoy {
namespace {

using Errors = std::vector<std::string>;

const Descriptor& first(const Config& config) {
  return *config.domains().front()->descriptors.front();
}

TEST(GoYaml, TakesEverySpellingOfAFlag) {
  for (const std::string text :
       {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"}) {
    const Config config =
        config_of("domain: d\ndescriptors: [ { key: k, shadow_mode: " + text + " } ]\n");
    EXPECT_TRUE(first(config).shadow_mode) << text;
  }
  for (const std::string text :
       {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"}) {
    const Config config =
        config_of("domain: d\ndescriptors: [ { key: k, quota_mode: " + text + " } ]\n");
    EXPECT_FALSE(first(config).quota_mode) << text;
  }
}

TEST(GoYaml, LeavesTextAsItIs) {
  const Config config = config_of("domain: d\ndescriptors: [ { key: yes, value: 0x10 } ]\n");
  EXPECT_EQ(first(config).key, "yes");
  EXPECT_EQ(first(config).value, "0x10");
}

TEST(GoYaml, RefusesFlagsInQuotesAndWordsThatAreNone) {
  for (const std::string text : {"\"true\"", "yEs", "1", "truth"}) {
    EXPECT_EQ(
        errors_of("domain: d\ndescriptors: [ { key: k, shadow_mode: " + text + " } ]\n").size(), 1U)
        << text;
  }
}

std::uint64_t limit_of(const std::string& number) {
  const Config config = config_of(
      "domain: d\ndescriptors: [ { key: k, rate_limit: { unit: day, requests_per_unit: " + number +
      " } } ]\n");
  return config.domains().empty() ? 0 : first(config).rate_limit->limit->limit();
}

TEST(GoYaml, TakesNumbersWithUnderscoresAndInHexadecimal) {
  EXPECT_EQ(limit_of("1_000"), 1000U);
  EXPECT_EQ(limit_of("1_000_000"), 1'000'000U);
  EXPECT_EQ(limit_of("0x10"), 16U);
  EXPECT_EQ(limit_of("0XfF"), 255U);
}

TEST(GoYaml, RefusesOtherNumbers) {
  for (const std::string number :
       {"0_7", "0x", "0xg", "_1", "1e3", "0xffffffffff", "99999999999999999999_9"}) {
    EXPECT_EQ(
        errors_of(
            "domain: d\ndescriptors: [ { key: k, rate_limit: { unit: day, requests_per_unit: " +
            number + " } } ]\n")
            .size(),
        1U)
        << number;
  }
}

TEST(GoYaml, MergesMapsAndKeepsTheExplicitValues) {
  const Config config = config_of(R"(
domain: d
descriptors:
  - &base
    key: a
    shadow_mode: yes
    rate_limit: &limit { unit: hour, requests_per_unit: 5 }
  - <<: *base
    key: b
    rate_limit: { <<: [ { name: mine }, *limit ], requests_per_unit: 7 }
  - &third { <<: *base, key: c, shadow_mode: false }
  - { <<: [ *third, *base ], key: d }
)");
  const auto& all = config.domains().front()->descriptors;
  ASSERT_EQ(all.size(), 4U);
  EXPECT_TRUE(all[1]->shadow_mode);
  EXPECT_EQ(all[1]->rate_limit->limit->limit(), 7U);
  EXPECT_EQ(all[1]->rate_limit->unit, Unit::kHour);
  EXPECT_EQ(all[1]->rate_limit->name, "mine");
  EXPECT_EQ(all[2]->rate_limit->limit->limit(), 5U);
  EXPECT_FALSE(all[3]->shadow_mode) << "of the first map that has it";
  EXPECT_EQ(all[3]->key, "d");
}

TEST(GoYaml, RefusesToMergeValuesOtherThanMaps) {
  EXPECT_EQ(errors_of("domain: d\ndescriptors: [ { key: a, <<: 5 } ]\n"),
            Errors{"f.yaml:2:30: error: '<<' merges a value that is not a map; expected a map, or "
                   "a list of maps"});
  EXPECT_EQ(errors_of("domain: d\ndescriptors: [ { key: a, <<: [ {}, [] ] } ]\n").size(), 1U);
}

}  // namespace
}  // namespace sluice::envoy
