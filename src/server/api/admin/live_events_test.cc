#include "server/api/admin/live_page.h"

#include <chrono>
#include <string>
#include <vector>

#include "server/api/admin/test_endpoint.h"
#include "server/net/test_connection_state.h"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;

struct Viewer final : http::Broadcast::Receiver {
  void receive(std::string_view bytes) override { events.emplace_back(bytes); }
  void end() override { ended = true; }

  std::vector<std::string> events;
  bool ended = false;
};

boost::json::value read_event(std::string_view event) {
  EXPECT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n")) << event;
  return boost::json::parse(event.substr(6));
}

class LiveEventsTest : public TestAdmin {
 protected:
  void open_rules(const std::string& text) {
    open({text});
    events_.emplace(registry_, *manager_, [this] { return status_; }, loop_clock_);
    reopen();
  }
  void reopen() {
    endpoint_ = std::make_unique<AdminEndpoint>(AdminEndpoint{.rules = *manager_,
                                                              .limiter = limiter_,
                                                              .token = token_,
                                                              .status = [this] { return status_; },
                                                              .events = &*events_});
  }
  // Counts an answer by the rule at that place.
  void count(metrics::Recorder& recorder, std::size_t place, Reason reason) {
    const RuleSet rules = manager_->current();
    recorder.use(rules);
    RuleAnswer answer;
    answer.rule = &rules.rules()[place];
    answer.decision.reason = reason;
    if (reason == Reason::kLimited) answer.decision.outcome = Outcome::kDenied;
    recorder.count(answer);
  }

  metrics::Registry registry_;
  net::ManualLoopClock loop_clock_;
  std::optional<LiveEvents> events_;
};

std::string rules_of(std::size_t count) {
  std::string text = "version: 1\ndomain: shop\nrules:\n";
  for (std::size_t i = 0; i < count; ++i) {
    text += "  - name: r" + std::to_string(i) + "\n    match: { path: /" + std::to_string(i) +
            " }\n    limits: [{ name: user, key: '{ip}', algorithm: gcra, limit: 5, per: 1s }]\n";
  }
  return text;
}

TEST_F(LiveEventsTest, SayThatTheStoreFailsAndWhatTheRulesDo) {
  open_rules(rules_of(101));
  status_.store.failing_since = Instant{};
  status_.store.why_failing = "Redis at a:1 refuses connections";
  const auto event = read_event(get("/v1/events").body);
  const auto& outage = event.at("outage");
  EXPECT_EQ(outage.at("why"), "Redis at a:1 refuses connections");
  EXPECT_EQ(outage.at("since"), "1970-01-01T00:00:00Z");
  EXPECT_EQ(outage.at("rules").as_array().size(), 100U) << "the maximum of an event";
  EXPECT_EQ(outage.at("rules").at(0).at("does"), "allow");
}

TEST_F(LiveEventsTest, NameTheChangesOfRulesForATime) {
  open_rules(rules_of(2));
  EXPECT_FALSE(read_event(get("/v1/events").body).as_object().contains("temporary"));
  const Instant until{std::chrono::seconds{1'700'000'000}};
  ASSERT_TRUE(manager_->change_for_now({{"r1", "on_store_error", "deny", until}}, "a test"));
  loop_clock_.time += std::chrono::seconds(1);
  const auto event = read_event(get("/v1/events").body);
  EXPECT_EQ(event.at("temporary").at(0).at("rule"), "r1");
  EXPECT_EQ(event.at("temporary").at(0).at("until"), "2023-11-14T22:13:20Z");
}

TEST_F(LiveEventsTest, SaysWhatTheServerDoes) {
  open_rules(rules_of(2));
  metrics::Recorder& one = registry_.make_recorder();
  metrics::Recorder& other = registry_.make_recorder();
  count(one, 0, Reason::kOk);
  count(one, 1, Reason::kLimited);
  count(other, 1, Reason::kOk);
  one.observe(metrics::FrontEnd::kCheck, milliseconds(3));
  const Answered got = get("/v1/events");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.type, "text/event-stream");
  const auto event = read_event(got.body);
  EXPECT_EQ(event.at("total").at("requests"), 3);
  EXPECT_EQ(event.at("total").at("denied"), 1);
  EXPECT_EQ(event.at("reasons").at("limited"), 1);
  const auto& latency = event.at("latency").as_array();
  ASSERT_EQ(latency.size(), 1U) << "front ends without requests are left out";
  EXPECT_EQ(latency[0].at("front_end"), "check");
  EXPECT_EQ(latency[0].at("buckets").at(12), 1) << "of at most 4.096 ms";
  const auto& rules = event.at("rules").at("busiest").as_array();
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[1].at("name"), "r1");
  EXPECT_EQ(rules[1].at("requests"), 2);
  EXPECT_EQ(rules[1].at("denied"), 1);
  EXPECT_EQ(rules[1].at("limits").at(0).at("key"), "{ip}");
  EXPECT_EQ(event.at("rules").at("version"), 1);
}

TEST_F(LiveEventsTest, ShowsTheHundredBusiestRulesOfMany) {
  open_rules(rules_of(300));
  metrics::Recorder& recorder = registry_.make_recorder();
  for (int i = 0; i < 5; ++i) count(recorder, 150, Reason::kOk);
  ASSERT_EQ(get("/v1/events").status, 200);
  loop_clock_.time += std::chrono::seconds(2);
  for (std::size_t place = 200; place < 300; ++place) count(recorder, place, Reason::kOk);
  const auto event = read_event(get("/v1/events").body);
  const auto& rules = event.at("rules").at("busiest").as_array();
  ASSERT_EQ(rules.size(), 100U);
  EXPECT_EQ(rules.front().at("name"), "r200") << "what was busy before counts less";
  EXPECT_EQ(rules.back().at("name"), "r299");
  EXPECT_EQ(event.at("rules").at("rules"), 300);
}

TEST_F(LiveEventsTest, MakesOneEventASecondForAllViewers) {
  open_rules(rules_of(1));
  Viewer one, two;
  ASSERT_EQ(get("/v1/events").status, 200);
  events_->viewers().add(one);
  loop_clock_.time += milliseconds(500);
  events_->tick();
  EXPECT_TRUE(one.events.empty());
  const std::string* const joined = &events_->latest();
  events_->viewers().add(two);
  const std::string before = *joined;
  loop_clock_.time += milliseconds(500);
  events_->tick();
  ASSERT_EQ(one.events.size(), 1U);
  EXPECT_EQ(one.events, two.events);
  EXPECT_NE(one.events[0], before);
  events_->end();
  EXPECT_TRUE(one.ended && two.ended);
}

TEST_F(LiveEventsTest, MakesNoEventWithoutAViewer) {
  open_rules(rules_of(1));
  int asked = 0;
  events_.emplace(
      registry_, *manager_,
      [&] {
        ++asked;
        return status_;
      },
      loop_clock_);
  for (int i = 0; i < 10; ++i) {
    loop_clock_.time += std::chrono::seconds(1);
    events_->tick();
  }
  EXPECT_EQ(asked, 0);
}

TEST_F(LiveEventsTest, IsWatchedUntilTenMinutesAfterTheLastViewer) {
  open_rules(rules_of(1));
  EXPECT_FALSE(events_->is_watched());
  Viewer viewer;
  ASSERT_EQ(get("/v1/events").status, 200);
  EXPECT_TRUE(events_->is_watched());
  events_->viewers().add(viewer);
  loop_clock_.time += std::chrono::hours(1);
  events_->tick();
  EXPECT_TRUE(events_->is_watched());
  events_->viewers().remove(viewer);
  loop_clock_.time += std::chrono::minutes(9);
  events_->tick();
  EXPECT_TRUE(events_->is_watched());
  loop_clock_.time += std::chrono::minutes(1);
  EXPECT_FALSE(events_->is_watched());
}

TEST_F(LiveEventsTest, RefusesTheViewerAfterTheLast) {
  open_rules(rules_of(1));
  std::vector<Viewer> viewers(LiveEvents::kMostViewers);
  for (Viewer& one : viewers) {
    ASSERT_EQ(get("/v1/events").status, 200);
    events_->viewers().add(one);
  }
  const Answered got = get("/v1/events");
  EXPECT_EQ(got.status, 503);
  EXPECT_EQ(got.detail(), "50 viewers receive events already, which is the maximum; close one");
  EXPECT_TRUE(got.has("Retry-After", "10"));
  events_->viewers().remove(viewers[7]);
  EXPECT_EQ(get("/v1/events").status, 200);
}

TEST_F(LiveEventsTest, RefusesViewersWhileTheServerDrains) {
  open_rules(rules_of(1));
  events_->end();
  EXPECT_EQ(get("/v1/events").status, 503);
}

}  // namespace
}  // namespace sluice::server
