#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include "server/api/admin/test_endpoint.h"
#include "server/net/test_connection_state.h"

namespace sluice::server {
namespace {

using std::chrono::seconds;

constexpr bool kTenMinutes = false, kDay = true;
constexpr Instant kStart{std::chrono::hours(24 * 20'000)};

std::string numbered_rules(std::size_t count, std::string_view name = "r") {
  std::string text = "version: 1\nrules:\n";
  for (std::size_t i = 0; i < count; ++i) {
    text.append("  - name: ")
        .append(name)
        .append(std::to_string(i))
        .append(
            "\n    match: { path: /x }\n    continue: true\n"
            "    limits: [{ name: user, key: '{ip}', algorithm: gcra, limit: 5, per: 15m }]\n");
  }
  return text;
}

// What a set of rules has counted: `asked` requests of each rule, of which its limit denied some.
metrics::Activity counted(const RuleSet& rules, std::uint64_t asked, std::uint64_t denied) {
  metrics::Activity all = metrics::Registry().activity(rules);
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    all.rules[i] = {.asked = asked,
                    .allowed = asked - denied,
                    .denied = denied,
                    .skipped = 2 * asked * rules.rules()[i].limits.size()};
  }
  for (auto& limit : all.limits) limit = {.asked = asked, .denied = denied, .skipped = 2 * asked};
  return all;
}

class HistoryTest : public ::testing::Test {
 protected:
  void add(seconds at, const RuleSet& rules, std::uint64_t asked, std::uint64_t denied) {
    history_.add(net::SteadyTime{} + at, kStart + at, rules, counted(rules, asked, denied));
  }
  boost::json::object read(bool of_day, const RuleSet& rules, const Rule* rule = nullptr) {
    base::JsonWriter json;
    history_.write(json.begin_object(), of_day, rules, rule);
    json.end_object();
    return boost::json::parse(json.view()).as_object();
  }
  static std::vector<std::int64_t> numbers(const boost::json::value& array) {
    std::vector<std::int64_t> out;
    for (const auto& one : array.as_array()) out.push_back(one.as_int64());
    return out;
  }

  History history_;
  const RuleSet rules_ = *RuleSet::parse(numbered_rules(2), "test");
};

TEST_F(HistoryTest, SaysHowManyRequestsTheStoreCouldNotDecide) {
  const RuleSet others = *RuleSet::parse(numbered_rules(3), "test");
  const auto fail = [&](seconds at, std::uint64_t failed) {
    const RuleSet& rules = at.count() % 7 == 0 ? others : rules_;
    metrics::Activity all = counted(rules, 0, 0);
    all.failed = failed;
    history_.add(net::SteadyTime{} + at, kStart + at, rules, all);
  };
  for (int i = 0; i <= 100; ++i) fail(seconds(i), i < 50 ? 0 : i - 49);
  EXPECT_EQ(history_.failed(kStart, Instant::max()), 51U);
  EXPECT_EQ(history_.failed(kStart, kStart + 49s), 0U);
  EXPECT_EQ(history_.failed(kStart + 60s, kStart + 70s), 10U);
  EXPECT_EQ(history_.failed(kStart + 100s, Instant::max()), 0U);
  for (int i = 101; i <= 800; ++i) fail(seconds(i), 51);
  EXPECT_EQ(history_.failed(kStart + 60s, kStart + 70s), 40U) << "of the whole minute";
  EXPECT_EQ(history_.failed(kStart + 150s, Instant::max()), 0U);
}

TEST_F(HistoryTest, KeepsWhatWasCountedBetweenTwoCalls) {
  add(seconds(10), rules_, 1, 1);  // belongs to the first point
  add(seconds(11), rules_, 3, 1);
  add(seconds(13), rules_, 10, 1);
  const auto json = read(kTenMinutes, rules_);
  EXPECT_EQ(numbers(json.at("took_ms")), (std::vector<std::int64_t>{1000, 2000}));
  const auto start = std::chrono::floor<std::chrono::milliseconds>(kStart.time_since_epoch());
  EXPECT_EQ(numbers(json.at("ends_ms"))[1], start.count() + 13'000);
  EXPECT_EQ(numbers(json.at("total").at("asked")), (std::vector<std::int64_t>{6, 14}));
  EXPECT_EQ(numbers(json.at("total").at("denied")), (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(json.at("total").as_object().count("failed"), 0U) << "nothing to say";
  const auto& rule = json.at("rules").at(1);
  EXPECT_EQ(rule.at("name"), "r1");
  EXPECT_EQ(rule.at("match").at(0), "path '/x'");
  EXPECT_EQ(rule.at("sums").at("asked"), 10);
  EXPECT_EQ(rule.at("sums").at("skipped"), 20);
  const auto& limit = rule.at("limits").at(0);
  EXPECT_EQ(limit.at("limit"), 5);
  EXPECT_EQ(limit.at("per"), "15m");
  EXPECT_EQ(limit.at("sums").at("denied"), 1);
  EXPECT_EQ(read(kDay, rules_).at("took_ms").as_array().size(), 1U);
  const auto one = read(kTenMinutes, rules_, &rules_.rules()[0]);
  EXPECT_EQ(numbers(one.at("total").at("asked")), (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(numbers(one.at("limits").at(0).at("denied")), (std::vector<std::int64_t>{1, 0}));
}

TEST_F(HistoryTest, ForgetsTheOldestPoints) {
  const int last = 3 * static_cast<int>(History::kMinutes) * 60;
  for (int second = 0; second <= last; ++second) {
    add(seconds(second), rules_, static_cast<std::uint64_t>(second), 0);
  }
  const auto recent = read(kTenMinutes, rules_);
  EXPECT_EQ(numbers(recent.at("total").at("asked")), std::vector<std::int64_t>(600, 2));
  EXPECT_EQ(numbers(recent.at("rules").at(0).at("asked")), std::vector<std::int64_t>(60, 10));
  const auto day = read(kDay, rules_);
  EXPECT_EQ(numbers(day.at("total").at("asked")), std::vector<std::int64_t>(1440, 120));
  EXPECT_EQ(numbers(day.at("took_ms")), std::vector<std::int64_t>(1440, 60'000));
  const auto ends = numbers(day.at("ends_ms"));
  EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end()));
}

TEST_F(HistoryTest, FollowsTheRulesByTheirNames) {
  add(seconds(1), rules_, 0, 0);
  add(seconds(2), rules_, 5, 5);
  const RuleSet more =
      *RuleSet::parse(numbered_rules(1) + numbered_rules(1, "new").substr(18), "test");
  add(seconds(3), more, 7, 0);  // all of them since the rules became active
  const auto json = read(kTenMinutes, more);
  EXPECT_EQ(numbers(json.at("rules").at(0).at("asked")), (std::vector<std::int64_t>{5, 7}));
  EXPECT_EQ(json.at("rules").at(1).at("name"), "new0");
  EXPECT_EQ(numbers(json.at("rules").at(1).at("asked")), (std::vector<std::int64_t>{0, 7}));
  EXPECT_EQ(numbers(json.at("total").at("asked")), (std::vector<std::int64_t>{10, 14}));
  const std::size_t with_two = history_.columns();
  add(seconds(4), *RuleSet::parse(numbered_rules(1), "test"), 1, 0);
  EXPECT_LT(history_.columns(), with_two) << "the memory of a removed rule is free";
}

TEST_F(HistoryTest, HasTheMemoryThatThePageStates) {
  const RuleSet rules = *RuleSet::parse(numbered_rules(200), "test");
  add(seconds(1), rules, 0, 0);
  EXPECT_EQ(history_.columns(), 0U);
  add(seconds(2), rules, 1, 1);
  // Asked, denied and skipped, of all rules together, of each rule and of each limit.
  EXPECT_EQ(history_.columns(), 3 * (1 + 200 + 200U));
  EXPECT_EQ(History::kColumnBytes, 8160U);
  EXPECT_LT(History::kMostColumns * History::kColumnBytes, 16'400'000U);
}

TEST_F(HistoryTest, KeepsNoMoreColumnsThanItsMaximum) {
  const RuleSet rules = *RuleSet::parse(numbered_rules(1000), "test");
  add(seconds(1), rules, 0, 0);
  add(seconds(2), rules, 1, 1);
  EXPECT_EQ(history_.columns(), History::kMostColumns);
  const auto json = read(kTenMinutes, rules);
  EXPECT_EQ(numbers(json.at("total").at("asked")), std::vector<std::int64_t>{1000});
}

class HistoryPage : public TestAdmin {
 protected:
  void open_rules() {
    open({numbered_rules(2)});
    events_.emplace(registry_, *manager_, [this] { return status_; }, loop_clock_);
    endpoint_ = std::make_unique<AdminEndpoint>(AdminEndpoint{.rules = *manager_,
                                                              .limiter = limiter_,
                                                              .token = token_,
                                                              .status = [this] { return status_; },
                                                              .events = &*events_});
  }

  metrics::Registry registry_;
  net::ManualLoopClock loop_clock_;
  std::optional<LiveEvents> events_;
};

TEST_F(HistoryPage, HasAPointForEachSecondWithoutAViewer) {
  open_rules();
  for (int half = 0; half <= 20; ++half) {
    events_->tick();
    loop_clock_.time += std::chrono::milliseconds(500);
  }
  const auto json = get("/v1/history?range=10m").json();
  EXPECT_EQ(json.at("range"), "10m");
  EXPECT_EQ(json.at("took_ms").as_array().size(), 10U);
  EXPECT_EQ(get("/v1/history?range=1d&rule=r1").json().at("rule"), "r1");
}

TEST_F(HistoryPage, SaysWhatIsWrongWithAQuestion) {
  open_rules();
  const Answered range = get("/v1/history?range=1h");
  EXPECT_EQ(range.status, 400);
  EXPECT_EQ(range.detail(), "'range' is '1h'; expected 10m or 1d");
  const Answered rule = get("/v1/history?rule=none");
  EXPECT_EQ(rule.status, 404);
  EXPECT_EQ(rule.detail(),
            "there is no rule 'none'; expected the name of an active rule, or none for all rules");
}

}  // namespace
}  // namespace sluice::server
