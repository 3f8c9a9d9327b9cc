#include "server/decide/recent_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

constexpr std::string_view kByUser =
    "version: 1\nrules:\n"
    "  - { name: a, limits: [{ key: '{header.x-user}', algorithm: gcra, limit: 1, per: 1s }] }\n";

class RecentRequestsTest : public ::testing::Test {
 protected:
  RecentRequestsTest() { clock_.set(Instant{std::chrono::hours(24 * 20'000)}); }
  void record(const std::string& ip, std::string_view user) {
    const Attributes attributes{{"ip", ip}, {"header.x-user", user}, {"header.cookie", "secret"}};
    lane_.record(rules_, 1, attributes, 3);
  }

  testing::ManualClock clock_;
  RecentRequests all_{1, clock_};
  RecentRequests::Lane& lane_ = all_.make_lane();
  const RuleSet rules_ = *RuleSet::parse(kByUser, "test");
};

TEST_F(RecentRequestsTest, KeepsTheAttributesThatRulesRead) {
  EXPECT_FALSE(lane_.is_wanted());
  all_.want(true);
  EXPECT_TRUE(lane_.is_wanted());
  record("192.0.2.1", "ada");
  const auto sample = all_.read();
  ASSERT_EQ(sample.requests.size(), 1U);
  const RecentRequest& one = sample.requests[0];
  EXPECT_EQ(one.at, clock_.now());
  EXPECT_EQ(one.units, 3U);
  EXPECT_EQ(one.attributes.find("header.x-user"), "ada");
  EXPECT_EQ(one.attributes.find("ip"), "192.0.2.1");
  EXPECT_FALSE(one.attributes.find("header.cookie")) << "no rule reads it";
  all_.want(false);
  EXPECT_TRUE(all_.read().requests.empty());
}

TEST_F(RecentRequestsTest, KeepsAllRequestsOfAClientOrNone) {
  all_.want(true);
  const std::string user(1000, 'u');
  std::map<std::string, int> sent, kept;
  for (int i = 0; i < 40'000; ++i) {
    const std::string ip = "192.0.2." + std::to_string(i % 200);
    record(ip, user);
    ++sent[ip];
    clock_.advance(std::chrono::milliseconds(1));
  }
  const auto sample = all_.read();
  EXPECT_LT(sample.share, 100U);
  std::size_t bytes = 0;
  for (const RecentRequest& one : sample.requests) {
    ++kept[std::string(*one.attributes.find("ip"))];
    bytes += one.bytes;
  }
  EXPECT_LE(bytes, RecentRequests::kBytes);
  EXPECT_LT(kept.size(), sent.size());
  ASSERT_GT(kept.size(), 0U);
  for (const auto& [ip, count] : kept) EXPECT_EQ(count, sent[ip]) << ip;
}

TEST_F(RecentRequestsTest, ForgetsWhatIsTooOld) {
  all_.want(true);
  record("192.0.2.1", "ada");
  clock_.advance(RecentRequests::kLongest + std::chrono::seconds(1));
  record("192.0.2.1", "bob");
  const auto sample = all_.read();
  ASSERT_EQ(sample.requests.size(), 1U);
  EXPECT_EQ(sample.requests[0].attributes.find("header.x-user"), "bob");
}

}  // namespace
}  // namespace sluice::server
