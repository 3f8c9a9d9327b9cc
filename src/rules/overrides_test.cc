#include "sluice/overrides.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "sluice/memory_store.h"
#include "sluice/rule_decider.h"

namespace sluice::overrides_test {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kRules = R"(
version: 1
plans:
  free: { requests: { limit: 2, per: 1m } }
  pro:
    requests: { limit: 5, per: 1m }
    spend: { limit: 1000, per: 1m, prices: { large: { out: 3 } } }
prices: { large: { out: 5 }, small: { out: 2 } }
rules:
  - name: api
    match: { path: /api }
    plan: { from: "{header.x-plan}", default: free }
    limits:
      - { name: requests, key: "{header.x-customer}", algorithm: token_bucket }
  - name: quota
    match: { path: /quota }
    limits:
      - { name: month, key: "{ip}", algorithm: fixed_window, limit: 100, per: month, zone: Asia/Tokyo }
  - name: models
    match: { path: /models }
    plan: { from: "{header.x-plan}", default: free }
    limits:
      - { name: spend, key: "{header.x-customer}", algorithm: fixed_window, limit: 1000, per: 1m,
          cost: "{out|1} * price.out", price: { of: "{model}", default: large } }
  - name: all
    limits:
      - { name: window, key: "{ip}", algorithm: fixed_window, limit: 1, per: 1s }
      - { name: total, algorithm: fixed_window, limit: 100, per: 1s }
)";

RuleSet parsed() {
  auto rules = RuleSet::parse(kRules, "f");
  EXPECT_TRUE(rules);
  return std::move(rules.value());
}

class OverridesTest : public ::testing::Test {
 protected:
  Expected<std::string> name(std::string_view rule, std::string_view limit, const Override& given,
                             const Attributes& of = {{"header.x-customer", "7"}, {"ip", "::1"}}) {
    return name_override(rules_, rule, limit, of, given);
  }
  std::string problem(std::string_view rule, std::string_view limit, const Override& given) {
    const auto named = name(rule, limit, given);
    return named ? "ok" : named.error();
  }
  void give(std::string_view rule, std::string_view limit, const Override& given) {
    const auto key = name(rule, limit, given);
    ASSERT_TRUE(key) << key.error();
    ASSERT_TRUE(overrides_.set(*key, given));
  }
  const RuleAnswer& ask(Instant at = Instant{10s}, Verb verb = Verb::kTake,
                        std::string_view path = "/api") {
    return decider_.decide(rules_,
                           Attributes{{"path", path}, {"header.x-customer", "7"}, {"ip", "::1"}},
                           {}, at, verb);
  }

  RuleSet rules_ = parsed();
  Overrides overrides_;
  MemoryStore store_;
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_, {.overrides = &overrides_}};
};

using Kind = Override::Kind;

TEST_F(OverridesTest, KeepsTheCalendarUnlessItHasAPeriod) {
  const auto numbers = [&] { return ask(Instant{10s}, Verb::kTake, "/quota").limits[0].numbers; };
  give("quota", "month", {.limit = 9});
  EXPECT_EQ(numbers(), fixed_window(9).per(calendar_month("Asia/Tokyo")));
  give("quota", "month", {.limit = 9, .per = 1min});
  EXPECT_EQ(numbers(), fixed_window(9).per(1min));
}

TEST_F(OverridesTest, GivesWindowsOfTheCalendarInTheZoneOfTheLimit) {
  const auto numbers = [&] { return ask(Instant{10s}, Verb::kTake, "/quota").limits[0].numbers; };
  give("quota", "month", {.limit = 9, .calendar = CalendarUnit::kDay});
  EXPECT_EQ(numbers(), fixed_window(9).per(calendar_day("Asia/Tokyo")));
  give("quota", "month", {.limit = 9, .calendar = CalendarUnit::kMonth});
  EXPECT_EQ(numbers(), fixed_window(9).per(calendar_month("Asia/Tokyo")));
  const Override month{.limit = 9, .calendar = CalendarUnit::kMonth};
  const auto wrong =
      name_override(rules_, "api", "requests", Attributes{{"header.x-customer", "7"}}, month);
  ASSERT_FALSE(wrong) << "a token bucket has no windows";
  EXPECT_NE(wrong.error().find("fixed_window"), std::string::npos) << wrong.error();
}

TEST_F(OverridesTest, GivesAKeyOtherNumbers) {
  ASSERT_EQ(ask().limits.front().numbers, token_bucket(2).per(1min));
  give("api", "requests", {.limit = 9, .per = 2min, .burst = 4});
  EXPECT_EQ(ask().limits.front().numbers, token_bucket(9).per(2min).burst(4));
  EXPECT_EQ(ask().decision.capacity, 4U);
  EXPECT_EQ(ask().decision.remaining, 0U) << "what was consumed still counts";
  give("api", "requests", {.limit = 9});
  EXPECT_EQ(ask().limits.front().numbers, token_bucket(9).per(1min));
}

TEST_F(OverridesTest, NamesTheCounterAsTheRuleDoes) {
  give("api", "requests", {.limit = 9});
  const auto page = overrides_.list(0, 10);
  ASSERT_EQ(page.entries.size(), 1U);
  EXPECT_EQ(page.entries.front().counter, std::string(ask().limits.front().counter));
  EXPECT_EQ(name("api", "requests", {}, {{"header.x-customer", "a|b=%"}}).value(),
            "default|api|requests|header.x-customer=a%7Cb=%25");
}

TEST_F(OverridesTest, GivesAKeyAPlanInSpiteOfTheRequest) {
  give("api", "requests", {.kind = Kind::kPlan, .plan = "pro"});
  EXPECT_EQ(ask().limits.front().numbers, token_bucket(5).per(1min));
}

TEST_F(OverridesTest, GivesAKeyThePricesOfAPlan) {
  std::uint64_t before = 1000;
  const auto cost = [&](std::string_view plan, std::string_view model) {
    const std::uint64_t left = decider_
                                   .decide(rules_,
                                           Attributes{{"path", "/models"},
                                                      {"header.x-customer", "7"},
                                                      {"header.x-plan", plan},
                                                      {"model", model}},
                                           {}, Instant{10s})
                                   .decision.remaining;
    return std::exchange(before, left) - left;
  };
  EXPECT_EQ(cost("free", "large"), 5U);
  EXPECT_EQ(cost("pro", "large"), 3U);
  EXPECT_EQ(cost("pro", "small"), 2U) << "the plan has no prices of it";
  EXPECT_EQ(cost("pro", "other"), 3U) << "the default model, with the prices of the plan";
  EXPECT_EQ(cost("gold", "large"), 5U) << "the default plan";
  give("models", "spend", {.kind = Kind::kPlan, .plan = "pro"});
  EXPECT_EQ(cost("free", "large"), 3U);
  give("models", "spend", {.kind = Kind::kPlan, .plan = "free"});
  EXPECT_EQ(cost("pro", "large"), 5U);
}

TEST_F(OverridesTest, BlocksAKeyUntilAnInstant) {
  give("api", "requests", {.kind = Kind::kBlocked, .until = Instant{70s}});
  const RuleAnswer& answer = ask(Instant{10s});
  EXPECT_EQ(answer.decision.reason, Reason::kBlocked);
  EXPECT_FALSE(answer.decision.allowed());
  EXPECT_EQ(answer.decision.retry_after, 60s);
  EXPECT_EQ(answer.rule, &rules_.rules()[0]);
  ASSERT_EQ(answer.limits.size(), 1U);
  EXPECT_EQ(answer.limits.front().label, "7");
  EXPECT_EQ(answer.limits.front().decision.retry_after, 60s);
  EXPECT_EQ(ask(Instant{70s} - Duration{1}).decision.retry_after, Duration{1});
  EXPECT_TRUE(ask(Instant{70s}).decision.allowed());
  EXPECT_EQ(ask(Instant{70s}).decision.remaining, 0U) << "denied requests have taken nothing";
}

TEST_F(OverridesTest, WaitsForTheLongestOfSeveralBlocks) {
  give("all", "window", {.kind = Kind::kBlocked, .until = Instant{70s}});
  give("all", "total", {.kind = Kind::kBlocked, .until = Instant{90s}});
  const RuleAnswer& answer = ask(Instant{10s}, Verb::kTake, "/other");
  EXPECT_EQ(answer.decision.retry_after, 80s);
  ASSERT_EQ(answer.limits.size(), 2U);
  EXPECT_EQ(answer.limits[0].decision.retry_after, 60s);
  EXPECT_EQ(answer.limits[1].decision.retry_after, 80s);
  give("all", "total", {.kind = Kind::kBlocked});
  EXPECT_EQ(ask(Instant{10s}, Verb::kTake, "/other").decision.retry_after, std::nullopt);
}

TEST_F(OverridesTest, DeniesABlockedKeyAsABlockOfTheStore) {
  const auto ask_for = [&](std::uint64_t cost, Verb verb = Verb::kTake) {
    return decider_.decide(rules_, Attributes{{"path", "/"}, {"ip", "::1"}}, cost,
                           Instant{10s + 100ms}, verb);
  };
  ASSERT_TRUE(ask_for(1).decision.allowed());
  for (const char* const limit : {"window", "total"}) {
    overrides_.clear();
    give("all", limit, {.kind = Kind::kBlocked, .until = Instant{10s + 200ms}});
    EXPECT_EQ(ask_for(1).decision.retry_after, 1s) << "until the window opens";
    EXPECT_EQ(ask_for(1).decision.reason, Reason::kBlocked);
    EXPECT_EQ(ask_for(1).limits.size(), 2U);
    EXPECT_TRUE(ask_for(0).decision.allowed());
    EXPECT_EQ(ask_for(200).decision.reason, Reason::kNever);
    EXPECT_EQ(ask_for(200, Verb::kTakeAtMost).decision.reason, Reason::kBlocked);
    EXPECT_EQ(ask_for(200, Verb::kTakeAtMost).decision.retry_after, 1s);
    give("all", limit, {.kind = Kind::kBlocked});
    EXPECT_EQ(ask_for(1).decision.retry_after, std::nullopt);
    EXPECT_TRUE(ask_for(0).decision.allowed());
  }
  overrides_.clear();
  EXPECT_EQ(ask_for(0).limits[1].decision.remaining, 99U) << "denied requests have taken nothing";
}

TEST_F(OverridesTest, BlocksAKeyForEver) {
  give("api", "requests", {.kind = Kind::kBlocked});
  EXPECT_EQ(ask(Instant{10s}, Verb::kPeek).decision.reason, Reason::kBlocked);
  EXPECT_EQ(ask().decision.retry_after, std::nullopt);
  EXPECT_TRUE(ask(Instant{10s}, Verb::kCharge).decision.allowed()) << "the work is done already";
}

TEST_F(OverridesTest, DoesNotApplyALimitToAnUnlimitedKey) {
  give("all", "window", {.kind = Kind::kUnlimited});
  for (int i = 0; i < 100; ++i) {
    const RuleAnswer& answer = ask(Instant{10s}, Verb::kTake, "/");
    ASSERT_TRUE(answer.decision.allowed());
    ASSERT_EQ(answer.limits.size(), 1U);
  }
  EXPECT_FALSE(ask(Instant{10s}, Verb::kTake, "/").decision.allowed()) << "of the other limit";
}

TEST_F(OverridesTest, EndsAndIsDropped) {
  give("api", "requests", {.limit = 9, .until = Instant{20s}});
  EXPECT_EQ(ask(Instant{19s}).decision.capacity, 9U);
  EXPECT_EQ(ask(Instant{20s}).decision.capacity, 2U);
  EXPECT_EQ(overrides_.drop_ended(Instant{20s} - Duration{1}), 0U);
  EXPECT_EQ(overrides_.size(), 1U);
  EXPECT_EQ(overrides_.drop_ended(Instant{20s}), 1U);
  EXPECT_EQ(overrides_.size(), 0U);
  EXPECT_TRUE(overrides_.list(0, 10).entries.empty());
}

TEST_F(OverridesTest, AreTakenInPartsWhenTheyHaveEnded) {
  for (const char* counter : {"d|r|l|k=1", "d|r|l|k=2", "d|r|l|k=3"}) {
    EXPECT_TRUE(overrides_.set(counter, {.limit = 7, .until = Instant{20s}}));
  }
  EXPECT_TRUE(overrides_.set("d|r|l|k=4", {.limit = 7}));
  EXPECT_TRUE(overrides_.take_ended(Instant{19s}, 10).empty());
  EXPECT_EQ(overrides_.take_ended(Instant{20s}, 2).size(), 2U);
  EXPECT_EQ(overrides_.size(), 2U);
  const auto rest = overrides_.take_ended(Instant{20s}, 2);
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].counter.substr(0, 8), "d|r|l|k=");
  EXPECT_EQ(rest[0].given, (Override{.limit = 7, .until = Instant{20s}}));
  EXPECT_TRUE(overrides_.find("d|r|l|k=4"));
}

TEST_F(OverridesTest, RefusesWhatTheLimitCannotHave) {
  EXPECT_EQ(problem("ap", "requests", {}),
            "there is no rule 'ap'; expected one of: api, quota, models or all");
  EXPECT_EQ(problem("all", "windows", {}),
            "the rule 'all' has no limit 'windows'; expected one of: window or total");
  EXPECT_EQ(problem("api", "requests", {.kind = Kind::kPlan, .plan = "gold"}),
            "there is no plan 'gold'; expected one of: free or pro");
  EXPECT_EQ(problem("all", "total", {.kind = Kind::kPlan, .plan = "pro"}),
            "the rule 'all' has no plans; expected 'limit', 'blocked' or 'unlimited'");
  EXPECT_EQ(problem("all", "window", {.limit = 3, .burst = 4}),
            "burst does not apply to fixed_window; it applies to leaky_bucket, token_bucket and "
            "gcra");
  EXPECT_NE(problem("all", "window", {.limit = 4294967296}), "ok");
  const auto named = name("api", "requests", {.limit = 1}, {{"ip", "::1"}});
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error(),
            "an attribute of the key '{header.x-customer}' of the limit 'requests' is missing; "
            "expected all of them");
}

TEST_F(OverridesTest, IgnoresWhatTheRulesNoLongerAllow) {
  overrides_.set("default|api|requests|header.x-customer=7", {.kind = Kind::kPlan, .plan = "gone"})
      .value();
  EXPECT_EQ(ask().decision.capacity, 2U);
  overrides_.set("default|all|window|ip=::1", {.limit = 5, .burst = 7}).value();
  EXPECT_EQ(ask(Instant{10s}, Verb::kTake, "/").limits.front().numbers.capacity(), 1U);
}

TEST(Overrides, AreBounded) {
  Overrides overrides(2);
  EXPECT_TRUE(overrides.set("a|b|c|1", {}).value());
  EXPECT_TRUE(overrides.set("a|b|c|2", {}).value());
  const auto third = overrides.set("a|b|c|3", {});
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error(), "there are 2 overrides, as many as there may be; expected fewer");
  EXPECT_FALSE(overrides.set("a|b|c|2", {.limit = 5}).value()) << "one that is there";
  EXPECT_FALSE(overrides.set(std::string(2049, 'x'), {}));
  EXPECT_TRUE(overrides.unset("a|b|c|1"));
  EXPECT_TRUE(overrides.set("a|b|c|3", {}).value());
}

Override random_override(std::mt19937& random) {
  Override given{.kind = static_cast<Kind>(random() % 4)};
  if (given.kind == Kind::kNumbers) {
    given.limit = random();
    if (random() % 2 != 0) given.per = Duration{random()};
    if (random() % 2 != 0) given.burst = random();
  }
  if (given.kind == Kind::kPlan) given.plan = std::string(random() % 40, 'p');
  if (random() % 2 != 0)
    given.until = Instant{Duration{static_cast<std::int64_t>(random()) * 1000}};
  return given;
}

TEST(Overrides, AreAMapWhateverHappens) {
  std::mt19937 random(7);
  Overrides overrides;
  std::map<std::string, Override> expected;
  for (int i = 0; i < 40'000; ++i) {
    const std::string key = "d|rule" + std::to_string(random() % 3) + "|l" +
                            (random() % 9 == 0 ? "" : "|k=" + std::to_string(random() % 3000));
    if (random() % 3 == 0) {
      EXPECT_EQ(overrides.unset(key), expected.erase(key) == 1);
    } else {
      const Override given = random_override(random);
      EXPECT_EQ(overrides.set(key, given).value(), expected.insert_or_assign(key, given).second);
    }
  }
  ASSERT_EQ(overrides.size(), expected.size());
  for (const auto& [key, given] : expected) EXPECT_EQ(overrides.find(key, Instant{}), given) << key;
  std::map<std::string, Override> listed;
  for (std::optional<std::uint64_t> at = 0; at;) {
    const auto page = overrides.list(*at, 100);
    EXPECT_LE(page.entries.size(), 100U);
    for (const auto& entry : page.entries) {
      EXPECT_TRUE(listed.emplace(entry.counter, entry.given).second) << entry.counter;
    }
    at = page.next;
  }
  EXPECT_EQ(listed, expected);
  for (const auto& entry : overrides.list(0, 10'000, "rule1").entries) {
    EXPECT_TRUE(entry.counter.starts_with("d|rule1|"));
    listed.erase(entry.counter);
  }
  for (const auto& [counter, given] : listed) EXPECT_FALSE(counter.starts_with("d|rule1|"));
  overrides.clear();
  EXPECT_EQ(overrides.size(), 0U);
}

TEST(Overrides, AreReplacedAsAWhole) {
  Overrides overrides;
  overrides.set("a|b|c|1", {.limit = 1}).value();
  overrides.set("a|b|c|2", {.limit = 2}).value();
  Overrides next;
  next.set("a|b|c|2", {.limit = 3}).value();
  overrides.replace(std::move(next));
  EXPECT_FALSE(overrides.find("a|b|c|1"));
  EXPECT_EQ(overrides.find("a|b|c|2")->limit, 3U);
  EXPECT_EQ(overrides.size(), 1U);
}

TEST(Overrides, AreKeptInAFile) {
  const std::string path = ::testing::TempDir() + "/overrides_test.txt";
  Overrides written;
  written.set("a|b|c|1", {.limit = 7, .per = 1min}).value();
  ASSERT_TRUE(write_overrides(path, written));
  Overrides read;
  read.set("a|b|c|2", {}).value();
  EXPECT_TRUE(read_overrides(path, read).value());
  EXPECT_EQ(read.find("a|b|c|1")->per, 1min);
  EXPECT_EQ(read.size(), 1U) << "those of the file only";
  Overrides small(0);
  const auto refused = read_overrides(path, small);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(),
            path + ":2: there are 0 overrides, as many as there may be; expected fewer");
  std::remove(path.c_str());
  EXPECT_FALSE(read_overrides(path, read).value());
  EXPECT_EQ(read.size(), 1U) << "without a file they stay";
}

TEST(Overrides, TakeLessThan100BytesEach) {
  constexpr std::size_t kCount = 200'000;
  Overrides overrides;
  const std::size_t empty = overrides.bytes();
  for (std::size_t i = 0; i < kCount; ++i) {
    overrides
        .set("default|api|requests|header.x-customer=customer-" + std::to_string(1'000'000 + i),
             {.limit = 100 + i, .per = 1min, .until = Instant{1'800'000'000s}})
        .value();
  }
  EXPECT_LT((overrides.bytes() - empty) / kCount, 100U);
}

TEST(Overrides, AreReadAndChangedByManyThreads) {
  Overrides overrides;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 5'000; ++i) {
      const std::string key = "d|r|l|k=" + std::to_string(random() % 500);
      if (random() % 4 == 0) {
        overrides.unset(key);
      } else if (random() % 2 == 0) {
        overrides.set(key, {.limit = std::stoul(key.substr(8))}).value();
      } else if (const auto found = overrides.find(key)) {
        EXPECT_EQ(std::to_string(found->limit), key.substr(8));
      }
    }
    overrides.drop_ended(Instant{1s});
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(overrides.size(), 500U);
}

}  // namespace
}  // namespace sluice::overrides_test
