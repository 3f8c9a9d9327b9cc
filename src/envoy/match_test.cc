#include <gtest/gtest.h>

#include <set>

#include "envoy/config.h"
#include "envoy/test_config.h"

namespace sluice::envoy {
namespace {

using Entries = std::vector<Entry>;

// Returns the name of the matching descriptor without the domain; empty if none matches.
std::string led_to(const Config& config, const Entries& entries) {
  const Domain* domain = config.find("d");
  if (domain == nullptr) return "no domain";
  const Descriptor* matched = match(*domain, entries);
  return matched == nullptr ? "" : matched->rule.name.substr(2);
}

std::string counter_of(const Config& config, const Entries& entries) {
  const Domain& domain = *config.domains().front();
  const Descriptor* matched = match(domain, entries);
  std::string out;
  if (matched != nullptr) append_counter(out, domain, entries, *matched);
  return out;
}

constexpr std::string_view kOrder = R"(
domain: d
descriptors:
  - { key: path, rate_limit: { unit: second, requests_per_unit: 1 } }
  - { key: path, value: "/a*", rate_limit: { unit: second, requests_per_unit: 2 } }
  - { key: path, value: "/api/*", rate_limit: { unit: second, requests_per_unit: 3 } }
  - { key: path, value: "/api/v1", rate_limit: { unit: second, requests_per_unit: 4 } }
  - { key: other, value: "*", rate_limit: { unit: second, requests_per_unit: 5 } }
)";

TEST(Match, PrefersTheExactValueThenTheFirstWildcardOfTheFileThenTheBareKey) {
  const Config config = config_of(kOrder);
  EXPECT_EQ(led_to(config, {{"path", "/api/v1"}}), "path_/api/v1");
  EXPECT_EQ(led_to(config, {{"path", "/api/v2"}}), "path_/a*");
  EXPECT_EQ(led_to(config, {{"path", "/b"}}), "path");
  EXPECT_EQ(led_to(config, {{"path", ""}}), "path");
  EXPECT_EQ(led_to(config, {{"other", ""}}), "other_*");
  EXPECT_EQ(led_to(config, {{"unknown", "/b"}}), "");
}

constexpr std::string_view kNested = R"(
domain: d
descriptors:
  - key: a
    value: x
    descriptors:
      - { key: b, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - key: a
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: c, rate_limit: { unit: minute, requests_per_unit: 3 } }
)";

TEST(Match, AsksForExactlyTheDepthOfTheFile) {
  const Config config = config_of(kNested);
  EXPECT_EQ(led_to(config, {{"a", "y"}}), "a");
  EXPECT_EQ(led_to(config, {{"a", "y"}, {"c", "1"}}), "a.c");
  EXPECT_EQ(led_to(config, {{"a", "y"}, {"c", "1"}, {"c", "1"}}), "");
  EXPECT_EQ(led_to(config, {{"a", "x"}, {"b", "1"}}), "a_x.b");
  EXPECT_EQ(led_to(config, {{"b", "1"}}), "");
}

TEST(Match, DoesNotGoBackToALessExactKeyOnceALevelHasDecided) {
  const Config config = config_of(kNested);
  EXPECT_EQ(led_to(config, {{"a", "x"}, {"c", "1"}}), "");
}

TEST(Match, FindsWhitelistedDescriptorsWithoutALimit) {
  const Config config = config_of(
      "domain: d\ndescriptors: [ { key: a, value: ok }, { key: a, "
      "rate_limit: { unit: second, requests_per_unit: 1 } } ]");
  const std::vector<Entry> entries{{"a", "ok"}};
  const Descriptor* matched = match(*config.find("d"), entries);
  ASSERT_NE(matched, nullptr);
  EXPECT_FALSE(matched->rate_limit.has_value());
}

TEST(Match, FindsADomainByItsNameAlone) {
  const Config config = config_of(kNested);
  EXPECT_NE(config.find("d"), nullptr);
  EXPECT_EQ(config.find("D"), nullptr);
  EXPECT_EQ(config.find(""), nullptr);
}

TEST(Counter, IsNamedByTheDomainAndTheEntriesOfTheRequest) {
  const Config config = config_of(kNested);
  EXPECT_EQ(counter_of(config, {{"a", "y"}, {"c", "1"}}), "d||a=y|c=1");
}

TEST(Counter, OfAWildcardIsOneForEachValueUnlessTheyShareOne) {
  const Config config = config_of(R"(
domain: d
descriptors:
  - { key: a, value: "x*", rate_limit: { unit: second, requests_per_unit: 1 } }
  - { key: a, value: "y*", share_threshold: true,
      rate_limit: { unit: second, requests_per_unit: 1 } }
  - key: b
    value: "z*"
    share_threshold: true
    descriptors: [ { key: c, rate_limit: { unit: second, requests_per_unit: 1 } } ]
)");
  EXPECT_NE(counter_of(config, {{"a", "x1"}}), counter_of(config, {{"a", "x2"}}));
  EXPECT_EQ(counter_of(config, {{"a", "y1"}}), counter_of(config, {{"a", "y2"}}));
  EXPECT_EQ(counter_of(config, {{"b", "z1"}, {"c", "1"}}),
            counter_of(config, {{"b", "z2"}, {"c", "1"}}));
  EXPECT_NE(counter_of(config, {{"b", "z1"}, {"c", "1"}}),
            counter_of(config, {{"b", "z1"}, {"c", "2"}}));
}

// If keys and values were joined by `_`, some of these would share a counter.
TEST(Counter, DiffersForDifferentEntries) {
  const Config config = config_of(R"(
domain: d
descriptors:
  - key: a
    rate_limit: { unit: second, requests_per_unit: 1 }
    descriptors: [ { key: b, rate_limit: { unit: second, requests_per_unit: 1 } } ]
  - { key: a_b, rate_limit: { unit: second, requests_per_unit: 1 } }
  - { key: a=b, rate_limit: { unit: second, requests_per_unit: 1 } }
  - { key: "a", value: "s*", share_threshold: true,
      rate_limit: { unit: second, requests_per_unit: 1 } }
)");
  const std::vector<Entries> all{
      {{"a", "b"}},
      {{"a", "b_c"}},
      {{"a_b", "c"}},
      {{"a=b", "c"}},
      {{"a", "b=c"}},
      {{"a", ""}},
      {{"a", "x"}, {"b", "y"}},
      {{"a", "x|b=y"}},
      {{"a", "x%7Cb=y"}},
      {{"a", "{b}"}},
      {{"a", "s"}},
      {{"a", "|a=s*"}},
      {{"a", "x"}, {"b", ""}},
      {{"a", "x|b="}},
      {{"a", "week"}},
      {{"a", "|week"}},
  };
  std::set<std::string> counters;
  for (const Entries& entries : all) {
    const std::string counter = counter_of(config, entries);
    EXPECT_TRUE(counters.insert(counter).second) << counter;
  }
  for (const Unit unit : {Unit::kWeek, Unit::kMinute}) {
    std::string counter;
    append_counter(counter, *config.domains().front(), all[0], unit);
    EXPECT_TRUE(counters.insert(counter).second) << counter;
  }
}

}  // namespace
}  // namespace sluice::envoy
