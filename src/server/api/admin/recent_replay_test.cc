#include <string>

#include "server/api/admin/test_endpoint.h"

namespace sluice::server {
namespace {

using std::chrono::seconds;

constexpr std::string_view kActive =
    "version: 1\nrules:\n  - name: login\n    match: { path: /login }\n"
    "    limits: [{ name: address, key: '{ip}', algorithm: fixed_window, limit: 5, per: 1m }]\n";

class RecentReplay : public TestAdmin {
 protected:
  RecentReplay() {
    clock_.set(Instant{std::chrono::hours(24 * 20'000)});
    open({std::string(kActive)});
    endpoint_ = std::make_unique<AdminEndpoint>(AdminEndpoint{.rules = *manager_,
                                                              .limiter = limiter_,
                                                              .token = token_,
                                                              .status = [this] { return status_; },
                                                              .recent = &recent_});
    recent_.want(true);
  }
  void send(std::string_view ip, int count) {
    for (int i = 0; i < count; ++i) {
      lane_.record(manager_->current(), 1, Attributes{{"path", "/login"}, {"ip", ip}}, {});
      clock_.advance(seconds(1));
    }
  }
  boost::json::value replayed(const std::string& yaml) {
    const Answered got = call("POST", "/v1/rules/validate", {}, yaml);
    EXPECT_EQ(got.status, 200) << got.body;
    return got.json().at("replayed");
  }
  static std::string with(const std::string& old, const std::string& now) {
    std::string text(kActive);
    return text.replace(text.find(old), old.size(), now);
  }

  RecentRequests recent_{1, clock_};
  RecentRequests::Lane& lane_ = recent_.make_lane();
};

TEST_F(RecentReplay, SaysWhatTheNewRulesWouldHaveDenied) {
  send("192.0.2.1", 7);
  send("192.0.2.2", 4);
  const auto json = replayed(with("limit: 5", "limit: 3"));
  EXPECT_EQ(json.at("requests"), 11);
  EXPECT_EQ(json.at("share"), 100);
  EXPECT_EQ(json.at("active"), 2);
  EXPECT_EQ(json.at("next"), 5);
  ASSERT_EQ(json.at("limits").as_array().size(), 1U);
  const auto& limit = json.at("limits").at(0);
  EXPECT_EQ(limit.at("limit"), "address");
  EXPECT_EQ(limit.at("active"), 2);
  EXPECT_EQ(limit.at("next"), 5);
  EXPECT_EQ(limit.at("keys"), 2);
  EXPECT_EQ(store_.stats().keys, 0U) << "the counters of the server are not touched";
}

TEST_F(RecentReplay, DecidesAtTheInstantsOfTheRequests) {
  send("192.0.2.1", 5);
  clock_.advance(seconds(60));
  send("192.0.2.1", 5);
  EXPECT_EQ(replayed(std::string(kActive)).at("next"), 0);
}

TEST_F(RecentReplay, NamesTheAttributesThatAreNotKnown) {
  send("192.0.2.1", 1);
  const auto json = replayed(with("'{ip}'", "'{header.x-user}'"));
  EXPECT_EQ(json.at("unknown").as_array(), (boost::json::array{"header.x-user"}));
  EXPECT_EQ(replayed(std::string(kActive)).at("unknown").as_array().size(), 0U);
}

TEST_F(RecentReplay, CountsShadowRulesAndRulesThatDenyEverything) {
  send("192.0.2.1", 7);
  const auto shadow = replayed(with("    match", "    mode: shadow\n    match"));
  EXPECT_EQ(shadow.at("next"), 0);
  EXPECT_EQ(shadow.at("limits").at(0).at("next"), 2);
  EXPECT_EQ(shadow.at("limits").at(0).at("shadow"), true);
  const auto all = replayed("version: 1\nrules: [{ name: closed, action: deny }]\n");
  EXPECT_EQ(all.at("next"), 7);
  EXPECT_EQ(all.at("limits").at(0).at("rule"), "closed");
}

TEST_F(RecentReplay, HasNothingWithoutRequests) {
  const auto json = replayed(std::string(kActive));
  EXPECT_EQ(json.at("requests"), 0);
  EXPECT_FALSE(json.as_object().contains("next"));
}

}  // namespace
}  // namespace sluice::server
