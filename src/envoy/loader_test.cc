#include <gtest/gtest.h>

#include <array>
#include <boost/json.hpp>

#include "envoy/config.h"
#include "envoy/test_config.h"

namespace sluice::envoy::loader_test {
namespace {

using namespace std::chrono_literals;
using Errors = std::vector<std::string>;

const RateLimit& first_limit(const Config& config) {
  return *config.domains().front()->descriptors.front()->rate_limit;
}

std::string with_limit(std::string_view limit, std::string_view rest = "") {
  return "domain: d\ndescriptors:\n  - key: k\n" + std::string(rest) + "    rate_limit: { " +
         std::string(limit) + " }\n";
}

TEST(Loader, ReadsWindowsThatAreAlignedToTheClock) {
  const Config config = config_of(with_limit("unit: minute, requests_per_unit: 5"));
  const RateLimit& limit = first_limit(config);
  EXPECT_EQ(*limit.limit, fixed_window(5).per(1min).aligned_to_clock());
  EXPECT_EQ(limit.unit, Unit::kMinute);
}

TEST(Loader, ReadsEveryUnitInAnyCase) {
  const std::pair<std::string_view, Duration> units[] = {
      {"second", 1s},    {"MINUTE", 1min},    {"Hour", 1h},       {"day", 24h},
      {"week", 7 * 24h}, {"mOnth", 30 * 24h}, {"year", 365 * 24h}};
  for (const auto& [name, length] : units) {
    const Config config = config_of(with_limit("requests_per_unit: 1, unit: " + std::string(name)));
    EXPECT_EQ(first_limit(config).limit->period(), length) << name;
  }
}

TEST(Loader, TakesNoNumberForABanAsTheReferenceDoes) {
  EXPECT_EQ(first_limit(config_of(with_limit("unit: second"))).limit->capacity(), 0U);
}

TEST(Loader, ReadsEveryKeyOfADescriptor) {
  const Config config = config_of(R"(
domain: d
descriptors:
  - key: k
    value: a*b
    shadow_mode: true
    quota_mode: true
    detailed_metric: true
    value_to_metric: true
    share_threshold: true
    metadata: { tier: gold, weight: 1.5, on: "yes", deep: { list: [ 1, two ] }, none: ~ }
    rate_limit:
      name: mine
      replaces: [ { name: other }, { name: third } ]
      unit: hour
      requests_per_unit: 4294967295
    descriptors:
      - key: inner
)");
  const Descriptor& descriptor = *config.domains().front()->descriptors.front();
  EXPECT_EQ(descriptor.value, "a*b");
  EXPECT_TRUE(descriptor.shadow_mode && descriptor.quota_mode && descriptor.detailed_metric);
  EXPECT_TRUE(descriptor.value_to_metric && descriptor.share_threshold);
  EXPECT_EQ(descriptor.rate_limit->name, "mine");
  EXPECT_EQ(descriptor.rate_limit->replaces, (Errors{"other", "third"}));
  EXPECT_EQ(descriptor.rate_limit->limit->limit(), 4294967295U);
  EXPECT_EQ(descriptor.children.size(), 1U);
  const auto& members = descriptor.metadata;
  ASSERT_EQ(members.size(), 5U);
  EXPECT_EQ(members.begin()[1].value(), 1.5);
  EXPECT_EQ(members.begin()[2].value(), "yes");
  EXPECT_EQ(members.begin()[3].value().as_object().begin()[0].value().as_array()[1], "two");
  EXPECT_TRUE(members.begin()[4].value().is_null());
}

TEST(Loader, ReadsUnlimited) {
  const RateLimit limit = first_limit(config_of(with_limit("unlimited: true, name: free")));
  EXPECT_FALSE(limit.limit.has_value());
  EXPECT_EQ(limit.name, "free");
}

TEST(Loader, ReadsOurOwnKeys) {
  const Config config = config_of(with_limit(
      "requests_per_unit: 10, period: 90s, algorithm: token_bucket, burst: 20, on_store_error: "
      "local"));
  EXPECT_EQ(*first_limit(config).limit, token_bucket(10).per(90s).burst(20));
  EXPECT_EQ(first_limit(config).unit, Unit::kUnknown);
  EXPECT_EQ(first_limit(config).on_store_error, FailurePolicy::kLocal);
  const Config slices = config_of(with_limit(
      "requests_per_unit: 10, period: 1h, algorithm: sliding_window_counter, slices: 6"));
  EXPECT_EQ(*first_limit(slices).limit, sliding_window_counter(10).per(1h).slices(6));
  EXPECT_EQ(first_limit(slices).unit, Unit::kHour);
}

TEST(Loader, LeavesAFailureOfTheStoreToEnvoyByDefault) {
  EXPECT_EQ(first_limit(config_of(with_limit("unit: day"))).on_store_error, std::nullopt);
}

TEST(Loader, ReadsKeysWithNothingBehindThemAsIfTheyWereNotThere) {
  const Config config = config_of(
      "domain: d\ndescriptors:\n  - key: k\n    value:\n    rate_limit:\n    descriptors:\n");
  EXPECT_FALSE(config.domains().front()->descriptors.front()->rate_limit.has_value());
  EXPECT_TRUE(config_of("domain: d\ndescriptors:\n").find("d")->descriptors.empty());
}

TEST(Loader, ReadsTwoHundredLevels) {
  std::string yaml = "domain: d\n";
  std::string indent;
  for (int i = 0; i < 200; ++i) {
    yaml += indent + "descriptors:\n" + indent + "- key: k\n";
    indent += "  ";
  }
  yaml += indent + "rate_limit: { unit: second, requests_per_unit: 1 }\n";
  const Config config = config_of(yaml);
  EXPECT_EQ(config.limited().size(), 1U);
}

TEST(Loader, RefusesExcessiveNesting) {
  std::string yaml = "domain: d\ndescriptors: ";
  for (int i = 0; i < 5000; ++i) yaml += "[ { key: k, descriptors: ";
  yaml += "[]";
  for (int i = 0; i < 5000; ++i) yaml += " } ]";
  const Errors errors = errors_of(yaml);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].find("nested"), std::string::npos) << errors[0];
}

// A file that is refused, with its error and position.
struct Refused {
  std::string_view yaml;
  std::string_view error;
};
constexpr std::array kRefused{
    Refused{"domain: ''\n",
            "f.yaml:1:9: error: 'domain' is empty; expected text of 1 to 65536 bytes"},
    Refused{
        "descriptors: []\n",
        "f.yaml:1:1: error: file lacks 'domain'; expected 'domain:' with text of 1 to 65536 bytes"},
    Refused{
        "domain:\n",
        "f.yaml:1:1: error: file lacks 'domain'; expected 'domain:' with text of 1 to 65536 bytes"},
    Refused{"",
            "f.yaml:1:1: error: the file is empty; expected a map that begins with 'domain: NAME'"},
    Refused{"domain: d\ndescriptors:\n  - key: ''\n",
            "f.yaml:3:10: error: 'key' is empty; expected text of 1 to 65536 bytes"},
    Refused{
        "domain: d\ndescriptors:\n  - value: v\n",
        "f.yaml:3:5: error: descriptor lacks 'key'; expected 'key:' with text of 1 to 65536 bytes"},
    Refused{"domain: d\ndescriptors:\n  - key: a\n    value: v\n  - key: a\n    value: v\n",
            "f.yaml:5:5: error: duplicate descriptor: key 'a' with the value 'v'; expected a key "
            "or value other than that of line 3, column 5"},
    Refused{"domain: d\ndescriptors: [ { key: a }, { key: a } ]\n",
            "f.yaml:2:28: error: duplicate descriptor: key 'a' without a value; expected a key or "
            "value other than that of line 2, column 16"},
    Refused{"domain: d\ndescriptors: [ { key: a, value: b* }, { key: a, value: b* } ]\n",
            "f.yaml:2:39: error: duplicate descriptor: key 'a' with the value 'b*'; expected a key "
            "or value other than that of line 2, column 16"},
    Refused{
        "domain: d\ndescriptors:\n  - key: a\n    rate_limit: { unit: minuet, requests_per_unit: 1 "
        "}\n",
        "f.yaml:4:25: error: 'unit' is 'minuet'; expected second, minute, hour, day, week, month "
        "or year; did you mean 'minute'?"},
    Refused{"domain: d\ndescriptors:\n  - key: a\n    rate_limit: { unit: unknown }\n",
            "f.yaml:4:25: error: 'unit' is 'unknown'; expected second, minute, hour, day, week, "
            "month or year"},
    Refused{
        "domain: d\ndescriptors:\n  - key: a\n    rate_limit: { requests_per_unit: 1 }\n",
        "f.yaml:4:17: error: rate_limit lacks 'unit'; expected 'unit:' with second, minute, hour, "
        "day, week, month or year"},
    Refused{
        "domain: d\ndescriptors:\n  - key: a\n    rate_limit: { unlimited: true, unit: second }\n",
        "f.yaml:4:42: error: 'unlimited' with a 'unit'; expected only one of them: an unlimited "
        "descriptor counts nothing"},
    Refused{
        "domain: d\ndescriptors:\n  - key: a\n    value: v\n    share_threshold: true\n",
        "f.yaml:5:22: error: 'share_threshold' without a wildcard; expected a 'value' with a '*', "
        "whose values share one counter"},
    Refused{
        "domain: d\ndescriptors: [ a ]\n",
        "f.yaml:2:16: error: descriptor is 'a'; expected a map; its keys are one of: key, value, "
        "rate_limit, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, "
        "share_threshold, metadata"},
    Refused{"domain: d\ndescriptors: [ { key: a, rate_limit: { unit: day, replaces: [ b ] } } ]\n",
            "f.yaml:2:63: error: replaces is 'b'; expected a map; its keys are one of: name"},
    Refused{"domain: d\ndescriptors: a\n",
            "f.yaml:2:14: error: 'descriptors' is 'a'; expected a list of descriptors, each "
            "starting with '- '"},
    Refused{"domain: d\n1: a\n",
            "f.yaml:2:1: error: unknown key '1'; expected one of: domain, descriptors"},
    Refused{"domain: d\n[a]: a\n",
            "f.yaml:2:1: error: a key that is not text; expected 'key: value'"},
    Refused{"domain: d\ndescriptors: [ { key: a, metadata: { 1: a } } ]\n",
            "f.yaml:2:38: error: the key '1' is not text; expected it in quotes"},
    Refused{"domain: d\ndescriptors: [ { key: a, metadata: 5 } ]\n",
            "f.yaml:2:36: error: 'metadata' is '5'; expected a map of metadata"},
    Refused{"domain: d\ndescriptors: [ { key: a, metadata: [ b ] } ]\n",
            "f.yaml:2:36: error: 'metadata' is a list; expected a map of metadata"},
    Refused{"domain: d\nversion: 1\n",
            "f.yaml:2:1: error: unknown key 'version'; expected one of: domain, descriptors"},
    Refused{
        "domain: d\ndescriptors: [ { key: a, ratelimit: {} } ]\n",
        "f.yaml:2:26: error: unknown key 'ratelimit'; expected one of: key, value, rate_limit, "
        "descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, "
        "metadata; did you mean 'rate_limit'?"},
    Refused{
        "domain: d\ndescriptors: [ { key: a, rate_limit: { unit: day, shadow_mode: true } } ]\n",
        "f.yaml:2:51: error: unknown key 'shadow_mode'; expected one of: unit, requests_per_unit, "
        "unlimited, name, replaces, algorithm, burst, period, slices, on_store_error"},
    Refused{"domain: d\ndescriptors: [ { key: a, rate_limit: { unit: day, replaces: [ { nam: x } ] "
            "} } ]\n",
            "f.yaml:2:63: error: replaces lacks 'name'; expected 'name:' with text of 1 to 65536 "
            "bytes"},
    Refused{"domain: d\ndescriptors: [ { key: a, rate_limit: { unit: day, replaces: [ { name: '' } "
            "] } } ]\n",
            "f.yaml:2:71: error: 'name' is empty; expected text of 1 to 65536 bytes"},
    Refused{"domain: d\ndescriptors: [ { key: a, rate_limit: { unit: day, name: x, replaces: [ { "
            "name: x } ] } } ]\n",
            "f.yaml:2:80: error: 'x' replaces itself; expected the name of another limit"},
    Refused{"domain: d\ndescriptors: [ { key: a, rate_limit: { unit: day, requests_per_unit: "
            "4294967296 } } ]\n",
            "f.yaml:2:70: error: 'requests_per_unit' is '4294967296'; expected a whole number from "
            "0 to 4294967295"},
    Refused{"domain: d\ndescriptors: [ { key: a, rate_limit: { unit: day, period: 1h } } ]\n",
            "f.yaml:2:59: error: both 'unit' and 'period'; expected one of them"},
};

TEST(Loader, ReportsErrorsOfTheContractWithTheirPosition) {
  for (const Refused& refused : kRefused) {
    const Errors errors = errors_of(refused.yaml);
    ASSERT_FALSE(errors.empty()) << refused.yaml;
    EXPECT_EQ(errors.front(), refused.error) << refused.yaml;
  }
}

TEST(Loader, RefusesOptionsThatDoNotFitTheirAlgorithm) {
  const Errors burst = errors_of(with_limit("unit: day, requests_per_unit: 1, burst: 2"));
  ASSERT_EQ(burst.size(), 1U);
  EXPECT_TRUE(burst[0].starts_with("f.yaml:4:59: error: ")) << burst[0];
  const Errors period = errors_of(with_limit("period: 900d"));
  ASSERT_EQ(period.size(), 1U);
  EXPECT_TRUE(period[0].starts_with("f.yaml:4:27: error: ")) << period[0];
}

TEST(Loader, RefusesADomainThatAnotherFileHas) {
  const std::array<RuleText, 2> files{{{"a.yaml", "domain: d\n"}, {"b.yaml", "domain: d\n"}}};
  const auto config = Config::parse(files);
  ASSERT_FALSE(config);
  ASSERT_EQ(config.error().size(), 1U);
  EXPECT_EQ(config.error()[0].to_string(),
            "b.yaml:1:9: error: duplicate domain 'd'; expected a name other than that of a.yaml "
            "(line 1, column 9), or 'merge_domains: true' in 'envoy' of the configuration");
}

TEST(Loader, MergesTheDescriptorsOfFilesWithOneDomain) {
  const std::string first =
      "domain: d\ndescriptors:\n  - { key: k, value: v, rate_limit: { unit: day, "
      "requests_per_unit: 10 } }\n  - { key: w, value: \"a*\" }\n";
  const std::string second =
      "domain: d\ndescriptors:\n  - { key: k, rate_limit: { unit: hour, requests_per_unit: 20 } "
      "}\n  - { key: w, value: \"*\", rate_limit: { unit: hour, requests_per_unit: 1 } }\n";
  const std::array<RuleText, 3> files{
      {{"a.yaml", first}, {"b.yaml", "domain: other\n"}, {"c.yaml", second}}};
  const auto config = Config::parse(files, {}, true);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->domains().size(), 2U);
  EXPECT_EQ(config->limited().size(), 3U);
  const Domain& domain = *config->find("d");
  const auto limit_of = [&](std::string_view key, std::string_view value) {
    const Entry entry{key, value};
    const Descriptor* const found = match(domain, {&entry, 1});
    return found->rate_limit ? found->rate_limit->limit->limit() : 0U;
  };
  EXPECT_EQ(limit_of("k", "v"), 10U);
  EXPECT_EQ(limit_of("k", "x"), 20U);
  EXPECT_EQ(limit_of("w", "ab"), 0U) << "the first wildcard in the order of the files";
  EXPECT_EQ(limit_of("w", "b"), 1U);
}

TEST(Loader, RefusesADescriptorThatAnotherFileOfTheDomainHas) {
  constexpr std::string_view kOne = "domain: d\ndescriptors:\n  - { key: k, value: v }\n";
  const std::array<RuleText, 2> files{{{"a.yaml", kOne}, {"b.yaml", kOne}}};
  const auto config = Config::parse(files, {}, true);
  ASSERT_FALSE(config);
  ASSERT_EQ(config.error().size(), 1U);
  EXPECT_EQ(
      config.error()[0].to_string(),
      "b.yaml:3:5: error: duplicate descriptor: key 'k' with the value 'v'; expected a key or "
      "value other than that of a.yaml (line 3, column 5)");
}

TEST(Loader, ReadsManyFilesOneDomainEach) {
  const std::array<RuleText, 2> files{{{"a.yaml", "domain: a\n"}, {"b.yaml", "domain: b\n"}}};
  const auto config = Config::parse(files);
  ASSERT_TRUE(config);
  EXPECT_NE(config->find("a"), nullptr);
  EXPECT_NE(config->find("b"), nullptr);
}

TEST(Loader, ReportsAllErrors) {
  EXPECT_EQ(errors_of("domain: ''\ndescriptors: [ { key: '' }, { kee: b } ]\n").size(), 4U);
}

TEST(Loader, RefusesWithoutScriptsLimitsThatNeedThem) {
  const std::string yaml = with_limit("unit: day, algorithm: gcra, requests_per_unit: 1");
  const RuleText file{"f.yaml", yaml};
  EXPECT_FALSE(Config::parse({&file, 1}, {.scripting = false}));
  const std::string window = with_limit("unit: day, requests_per_unit: 1");
  const RuleText plain{"f.yaml", window};
  EXPECT_TRUE(Config::parse({&plain, 1}, {.scripting = false}));
}

TEST(Loader, RefusesAliasesThatMultiply) {
  std::string yaml = "domain: d\ndescriptors:\n  - &a { key: k, descriptors: [ { key: x } ] }\n";
  EXPECT_EQ(errors_of(yaml + "  - *a\n").size(), 1U);
}

}  // namespace
}  // namespace sluice::envoy::loader_test
