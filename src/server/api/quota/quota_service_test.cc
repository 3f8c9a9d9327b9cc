#include "server/api/quota/quota_service.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "rules/counter_key.h"
#include "server/rules/test_folder.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server::quota_service_test {

using namespace std::chrono_literals;

constexpr std::string_view kRules = R"(
version: 1
domain: shop
plans:
  gold: { requests: { limit: 1000, per: 1s } }
  free: { requests: { limit: 100, per: 1s } }
rules:
  - name: blocked
    match: { path: /blocked }
    action: deny
  - name: free
    match: { path: /free }
    action: allow
  - name: shadow
    match: { path: /shadow }
    mode: shadow
    limits: [ { name: requests, key: "{path}", algorithm: fixed_window, limit: 5, per: 1h } ]
  - name: both
    match: { path: /both }
    limits:
      - { name: requests, key: "{path}", algorithm: token_bucket, limit: 100, per: 1s }
      - { name: cost, key: "{path}", algorithm: token_bucket, limit: 100, per: 1s, cost: 5 }
  - name: users
    match: { path: /users }
    limits:
      - { name: all, algorithm: token_bucket, limit: 1000, per: 1s }
      - { name: user, key: "{user}", algorithm: token_bucket, limit: 20, per: 1s }
  - name: planned
    match: { path: /planned }
    plan: { from: "{plan}", default: gold }
    limits: [ { name: requests, key: "{path}", algorithm: token_bucket } ]
  - name: weighted
    match: { path: /weighted }
    limits:
      - name: requests
        algorithm: token_bucket
        limit: 100
        per: 1s
        share: { weight: "{x-weight|1}", at_least: 10% }
  - name: permits
    match: { path: /permits }
    limits: [ { name: parallel, key: "{path}", algorithm: concurrency, limit: 5, lease: 1m } ]
  - name: api
    match: { path: /api }
    limits: [ { name: requests, key: "{path}", algorithm: token_bucket, limit: 100, per: 1s } ]
)";

// A proxy that remembers its last assignments.
struct Told {
  void send(std::vector<BucketOrder> orders) {
    for (BucketOrder& order : orders) {
      ++messages;
      if (order.assignment && order.assignment->kind == Assignment::Kind::kDenyAll) ++denials;
      latest[order.bucket] = order;
    }
  }
  double rate(const std::string& bucket) const {
    const auto found = latest.find(bucket);
    if (found == latest.end() || !found->second.assignment) return -1;
    const Assignment& made = *found->second.assignment;
    if (made.kind != Assignment::Kind::kTokens) return 0;
    return 1000. * made.tokens / static_cast<double>(made.interval.count());
  }
  Assignment::Kind kind(const std::string& bucket) const {
    return latest.at(bucket).assignment.value().kind;
  }
  std::map<std::string, BucketOrder> latest;
  int messages = 0;
  int denials = 0;
};

// What other servers leave of a limit.
struct Left {
  std::optional<QuotaShare> claim(const Charge& counter, const quota::Claim& claim,
                                  std::uint64_t most_weight, std::uint64_t uses, Duration time) {
    const auto key = rules::parse_counter_key(counter.key);
    if (key) asks[key->limit] = claim.asked;
    ++claims;
    asked = claim.asked;
    weight = claim.weight;
    heaviest = most_weight;
    held = uses;
    ttl = time;
    if (!share) return std::nullopt;
    return QuotaShare{*share, *share, most.value_or(*share)};
  }
  std::optional<std::uint64_t> share = quota::kWhole;
  std::optional<std::uint64_t> most;  // absent: as the share
  std::uint64_t asked = 0;
  std::map<std::string, std::uint64_t> asks;  // by limit
  std::uint64_t weight = 0;
  std::uint64_t heaviest = 0;
  std::uint64_t held = 0;
  Duration ttl{0};
  int claims = 0;
};

// A store that can be away.
class Redis final : public Store {
 public:
  explicit Redis(Store& store) : store_(store) {}
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    for (const Charge& charge : charges) units += charge.cost;
    if (!is_away) return store_.apply(action, charges, now, each);
    const Decision failed = Decision::refused(Reason::kStoreError);
    std::fill(each.begin(), each.end(), failed);
    return failed;
  }
  bool is_away = false;
  std::uint64_t units = 0;  // of all calls

 private:
  Store& store_;
};

class QuotaServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { load(kRules); }
  void load(std::string_view yaml, std::size_t step = 2000, bool charges = true) {
    auto rules = RulesManager::open({folder_.write("rules.yaml", yaml)});
    ASSERT_TRUE(rules) << rules.error().front().to_string();
    rules_ = std::move(*rules);
    service_ = std::make_unique<QuotaService>(
        QuotaService::Parts{.rules = *rules_,
                            .overrides = &overrides_,
                            .limiter = limiter_,
                            .log = log_,
                            .config = config_,
                            .claim_share = std::bind_front(&Left::claim, &shares_),
                            .charges = charges,
                            .steady = clock_,
                            .step = step});
  }
  std::shared_ptr<Told> connect(std::uint64_t id) {
    auto told = std::make_shared<Told>();
    service_->open(id, "shop", "10.0.0.1", std::bind_front(&Told::send, told));
    return told;
  }
  void report(std::uint64_t id, const std::string& path, std::uint64_t requests,
              Duration elapsed = 5s) {
    service_->report(id, {{.bucket = path,
                           .attributes = {{"path", path}},
                           .elapsed = elapsed,
                           .allowed = requests}});
    divide(false);
  }
  // Until there is no news.
  void divide(bool all) {
    service_->divide(all);
    while (service_->has_news()) service_->divide(false);
  }
  // The counter of the limit `requests` of a rule.
  std::string counter_of(std::string_view rule, const std::string& path) {
    const Attributes attributes{{"path", path}};
    return name_override(rules_->current(), rule, "requests", attributes, {}).value();
  }
  static Charge charge_of(const std::string& key, const Limit& limit, std::uint64_t units) {
    Charge charge{key, limit, units};
    charge.rule.keyspace = Keyspace::kRules;
    return charge;
  }
  void pass(Duration time) {
    for (Duration step{0}; step < time; step += 1s) {
      const Instant end = clock_.now() + 1s;
      while (service_->next() < end) {
        clock_.set(service_->next());
        divide(false);
      }
      clock_.set(end);
      divide(true);
    }
  }

  TestFolder folder_;
  testing::ManualClock clock_{Instant{std::chrono::hours{365 * 24}}};
  MemoryStore memory_{{}, clock_};
  Redis store_{memory_};
  Limiter limiter_{store_};
  Overrides overrides_;
  Log log_{{.level = LogLevel::kOff}};
  QuotaConfig config_;
  Left shares_;
  std::unique_ptr<RulesManager> rules_;
  std::unique_ptr<QuotaService> service_;
};

TEST_F(QuotaServiceTest, AssignsASmallPartAtFirstAndThenWhatIsAsked) {
  const auto proxy = connect(1);
  report(1, "/api", 1, 0s);
  EXPECT_NEAR(proxy->rate("/api"), 1, 0.01);
  pass(5s);
  report(1, "/api", 250);
  pass(2s);
  EXPECT_NEAR(proxy->rate("/api"), 50, 1);
  pass(3s);
  report(1, "/api", 5000);
  pass(2s);
  EXPECT_NEAR(proxy->rate("/api"), 100, 2);
}

TEST_F(QuotaServiceTest, DividesALimitAmongProxiesByTheirDemand) {
  const auto small = connect(1);
  const auto large = connect(2);
  for (int i = 0; i < 4; ++i) {
    report(1, "/api", 50);
    report(2, "/api", 5000);
    pass(5s);
  }
  EXPECT_NEAR(small->rate("/api"), 10, 1);
  EXPECT_NEAR(large->rate("/api"), 90, 6);
}

TEST_F(QuotaServiceTest, AnswersWithOneRuleForAllWhereNoLimitDecides) {
  const auto proxy = connect(1);
  for (const char* path : {"/blocked", "/free", "/shadow", "/unknown"}) report(1, path, 10);
  EXPECT_EQ(proxy->kind("/blocked"), Assignment::Kind::kDenyAll);
  for (const char* path : {"/free", "/shadow", "/unknown"}) {
    EXPECT_EQ(proxy->kind(path), Assignment::Kind::kAllowAll);
  }
}

TEST_F(QuotaServiceTest, CountsWhatAShadowRuleWouldHaveSeen) {
  connect(1);
  report(1, "/shadow", 3);
  const std::string key = counter_of("shadow", "/shadow");
  const Charge charge = charge_of(key, fixed_window(5).per(1h), 0);
  EXPECT_EQ(memory_.apply_one(Verb::kPeek, charge, {}).remaining, 2);
}

TEST_F(QuotaServiceTest, ARuleThatLeavesShadowModeLimitsEvenIfDirectRequestsTakeAllUnits) {
  std::string shadow(kRules);
  shadow.replace(shadow.find("{ path: /api }"), 14, "{ path: /api }\n    mode: shadow");
  load(shadow);
  const auto proxy = connect(1);
  report(1, "/api", 500);
  ASSERT_EQ(proxy->kind("/api"), Assignment::Kind::kAllowAll);
  ASSERT_TRUE(rules_->replace(std::string(kRules), "rules"));
  const std::string key = counter_of("api", "/api");
  const Charge all = charge_of(key, token_bucket(100).per(1s), 100);
  memory_.apply_one(Verb::kTakeAtMost, all, {});
  service_->follow_rules();
  divide(true);
  EXPECT_EQ(proxy->kind("/api"), Assignment::Kind::kDenyAll);
  pass(2s);
  EXPECT_GT(proxy->rate("/api"), 0);
}

TEST_F(QuotaServiceTest, GivesTheStrictestPartOfSeveralLimits) {
  const auto proxy = connect(1);
  for (int i = 0; i < 3; ++i) {
    report(1, "/both", 5000);
    pass(5s);
  }
  EXPECT_NEAR(proxy->rate("/both"), 20, 1);
}

// Its share of the one is small because it asked for no more.
TEST_F(QuotaServiceTest, AsksOfALimitWhatTheOtherOneCouldLetItUse) {
  shares_.share = quota::kWhole / 10;  // of `requests` 10 requests, of `cost` 2
  connect(1);
  for (int i = 0; i < 3; ++i) {
    report(1, "/both", 5000);
    pass(5s);
  }
  const auto asked = [&](std::string_view limit) {
    return static_cast<double>(shares_.asks[std::string(limit)]) / quota::kWhole;
  };
  EXPECT_NEAR(asked("cost"), 0.5, 0.06);
  EXPECT_NEAR(asked("requests"), 0.02, 0.01);
  shares_.most = quota::kWhole;  // 100 requests, and 20
  report(1, "/both", 5000);
  pass(5s);
  report(1, "/both", 5000);
  EXPECT_EQ(asked("cost"), 1);
  EXPECT_NEAR(asked("requests"), 0.2, 0.02);
}

TEST_F(QuotaServiceTest, ABucketHasOfALimitWhatAnotherLimitLetsItUse) {
  ASSERT_TRUE(overrides_.set(
      name_override(rules_->current(), "users", "user", Attributes{{"user", "gold"}}, {}).value(),
      {.limit = 2000}));
  const auto proxy = connect(1);
  const auto report = [&](const std::string& user, std::uint64_t requests) {
    service_->report(1, {{.bucket = user,
                          .attributes = {{"path", "/users"}, {"user", user}},
                          .elapsed = 5s,
                          .allowed = requests}});
    divide(false);
  };
  for (int i = 0; i < 4; ++i) {
    report("x", 25'000);  // may use 20 a second, and asks for 5,000
    report("gold", 4750);
    pass(5s);
  }
  EXPECT_EQ(proxy->rate("x"), 20);
  EXPECT_NEAR(proxy->rate("gold"), 950, 10);
  // Both limits are used by others too. Then each lets `x` use its fair part, at once.
  ASSERT_TRUE(overrides_.set(
      name_override(rules_->current(), "users", "user", Attributes{{"user", "x"}}, {}).value(),
      {.limit = 800}));
  const auto other = connect(2);
  for (int i = 0; i < 5; ++i) {
    service_->report(2, {{.bucket = "x",
                          .attributes = {{"path", "/users"}, {"user", "x"}},
                          .elapsed = 5s,
                          .allowed = 25'000}});
    report("x", 25'000);
    report("gold", 4750);
    pass(5s);
  }
  EXPECT_NEAR(proxy->rate("gold"), 333, 10);
  EXPECT_NEAR(proxy->rate("x"), 333, 10);
  EXPECT_NEAR(other->rate("x"), 333, 10);
}

TEST_F(QuotaServiceTest, SharesByWeightAndKeepsALeastPart) {
  const std::map<std::string, std::string> weights{{"a", "1"}, {"b", "3"}, {"c", ""}, {"d", "x"}};
  const auto proxy = connect(1);
  for (int i = 0; i < 6; ++i) {
    for (const auto& [name, weight] : weights) {
      const bool asks = name != "c";
      BucketAttributes attributes{{"path", "/weighted"}};
      if (!weight.empty()) attributes.emplace_back("x-weight", weight);
      service_->report(1, {{.bucket = name,
                            .attributes = attributes,
                            .elapsed = 5s,
                            .allowed = asks ? 5000U : 0U}});
    }
    divide(false);
    pass(5s);
  }
  EXPECT_NEAR(proxy->rate("a"), 18, 1.5);
  EXPECT_NEAR(proxy->rate("b"), 54, 3.5);
  EXPECT_NEAR(proxy->rate("c"), 10, 1);
  EXPECT_NEAR(proxy->rate("d"), 18, 1.5);  // no number counts as 1
}

TEST_F(QuotaServiceTest, ReadsThePlan) {
  const auto proxy = connect(1);
  for (int i = 0; i < 3; ++i) {
    report(1, "/planned", 50'000);
    pass(5s);
  }
  EXPECT_NEAR(proxy->rate("/planned"), 1000, 20);
}

TEST_F(QuotaServiceTest, EachBucketOfACounterHasTheNumbersOfItsPlan) {
  for (const bool gold_is_first : {true, false}) {
    const std::uint64_t id = gold_is_first ? 1 : 2;
    const auto proxy = connect(id);
    const auto report = [&](const std::string& plan) {
      service_->report(id, {{.bucket = plan,
                             .attributes = {{"path", "/planned"}, {"plan", plan}},
                             .elapsed = 5s,
                             .allowed = 50'000}});
      divide(false);
    };
    for (int i = 0; i < 4; ++i) {
      report(gold_is_first ? "gold" : "free");
      report(gold_is_first ? "free" : "gold");
      pass(5s);
    }
    EXPECT_NEAR(proxy->rate("free"), 100, 2);
    EXPECT_NEAR(proxy->rate("gold"), 900, 20);
    service_->close(id);
    pass(30s);
  }
}

// docs/quota.md has a table of what is lost.
TEST_F(QuotaServiceTest, AWindowLosesLittleOfTheLimit) {
  for (const std::string algorithm :
       {"token_bucket", "gcra", "leaky_bucket, mode: queue", "sliding_window_hybrid",
        "sliding_window_log", "sliding_window_counter", "fixed_window"}) {
    load(
        "version: 1\ndomain: shop\nrules: [ { name: api, limits: [ { limit: 100, per: 1s, "
        "algorithm: " +
        algorithm + " } ] } ]\n");
    const auto proxy = connect(1);
    report(1, "/api", 1, 0s);
    double sum = 0;
    for (int i = 0; i < 75; ++i) {
      pass(1s);
      clock_.advance(7ms);  // so that the steps of the service meet each part of the window
      report(1, "/api", 1007, 1007ms);
      if (i >= 15) sum += proxy->rate("/api");
    }
    EXPECT_GE(sum / 60, 97) << algorithm;
  }
}

// The server of a zone, whose part is half of the limit. What two proxies owe takes all units that
// there are, so that none are left for the start of the third one.
TEST_F(QuotaServiceTest, EachProxyHasAPartWhereTheStoreGivesLessThanTheLimit) {
  load(kRules, 2000, false);
  const std::string key = counter_of("api", "/api");
  const Charge half = charge_of(key, token_bucket(100).per(1s), 50);
  std::vector<std::shared_ptr<Told>> proxies;
  for (std::uint64_t id = 1; id <= 3; ++id) proxies.push_back(connect(id));
  for (int i = 0; i < 60; ++i) {
    clock_.advance(1s);
    static_cast<void>(memory_.apply_one(Verb::kTake, half, {}));
    for (std::uint64_t id = 1; id <= 3; ++id) report(id, "/api", 500, 1s);
    divide(true);
  }
  double sum = 0;
  for (const auto& proxy : proxies) {
    EXPECT_GE(proxy->rate("/api"), 14);
    sum += proxy->rate("/api");
  }
  EXPECT_NEAR(sum, 50, 5);
}

TEST_F(QuotaServiceTest, LeavesOutALimitThatCannotBeAssigned) {
  const auto proxy = connect(1);
  report(1, "/permits", 10);
  EXPECT_EQ(proxy->kind("/permits"), Assignment::Kind::kAllowAll);
}

TEST_F(QuotaServiceTest, FollowsOverrides) {
  const auto proxy = connect(1);
  report(1, "/api", 500);
  ASSERT_TRUE(overrides_.set(counter_of("api", "/api"), {.kind = Override::Kind::kBlocked}));
  pass(1s);
  EXPECT_EQ(proxy->kind("/api"), Assignment::Kind::kDenyAll);
  ASSERT_TRUE(overrides_.set(counter_of("api", "/api"), {.limit = 10}));
  pass(1s);
  EXPECT_GT(proxy->rate("/api"), 0);
  for (int i = 0; i < 8; ++i) {
    report(1, "/api", 500);
    pass(5s);
    EXPECT_LE(proxy->rate("/api"), 10);
  }
  EXPECT_NEAR(proxy->rate("/api"), 10, 1);
}

// Its bucket keeps its tokens, and is filled by time alone.
TEST_F(QuotaServiceTest, ARaiseOfAPartTakesOnlyWhatTimeAdds) {
  const auto proxy = connect(1);
  report(1, "/api", 50);
  pass(1s);
  ASSERT_NEAR(proxy->rate("/api"), 10, 1);
  const std::uint64_t before = service_->stats().assigned;
  report(1, "/api", 500);
  EXPECT_NEAR(proxy->rate("/api"), 100, 1);
  EXPECT_EQ(service_->stats().assigned, before);
  pass(1s);
  EXPECT_NEAR(static_cast<double>(service_->stats().assigned - before), 100, 1);
}

TEST_F(QuotaServiceTest, SharesTheLimitWithRequestsThatAskDirectly) {
  const auto proxy = connect(1);
  for (int i = 0; i < 3; ++i) {
    report(1, "/api", 5000);
    pass(5s);
  }
  const std::string key = counter_of("api", "/api");
  const Charge charge = charge_of(key, token_bucket(100).per(1s), 1);
  std::uint64_t direct = 0;
  for (int i = 0; i < 2000; ++i) {
    clock_.advance(10ms);
    if (memory_.apply_one(Verb::kTake, charge, {}).allowed()) ++direct;
    if (i % 100 == 99) divide(true);
    if (i % 500 == 499) report(1, "/api", 5000);
  }
  EXPECT_GT(direct, 0);
  EXPECT_LT(proxy->rate("/api"), 100);
}

// Direct requests that take all units as they come back. One proxy has the limit before, another
// comes later. Both keep half of the limit, and the rest is for direct requests.
TEST_F(QuotaServiceTest, ProxiesKeepHalfOfALimitThatDirectRequestsWouldUseAlone) {
  const std::map<std::string, Limit> limits{
      {"token_bucket", token_bucket(100).per(1s)},
      {"gcra", gcra(100).per(1s)},
      {"fixed_window", fixed_window(100).per(1s)},
      {"sliding_window_log", sliding_window_log(100).per(1s)},
      {"sliding_window_hybrid", sliding_window_hybrid(100).per(1s)},
      {"sliding_window_counter", sliding_window_counter(100).per(1s)}};
  for (const auto& [algorithm, limit] : limits) {
    std::string rules(kRules);
    const std::size_t at = rules.rfind("token_bucket");
    load(rules.replace(at, std::string("token_bucket").size(), algorithm));
    clock_.advance(1min);
    const auto proxy = connect(1);
    const auto late = connect(2);
    const std::string key = counter_of("api", "/api");
    const Charge one = charge_of(key, limit, 1);
    double used = 0;
    double direct = 0;
    double most = 0;
    for (int i = 0; i < 12'000; ++i) {
      clock_.advance(10ms);
      const bool is_loaded = i >= 1500;
      while (is_loaded && memory_.apply_one(Verb::kTake, one, {}).allowed()) ++direct;
      const double rate = std::max(proxy->rate("/api"), 0.) + std::max(late->rate("/api"), 0.);
      if (is_loaded) used += rate / 100;
      if (is_loaded) most = std::max(most, used + direct - (i - 1500) + 1);
      if (i % 100 == 99) divide(true);
      if (i % 100 == 50) report(1, "/api", 500, 1s);
      if (i % 100 == 50 && i > 6000) report(2, "/api", 500, 1s);
    }
    // The full counter, what is owed, and what the parts use until they are lowered.
    EXPECT_LE(most, 100 + 300 + 300) << algorithm;
    EXPECT_GE(direct, 5000) << algorithm;
    if (limit.algorithm() == Algorithm::kFixedWindow) continue;  // docs/quota.md
    EXPECT_GE(proxy->rate("/api"), 24) << algorithm;
    EXPECT_GE(late->rate("/api"), 24) << algorithm;
  }
}

// A part that is lowered is in use for a second more, however often limits are divided.
TEST_F(QuotaServiceTest, PartsThatDirectRequestsLowerDoNotComeAndGo) {
  config_.every = 100ms;
  load(kRules);
  const auto proxy = connect(1);
  const std::string key = counter_of("api", "/api");
  const Charge one = charge_of(key, token_bucket(100).per(1s), 1);
  for (int i = 0; i < 6000; ++i) {
    clock_.advance(10ms);
    while (i >= 1000 && memory_.apply_one(Verb::kTake, one, {}).allowed()) {
    }
    if (i % 10 == 9) divide(true);
    if (i % 10 == 5) report(1, "/api", 50, 100ms);
    if (i >= 3000) {
      ASSERT_GE(proxy->rate("/api"), 40) << i;
      ASSERT_LE(proxy->rate("/api"), 60) << i;
    }
  }
}

// What a proxy does after its assignment has expired is its own affair: Envoy may allow all.
TEST_F(QuotaServiceTest, AnAssignmentDoesNotExpireWhileALargerOneWaitsForUnits) {
  std::string rules(kRules);
  rules.replace(rules.rfind("token_bucket"), std::string("token_bucket").size(), "fixed_window");
  load(rules);
  const auto proxy = connect(1);
  for (int i = 0; i < 10; ++i) {
    report(1, "/api", 10, 1s);
    pass(1s);
  }
  const std::string key = counter_of("api", "/api");
  const Charge all = charge_of(key, fixed_window(100).per(1s), 100);
  Instant sent = clock_.now();
  for (int i = 0; i < 60; ++i) {
    clock_.advance(1s);
    memory_.apply_one(Verb::kTakeAtMost, all, {});
    const int before = proxy->messages;
    report(1, "/api", 500, 1s);
    divide(true);
    if (proxy->messages > before) sent = clock_.now();
    ASSERT_LT(clock_.now() - sent, Duration{proxy->latest.at("/api").ttl}) << i;
    if (i < 20) continue;
    EXPECT_LE(proxy->rate("/api"), 11) << i;
  }
}

TEST_F(QuotaServiceTest, NeverAssignsMoreThanTheLimitAndTheStatedBound) {
  std::vector<std::shared_ptr<Told>> proxies;
  for (std::uint64_t id = 1; id <= 10; ++id) proxies.push_back(connect(id));
  for (std::uint64_t round = 0; round < 40; ++round) {
    for (std::uint64_t id = 1; id <= 10; ++id) {
      report(id, "/api", (id * 37 + round * 101) % 900);
    }
    pass(5s);
    double sum = 0;
    for (const auto& proxy : proxies) sum += std::max(proxy->rate("/api"), 0.);
    EXPECT_LE(sum, 100.0001) << round;
  }
  // The burst of 100 at the start, and 200 s of the limit.
  EXPECT_LE(service_->stats().assigned, 100 + 200 * 100);
}

TEST_F(QuotaServiceTest, AbandonsABucketThatIsNotReportedAndFreesItsPart) {
  const auto idle = connect(1);
  const auto other = connect(2);
  report(1, "/api", 5000);
  pass(5s);
  report(1, "/api", 5000);
  pass(5s);
  for (int i = 0; i < 20; ++i) {
    report(2, "/api", 5000);
    pass(5s);
  }
  EXPECT_FALSE(idle->latest.at("/api").assignment);
  EXPECT_NEAR(other->rate("/api"), 100, 2);
  EXPECT_EQ(service_->stats().buckets, 1);
}

TEST_F(QuotaServiceTest, KeepsThePartOfALostProxyUntilItHasExpired) {
  const auto lost = connect(1);
  const auto other = connect(2);
  for (int i = 0; i < 3; ++i) {
    report(1, "/api", 5000);
    pass(5s);
  }
  const double had = lost->rate("/api");
  const auto ttl = lost->latest.at("/api").ttl;
  service_->close(1);
  report(2, "/api", 5000);
  pass(5s);
  report(2, "/api", 5000);
  pass(1s);
  EXPECT_LE(other->rate("/api") + had, 100.0001);
  for (int i = 0; i < 5; ++i) {
    report(2, "/api", 5000);
    pass(5s);
  }
  EXPECT_GT(25s, ttl);
  EXPECT_NEAR(other->rate("/api"), 100, 2);
}

TEST_F(QuotaServiceTest, AProxyThatReconnectsIsSentNothingUntilItCanHaveWhatItUses) {
  connect(1);
  for (int i = 0; i < 3; ++i) {
    report(1, "/api", 500);
    pass(5s);
  }
  service_->close(1);
  const auto again = connect(2);
  report(2, "/api", 500);
  for (int i = 0; i < 10; ++i) {  // the old part was renewed at most 5 s ago, for 15 s
    EXPECT_EQ(again->messages, 0) << i;
    pass(1s);
  }
  pass(7s);
  EXPECT_EQ(again->denials, 0);
  EXPECT_NEAR(again->rate("/api"), 100, 2);
}

TEST_F(QuotaServiceTest, AProxyThatReconnectsIsSentAtOnceWhatItUsesIfThatIsFree) {
  connect(1);
  for (int i = 0; i < 3; ++i) {
    report(1, "/api", 200);
    pass(5s);
  }
  service_->close(1);
  const auto again = connect(2);
  report(2, "/api", 200);
  EXPECT_NEAR(again->rate("/api"), 40, 2);
}

TEST_F(QuotaServiceTest, ARestartedProxyIsDeniedUntilItsOldPartHasExpired) {
  connect(1);
  for (int i = 0; i < 3; ++i) {
    report(1, "/api", 500);
    pass(5s);
  }
  service_->close(1);
  const auto restarted = connect(2);
  report(2, "/api", 1, 0s);  // as Envoy reports a new bucket
  EXPECT_EQ(restarted->kind("/api"), Assignment::Kind::kDenyAll);
  pass(16s);
  EXPECT_GT(restarted->rate("/api"), 0);
}

TEST_F(QuotaServiceTest, AProxyOfAnotherServerIsSentNothingWhileThatHasItsShare) {
  shares_.share = quota::kWhole / 10;
  const auto proxy = connect(1);
  report(1, "/api", 250);
  pass(5s);
  EXPECT_EQ(proxy->messages, 0);
  shares_.share = quota::kWhole / 2;
  pass(1s);
  EXPECT_NEAR(proxy->rate("/api"), 50, 1);
}

TEST_F(QuotaServiceTest, AProxyThatUsedMoreThanTheLimitHadNoAssignmentAndWaitsForNone) {
  shares_.share = quota::kWhole / 10;
  const auto proxy = connect(1);
  report(1, "/api", 1500);  // 300 a second
  EXPECT_NEAR(proxy->rate("/api"), 10, 1);
}

TEST_F(QuotaServiceTest, AProxyOfAnotherServerWaitsNoLongerThanAssignmentsLast) {
  shares_.share = 0;
  const auto proxy = connect(1);
  for (int i = 0; i < 4; ++i) {
    report(1, "/api", 250);
    pass(5s);
  }
  report(1, "/api", 250);
  EXPECT_EQ(proxy->kind("/api"), Assignment::Kind::kDenyAll);
}

TEST_F(QuotaServiceTest, AfterAllStreamsItAsksForNothingAndHoldsWhatIsInUse) {
  connect(1);
  report(1, "/api", 500);
  pass(4s);
  service_->close_all();
  divide(false);
  EXPECT_EQ(service_->stats().proxies, 0);
  EXPECT_EQ(shares_.asked, 0);
  EXPECT_EQ(shares_.held, quota::kWhole);
  EXPECT_LE(shares_.ttl, 16s);
}

TEST_F(QuotaServiceTest, DividesItsShareAmongServers) {
  shares_.share = quota::kWhole / 4;
  const auto proxy = connect(1);
  report(1, "/api", 1, 0s);
  for (int i = 0; i < 3; ++i) {
    report(1, "/api", 5000);
    pass(5s);
    EXPECT_LE(proxy->rate("/api"), 25);
  }
  EXPECT_NEAR(proxy->rate("/api"), 25, 1);
  EXPECT_EQ(shares_.asked, quota::kWhole);
  shares_.share = quota::kWhole / 10;
  pass(1s);
  EXPECT_NEAR(proxy->rate("/api"), 10, 1);
  EXPECT_EQ(shares_.held, quota::kWhole / 4);  // until the proxy has confirmed
}

TEST_F(QuotaServiceTest, ItsWeightIsThatOfTheProxiesThatAskForMore) {
  for (std::uint64_t id = 1; id <= 3; ++id) connect(id);
  for (int i = 0; i < 5; ++i) {
    for (std::uint64_t id = 1; id <= 3; ++id) report(id, "/api", id == 3 ? 50 : 5000);
    pass(5s);
  }
  // Two that ask for more, which have 45 each. The third one needs 10, which is 10/45 of that.
  EXPECT_NEAR(static_cast<double>(shares_.weight) / 1024, 2 + 10. / 45, 0.02);
  EXPECT_EQ(shares_.heaviest, 3 * 1024);  // if the third one asked for more
  report(3, "/api", 5000);
  pass(5s);
  EXPECT_EQ(shares_.weight, 3 * 1024);
  for (std::uint64_t id = 1; id <= 3; ++id) service_->close(id);
  connect(4);
  service_->report(4, {{.bucket = "w",
                        .attributes = {{"path", "/weighted"}, {"x-weight", "7"}},
                        .elapsed = 5s,
                        .allowed = 5000}});
  divide(false);
  EXPECT_EQ(shares_.weight, 7 * 1024);
}

TEST_F(QuotaServiceTest, RenewsNothingWithoutAStore) {
  const auto proxy = connect(1);
  report(1, "/api", 500);
  const int messages = proxy->messages;
  shares_.share.reset();
  pass(30s);
  report(1, "/api", 5000);
  EXPECT_EQ(proxy->messages, messages);
  shares_.share = quota::kWhole;
  pass(1s);
  EXPECT_GT(proxy->messages, messages);
}

TEST_F(QuotaServiceTest, WhatWasUsedWithoutAStoreIsNotPaidBackLater) {
  const auto proxy = connect(1);
  for (int i = 0; i < 3; ++i) {
    report(1, "/api", 500);
    pass(5s);
  }
  ASSERT_EQ(proxy->rate("/api"), 100);
  store_.is_away = true;
  pass(10s);
  store_.is_away = false;
  report(1, "/api", 1500, 15s);
  pass(1s);
  EXPECT_EQ(proxy->rate("/api"), 100);
}

TEST_F(QuotaServiceTest, GivesANewBucketNoAssignmentWithoutAStore) {
  connect(1);
  report(1, "/api", 500);
  shares_.share.reset();
  const auto other = connect(2);
  report(2, "/api", 500);
  EXPECT_EQ(other->messages, 0);
  shares_.share = quota::kWhole;
  pass(1s);
  EXPECT_EQ(other->messages, 1);
  store_.is_away = true;  // which a new counter notices at the first units
  report(2, "/weighted", 1, 0s);
  EXPECT_EQ(other->messages, 1);
  store_.is_away = false;
  pass(1s);
  EXPECT_EQ(other->messages, 2);
}

TEST_F(QuotaServiceTest, KeepsItsShareUntilThePartsOfLostProxiesHaveExpired) {
  const auto lost = connect(1);
  report(1, "/api", 5000);
  pass(1s);
  const Duration ttl = lost->latest.at("/api").ttl;
  EXPECT_EQ(ttl, 15s);
  service_->close(1);
  service_->divide(true);
  EXPECT_GE(shares_.ttl, ttl - 1s);
}

TEST_F(QuotaServiceTest, OtherRulesDoNotConfirmAPart) {
  connect(1);
  for (int i = 0; i < 3; ++i) {
    report(1, "/api", 5000);
    pass(5s);
  }
  ASSERT_EQ(shares_.held, quota::kWhole);
  shares_.share = quota::kWhole / 2;
  pass(2s);
  ASSERT_TRUE(overrides_.set(counter_of("api", "/api"), {.limit = 1000}));
  pass(1s);
  EXPECT_EQ(shares_.held, quota::kWhole);  // no report has come since
}

TEST_F(QuotaServiceTest, IdleBucketsOfAServerAskForOneLeastPart) {
  for (std::uint64_t id = 1; id <= 50; ++id) {
    connect(id);
    report(id, "/api", 0);
  }
  EXPECT_EQ(shares_.asked, quota::kWhole / 100);
  pass(5s);
  for (std::uint64_t id = 1; id <= 50; ++id) report(id, "/api", 0);
  EXPECT_EQ(shares_.asked, quota::kWhole / 400);
}

TEST_F(QuotaServiceTest, CountsThePartOfALostProxyByRulesThatAreNoLongerActive) {
  constexpr std::string_view kBlocks = R"(
version: 1
domain: shop
rules:
  - name: api
    match: { path: /api }
    limits:
      - { name: requests, key: "{path}", algorithm: token_bucket, limit: 100, per: 1s,
          block: { after: 10, within: 1m, for: 1m } }
)";
  ASSERT_TRUE(rules_->replace(std::string(kBlocks), "rules"));
  service_->follow_rules();
  service_->divide(true);
  connect(1);
  report(1, "/api", 500);
  service_->close(1);
  const std::string key = counter_of("api", "/api");
  const Charge direct = charge_of(key, token_bucket(100).per(1s), 100);
  ASSERT_TRUE(rules_->replace(std::string(kRules), "rules"));
  for (int i = 0; i < 3; ++i) {
    clock_.advance(1s);
    // So that the units of the part are denied, which reads the block.
    memory_.apply_one(Verb::kTake, direct, {});
    const std::uint64_t before = store_.units;
    divide(true);
    EXPECT_GT(store_.units, before);
  }
}

TEST_F(QuotaServiceTest, AStepHandlesAFewBucketsHoweverManyThereAre) {
  constexpr int kBuckets = 300;
  constexpr std::string_view kUsers = R"(
version: 1
domain: shop
rules:
  - { name: api, limits: [ { key: "{user}", algorithm: token_bucket, limit: 100, per: 1s } ] }
)";
  load(kUsers, 10);
  const std::vector<std::shared_ptr<Told>> proxies{connect(1), connect(2), connect(3)};
  for (std::uint64_t id = 1; id <= 3; ++id) {
    std::vector<BucketReport> reports;
    for (int i = 0; i < kBuckets; ++i) {
      const std::string user = std::to_string(i);
      reports.push_back(
          {.bucket = user, .attributes = {{"user", user}}, .elapsed = 5s, .allowed = 10});
    }
    service_->report(id, std::move(reports));
  }
  const auto all_of = [&] {
    return proxies[0]->messages + proxies[1]->messages + proxies[2]->messages;
  };
  for (const bool all : {false, true}) {
    int steps = 0;
    const int before = all_of();
    do {
      const int claims = shares_.claims;
      const int sent = all_of();
      service_->divide(all && steps == 0);
      ++steps;
      ASSERT_LE(shares_.claims - claims, 2 * 10);
      ASSERT_LE(all_of() - sent, 2 * 10 + 3);  // the last limit may have more than are left
    } while (service_->has_news());
    EXPECT_GE(steps, all ? kBuckets / 10 : kBuckets * 3 / 20);
    EXPECT_EQ(all_of() - before, kBuckets * 3) << all;
    clock_.advance(6s);
  }
}

// Reports arrive between the steps, so that each step meets other buckets.
TEST_F(QuotaServiceTest, StepsGiveThePartsThatOneDivisionGives) {
  const std::vector<std::string> paths{"/api",     "/both",     "/free",
                                       "/planned", "/weighted", "/shadow"};
  std::map<std::string, std::vector<double>> rates;
  for (const std::size_t step : {1, 3, 7, 2000}) {
    load(kRules, step);
    clock_.advance(1min);  // so that the counters are full
    std::vector<std::shared_ptr<Told>> proxies;
    for (std::uint64_t id = 1; id <= 5; ++id) proxies.push_back(connect(id));
    for (int round = 0; round < 12; ++round) {
      service_->divide(true);
      for (std::uint64_t id = 1; id <= 5; ++id) {
        for (const std::string& path : paths) {
          service_->report(id, {{.bucket = path,
                                 .attributes = {{"path", path}, {"x-weight", "1"}},
                                 .elapsed = 5s,
                                 .allowed = round == 0 ? 1 : 100 * id}});
          service_->divide(false);
        }
      }
      pass(5s);
    }
    // A bucket waits until both of its limits have been divided.
    for (const auto& proxy : proxies) EXPECT_EQ(proxy->denials, 0) << step;
    for (const std::string& path : paths) {
      for (const auto& proxy : proxies) rates[path].push_back(proxy->rate(path));
    }
  }
  for (const auto& [path, all] : rates) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_NEAR(all[i], all[all.size() - 5 + i % 5], all[i] / 16 + 0.1) << path << " " << i;
    }
  }
}

TEST_F(QuotaServiceTest, RulesThatChangeBetweenTwoStepsDecideAtTheEnd) {
  load(kRules, 1);
  std::vector<std::shared_ptr<Told>> proxies;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    proxies.push_back(connect(id));
    for (const char* path : {"/api", "/free", "/both"}) report(id, path, 500);
  }
  constexpr std::string_view kDenied = R"(
version: 1
domain: shop
rules: [ { name: none, action: deny } ]
)";
  for (int steps = 0; steps < 12; ++steps) {
    ASSERT_TRUE(rules_->replace(std::string(kRules), "rules"));
    divide(true);
    service_->divide(true);
    for (int i = 0; i < steps; ++i) service_->divide(false);
    ASSERT_TRUE(rules_->replace(std::string(kDenied), "rules"));
    service_->close(1 + steps % 5);  // of which the next step may be
    proxies[steps % 5] = connect(1 + steps % 5);
    service_->follow_rules();
    for (const char* path : {"/api", "/free", "/both"}) report(1 + steps % 5, path, 500);
    divide(true);
    for (const auto& proxy : proxies) {
      for (const auto& [path, order] : proxy->latest) {
        EXPECT_EQ(proxy->kind(path), Assignment::Kind::kDenyAll) << path << " " << steps;
      }
    }
    clock_.advance(1s);
  }
}

TEST_F(QuotaServiceTest, ARepeatedReportOfAnAbsenceMakesNoAssignmentLonger) {
  const auto proxy = connect(1);
  for (int i = 0; i < 2; ++i) report(1, "/free", 1, 14s);
  pass(6s);
  EXPECT_EQ(proxy->messages, 2) << "it was renewed";
  EXPECT_EQ(proxy->latest.at("/free").ttl, 15s);
  report(1, "/free", 1, 6s);
  pass(6s);
  EXPECT_EQ(proxy->latest.at("/free").ttl, 18s);
}

TEST_F(QuotaServiceTest, RenewsAnEqualAssignmentBeforeItExpires) {
  const auto proxy = connect(1);
  report(1, "/free", 1);
  const int messages = proxy->messages;
  const auto ttl = proxy->latest.at("/free").ttl;
  EXPECT_EQ(ttl, 15s);
  pass(15s);
  EXPECT_EQ(proxy->messages, messages + 3);
}

}  // namespace sluice::server::quota_service_test
