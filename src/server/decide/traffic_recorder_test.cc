#include "server/decide/session.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "server/logging/test_pipe.h"
#include "server/rules/test_folder.h"
#include "sluice/limit_builder.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server::traffic_recorder_test {
namespace {

constexpr std::string_view kRules = R"(version: 1
rules:
  - name: order
    match: { path: /order }
    limits: [ { name: user, key: "{header.X-User}", algorithm: gcra, limit: 1, per: 2s } ]
)";

using Texts = std::vector<std::string>;

class TrafficRecorderTest : public ::testing::Test {
 protected:
  // Returns the lines that are recorded of what `use` does with a session.
  template <typename Use>
  Texts recorded(const Use& use, bool hash_all = false) {
    options_.file = folder_.write("traffic.jsonl", "");
    testing::ManualClock clock;
    clock.set(Instant{std::chrono::seconds{1795428000} + Duration{123456}});
    MemoryStore store{{}, clock};
    Limiter limiter{store};
    const auto manager = RulesManager::open({folder_.write("rules.yaml", kRules)}).value();
    metrics::Registry registry;
    TestingPipe pipe;
    Log log({}, pipe.writing());
    DenialLog denials(log, clock, clock);
    {
      const auto traffic = TrafficLog::open(options_, log).value();
      TrafficRecorder recorder(*traffic, denials, hash_all, clock);
      Session session({limiter, *manager, registry.make_recorder(), denials, {}, &recorder});
      use(session);
    }
    std::ifstream file(options_.file);
    Texts lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  TestFolder folder_;
  TrafficOptions options_;
};

TEST_F(TrafficRecorderTest, WritesWhatRulesReadAndWhatTheyDecided) {
  const Attributes order{{"method", "POST"},
                         {"path", "/order"},
                         {"header.x-user", "u1"},
                         {"header.authorization", "secret"}};
  const LimitCost costs[] = {{"user", 7}};
  EXPECT_EQ(recorded([&](Session& session) {
              session.decide({order});
              session.decide({order, 3});
              session.decide({.attributes = order, .costs = {1, costs}, .rule = "order"});
            }),
            (Texts{R"({"time":"2026-11-23T10:00:00.123456Z","attributes":{"method":"POST",)"
                   R"("path":"/order","header.x-user":"u1"},"outcome":"allowed"})",
                   R"({"time":"2026-11-23T10:00:00.123456Z","attributes":{"method":"POST",)"
                   R"("path":"/order","header.x-user":"u1"},"cost":3,"outcome":"denied"})",
                   R"({"time":"2026-11-23T10:00:00.123456Z","attributes":{"method":"POST",)"
                   R"("path":"/order","header.x-user":"u1"},"costs":{"user":7},)"
                   R"("outcome":"denied"})"}));
}

TEST_F(TrafficRecorderTest, WritesEachPartOfARequestAndNothingThatDoesNotTake) {
  const Attributes a{{"path", "/a"}}, b{{"path", "/b"}};
  const RequestPart parts[] = {{&a, 1}, {&b, 2}, {&a, 0}};
  const auto lines = recorded([&](Session& session) {
    session.decide({a, {}, Verb::kPeek});
    session.decide({a, {}, Verb::kRefund});
    session.decide_parts("", parts);
  });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find(R"({"path":"/a"},"outcome":"allowed")"), std::string::npos);
  EXPECT_NE(lines[1].find(R"({"path":"/b"},"cost":2,"outcome":"allowed")"), std::string::npos);
}

TEST_F(TrafficRecorderTest, WritesRequestsThatNameTheirLimitAsAnotherKindOfLine) {
  const auto ask = [](Session& session) {
    const Limit limit = gcra(30).per(std::chrono::minutes{1}).burst(15);
    session.decide({"user:1", limit, 2});
    session.decide({"user:\"1\"", limit, 99});
    session.decide({"user:1", limit}, Verb::kPeek);
    session.decide({"user:1", limit}, Verb::kRefund);
  };
  const std::string time = R"({"time":"2026-11-23T10:00:00.123456Z","without_rules":{"key":")";
  const std::string limit = R"(","algorithm":"gcra","limit":30,"per":"1m","capacity":16},"cost":)";
  EXPECT_EQ(recorded(ask), (Texts{time + "user:1" + limit + R"(2,"outcome":"allowed"})",
                                  time + R"(user:\"1\")" + limit + R"(99,"outcome":"denied"})"}));
  options_.hash = {"key"};
  for (const std::string& line : recorded(ask)) {
    EXPECT_EQ(line.find("user"), std::string::npos) << line;
  }
  EXPECT_EQ(recorded(ask, true).front().find("user"), std::string::npos);
}

TEST_F(TrafficRecorderTest, LinesAreJsonForAnyBytes) {
  options_.attributes = {"body.\"\n\xFF"};
  std::string any;
  for (int i = 0; i < 256; ++i) any += static_cast<char>(i);
  const Attributes request{{"path", any}, {"ip", "\xE2\x80\xAE\xC3\xA4"}, {"body.\"\n\xFF", any}};
  const auto lines = recorded([&](Session& session) { session.decide({request}); });
  ASSERT_EQ(lines.size(), 1u);
  const auto parsed = boost::json::parse(lines.front()).at("attributes");
  EXPECT_EQ(parsed.at("ip").as_string(), "\xE2\x80\xAE\xC3\xA4");
  const std::string path(parsed.at("path").as_string());
  EXPECT_EQ(path.substr(0, 128), any.substr(0, 128));
  EXPECT_EQ(path.size(), 128 + 3 * 128);  // U+FFFD for each byte that is not UTF-8
  EXPECT_TRUE(parsed.as_object().contains("body.\"\n\xEF\xBF\xBD"));
}

TEST_F(TrafficRecorderTest, DropsALineThatIsTooLong) {
  const Attributes huge{{"path", std::string(std::size_t{64} << 10, 'x')}}, small{{"path", "/"}};
  EXPECT_EQ(recorded([&](Session& session) {
              session.decide({huge});
              session.decide({small});
            }).size(),
            1u);
}

TEST_F(TrafficRecorderTest, HashesWhatIsAskedForAlikeForEqualValues) {
  options_.hash = {"ip"};
  const Attributes one{{"path", "/a"}, {"ip", "10.0.0.1"}}, two{{"path", "/a"}, {"ip", "10.0.0.2"}};
  const auto ask = [&](Session& session) {
    for (const Attributes* of : {&one, &one, &two}) session.decide({*of});
  };
  const auto lines = recorded(ask);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].find("10.0.0"), std::string::npos);
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_NE(lines[0], lines[2]);
  EXPECT_NE(lines[0].find(R"("path":"/a")"), std::string::npos);
}

TEST_F(TrafficRecorderTest, HashesAllThatTheLogHides) {
  const Attributes order{{"path", "/order"}, {"ip", "10.0.0.1"}, {"header.x-user", "u1"}};
  const auto lines = recorded([&](Session& session) { session.decide({order}); }, true);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("10.0.0"), std::string::npos);
  EXPECT_EQ(lines[0].find("u1"), std::string::npos);
  EXPECT_NE(lines[0].find(R"("path":"/order")"), std::string::npos);
}

TEST_F(TrafficRecorderTest, SamplesWholeClientsAndOthersOneByOne) {
  options_.share = 20;
  constexpr int kClients = 1000;
  const auto clients = recorded([&](Session& session) {
    for (int i = 0; i < 3 * kClients; ++i) {
      session.decide({Attributes{{"path", "/"}, {"ip", "10.0.0." + std::to_string(i % kClients)}}});
    }
  });
  EXPECT_GT(clients.size(), 3u * 150);
  EXPECT_LT(clients.size(), 3u * 250);
  EXPECT_EQ(clients.size() % 3, 0u);
  const auto keys = recorded([&](Session& session) {
    for (int i = 0; i < 3 * kClients; ++i) {
      session.decide({std::to_string(i % kClients), gcra(30).per(std::chrono::minutes{1})});
    }
  });
  EXPECT_GT(keys.size(), 3u * 150);
  EXPECT_LT(keys.size(), 3u * 250);
  EXPECT_EQ(keys.size() % 3, 0u);
  const auto unnamed = recorded([&](Session& session) {
    for (int i = 0; i < kClients; ++i) session.decide({Attributes{{"path", "/"}}});
  });
  EXPECT_GT(unnamed.size(), 150u);
  EXPECT_LT(unnamed.size(), 250u);
}

}  // namespace
}  // namespace sluice::server::traffic_recorder_test
