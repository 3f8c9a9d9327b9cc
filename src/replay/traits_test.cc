#include "replay/traits.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::replay {
namespace {

LogLine line_of(std::string_view agent, std::string_view path, std::string_view status = "200") {
  LogLine line;
  line.method = "GET";
  line.user_agent = agent;
  line.path = path;
  line.status = status;
  return line;
}

TEST(FrequentValues, KeepsTheMostFrequentOnesOfMany) {
  FrequentValues values;
  for (int i = 0; i < 1000; ++i) {
    values.add("often");
    values.add("rare " + std::to_string(i));
    if (i % 2 == 0) values.add("sometimes");
  }
  EXPECT_EQ(values.added(), 2500u);
  const auto most = values.most(2);
  ASSERT_EQ(most.size(), 2u);
  EXPECT_EQ(most[0].text, "often");
  EXPECT_EQ(most[0].least, 1000u);
  EXPECT_EQ(most[1].text, "sometimes");
}

TEST(FrequentValues, CountsNoValueMoreOftenThanItWasAdded) {
  FrequentValues values;
  for (int i = 0; i < 1000; ++i) values.add(std::to_string(i));
  for (const auto& each : values.most(FrequentValues::kKept))
    EXPECT_EQ(each.least, 1u) << each.text;
}

TEST(Traits, NameTheRequestsTheStatusAndTheAgent) {
  Traits traits;
  for (int i = 0; i < 8; ++i) traits.add(line_of("curl/8", "/login", "401"));
  for (int i = 0; i < 2; ++i) traits.add(line_of("curl/8", "/", "200"));
  EXPECT_EQ(text_of(traits).agent, "curl/8");
  EXPECT_EQ(text_of(traits).requests,
            "GET /login (80.0 %), GET / (20.0 %); status 401 (80.0 %), 200 (20.0 %)");
}

TEST(Traits, SayThatThereAreManyPaths) {
  Traits traits;
  for (int i = 0; i < 100; ++i) traits.add(line_of("bot", "/page/" + std::to_string(i)));
  EXPECT_TRUE(text_of(traits).requests.starts_with("many paths, such as GET /page/"));
  EXPECT_TRUE(text_of(traits).requests.ends_with("; status 200"));
}

TEST(Traits, DecodeTheEscapesOfTheLog) {
  Traits traits;
  traits.add(line_of(R"(a\"b)", R"(/\x41)"));
  EXPECT_EQ(text_of(traits).agent, "a\"b");
  EXPECT_EQ(text_of(traits).requests, "GET /A; status 200");
}

TEST(TraitsByKey, KeepsTheHeaviestKeysInABoundedNumber) {
  TraitsByKey traits;
  for (std::uint32_t key = 0; key < 4 * TraitsByKey::kMost; ++key) {
    traits.add(key, 1 + key, line_of("agent", "/"));
  }
  constexpr std::uint32_t kLast = 4 * TraitsByKey::kMost - 1;
  traits.add(kLast, 1'000'000, line_of("agent", "/"));
  std::size_t kept = 0;
  for (std::uint32_t key = 0; key <= kLast; ++key) {
    kept += traits.find(key) != nullptr ? 1 : 0;
  }
  EXPECT_LE(kept, TraitsByKey::kMost);
  EXPECT_NE(traits.find(kLast), nullptr);
  EXPECT_EQ(traits.find(0), nullptr);
}

}  // namespace
}  // namespace sluice::replay
