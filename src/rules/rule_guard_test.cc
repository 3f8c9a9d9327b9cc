#include "sluice/rule_guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/rule_decider.h"
#include "sluice/testing/manual_clock.h"
#include "stores/policy/test_store.h"
#include "tests/support/allocations.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

enum class Region : std::uint8_t { kNorth = 1, kSouth = 2 };
struct Place {
  std::string country;
};
struct Email {
  std::string address;
  Place place = {};
};
struct Request {
  std::string user;
  Email email = {};
  std::optional<std::string> token = {};
  Region region = Region::kNorth;
};
int length(const Request& request) { return static_cast<int>(request.user.size()); }

RuleSet parsed(const std::string& rules) {
  auto set = RuleSet::parse("version: 1\ndomain: test\nrules:\n" + rules, "rules.yaml");
  if (!set) throw std::runtime_error(set.error().front().to_string());
  return *set;
}

RuleSet one_rule(const std::string& limits, const std::string& more = "") {
  return parsed("  - name: send\n    match: { path: /send }\n    limits:\n" + limits + more);
}
const std::string kByUser =
    "      - { key: '{user}', algorithm: sliding_window_log, limit: 1, per: 60s }\n";
const std::string kByCountry =
    "      - { key: '{email.place.country}', algorithm: gcra, limit: 2, per: 1h }\n";

class RuleGuardTest : public ::testing::Test {
 protected:
  auto guard_of(const LiveRules& rules) { return guarded(rules, limiter_, "send"); }
  static std::string refusal(const auto& make) {
    try {
      make();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "made";
  }

  testing::ManualClock clock_;
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
};

TEST_F(RuleGuardTest, CountsByTheRulesKeyOnly) {
  const auto guard = guard_of(one_rule(kByUser)).with("user", &Request::user).returning(length);
  EXPECT_TRUE(guard(Request{"bob"}));
  EXPECT_FALSE(guard(Request{"bob"}));
  EXPECT_TRUE(guard(Request{"eve"}));
}

TEST_F(RuleGuardTest, TheExceptionSaysRuleLimitAndWait) {
  const auto guard = guard_of(one_rule(kByUser)).with("user", &Request::user).throwing(length);
  guard(Request{"bob"});
  clock_.advance(20s);
  try {
    guard(Request{"bob"});
    FAIL();
  } catch (const RateLimited& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, 48),
              "send: limited to 1 per 1m (sliding_window_log) b");
    EXPECT_TRUE(std::string(e.what()).ends_with("; retry after 40 s")) << e.what();
    EXPECT_EQ(e.name(), "send");
    EXPECT_EQ(e.decision().retry_after, Duration{40s});
  }
}

TEST_F(RuleGuardTest, FieldsAreReadByDots) {
  const auto guard = guard_of(one_rule(kByUser + kByCountry))
                         .with("user", &Request::user)
                         .with("email", &Request::email, field("address", &Email::address),
                               field("place", &Email::place, field("country", &Place::country)))
                         .returning(length);
  EXPECT_TRUE(guard(Request{"a", {"x", {"de"}}}));
  EXPECT_TRUE(guard(Request{"b", {"y", {"de"}}}));
  EXPECT_FALSE(guard(Request{"c", {"z", {"de"}}}));
  EXPECT_TRUE(guard(Request{"c", {"z", {"fr"}}}));
}

TEST_F(RuleGuardTest, TheExceptionSaysThatTheKeyIsBlocked) {
  const auto rules = one_rule(
      "      - { name: user, key: '{user}', algorithm: gcra, limit: 1, per: 1s,\n"
      "          block: { after: 1, within: 1m, for: 15m } }\n");
  const auto guard = guard_of(rules).with("user", &Request::user).throwing(length);
  guard(Request{"bob"});
  try {
    guard(Request{"bob"});
    FAIL();
  } catch (const RateLimited& e) {
    EXPECT_STREQ(e.what(),
                 "send: blocked by the limit 1 per 1s (gcra) by \"user\"; retry after 900 s");
  }
}

TEST_F(RuleGuardTest, AttributesMayBeNumbersEnumerationsTemporariesAndArguments) {
  const auto rules = one_rule(
      "      - { key: '{user}|{region}|{count}|{flag}|{text}', algorithm: gcra, limit: 1, per: 1h "
      "}\n");
  const auto guard = guard_of(rules)
                         .with("user", [](const Request& r) { return r.user + "!"; })
                         .with("region", &Request::region)
                         .with("count", [](const Request&, int n) { return n; })
                         .with("flag", [](const Request&, int n) { return n > 0; })
                         .with("text", [](const Request&) { return "constant"; })
                         .returning([](const Request&, int) { return 0; });
  const std::string name(100, 'n');
  EXPECT_TRUE(guard(Request{name}, 1));
  EXPECT_FALSE(guard(Request{name}, 1));
  EXPECT_TRUE(guard(Request{name}, -1));
  Request south{name};
  south.region = Region::kSouth;
  EXPECT_TRUE(guard(south, 1));
}

TEST_F(RuleGuardTest, AnAbsentAttributeIsMissingAsTheRuleSays) {
  const std::string limit = "      - { key: '{token}', algorithm: gcra, limit: 1, per: 1h";
  const auto skips =
      guard_of(one_rule(limit + " }\n")).with("token", &Request::token).returning(length);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(skips(Request{"a"}));
  const auto denies = guard_of(one_rule(limit + ", on_missing: deny }\n"))
                          .with("token", &Request::token)
                          .returning(length);
  EXPECT_EQ(denies(Request{"a"}).error().reason, Reason::kMissing);
  EXPECT_TRUE(denies(Request{"a", {}, "t"}));
  EXPECT_FALSE(denies(Request{"a", {}, "t"}));
}

TEST_F(RuleGuardTest, AShadowRuleAllows) {
  const auto guard = guard_of(one_rule(kByUser, "    mode: shadow\n"))
                         .with("user", &Request::user)
                         .returning(length);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(guard(Request{"a"}));
}

TEST_F(RuleGuardTest, HandlersCostsAndExceptionsWorkAsInLimitGuards) {
  const auto rules = one_rule("      - { key: '{user}', algorithm: gcra, limit: 10, per: 1h }\n");
  const auto handled = guard_of(rules)
                           .with("user", &Request::user)
                           .costing(6)
                           .otherwise([](const Decision&) { return -1; }, length);
  EXPECT_EQ(handled(Request{"bob"}), 3);
  EXPECT_EQ(handled(Request{"bob"}), -1);
  const auto refunds = guard_of(rules)
                           .with("user", &Request::user)
                           .costing(6)
                           .refunding_on_exception()
                           .throwing([](Request r) -> int { throw std::runtime_error(r.user); });
  for (int i = 0; i < 3; ++i) EXPECT_THROW(refunds(Request{"eve"}), std::runtime_error);
}

TEST_F(RuleGuardTest, RefundsTheCounterUnderItsTag) {
  const auto refunds = guard_of(one_rule(kByUser, "    tag: '{user}'\n"))
                           .with("user", &Request::user)
                           .refunding_on_exception()
                           .throwing([](Request r) -> int { throw std::runtime_error(r.user); });
  for (int i = 0; i < 3; ++i) EXPECT_THROW(refunds(Request{"eve"}), std::runtime_error);
}

TEST_F(RuleGuardTest, ReleasesPermitsInTheStoreThatGaveThem) {
  const std::string limit = "      - { key: all, algorithm: concurrency, limit: 2, lease: 1h }\n";
  TestStore down;
  down.fail(Reason::kStoreError);
  Limiter broken(down);
  MemoryStore other;
  const auto local =
      guarded(one_rule(limit, "    on_store_error: local\n"), broken, "send", {.local = &other})
          .holding();
  const auto shadow_rules = one_rule(limit, "    mode: shadow\n");
  MemoryStore trial;
  const RuleStores with_trial{.shadow = &trial};
  const auto shadow = guarded(shadow_rules, limiter_, "send", with_trial).holding();
  RuleDecider decider(limiter_, with_trial);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(local.returning(length)(Request{"bob"}));
    EXPECT_TRUE(local.waiting(0s).returning(length)(Request{"bob"}));
    EXPECT_TRUE(shadow.returning(length)(Request{"bob"}));
    const Attributes attributes{{"path", "/send"}};
    const auto& left = decider.decide(shadow_rules, attributes, 0, {}, Verb::kPeek);
    EXPECT_EQ(left.limits[0].decision.remaining, 2u);
  }
}

TEST_F(RuleGuardTest, ThrownCallsGiveBackWhatTheStoreHasTaken) {
  const std::string limits =
      "      - { name: all, algorithm: token_bucket, limit: 100, per: 1h }\n"
      "      - { name: user, key: '{user}', algorithm: token_bucket, limit: 2, per: 1h }\n";
  MemoryStore trial;
  const RuleStores with_trial{.shadow = &trial};
  const auto run = [&](const RuleSet& rules, Store& store, std::uint64_t left) {
    Limiter taken(store);
    RuleDecider decider(taken);
    const auto guard = guarded(rules, limiter_, "send", with_trial).with("user", &Request::user);
    EXPECT_TRUE(guard.returning(length)(Request{"bob"}));
    const auto fails = guard.refunding_on_exception().throwing(
        [](const Request& r) -> int { throw std::runtime_error(r.user); });
    for (const char* const user : {"bob", "eve", "joe", "bob"}) {
      EXPECT_THROW(fails(Request{user}), std::runtime_error);
    }
    const Attributes attributes{{"path", "/send"}, {"user", "bob"}};
    const auto& answer = decider.decide(rules, attributes, 0, {}, Verb::kPeek);
    EXPECT_EQ(answer.limits[0].decision.remaining, left);
    EXPECT_EQ(answer.limits[1].decision.remaining, 1u);
  };
  run(one_rule(limits, "    max_new_keys: 2\n    on_store_error: allow\n"), store_, 99);
  run(one_rule(limits, "    mode: shadow\n"), trial, 99);
}

class OverriddenGuard : public RuleGuardTest {
 protected:
  auto guard() {
    return guarded(rules_, limiter_, "send", {.overrides = &overrides_})
        .with("user", &Request::user);
  }
  void give(const Override& given) {
    const auto key = name_override(rules_, "send", "user", Attributes{{"user", "bob"}}, given);
    ASSERT_TRUE(key) << key.error();
    ASSERT_TRUE(overrides_.set(*key, given));
  }

  RuleSet rules_ = one_rule(
      "      - { name: user, key: '{user}', algorithm: token_bucket, limit: 1, per: 1h }\n");
  Overrides overrides_;
};

TEST_F(OverriddenGuard, AKeyHasItsOwnNumbers) {
  const auto send = guard().returning(length);
  give({.limit = 3});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(send(Request{"bob"}));
  EXPECT_FALSE(send(Request{"bob"}));
  give({.kind = Override::Kind::kUnlimited});
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(send(Request{"bob"}));
  EXPECT_TRUE(send(Request{"eve"}));
  EXPECT_FALSE(send(Request{"eve"})) << "another key has the numbers of the rule";
}

TEST_F(OverriddenGuard, ABlockedKeyIsDenied) {
  const auto send = guard().throwing(length);
  give({.kind = Override::Kind::kBlocked});
  try {
    send(Request{"bob"});
    FAIL();
  } catch (const RateLimited& e) {
    EXPECT_EQ(e.decision().reason, Reason::kBlocked);
    EXPECT_STREQ(e.what(),
                 "send: blocked without end by the limit 1 per 1h (token_bucket) by \"user\"");
  }
  overrides_.clear();
  EXPECT_EQ(send(Request{"bob"}), 3);
}

TEST_F(OverriddenGuard, AWaitingCallDoesNotWaitForABlock) {
  const auto send = guard().waiting(1h).returning(length);
  give({.kind = Override::Kind::kBlocked});
  const auto denied = send(Request{"bob"});
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().reason, Reason::kBlocked);
}

TEST_F(OverriddenGuard, ThrownCallsGiveBackByTheNumbersOfTheOverride) {
  const auto send = guard().refunding_on_exception().throwing(
      [](const Request& r) -> int { throw std::runtime_error(r.user); });
  give({.limit = 2});
  for (int i = 0; i < 5; ++i) EXPECT_THROW(send(Request{"bob"}), std::runtime_error);
}

TEST_F(RuleGuardTest, AnUnknownRuleIsRefusedWhenTheGuardIsMade) {
  EXPECT_EQ(refusal([&] {
              (void)guarded(one_rule(kByUser), limiter_, "sned")
                  .with("user", &Request::user)
                  .throwing(length);
            }),
            "there is no rule \"sned\"; expected one of: send");
}

TEST_F(RuleGuardTest, AnAttributeThatTheGuardCannotGiveIsRefusedWhenItIsMade) {
  for (const std::string on_missing : {"skip", "deny"}) {
    const auto rules = one_rule(
        "      - { name: user, key: '{header.X-User}', algorithm: gcra, limit: 1, per: 1h, "
        "on_missing: " +
        on_missing + " }\n");
    EXPECT_EQ(
        refusal([&] { (void)guard_of(rules).with("name", &Request::user).throwing(length); }),
        "rule \"send\", limit \"user\": its key \"{header.X-User}\" reads an attribute that the "
        "guard does not provide (it provides: name); expected .with(NAME, VALUE) for it");
    const auto guard = guard_of(rules).with("header.X-USER", &Request::user).returning(length);
    EXPECT_TRUE(guard(Request{"a"}));
    EXPECT_FALSE(guard(Request{"a"}));
    clock_.advance(1h);
  }
}

TEST_F(RuleGuardTest, AnAttributeOfThePlanOrTheTagThatTheGuardCannotGiveIsRefused) {
  const std::string lack =
      "reads an attribute that the guard does not provide (it provides: user); expected "
      ".with(NAME, VALUE) for it";
  const auto planned = RuleSet::parse(
      "version: 1\ndomain: test\n"
      "plans: { free: { n: { limit: 1, per: 1h } }, pro: { n: { limit: 3, per: 1h } } }\n"
      "rules:\n  - name: send\n    plan: { from: '{plan}', default: free }\n"
      "    limits: [ { name: n, key: '{user}', algorithm: token_bucket } ]\n",
      "rules.yaml");
  ASSERT_TRUE(planned);
  const auto by_user = [&](const RuleSet& rules) {
    return guard_of(rules).with("user", &Request::user);
  };
  EXPECT_EQ(refusal([&] { (void)by_user(*planned).throwing(length); }),
            "rule \"send\": its plan \"{plan}\" " + lack);
  EXPECT_EQ(refusal([&] { (void)by_user(*planned).with("plan", length).throwing(length); }),
            "made");
  EXPECT_EQ(
      refusal([&] { (void)by_user(one_rule(kByUser, "    tag: '{org}'\n")).throwing(length); }),
      "rule \"send\": its tag \"{org}\" " + lack);
}

TEST_F(RuleGuardTest, NamesTheLimitWhoseAttributeIsMissingAmongSeveral) {
  const auto rules =
      one_rule(kByUser + "      - { name: b, key: '{ip}', algorithm: gcra, limit: 1, per: 1h, " +
               "on_missing: deny }\n");
  EXPECT_TRUE(refusal([&] {
                (void)guard_of(rules).with("user", &Request::user).throwing(length);
              }).starts_with("rule \"send\", limit \"b\": its key \"{ip}\" reads an attribute"));
}

TEST_F(RuleGuardTest, AFallbackIsEnough) {
  const auto rules =
      one_rule("      - { key: '{header.x-user|user}', algorithm: gcra, limit: 1, per: 1h }\n");
  EXPECT_EQ(refusal([&] { (void)guard_of(rules).with("user", &Request::user).throwing(length); }),
            "made");
}

TEST_F(RuleGuardTest, AnAttributeGivenTwiceIsRefused) {
  EXPECT_EQ(refusal([&] {
              (void)guard_of(one_rule(kByUser))
                  .with("user", &Request::user)
                  .with("user", &Request::user)
                  .throwing(length);
            }),
            "the guard provides the attribute \"user\" twice; expected it once");
}

TEST_F(RuleGuardTest, AQueueNeedsSomethingThatWaits) {
  const auto rules =
      one_rule("      - { name: q, algorithm: leaky_bucket, limit: 10, per: 1s, mode: queue }\n");
  EXPECT_EQ(refusal([&] { (void)guard_of(rules).throwing(length); }),
            "rule \"send\", limit \"q\": a queue admits calls that must wait; expected "
            ".delaying(WAIT) or .waiting(AT_MOST)");
  Duration waited{0};
  const auto guard = guard_of(rules).delaying([&](Duration d) { waited += d; }).throwing(length);
  for (int i = 0; i < 3; ++i) guard(Request{"a"});
  EXPECT_EQ(waited, Duration{300ms});
}

TEST_F(RuleGuardTest, AGuardWaitsForTheLimitsOfItsRule) {
  const auto rules = one_rule(
      "      - { name: w, algorithm: fixed_window, limit: 1, per: 20ms }\n"
      "      - { name: b, algorithm: token_bucket, limit: 1, per: 30ms }\n");
  MemoryStore store;
  Limiter limiter(store);
  const auto begin = std::chrono::steady_clock::now();
  const auto patient = guarded(rules, limiter, "send").waiting(1h).returning(length);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(patient(Request{"a"}));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 90ms);
  const auto slow = one_rule("      - { name: w, algorithm: fixed_window, limit: 1, per: 1h }\n");
  MemoryStore other_store;  // the counter of the window above may still be there
  Limiter other(other_store);
  const auto hurried = guarded(slow, other, "send").waiting(0s).returning(length);
  EXPECT_TRUE(hurried(Request{"b"}));
  EXPECT_EQ(hurried(Request{"b"}).error().reason, Reason::kLimited);
}

TEST_F(RuleGuardTest, GuardsFollowLiveRulesAndCountersSurvive) {
  LiveRules live(one_rule("      - { key: '{user}', algorithm: gcra, limit: 1, per: 1h }\n"));
  const auto guard = guard_of(live).with("user", &Request::user).returning(length);
  EXPECT_TRUE(guard(Request{"a"}));
  EXPECT_FALSE(guard(Request{"a"}));
  const auto more = one_rule("      - { key: '{user}', algorithm: gcra, limit: 3, per: 1h }\n");
  EXPECT_TRUE(live.replace(more).empty());
  EXPECT_EQ(live.current().find("send")->limits[0].limit.limit(), 3u);
  EXPECT_TRUE(guard(Request{"a"}));
  EXPECT_TRUE(guard(Request{"a"}));
  EXPECT_FALSE(guard(Request{"a"}));
}

TEST_F(RuleGuardTest, RulesThatALivingGuardCannotGoByAreRefused) {
  LiveRules live(one_rule(kByUser));
  const auto other = parsed("  - name: order\n    match: { path: /x }\n    limits:\n" + kByUser);
  {
    const auto guard = guard_of(live).with("user", &Request::user).returning(length);
    EXPECT_EQ(live.replace(other),
              std::vector<std::string>{"there is no rule \"send\"; expected one of: order"});
    EXPECT_EQ(live.replace(one_rule(kByCountry)).size(), 1u);
    EXPECT_TRUE(guard(Request{"a"}));
    EXPECT_FALSE(guard(Request{"a"}));
  }
  EXPECT_TRUE(live.replace(other).empty());
}

TEST_F(RuleGuardTest, ManyThreadsAndReloadsAdmitExactlyTheLimit) {
  const auto rules =
      one_rule("      - { key: '{user}', algorithm: fixed_window, limit: 500, per: 1h }\n");
  LiveRules live(rules);
  std::atomic<int> calls = 0;
  const auto guard = guard_of(live).with("user", &Request::user).returning([&](const Request&) {
    calls.fetch_add(1);
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) static_cast<void>(guard(Request{"a"}));
    });
  }
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(live.replace(rules).empty());
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(calls, 500);
}

TEST_F(RuleGuardTest, MoreCallsInsideThanPlacesStillDecide) {
  const auto rules = one_rule("      - { key: '{user}', algorithm: gcra, limit: 200, per: 1h }\n");
  int depth = 0;
  std::function<int(const Request&)> recurse;
  const auto guard = guard_of(rules)
                         .with("user", &Request::user)
                         .refunding_on_exception()
                         .throwing([&](const Request& r) {
                           return ++depth < 200 ? recurse(r) : throw std::runtime_error("bottom");
                         });
  recurse = [&](const Request& r) { return guard(r); };
  EXPECT_THROW(guard(Request{"a"}), std::runtime_error);
  depth = 0;
  EXPECT_THROW(guard(Request{"a"}), std::runtime_error);
}

// Returns "run" or why the call was denied.
std::string outcome_of(const auto& call, const Request& request) {
  const auto answer = call(request);
  return answer ? "run" : std::string(to_string(answer.error().reason));
}

TEST(RuleGuard, ReadsNoEarlierAnswerIfThereIsNoMemoryToAsk) {
  MemoryStore store;
  Limiter limiter(store);
  const auto guard =
      guarded(
          one_rule("      - { key: all, algorithm: concurrency, limit: 1, lease: 1h }\n" + kByUser),
          limiter, "send")
          .with("user", &Request::user)
          .holding()
          .waiting(0s);
  const auto send = guard.returning(length);
  const Request carol{std::string(3000, 'c')};
  const auto without_memory = [&] {
    testing::without_memory(2000, [&] { EXPECT_EQ(outcome_of(send, carol), "store_error"); });
  };
  without_memory();
  const auto hold = guard.returning([&](const Request&) {
    without_memory();  // it does not release the permit of this call
    return outcome_of(send, {"dave"});
  });
  const auto inner = hold(Request{"alice"});
  ASSERT_TRUE(inner);
  EXPECT_EQ(*inner, "limited");
  EXPECT_EQ(outcome_of(send, {"dave"}), "run");

  const auto throwing = guard.throwing(length);
  std::string message;
  testing::without_memory(2000, [&] {
    try {
      throwing(carol);
    } catch (const RateLimited& e) {
      message = e.what();
    }
  });
  EXPECT_EQ(message, "send: denied without the decision of a limit (store_error)");
}

}  // namespace
}  // namespace sluice
