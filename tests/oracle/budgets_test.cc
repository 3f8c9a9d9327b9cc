// Budgets, with numbers computed by hand, and the promises that hold for every history.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/oracle/oracle.h"

namespace sluice_oracle::budgets_test {
namespace {

constexpr std::int64_t kSecond = 1000000;
constexpr std::int64_t kHour = 3600 * kSecond;

class OracleBudgets : public ::testing::Test {
 protected:
  static Spec budget(std::uint64_t limit) {
    return {.algorithm = Algorithm::kBudget, .limit = limit, .per_us = kHour};
  }
  static Action call(Verb verb, std::string id, std::int64_t ttl_us = 60 * kSecond) {
    Action action(verb);
    action.id = std::move(id);
    action.ttl_us = ttl_us;
    return action;
  }

  Answer ask(const Action& action, std::int64_t at, std::uint64_t cost = 0) {
    return oracle.apply(action, {{"k", spec, cost}}, at);
  }
  Answer hold(std::string id, std::int64_t at, std::uint64_t cost,
              std::int64_t ttl = 60 * kSecond) {
    return ask(call(Verb::kHold, std::move(id), ttl), at, cost);
  }
  Answer take(std::string id, std::int64_t at, std::uint64_t cost) {
    return ask(call(Verb::kTake, std::move(id)), at, cost);
  }
  Answer settle(std::string id, std::int64_t at, std::uint64_t actual) {
    return ask(call(Verb::kSettle, std::move(id)), at, actual);
  }
  Answer cancel(std::string id, std::int64_t at) {
    return ask(call(Verb::kCancel, std::move(id)), at);
  }
  std::uint64_t left(std::int64_t at) { return ask(Verb::kPeek, at).limits[0].remaining; }

  Spec spec = budget(100);
  Oracle oracle;
};

TEST_F(OracleBudgets, AdmitWhatIsNeitherSpentNorHeld) {
  EXPECT_EQ(ask(Verb::kTake, 0, 30).limits[0].remaining, 70u);
  const Answer held = hold("a", kSecond, 50);
  EXPECT_EQ(held.limits[0].remaining, 20u);
  EXPECT_EQ(held.ends_after_us, 60 * kSecond);
  const Answer denied = ask(Verb::kTake, 2 * kSecond, 21);
  EXPECT_EQ(denied.reason, "limited");
  EXPECT_EQ(denied.retry_after_us, kHour - 2 * kSecond);
  EXPECT_EQ(ask(Verb::kTake, 2 * kSecond, 101).reason, "never");
  EXPECT_TRUE(ask(Verb::kTake, 2 * kSecond, 20).allowed);
  EXPECT_EQ(left(2 * kSecond), 0u);
}

TEST_F(OracleBudgets, CountLargeAmountsExactly) {
  spec.limit = kMaxAmount;
  EXPECT_EQ(ask(Verb::kTake, 0, kMaxAmount - 1).limits[0].remaining, 1u);
  EXPECT_EQ(hold("a", 0, 1).limits[0].remaining, 0u);
  EXPECT_EQ(settle("a", 0, 2).reason, "over");  // cannot be stored
  EXPECT_EQ(settle("a", 0, 2).repeated, true);
  EXPECT_EQ(settle("a", 0, 2).reason, "over");
  EXPECT_EQ(ask(Verb::kRefund, 0, 1).limits[0].remaining, 1u);
}

TEST_F(OracleBudgets, SettleAHoldOnce) {
  hold("a", 0, 50);
  EXPECT_EQ(settle("a", kSecond, 20).limits[0].remaining, 80u);
  const Answer again = settle("a", 2 * kSecond, 20);
  EXPECT_TRUE(again.allowed && again.repeated && !again.late);
  EXPECT_EQ(settle("a", 2 * kSecond, 21).reason, "conflict");
  EXPECT_EQ(cancel("a", 2 * kSecond).reason, "conflict");
  EXPECT_EQ(left(2 * kSecond), 80u);
  hold("b", 3 * kSecond, 80);
  EXPECT_EQ(settle("b", 3 * kSecond, 81).reason, "over");
  EXPECT_EQ(left(3 * kSecond), 0u);
  ask(Verb::kRefund, 3 * kSecond, 50);
  const Answer over = settle("b", 4 * kSecond, 81);
  EXPECT_TRUE(over.repeated && over.reason == "over" && over.limits[0].remaining == 49);
  EXPECT_EQ(settle("a", 4 * kSecond, 20).reason, "ok");
}

TEST_F(OracleBudgets, RepeatAHoldWithoutCounting) {
  hold("a", 0, 50);
  const Answer again = hold("a", 10 * kSecond, 50);
  EXPECT_TRUE(again.allowed && again.repeated);
  EXPECT_EQ(again.ends_after_us, 50 * kSecond);
  EXPECT_EQ(again.limits[0].remaining, 50u);
  EXPECT_EQ(hold("a", 0, 49).reason, "conflict");
  settle("a", 10 * kSecond, 10);
  const Answer late = hold("a", 11 * kSecond, 50);
  EXPECT_TRUE(late.allowed && late.repeated);
  EXPECT_EQ(late.ends_after_us, 0);
  EXPECT_EQ(left(11 * kSecond), 90u);
}

TEST_F(OracleBudgets, ChargeATakeWithAnIdOnce) {
  EXPECT_FALSE(take("a", 0, 60).repeated);
  EXPECT_TRUE(take("a", kSecond, 60).repeated);
  EXPECT_TRUE(settle("a", kSecond, 60).repeated);
  EXPECT_EQ(take("a", kSecond, 10).reason, "conflict");
  EXPECT_EQ(left(kSecond), 40u);
  hold("b", kSecond, 10);
  EXPECT_EQ(take("b", kSecond, 11).reason, "conflict");
  EXPECT_FALSE(take("b", kSecond, 10).repeated);  // ends the hold
  EXPECT_TRUE(take("b", kSecond, 10).repeated);
  EXPECT_EQ(left(kSecond), 30u);
}

TEST_F(OracleBudgets, ExpiryChargesTheWholeHold) {
  hold("a", 0, 50);
  EXPECT_EQ(left(60 * kSecond), 50u);
  EXPECT_EQ(ask(Verb::kTake, 60 * kSecond, 51).retry_after_us, kHour - 60 * kSecond);
  const Answer settled = settle("a", 61 * kSecond, 20);
  EXPECT_TRUE(settled.allowed && settled.late);
  EXPECT_EQ(settled.limits[0].remaining, 80u);  // once: 20, not 50 + 20
  EXPECT_TRUE(settle("a", 62 * kSecond, 20).repeated);
  hold("b", 62 * kSecond, 50);
  EXPECT_EQ(settle("b", 200 * kSecond, 70).limits[0].remaining, 10u);
  hold("c", 200 * kSecond, 5);
  EXPECT_EQ(cancel("c", 300 * kSecond).limits[0].remaining, 10u);
}

TEST_F(OracleBudgets, ExpiryCanReleaseTheHold) {
  spec.on_expiry = OnExpiry::kRelease;
  hold("a", 0, 50);
  EXPECT_EQ(ask(Verb::kTake, 0, 51).retry_after_us, 60 * kSecond);
  EXPECT_EQ(left(60 * kSecond), 100u);
  EXPECT_TRUE(settle("a", 61 * kSecond, 20).late);
  EXPECT_EQ(left(61 * kSecond), 80u);
}

TEST_F(OracleBudgets, HoldsGoOnInTheNextWindow) {
  hold("a", kHour - 30 * kSecond, 50);
  hold("b", kHour - 60 * kSecond, 10);  // ends with the window, and is charged in the next one
  ask(Verb::kTake, kHour - 30 * kSecond, 20);
  EXPECT_EQ(left(kHour - 1), 20u);
  EXPECT_EQ(left(kHour), 40u);
  EXPECT_EQ(left(kHour + 30 * kSecond), 40u);
  EXPECT_EQ(left(2 * kHour), 100u);
}

TEST_F(OracleBudgets, WhatWasChargedInAnEarlierWindowStaysThere) {
  hold("a", kHour - 90 * kSecond, 50);
  EXPECT_EQ(left(kHour - 30 * kSecond), 50u);
  ask(Verb::kTake, kHour, 10);
  EXPECT_EQ(settle("a", kHour, 20).limits[0].remaining, 90u);
  hold("b", 2 * kHour - 90 * kSecond, 50);
  EXPECT_EQ(settle("b", 2 * kHour, 70).limits[0].remaining, 80u);  // 20 more than was charged
}

TEST_F(OracleBudgets, AnUnknownIdIsSettledOnce) {
  EXPECT_TRUE(settle("a", 0, 20).late);
  EXPECT_TRUE(settle("a", kSecond, 20).repeated);
  EXPECT_EQ(hold("a", kSecond, 30).reason, "conflict");  // it arrives after its settlement
  EXPECT_EQ(hold("a", kSecond, 20).reason, "conflict");
  EXPECT_TRUE(take("a", kSecond, 20).repeated);
  EXPECT_EQ(left(kSecond), 80u);
  EXPECT_TRUE(cancel("b", kSecond).allowed);
  EXPECT_TRUE(cancel("b", kSecond).repeated);
  EXPECT_EQ(hold("b", kSecond, 30).reason, "conflict");
  EXPECT_EQ(left(kSecond), 80u);
  EXPECT_TRUE(settle("a", kHour, 20).repeated);
  EXPECT_FALSE(settle("a", kHour + 2 * kSecond, 20).repeated);  // no longer remembered
}

TEST_F(OracleBudgets, ACancelledCallThatWasMadeIsSettled) {
  hold("a", 0, 50);
  EXPECT_FALSE(cancel("a", kSecond).late);
  EXPECT_TRUE(cancel("a", kSecond).repeated);
  EXPECT_EQ(left(kSecond), 100u);
  EXPECT_TRUE(settle("a", kSecond, 40).late);
  EXPECT_EQ(left(kSecond), 60u);
  EXPECT_EQ(cancel("a", kSecond).reason, "conflict");
  EXPECT_EQ(settle("a", kSecond, 41).reason, "conflict");
}

TEST_F(OracleBudgets, RememberAnIdBeyondTheTtlOfItsHold) {
  spec.remember_us = 10 * kSecond;
  hold("a", 0, 20);
  settle("a", kSecond, 20);
  EXPECT_TRUE(settle("a", 70 * kSecond, 20).repeated);
  EXPECT_TRUE(settle("a", (67 << 20) - 1, 20).repeated);  // rounded up to 2^20 us
  EXPECT_FALSE(settle("a", 67 << 20, 20).repeated);
}

TEST_F(OracleBudgets, ExtendStartsTheTtlAgain) {
  hold("a", 0, 20);
  EXPECT_EQ(ask(call(Verb::kExtend, "a", 90 * kSecond), 10 * kSecond).ends_after_us, 90 * kSecond);
  EXPECT_EQ(hold("a", 60 * kSecond, 20).ends_after_us, 40 * kSecond);
  EXPECT_EQ(ask(call(Verb::kExtend, "a"), 100 * kSecond).reason, "gone");
  EXPECT_EQ(ask(call(Verb::kExtend, "b"), 100 * kSecond).reason, "gone");
}

TEST_F(OracleBudgets, DenyMoreHoldsThanMayBeOpen) {
  spec.holds = 2;
  hold("a", 0, 1);
  hold("b", kSecond, 1, 10 * kSecond);
  const Answer denied = hold("c", 2 * kSecond, 1);
  EXPECT_EQ(denied.reason, "too_many_holds");
  EXPECT_EQ(denied.retry_after_us, 9 * kSecond);
  EXPECT_EQ(hold("c", 2 * kSecond, 99).reason, "limited");
  EXPECT_TRUE(hold("a", 2 * kSecond, 1).repeated);
  EXPECT_TRUE(take("d", 2 * kSecond, 1).allowed);
  EXPECT_TRUE(hold("c", 11 * kSecond, 1).allowed);
}

TEST_F(OracleBudgets, ABalanceThatDoesNotRenew) {
  spec.never = true;
  spec.per_us = 0;
  const Answer taken = ask(Verb::kTake, 0, 60);
  EXPECT_EQ(taken.limits[0].reset_after_us, std::int64_t{1} << 52);  // the end of all time
  const Answer denied = ask(Verb::kTake, kHour, 50);
  EXPECT_EQ(denied.reason, "never");
  EXPECT_EQ(denied.retry_after_us, std::nullopt);
  EXPECT_EQ(left(1000000 * kHour), 40u);
  spec.limit = 200;  // an override raises it
  EXPECT_EQ(left(1000000 * kHour), 140u);
  spec.limit = 0;
  EXPECT_EQ(settle("a", kHour, 5).reason, "over");
  spec.limit = 200;
  EXPECT_EQ(left(kHour), 135u);
}

TEST_F(OracleBudgets, FollowTheCalendar) {
  spec.calendar = Calendar{.unit = CalendarUnit::kMonth, .zone = "Europe/Berlin"};
  spec.per_us = usual_length_us(CalendarUnit::kMonth);
  const std::int64_t february = 1706742000 * kSecond;  // 2024-02-01 00:00 in Berlin
  ask(Verb::kTake, february - 20 * kSecond, 70);
  EXPECT_EQ(hold("a", february - 20 * kSecond, 31).retry_after_us, 20 * kSecond);
  hold("a", february - 20 * kSecond, 30);
  EXPECT_EQ(left(february), 70u);
  EXPECT_EQ(ask(Verb::kTake, february, 71).retry_after_us, std::int64_t{29} * 24 * kHour);
}

TEST_F(OracleBudgets, AHoldSpansAllBudgetsOfTheRequestOrNone) {
  const Spec small = budget(10);
  const Spec rate{.limit = 2, .per_us = kHour};
  const auto all = [&](std::uint64_t cost) {
    return std::vector<Charge>{{"org", spec, cost}, {"agent", small, cost}, {"rate", rate, 1}};
  };
  EXPECT_EQ(oracle.apply(call(Verb::kHold, "a"), all(11), 0).reason, "never");
  EXPECT_EQ(oracle.apply(Verb::kPeek, all(0), 0).limits[0].remaining, 100u);
  Answer held = oracle.apply(call(Verb::kHold, "a"), all(8), 0);
  held = oracle.apply(call(Verb::kHold, "a"), all(8), 0);
  EXPECT_TRUE(held.repeated);
  EXPECT_EQ(held.limits[0].remaining, 92u);
  EXPECT_EQ(held.limits[2].remaining, 0u);  // a rate counts requests
  const std::vector<Charge> one{{"agent", small, 9}};
  EXPECT_FALSE(oracle.apply(call(Verb::kSettle, "a"), one, 0).repeated);
  std::vector<Charge> both = all(7);
  both.pop_back();
  EXPECT_EQ(oracle.apply(call(Verb::kSettle, "a"), both, 0).reason, "conflict");
  EXPECT_EQ(oracle.apply(Verb::kPeek, all(0), 0).limits[0].remaining, 92u);  // still held
  both[1].cost = 9;
  const Answer settled = oracle.apply(call(Verb::kSettle, "a"), both, 0);
  EXPECT_TRUE(settled.allowed);
  EXPECT_FALSE(settled.limits[0].repeated);
  EXPECT_TRUE(settled.limits[1].repeated);
  EXPECT_EQ(settled.limits[0].remaining, 93u);
  EXPECT_EQ(settled.limits[1].remaining, 1u);
}

TEST_F(OracleBudgets, RefuseCallsWithoutAnIdOrATtl) {
  EXPECT_EQ(hold("", 0, 1).reason, "invalid");
  EXPECT_EQ(hold(std::string(129, 'x'), 0, 1).reason, "invalid");
  EXPECT_EQ(hold("a", 0, 1, kSecond - 1).reason, "invalid");
  EXPECT_EQ(hold("a", 0, 1, 24 * kHour + 1).reason, "invalid");
  EXPECT_EQ(ask(Verb::kSettle, 0, 1).reason, "invalid");
  EXPECT_TRUE(hold("a", 0, 0).allowed);
  EXPECT_TRUE(ask(call(Verb::kExtend, "a"), 0).allowed);
}

// --- promises, for random histories ---

struct Made {
  Action action;
  std::uint64_t cost;
};

class Caller {
 public:
  explicit Caller(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  Made any_call() {
    const Verb verbs[] = {Verb::kHold, Verb::kHold, Verb::kTake, Verb::kSettle, Verb::kCancel};
    Action action(verbs[below(5)]);
    action.id = std::string(1, static_cast<char>('a' + below(6)));
    action.ttl_us = static_cast<std::int64_t>(1 + below(50)) * kSecond;
    return {action, 1 + below(12)};
  }

 private:
  std::mt19937_64 random_;
};

// A denied call was not made: it may be admitted when it is made again.
TEST(OracleBudgetsPromise, RepetitionsEndInTheSameBalance) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Caller caller(seed);
    Spec spec{.algorithm = Algorithm::kBudget, .limit = 60, .per_us = kHour};
    if (caller.below(2) == 0) spec.on_expiry = OnExpiry::kRelease;
    Oracle once;
    Oracle again;
    std::vector<Made> made;
    std::int64_t now = 0;
    for (int step = 0; step < 40; ++step) {
      now += static_cast<std::int64_t>(caller.below(8)) * kSecond;
      const Made next = caller.any_call();
      const Answer first = once.apply(next.action, {{"k", spec, next.cost}}, now);
      const Answer same = again.apply(next.action, {{"k", spec, next.cost}}, now);
      ASSERT_EQ(first.reason, same.reason);
      if (first.allowed) made.push_back(next);
      for (std::uint64_t i = caller.below(4); i > 0 && !made.empty(); --i) {
        const Made& repeated = made[caller.below(made.size())];
        const Answer answer = again.apply(repeated.action, {{"k", spec, repeated.cost}}, now);
        // A cancelled hold that was settled later is not cancelled once more, and the reverse.
        ASSERT_TRUE(answer.repeated || answer.reason == "conflict") << "seed " << seed;
      }
      const std::vector<Charge> peek{{"k", spec, 0}};
      ASSERT_EQ(once.apply(Verb::kPeek, peek, now).limits[0].remaining,
                again.apply(Verb::kPeek, peek, now).limits[0].remaining)
          << "seed " << seed;
    }
  }
}

TEST(OracleBudgetsPromise, NothingExceedsTheLimitUnlessASettlementWasOver) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Caller caller(seed);
    const Spec spec{.algorithm = Algorithm::kBudget, .limit = 60, .per_us = 100 * kSecond};
    Oracle oracle;
    bool was_over = false;
    std::int64_t now = 0;
    for (int step = 0; step < 60; ++step) {
      now += static_cast<std::int64_t>(caller.below(8)) * kSecond;
      const Made next = caller.any_call();
      was_over |= oracle.apply(next.action, {{"k", spec, next.cost}}, now).reason == "over";
      // A charge of 0 says `over` if more counts than the limit allows.
      const Answer present = oracle.apply(Verb::kCharge, {{"k", spec, 0}}, now);
      ASSERT_TRUE(present.reason == "ok" || was_over) << "seed " << seed;
    }
  }
}

TEST(OracleBudgetsPromise, WaitsAreExact) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Caller caller(seed);
    Spec spec{.algorithm = Algorithm::kBudget, .limit = 30, .per_us = 70 * kSecond, .holds = 3};
    if (caller.below(2) == 0) spec.on_expiry = OnExpiry::kRelease;
    Oracle oracle;
    std::int64_t now = 0;
    for (int step = 0; step < 40; ++step) {
      now += static_cast<std::int64_t>(caller.below(8)) * kSecond;
      const Made next = caller.any_call();
      const std::vector<Charge> charges{{"k", spec, next.cost}};
      const Answer answer = oracle.apply(next.action, charges, now);
      if (!answer.retry_after_us) continue;
      Oracle early = oracle;
      EXPECT_FALSE(early.apply(next.action, charges, now + *answer.retry_after_us - 1).allowed);
      Oracle then = oracle;
      EXPECT_TRUE(then.apply(next.action, charges, now + *answer.retry_after_us).allowed);
    }
  }
}

}  // namespace
}  // namespace sluice_oracle::budgets_test
