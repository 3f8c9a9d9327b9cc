#include "stores/policy/async_policies.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/permit_id.h"
#include "sluice/testing/manual_clock.h"
#include "stores/policy/chain.h"

// The asynchronous policies decide as the others do.
namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Limit kLimit = token_bucket(10).per(1s).burst(20);

// A memory store that fails, or has no room for keys that begin with "new", as the test says.
class UnsteadyStore final : public Store, public AsyncStore {
 public:
  explicit UnsteadyStore(const Clock& clock) : memory_({}, clock) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    ++asked;
    if (failure != Reason::kOk) {
      const Decision failed = Decision::refused(failure);
      std::fill(each.begin(), each.end(), failed);
      return failed;
    }
    const Decision full = Decision::refused(Reason::kStoreFull);
    bool is_full = false;
    for (std::size_t i = 0; i < each.size(); ++i) {
      const bool lacks = charges[i].key.starts_with("new");
      each[i] = lacks ? full : Decision{};
      is_full |= lacks;
    }
    return is_full ? full : memory_.apply(action, charges, now, each);
  }
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override {
    const Decision decision = apply(action, charges, now, each);
    if (!holds) return completion.done(decision);
    held_ = &completion;
    answer_ = decision;
  }
  void release() { std::exchange(held_, nullptr)->done(answer_); }

  Reason failure = Reason::kOk;
  bool holds = false;  // answers in release()
  int asked = 0;

 private:
  MemoryStore memory_;
  Completion* held_ = nullptr;
  Decision answer_;
};

struct Answer final : AsyncStore::Completion {
  void done(const Decision& said) noexcept override {
    EXPECT_FALSE(decision) << "once";
    decision = said;
  }
  std::optional<Decision> decision;
};

struct Policies {
  Policies(const Clock& clock, std::optional<FailurePolicy> fallback)
      : store(clock),
        shared({.open_for = 1h, .longest_open = 1h}, {.max_keys = 100, .longest = 200ms},
               {.nodes = 2}, nullptr, clock),
        chain(store, shared, fallback),
        async_chain(store, shared, fallback) {}

  UnsteadyStore store;
  policy::Shared shared;
  policy::Chain chain;
  policy::AsyncChain async_chain;
};

std::vector<Charge> random_charges(std::mt19937& random) {
  static const std::vector<std::string> kKeys = {"a", "b", "c", "new-a", "new-b"};
  std::vector<Charge> charges(1 + random() % 4, Charge{"", kLimit});
  for (Charge& charge : charges) {
    charge.key = kKeys[random() % (random() % 3 == 0 ? 5 : 3)];
    charge.cost = random() % 8;
  }
  return charges;
}

Action random_action(std::mt19937& random) {
  constexpr std::array kActions = {Action(Verb::kTake),           Action(Verb::kPeek),
                                   Action(Verb::kRefund),         Action(Verb::kReset),
                                   Action(Verb::kReserve, 100ms), Action(Verb::kCharge)};
  return kActions[random() % 3 == 0 ? random() % kActions.size() : 0];
}

void expect_same(const Decision& a, const Decision& b, const std::string& where) {
  EXPECT_EQ(a.outcome, b.outcome) << where;
  EXPECT_EQ(a.reason, b.reason) << where;
  EXPECT_EQ(a.retry_after, b.retry_after) << where;
}

TEST(AsyncPolicies, ReleaseThePermitsOfTheLocalStore) {
  testing::ManualClock clock(Instant{1'700'000'000s});
  Policies policies(clock, FailurePolicy::kLocal);
  const PermitId id = PermitId::random();
  const Charge charge{.key = "k", .limit = concurrency(2).lease(1h), .permit = &id};
  const auto ask = [&](Verb verb) {
    Answer answer;
    Decision each;
    policies.async_chain.store().async_apply(verb, {&charge, 1}, clock.now(), {&each, 1}, answer);
    return answer.decision.value();
  };
  policies.store.failure = Reason::kStoreError;
  EXPECT_TRUE(ask(Verb::kTake));
  policies.store.failure = Reason::kOk;
  EXPECT_TRUE(ask(Verb::kRelease));
  EXPECT_EQ(ask(Verb::kRelease).reason, Reason::kGone);
}

TEST(AsyncPolicies, DecideAsTheOthersOnRandomHistories) {
  constexpr std::array<std::optional<FailurePolicy>, 4> kFallbacks = {
      std::nullopt, FailurePolicy::kAllow, FailurePolicy::kDeny, FailurePolicy::kLocal};
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    testing::ManualClock clock(Instant{1'700'000'000s});
    Policies blocking(clock, kFallbacks[seed % kFallbacks.size()]);
    Policies later(clock, kFallbacks[seed % kFallbacks.size()]);
    const bool is_local = kFallbacks[seed % kFallbacks.size()] == FailurePolicy::kLocal;
    for (int step = 0; step < 100; ++step) {
      clock.advance(Duration{random() % 100'000});
      const auto charges = random_charges(random);
      const Action action = random_action(random);
      const Reason failure = random() % 6 == 0 ? Reason::kStoreTimeout : Reason::kOk;
      blocking.store.failure = later.store.failure = failure;
      std::vector<Decision> each(charges.size());
      std::vector<Decision> later_each(charges.size());
      // The local share has a clock of its own.
      const auto now = is_local ? std::optional(clock.now()) : std::nullopt;
      const Decision said = blocking.chain.store().apply(action, charges, now, each);
      Answer answer;
      later.async_chain.store().async_apply(action, charges, now, later_each, answer);
      const std::string where = "seed " + std::to_string(seed) + " step " + std::to_string(step);
      ASSERT_TRUE(answer.decision) << where;
      expect_same(*answer.decision, said, where);
      for (std::size_t i = 0; i < each.size(); ++i) expect_same(later_each[i], each[i], where);
      ASSERT_LE(later.store.asked, blocking.store.asked) << where;
      ASSERT_EQ(later.shared.breaker.state(), blocking.shared.breaker.state()) << where;
      ASSERT_EQ(later.shared.deny_cache->hits(), blocking.shared.deny_cache->hits()) << where;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(AsyncPolicies, AnswerWhenTheStoreDoes) {
  testing::ManualClock clock;
  Policies policies(clock, FailurePolicy::kDeny);
  policies.store.holds = true;
  const std::array charges{Charge{"new", kLimit}, Charge{"a", kLimit, 3}};
  std::array<Decision, 2> each;
  Answer answer;
  policies.store.failure = Reason::kStoreError;
  policies.async_chain.store().async_apply(Verb::kTake, charges, {}, each, answer);
  EXPECT_FALSE(answer.decision);
  policies.store.release();
  ASSERT_TRUE(answer.decision);
  EXPECT_EQ(answer.decision->reason, Reason::kFallback);
  EXPECT_EQ(each[0].reason, Reason::kFallback);
}

TEST(AsyncPolicies, AskAFullStoreAgainForTheCountersThatItHas) {
  testing::ManualClock clock;
  Policies policies(clock, FailurePolicy::kAllow);
  policies.store.holds = true;
  const std::array charges{Charge{"new", kLimit}, Charge{"a", kLimit, 3}};
  std::array<Decision, 2> each;
  Answer answer;
  policies.async_chain.store().async_apply(Verb::kTake, charges, {}, each, answer);
  policies.store.release();
  EXPECT_FALSE(answer.decision) << "the store is asked for the second charge";
  policies.store.release();
  ASSERT_TRUE(answer.decision);
  EXPECT_TRUE(answer.decision->allowed());
  EXPECT_EQ(each[0].reason, Reason::kFallback);
  EXPECT_EQ(each[1].remaining, 17u);
}

TEST(AsyncPolicies, ChargeAFullStoreForTheCountersThatItHas) {
  for (const FailurePolicy fallback : {FailurePolicy::kAllow, FailurePolicy::kLocal}) {
    testing::ManualClock clock(Instant{1'700'000'000s});
    Policies policies(clock, fallback);
    const std::array charges{Charge{"new", kLimit}, Charge{"a", kLimit, 3},
                             Charge{"new-b", kLimit}};
    std::array<Decision, 3> each;
    Answer answer;
    policies.async_chain.store().async_apply(Verb::kCharge, charges, clock.now(), each, answer);
    ASSERT_TRUE(answer.decision);
    EXPECT_EQ(answer.decision->reason, Reason::kFallback);
    EXPECT_EQ(each[0].reason, Reason::kStoreFull);
    EXPECT_EQ(each[1].remaining, 17u);
    EXPECT_EQ(each[2].reason, Reason::kStoreFull);
    Answer alone;
    policies.async_chain.store().async_apply(Verb::kCharge, std::span(charges).first(1),
                                             clock.now(), std::span(each).first(1), alone);
    EXPECT_EQ(alone.decision->reason, Reason::kStoreFull);
  }
}

TEST(AsyncPolicies, DoNotAskTheStoreWhileTheBreakerIsOpen) {
  testing::ManualClock clock;
  Policies policies(clock, FailurePolicy::kAllow);
  policies.store.failure = Reason::kStoreTimeout;
  const std::array charges{Charge{"a", kLimit}};
  std::array<Decision, 1> each;
  for (int i = 0; i < 10; ++i) {
    Answer answer;
    policies.async_chain.store().async_apply(Verb::kTake, charges, {}, each, answer);
    EXPECT_TRUE(answer.decision->allowed());
  }
  EXPECT_EQ(policies.store.asked, 5);
  EXPECT_EQ(policies.shared.breaker.state(), CircuitBreaker::State::kOpen);
}

}  // namespace
}  // namespace sluice
