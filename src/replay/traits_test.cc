#include "replay/traits.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

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
  EXPECT_EQ(agent_of(traits), "curl/8");
  EXPECT_EQ(requests_of(traits),
            "GET /login (80.0 %), GET / (20.0 %); status 401 (80.0 %), 200 (20.0 %)");
}

TEST(Traits, SayThatThereAreManyPaths) {
  Traits traits;
  for (int i = 0; i < 100; ++i) traits.add(line_of("bot", "/page/" + std::to_string(i)));
  EXPECT_TRUE(requests_of(traits).starts_with("many paths, such as GET /page/"));
  EXPECT_TRUE(requests_of(traits).ends_with("; status 200"));
}

TEST(Traits, DecodeTheEscapesOfTheLog) {
  Traits traits;
  traits.add(line_of(R"(a\"b)", R"(/\x41)"));
  EXPECT_EQ(agent_of(traits), "a\"b");
  EXPECT_EQ(requests_of(traits), R"(GET /\x41; status 200)") << "a path has none";
}

TEST(AgentName, IsWhatDistinguishesAnAgent) {
  const std::vector<std::pair<const char*, const char*>> names = {
      {"Mozilla/5.0 (Windows NT 6.1) (compatible; SMTBot/1.0; +http://a.example)", "SMTBot/1.0"},
      {"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", "bingbot/2.0"},
      {"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/41.0 "
       "Safari/537.36 (AhrefsSpider/3.1; +http://a.example/spider)",
       "AhrefsSpider/3.1"},
      {"Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/48.0 "
       "Safari/537.36",
       "Chrome/48.0"},
      {"Mozilla/5.0 (Windows NT 5.1; rv:32.0) Gecko/20100101 Firefox/32.0", "Firefox/32.0"},
      {"Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1)", "MSIE 8.0"},
      {"Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko",
       "Mozilla/5.0 (Windows NT 6.1; Trident/7.0; rv:11.0) like Gecko"},
      {"Mozilla/5.0 (compatible;", "Mozilla/5.0 (compatible;"},
      {"jetmon/1.0 (Jetpack Site Uptime Monitor)", "jetmon/1.0 (Jetpack Site Uptime Monitor)"},
      {"", ""},
  };
  for (const auto& [agent, name] : names) EXPECT_EQ(agent_name(agent), name);
}

TEST(Traits, ShowTheNameOfAnAgentThatDoesNotFit) {
  const std::string agent =
      "Mozilla/5.0 (Windows NT 6.1) (compatible; SMTBot/1.0; +http://a.example)";
  Traits traits;
  traits.add(line_of(agent, "/a", "200"));
  EXPECT_EQ(fitted_text(traits, "", 100), "GET /a; status 200; " + agent);
  EXPECT_EQ(fitted_text(traits, "", 91), "GET /a; status 200; SMTBot/1.0");
  EXPECT_EQ(fitted_text(traits, "", 28), "GET…; status 200; SMTBot/1.0");
  EXPECT_EQ(fitted_text(traits, "", 20), "…; status 200; SMTB…");
  EXPECT_EQ(fitted_text(traits, agent, 91), "GET /a; status 200");
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
