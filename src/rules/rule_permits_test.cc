#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/limit_builder.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/permit.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_guard.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::rule_permits_test {
namespace {

using namespace std::chrono_literals;

RuleSet parse(const std::string& rules) {
  auto set = RuleSet::parse("version: 1\nrules:\n" + rules, "f");
  if (!set) throw std::invalid_argument(set.error().front().to_string());
  return *set;
}

class RulePermits : public ::testing::Test {
 protected:
  const RuleAnswer& decide(const RuleSet& rules, Action action = Verb::kTake) {
    return decider_.decide(rules, Attributes{{"ip", "::1"}}, {}, {}, action);
  }
  std::vector<std::uint64_t> left(const RuleSet& rules) {
    std::vector<std::uint64_t> out;
    for (const LimitAnswer& limit : decider_.decide(rules, Attributes{{"ip", "::1"}}, 0, {}).limits)
      out.push_back(limit.decision.remaining);
    return out;
  }

  testing::ManualClock clock_;
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_};
  const RuleSet rules_ = parse(
      "  - name: a\n    continue: true\n"
      "    limits: [ { algorithm: concurrency, limit: 2, lease: 10s, key: \"{ip}\" } ]\n"
      "  - name: b\n    tag: t\n"
      "    limits: [ { algorithm: concurrency, limit: 3, lease: 20s },\n"
      "              { algorithm: token_bucket, limit: 9, per: 1h } ]\n");
};

TEST_F(RulePermits, AreOneForAllLimitsOfTheRequest) {
  const RuleAnswer& answer = decide(rules_);
  ASSERT_TRUE(answer.decision.allowed());
  const std::string permit = answer.permit;
  EXPECT_FALSE(permit.empty());
  EXPECT_EQ(left(rules_), (std::vector<std::uint64_t>{1, 2, 8}));
  EXPECT_TRUE(decide(rules_).decision.allowed());
  EXPECT_FALSE(decide(rules_).decision.allowed());
  EXPECT_EQ(decide(rules_).permit, "");
  EXPECT_TRUE(decider_.release(permit));
  EXPECT_EQ(left(rules_), (std::vector<std::uint64_t>{1, 2, 7}));
  EXPECT_EQ(decider_.release(permit).reason, Reason::kGone);
  EXPECT_EQ(decider_.release("x").reason, Reason::kInvalid);
  EXPECT_EQ(decide(rules_, Verb::kPeek).permit, "");
}

TEST_F(RulePermits, AreExtendedInAllCountersOrInNone) {
  const std::string permit = decide(rules_).permit;
  clock_.advance(9s);
  EXPECT_TRUE(decider_.extend(rules_, permit));
  clock_.advance(10s);
  EXPECT_EQ(decider_.extend(rules_, permit).reason, Reason::kGone);
  EXPECT_EQ(left(rules_), (std::vector<std::uint64_t>{2, 2, 8}));
  EXPECT_TRUE(decider_.release(permit));
  EXPECT_EQ(left(rules_), (std::vector<std::uint64_t>{2, 3, 8}));
}

// Returns the text of the permit with another lease for its counters of rules.
std::string with_lease(std::string_view permit, Duration lease) {
  const auto parsed = PermitText::parse(permit);
  if (!parsed) return {};
  std::vector<Charge> charges(parsed->charges().begin(), parsed->charges().end());
  for (Charge& charge : charges) {
    charge.limit = concurrency(charge.limit.limit()).lease(lease);
    charge.cost = 1;
  }
  std::string changed;
  PermitText::append(*charges.front().permit, charges, changed);
  return changed;
}

TEST_F(RulePermits, AreExtendedByNoMoreThanTheLeaseOfTheirLimitWhateverTheirTextSays) {
  const std::string permit = decide(rules_).permit;
  EXPECT_TRUE(decider_.extend(rules_, with_lease(permit, 366 * 24h)));
  EXPECT_EQ(left(rules_), (std::vector<std::uint64_t>{1, 2, 8}));
  clock_.advance(10s);
  EXPECT_EQ(left(rules_), (std::vector<std::uint64_t>{2, 2, 8}));
  clock_.advance(10s);
  EXPECT_EQ(left(rules_), (std::vector<std::uint64_t>{2, 3, 8}));
}

TEST_F(RulePermits, AreExtendedByTheLongestLeaseOfPlansAndOverrides) {
  const RuleSet rules = RuleSet::parse(R"(version: 1
plans:
  free: { jobs: { limit: 1, lease: 10s } }
  pro: { jobs: { limit: 9, lease: 30s } }
rules:
  - name: a
    plan: { from: "{ip}", default: free }
    limits: [ { name: jobs, algorithm: concurrency } ]
)",
                                       "f")
                            .value();
  Overrides overrides;
  RuleDecider decider(limiter_, {.overrides = &overrides});
  const Attributes request{{"ip", "pro"}};
  const auto extended = [&] {
    const std::string permit = decider.decide(rules, request).permit;
    EXPECT_TRUE(decider.extend(rules, with_lease(permit, 366 * 24h)));
    const Duration after =
        decider.decide(rules, request, {}, {}, Verb::kPeek).limits[0].decision.reset_after;
    EXPECT_TRUE(decider.release(permit));
    return after;
  };
  EXPECT_EQ(extended(), 30s);
  const std::string counter(decider.decide(rules, request, {}, {}, Verb::kPeek).limits[0].counter);
  ASSERT_TRUE(overrides.set(counter, Override{.limit = 5, .per = Duration{1min}}));
  EXPECT_EQ(extended(), 1min);
}

TEST_F(RulePermits, AreRefusedWhereNobodyReceivesThem) {
  decider_.refuse_permits(true);
  const RuleAnswer& answer = decide(rules_);
  EXPECT_EQ(answer.decision.reason, Reason::kInvalid);
  EXPECT_EQ(answer.mistake,
            "the limit 'a/0' holds permits (concurrency), which this kind of request cannot "
            "receive; expected /v1/check, RL.CHECK or the library");
  EXPECT_TRUE(decide(rules_, Verb::kPeek).decision.allowed());
  decider_.refuse_permits(false);
  EXPECT_EQ(left(rules_), (std::vector<std::uint64_t>{2, 3, 9}));
  EXPECT_EQ(decide(rules_, Verb::kCharge).mistake,
            "the limit 'a/0' holds permits (concurrency), which cannot be charged; expected a "
            "check");
}

TEST_F(RulePermits, StayWhenTheRequestIsSettled) {
  const RuleSet rules = parse(
      "  - name: a\n    limits: [ { algorithm: concurrency, limit: 2, lease: 10s, cost: 1 },\n"
      "                  { algorithm: token_bucket, limit: 9, per: 1h, cost: request } ]\n");
  const Attributes request{{"ip", "::1"}};
  EXPECT_TRUE(decider_.decide(rules, request, 5).decision.allowed());
  EXPECT_TRUE(decider_.settle(rules, request, 5, 7).decision.allowed());
  EXPECT_EQ(left(rules), (std::vector<std::uint64_t>{0, 2}));  // each also takes what it costs now
}

TEST_F(RulePermits, OfShadowRulesAreReleasedWithTheOthers) {
  const RuleSet rules = parse(
      "  - name: a\n    mode: shadow\n    continue: true\n"
      "    limits: [ { algorithm: concurrency, limit: 1, lease: 10s } ]\n"
      "  - name: b\n    limits: [ { algorithm: fixed_window, limit: 2, per: 1h } ]\n");
  const std::string permit = decide(rules).permit;
  EXPECT_FALSE(permit.empty());
  const RuleAnswer& second = decide(rules);  // the shadow rule would deny
  EXPECT_EQ(second.decision.reason, Reason::kShadow);
  EXPECT_EQ(second.permit, "");
  EXPECT_TRUE(decider_.release(permit));
  EXPECT_FALSE(decide(rules).decision.allowed());  // by b: nothing stays in flight
  EXPECT_EQ(decide(rules, Verb::kPeek).limits[0].decision.remaining, 0u);
  EXPECT_TRUE(decide(rules, Verb::kPeek).limits[0].decision.allowed());
}

// A store that is not there.
class Down final : public Store {
 public:
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    const Decision failed = Decision::refused(Reason::kStoreError);
    for (Decision& decision : each) decision = failed;
    return failed;
  }
};

TEST_F(RulePermits, AreInTheLocalStoreIfThatHasAnswered) {
  const auto rules_with = [](const std::string& policy) {
    return parse("  - name: a\n    on_store_error: " + policy +
                 "\n    limits: [ { algorithm: concurrency, limit: 1, lease: 10s } ]\n");
  };
  Down down;
  Limiter limiter(down);
  MemoryStore local({}, clock_);
  RuleDecider decider(limiter, {.local = &local});
  const Attributes request{{"ip", "::1"}};
  const std::string permit = decider.decide(rules_with("local"), request).permit;
  EXPECT_FALSE(permit.empty());
  EXPECT_FALSE(decider.decide(rules_with("local"), request).decision.allowed());
  EXPECT_TRUE(decider.extend(rules_with("local"), permit));
  EXPECT_TRUE(decider.release(permit));
  EXPECT_TRUE(decider.decide(rules_with("local"), request).decision.allowed());
  const RuleAnswer& allowed = decider.decide(rules_with("allow"), request);
  EXPECT_TRUE(allowed.decision.allowed());
  EXPECT_EQ(allowed.permit, "");
}

TEST_F(RulePermits, AreHeldByGuards) {
  int denied = 0;
  std::function<void(const std::string&)> inner;
  const auto run = [&](const std::string& ip) {
    if (inner) std::exchange(inner, nullptr)(ip);
  };
  const auto guard = guarded(rules_, limiter_, "a")
                         .with("ip", [](const std::string& ip) { return ip; })
                         .costing(2)
                         .holding()
                         .otherwise([&](const Decision&) { ++denied; }, run);
  inner = guard;
  guard("::1");
  EXPECT_EQ(denied, 1);
  guard("::1");
  EXPECT_EQ(denied, 1);
  try {
    guarded(rules_, limiter_, "a").with("ip", [](int ip) { return ip; }).throwing([](int) {});
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(
        std::string(e.what()),
        "rule \"a\", limit \"a/0\": a call needs a permit while it runs; expected .holding()");
  }
}

TEST_F(RulePermits, AreWaitedForByGuards) {
  const RuleSet rules =
      parse("  - name: a\n    limits: [ { algorithm: concurrency, limit: 1, lease: 1h } ]\n");
  std::atomic<int> inside = 0;
  int calls = 0;
  const auto call = guarded(rules, limiter_, "a").holding().waiting(1h).returning([&] {
    EXPECT_EQ(++inside, 1);
    --inside;
    return ++calls;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) EXPECT_TRUE(call());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, 80);
  const auto hurried =
      guarded(rules, limiter_, "a").holding().waiting(0s).returning([] { return 0; });
  const std::string permit = decider_.decide(rules, Attributes{}).permit;
  EXPECT_EQ(hurried().error().reason, Reason::kLimited);
  EXPECT_TRUE(decider_.release(permit));
  EXPECT_TRUE(hurried());
}

// Returns the errors of a limit with these keys.
std::string limit_errors(const std::string& keys) {
  const auto rules =
      RuleSet::parse("version: 1\nrules:\n  - name: r\n    limits: [ { " + keys + " } ]\n", "f");
  if (rules) return "ok";
  std::string out;
  for (const RuleError& error : rules.error()) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

TEST(RulePermitsFile, ReadsALeaseInsteadOfAPeriodForPermits) {
  const std::string with =
      "; expected 'lease:' with a whole number and its unit (ms, s, m, h or d), "
      "such as 60s";
  EXPECT_EQ(limit_errors("algorithm: concurrency, limit: 65535, lease: 30s"), "ok");
  EXPECT_EQ(limit_errors("algorithm: concurrency, limit: 1"),
            "f:4:15: error: limit lacks 'lease'" + with);
  EXPECT_EQ(limit_errors("algorithm: concurrency, limit: 1, per: 1s"),
            "f:4:56: error: 'per' does not apply to concurrency" + with);
  EXPECT_EQ(limit_errors("algorithm: concurrency, limit: 65536, lease: 367d"),
            "f:4:48: error: limit 65536 is out of range; it must be 0 to 65535\n"
            "f:4:62: error: lease 367d is out of range; it must be 1ms to 366d");
}

TEST(RulePermitsFile, ReadsAQuotaLeaseOfLimitsWithoutPermits) {
  EXPECT_EQ(limit_errors("algorithm: gcra, limit: 1, per: 1s, lease: 10s"), "ok");
  EXPECT_EQ(limit_errors("algorithm: gcra, limit: 1, lease: 1s").substr(0, 36),
            "f:4:15: error: limit lacks 'per'; ex");
  EXPECT_EQ(limit_errors("algorithm: gcra, limit: 1, per: 1s, lease: 11s"),
            "f:4:60: error: lease 11s is out of range; it must be 1ms to 10s");
  const auto rules = RuleSet::parse(
      "version: 1\nrules:\n  - name: r\n    limits: [ { algorithm: gcra, limit: 1, per: 1s, "
      "lease: 20ms } ]\n",
      "f");
  ASSERT_TRUE(rules);
  EXPECT_EQ(rules->rules().front().limits.front().limit.lease(), std::chrono::milliseconds{20});
}

TEST(RulePermitsFile, WarnsOnceOfQuotaLeasesIfTheStoreTakesNone) {
  const std::string limit =
      "{ algorithm: fixed_window, align: clock, limit: 1, per: 1s, lease: 20ms }";
  const std::string yaml =
      "version: 1\nrules:\n  - name: r\n    limits:\n    - " + limit + "\n    - " + limit + "\n";
  const auto rules = RuleSet::parse(yaml, "f", {.leases = false});
  ASSERT_TRUE(rules);
  ASSERT_EQ(rules->warnings().size(), 1u);
  EXPECT_EQ(rules->warnings().front().what,
            "'lease' has no effect with this store, which asks no server");
  const auto without = RuleSet::parse(yaml, "f", {.scripting = false});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().front().what, "leases need scripts (scripting: off)");
}

TEST(RulePermitsFile, RefusesPermitsThatTheStoreDoesNotHave) {
  const auto rules = RuleSet::parse(
      "version: 1\nrules:\n  - name: r\n    limits: [ { algorithm: concurrency, limit: 1, lease: "
      "1s } ]\n",
      "f", {.no_permits = "which this store does not have"});
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().front().to_string(),
            "f:4:28: error: 'concurrency' needs permits, which this store does not have; "
            "expected another algorithm");
}

TEST(RulePermitsFile, RefusesLimitsThatAnotherServerCannotDivide) {
  const auto error_of = [](const std::string& limit) {
    const auto rules = RuleSet::parse(
        "version: 1\nrules:\n  - name: r\n    limits: [ { key: '{a}', " + limit + " } ]\n", "f",
        {.assigned = true});
    return rules ? std::string("ok") : rules.error().front().to_string();
  };
  EXPECT_EQ(error_of("algorithm: token_bucket, limit: 5, per: 1s"), "ok");
  EXPECT_EQ(
      error_of("algorithm: concurrency, limit: 5, lease: 1s"),
      "f:4:40: error: concurrency cannot be divided among servers; expected another limit, or "
      "a store in memory or Redis, because each request must ask for such a limit");
  EXPECT_TRUE(error_of("algorithm: budget, limit: 5, per: 1d").find("budget cannot be divided") !=
              std::string::npos);
  EXPECT_TRUE(
      error_of("algorithm: gcra, limit: 5, per: 1s, block: { after: 3, within: 1m, for: 1m }")
          .find("'block' needs a store in memory or Redis") != std::string::npos)
      << error_of("algorithm: gcra, limit: 5, per: 1s, block: { after: 3, within: 1m, for: 1m }");
}

TEST(RulePermitsFile, WarnsOfLimitsThatCanBlockRedis) {
  constexpr std::string_view kRules =
      "version: 1\n"
      "rules:\n"
      "  - name: a\n"
      "    limits:\n"
      "      - { algorithm: concurrency, limit: 5000, lease: 1h }\n"
      "      - { algorithm: concurrency, limit: 5001, lease: 1h }\n"
      "      - { algorithm: sliding_window_log, limit: 100000, per: 1h }\n"
      "      - { algorithm: sliding_window_log, limit: 100001, per: 1h }\n"
      "      - { algorithm: sliding_window_hybrid, limit: 4000000000, per: 1h }\n";
  EXPECT_TRUE(RuleSet::parse(kRules, "f")->warnings().empty());
  const auto rules = RuleSet::parse(kRules, "f", {.in_redis = true});
  ASSERT_EQ(rules->warnings().size(), 2u);
  EXPECT_TRUE(rules->warnings()[0].to_string().starts_with(
      "f:6:42: warning: a release looks at all permits of a key, and 5001 of them can block"))
      << rules->warnings()[0].to_string();
  EXPECT_TRUE(rules->warnings()[1].to_string().starts_with(
      "f:8:49: warning: a log is copied when it grows, and one of 100001 units can block"))
      << rules->warnings()[1].to_string();
}

}  // namespace
}  // namespace sluice::rule_permits_test
