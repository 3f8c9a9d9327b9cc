#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sluice/failure_policy.h"
#include "sluice/limiter.h"
#include "sluice/permit.h"
#include "sluice/testing/manual_clock.h"
#include "stores/policy/test_store.h"

namespace sluice::failure_policy_store_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = token_bucket(10).per(1s).burst(20);

struct Fixture {
  explicit Fixture(std::optional<FailurePolicy> fallback)
      : store(inner, breaker, {.fallback = fallback, .local = &local}) {}

  void open() {
    inner.fail(Reason::kStoreTimeout);
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(limiter.peek("other", kLimit).reason == Reason::kOk);
    ASSERT_EQ(breaker.state(), CircuitBreaker::State::kOpen);
    inner.asked = 0;
  }

  testing::ManualClock clock;
  TestStore inner;
  CircuitBreaker breaker{{}, nullptr, clock};
  LocalShareStore local{{.nodes = 4}, clock};
  FailurePolicyStore store;
  Limiter limiter{store};
};

constexpr Decision fallback(Outcome outcome) {
  return {.outcome = outcome, .reason = Reason::kFallback, .capacity = 20};
}

TEST(FailurePolicyStore, PassesOnTheAnswersOfTheStore) {
  Fixture f(FailurePolicy::kAllow);
  for (const Reason reason : {Reason::kOk, Reason::kLimited, Reason::kNever, Reason::kInvalid}) {
    f.inner.answer = {.outcome = Outcome::kDenied, .reason = reason, .capacity = 7, .remaining = 3};
    EXPECT_EQ(f.limiter.try_acquire("k", kLimit), f.inner.answer);
    EXPECT_EQ(f.limiter.check(std::array{Charge{"k", kLimit}}), f.inner.answer);
  }
  EXPECT_EQ(f.inner.asked, 8);
  EXPECT_EQ(f.limiter.try_acquire("k", kLimit, 2, Instant{5s}).remaining, 3u);
  EXPECT_EQ(f.inner.last_now, Instant{5s});
}

TEST(FailurePolicyStore, APeekDoesNotShowThatTheStoreCanWrite) {
  Fixture f(FailurePolicy::kDeny);
  f.open();
  f.inner.work();
  f.clock.advance(10s);
  EXPECT_EQ(f.limiter.peek("k", kLimit).reason, Reason::kOk);
  EXPECT_EQ(f.breaker.state(), CircuitBreaker::State::kOpen);
  f.inner.fail(Reason::kStoreError);
  EXPECT_EQ(f.limiter.try_acquire("k", kLimit).reason, Reason::kFallback) << "this is the probe";
  EXPECT_EQ(f.inner.asked, 2);
  f.clock.advance(10s);
  EXPECT_EQ(f.limiter.peek("k", kLimit).reason, Reason::kFallback);
  EXPECT_EQ(f.breaker.state(), CircuitBreaker::State::kOpen) << "the probe has failed";
  f.inner.work();
  f.clock.advance(10s);
  EXPECT_EQ(f.limiter.try_acquire("k", kLimit).reason, Reason::kOk);
  EXPECT_EQ(f.breaker.state(), CircuitBreaker::State::kClosed);
}

TEST(FailurePolicyStore, ReleasesThePermitsOfTheLocalStore) {
  constexpr Limit kFour = concurrency(4).lease(1h);  // 1 in the local store
  Fixture f(FailurePolicy::kLocal);
  const Charge two[] = {{"a", kFour}, {"b", kFour}};
  f.inner.fail(Reason::kStoreError);
  Permit one = f.limiter.hold("k", kFour);
  Permit several = f.limiter.hold(two);
  EXPECT_TRUE(one);
  EXPECT_TRUE(several);
  EXPECT_FALSE(f.limiter.hold("k", kFour));
  f.inner.answer = {.outcome = Outcome::kDenied, .reason = Reason::kGone};
  EXPECT_TRUE(one.extend());
  EXPECT_TRUE(one.release());
  EXPECT_TRUE(several.release());
  EXPECT_EQ(f.limiter.release(one.text()).reason, Reason::kInvalid);
  f.inner.fail(Reason::kStoreError);
  EXPECT_TRUE(f.limiter.hold("k", kFour));
  EXPECT_TRUE(f.limiter.hold(two));
  Fixture allow(FailurePolicy::kAllow);
  allow.inner.answer = {.outcome = Outcome::kDenied, .reason = Reason::kGone};
  const PermitId id = PermitId::random();
  const Charge charge{.key = "k", .limit = kFour, .permit = &id};
  EXPECT_EQ(allow.store.apply_one(Verb::kRelease, charge, {}).reason, Reason::kGone);
}

TEST(FailurePolicyStore, AnswersEachFailureByPolicy) {
  for (const Reason reason :
       {Reason::kStoreTimeout, Reason::kStoreError, Reason::kForeignValue, Reason::kStoreFull}) {
    Fixture allow(FailurePolicy::kAllow);
    Fixture deny(FailurePolicy::kDeny);
    allow.inner.fail(reason);
    deny.inner.fail(reason);
    EXPECT_EQ(allow.limiter.try_acquire("k", kLimit), fallback(Outcome::kAllowed));
    EXPECT_EQ(allow.limiter.peek("k", kLimit), fallback(Outcome::kAllowed));
    EXPECT_EQ(deny.limiter.try_acquire("k", kLimit), fallback(Outcome::kDenied));
  }
}

// A memory store that has no room for counters named "new".
class FullStore final : public Store {
 public:
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    const auto is_new = [](const Charge& charge) { return charge.key == "new"; };
    if (std::none_of(charges.begin(), charges.end(), is_new)) {
      return memory_.apply(action, charges, now, each);
    }
    const Decision full = Decision::refused(Reason::kStoreFull);
    for (std::size_t i = 0; i < charges.size(); ++i)
      each[i] = is_new(charges[i]) ? full : Decision{};
    return full;
  }

 private:
  MemoryStore memory_;
};

TEST(FailurePolicyStore, AnswersOnlyForTheCountersThatAFullStoreLacks) {
  const Limit three = fixed_window(3).per(1h);
  const std::array charges{Charge{"old", three}, Charge{"new", three}};
  std::array<Decision, 2> each;
  for (const auto policy : {FailurePolicy::kAllow, FailurePolicy::kLocal, FailurePolicy::kDeny}) {
    FullStore full;
    CircuitBreaker breaker({.failures = 1});
    FailurePolicyStore store(full, breaker, {.fallback = policy});
    Limiter limiter(store);
    int admitted = 0;
    for (int i = 0; i < 5; ++i) admitted += limiter.check(charges, each).allowed() ? 1 : 0;
    EXPECT_EQ(admitted, policy == FailurePolicy::kDeny ? 0 : 3);
    EXPECT_EQ(each[1].reason, Reason::kFallback);
    EXPECT_EQ(breaker.state(), CircuitBreaker::State::kClosed);
  }
  FullStore full;
  CircuitBreaker breaker;
  FailurePolicyStore store(full, breaker);
  EXPECT_EQ(Limiter(store).check(charges, each).reason, Reason::kStoreFull);
  EXPECT_EQ(each[0].reason, Reason::kOk) << "so that rules know which";
}

TEST(FailurePolicyStore, AnswersForAFullStoreWithTheSmallestCapacity) {
  const std::array charges{Charge{"new", fixed_window(20).per(1h)},
                           Charge{"new", fixed_window(10).per(1h)}};
  std::array<Decision, 2> each;
  for (const auto policy : {FailurePolicy::kAllow, FailurePolicy::kDeny}) {
    FullStore full;
    CircuitBreaker breaker;
    FailurePolicyStore store(full, breaker, {.fallback = policy});
    const Decision all = Limiter(store).check(charges, each);
    EXPECT_EQ(all.reason, Reason::kFallback);
    EXPECT_EQ(all.capacity, 10U);
    EXPECT_EQ(each[0].capacity, 20U);
  }
}

TEST(FailurePolicyStore, KeepsTheStoresReasonWithoutAPolicy) {
  Fixture f(std::nullopt);
  f.inner.fail(Reason::kForeignValue);
  EXPECT_EQ(f.limiter.try_acquire("k", kLimit).reason, Reason::kForeignValue);
  f.open();
  const Decision refused = f.limiter.try_acquire("k", kLimit);
  EXPECT_EQ(refused, Decision::refused(Reason::kStoreError));
  EXPECT_EQ(f.inner.asked, 0);
}

TEST(FailurePolicyStore, DoesNotAskTheStoreWhileTheBreakerIsOpen) {
  Fixture f(FailurePolicy::kAllow);
  f.open();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(f.limiter.try_acquire("k", kLimit), fallback(Outcome::kAllowed));
  }
  EXPECT_EQ(f.inner.asked, 0);
  EXPECT_EQ(f.breaker.refused(), 100u);
}

TEST(FailurePolicyStore, AsksAgainWhenAProbeIsAnswered) {
  Fixture f(FailurePolicy::kDeny);
  f.open();
  f.inner.work();
  f.clock.advance(1s);
  EXPECT_EQ(f.limiter.try_acquire("k", kLimit).reason, Reason::kOk);
  EXPECT_EQ(f.limiter.try_acquire("k", kLimit).reason, Reason::kOk);
  EXPECT_EQ(f.inner.asked, 2);
}

TEST(FailurePolicyStore, DoesNotOpenTheBreakerForAForeignValue) {
  Fixture f(FailurePolicy::kAllow);
  f.inner.fail(Reason::kForeignValue);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(f.limiter.try_acquire("k", kLimit));
  EXPECT_EQ(f.inner.asked, 100);
}

TEST(FailurePolicyStore, LimitsLocallyToTheShare) {
  Fixture f(FailurePolicy::kLocal);
  f.open();
  const Decision first = f.limiter.try_acquire("k", kLimit, 2);
  EXPECT_EQ(
      first,
      (Decision{.reason = Reason::kFallback, .capacity = 5, .remaining = 3, .reset_after = 1s}));
  EXPECT_TRUE(f.limiter.try_acquire("k", kLimit, 3));
  const Decision denied = f.limiter.try_acquire("k", kLimit);
  EXPECT_FALSE(denied);
  EXPECT_EQ(denied.reason, Reason::kFallback);
  EXPECT_EQ(denied.retry_after, Duration{500ms});
}

TEST(FailurePolicyStore, DecidesManyChargesLocallyAsOneRequest) {
  Fixture f(FailurePolicy::kLocal);
  f.open();
  const std::array charges{Charge{"a", fixed_window(40).per(1h)}, Charge{"b", kLimit, 5}};
  std::array<Decision, 2> each;
  EXPECT_TRUE(f.limiter.check(charges, each));
  EXPECT_EQ(each[0].remaining, 9u);
  const Decision denied = f.limiter.check(charges, each);
  EXPECT_FALSE(denied);
  EXPECT_EQ(denied.reason, Reason::kFallback);
  EXPECT_TRUE(each[0]);
  EXPECT_EQ(each[0].reason, Reason::kFallback);
  EXPECT_EQ(each[0].remaining, 9u) << "the denied request took nothing";
}

TEST(FailurePolicyStore, CreatesALocalStoreIfNoneIsGiven) {
  testing::ManualClock clock;
  TestStore inner;
  inner.fail(Reason::kStoreError);
  CircuitBreaker breaker({}, nullptr, clock);
  FailurePolicyStore store(inner, breaker, {.fallback = FailurePolicy::kLocal, .nodes = 10});
  Limiter limiter(store);
  EXPECT_TRUE(limiter.try_acquire("k", fixed_window(10).per(1h)));
  EXPECT_FALSE(limiter.try_acquire("k", fixed_window(10).per(1h)));
}

TEST(FailurePolicyStore, AnswersEveryChargeByPolicyWithTheCapacityOfItsLimit) {
  Fixture f(FailurePolicy::kDeny);
  f.inner.fail(Reason::kStoreError);
  std::array<Decision, 2> each;
  const std::array charges{Charge{"a", fixed_window(40).per(1h)}, Charge{"b", kLimit, 5}};
  EXPECT_EQ(f.limiter.check(charges, each), fallback(Outcome::kDenied));
  EXPECT_EQ(each[0].capacity, 40u);
  EXPECT_EQ(each[0].reason, Reason::kFallback);
  EXPECT_EQ(each[1], fallback(Outcome::kDenied));
}

TEST(FailurePolicyStore, AllowsReservationsAndTakesOfAtMostTheLeastCost) {
  Fixture f(FailurePolicy::kAllow);
  f.open();
  Decision taken = fallback(Outcome::kAllowed);
  taken.taken = 4;
  EXPECT_EQ(f.limiter.take_at_most("k", kLimit, 4), taken);
  std::array<Decision, 2> each;
  const std::array charges{Charge{"a", kLimit, 4}, Charge{"b", kLimit, 7}};
  EXPECT_EQ(f.limiter.apply(Verb::kTakeAtMost, charges, each), taken);
  EXPECT_EQ(each[1].taken, 4u);
  EXPECT_EQ(f.limiter.take_at_most("k", budget(kMaxAmount).per(1h), kMaxAmount).taken, kMaxAmount);
  EXPECT_EQ(f.limiter.take_at_most("k", kLimit, kMaxAmount).taken, kMaxUnits);
  Decision reserved = fallback(Outcome::kAllowed);
  reserved.delay = Duration{0};
  EXPECT_EQ(f.limiter.apply({Verb::kReserve, 1s}, charges), reserved);
  EXPECT_EQ(f.limiter.apply({Verb::kReserve, -1s}, charges).reason, Reason::kInvalid);
}

TEST(FailurePolicyStore, DeniesWithoutNumbersByWhichACallerActs) {
  Fixture f(FailurePolicy::kDeny);
  f.open();
  EXPECT_EQ(f.limiter.take_at_most("k", kLimit, 4), fallback(Outcome::kDenied));
  const Charge charge{"k", kLimit, 4};
  EXPECT_EQ(f.limiter.apply({Verb::kReserve, 1s}, {&charge, 1}), fallback(Outcome::kDenied));
}

TEST(FailurePolicyStore, ReservesAndTakesAtMostTheLocalShare) {
  Fixture f(FailurePolicy::kLocal);
  f.open();
  const Decision taken = f.limiter.take_at_most("k", kLimit, 9);
  EXPECT_EQ(taken.reason, Reason::kFallback);
  EXPECT_EQ(taken.taken, 5u);
  const Charge charge{"k", kLimit};
  const Decision reserved = f.limiter.apply({Verb::kReserve, 1h}, {&charge, 1});
  EXPECT_TRUE(reserved);
  EXPECT_GT(reserved.delay, Duration{0});
}

// What has been used counts in the local store too, which decides until the other one is back.
TEST(FailurePolicyStore, ReportsAChargeThatWasNotCounted) {
  Fixture f(FailurePolicy::kLocal);
  f.open();
  EXPECT_EQ(f.limiter.charge("k", kLimit, 5).reason, Reason::kStoreError);
  EXPECT_FALSE(f.limiter.try_acquire("k", kLimit));
}

TEST(FailurePolicyStore, ReportsARefundOrAResetThatWasNotDone) {
  for (const FailurePolicy policy :
       {FailurePolicy::kAllow, FailurePolicy::kDeny, FailurePolicy::kLocal}) {
    Fixture f(policy);
    f.inner.fail(Reason::kStoreTimeout);
    const Decision undone = Decision::refused(Reason::kStoreTimeout);
    EXPECT_EQ(f.limiter.refund("k", kLimit), undone);
    EXPECT_EQ(f.limiter.reset("k", kLimit), undone);
    EXPECT_EQ(f.limiter.charge("k", kLimit), undone);
    EXPECT_EQ(f.limiter.apply(Verb::kReset, std::array{Charge{"a", kLimit}, Charge{"b", kLimit}}),
              undone);
    f.open();
    EXPECT_EQ(f.limiter.refund("k", kLimit).reason, Reason::kStoreError);
  }
}

TEST(FailurePolicyStore, RefundsLocallyTheUnitsThatWereTakenLocally) {
  Fixture f(FailurePolicy::kLocal);
  f.open();
  EXPECT_TRUE(f.limiter.try_acquire("k", kLimit, 5));
  EXPECT_FALSE(f.limiter.refund("k", kLimit, 2));
  EXPECT_EQ(f.limiter.peek("k", kLimit, 0).remaining, 2u);
  EXPECT_FALSE(f.limiter.reset("k", kLimit));
  EXPECT_EQ(f.limiter.peek("k", kLimit, 0).remaining, 5u);
}

TEST(FailurePolicyStore, DoesNotAnswerAnInvalidRequestByPolicy) {
  Fixture f(FailurePolicy::kAllow);
  f.open();
  const auto reason = [&](std::vector<Charge> charges, std::optional<Instant> now = {}) {
    std::vector<Decision> each(charges.size());
    const Decision said = f.store.apply(Verb::kTake, charges, now, each);
    for (const Decision& decision : each) EXPECT_EQ(decision.reason, said.reason);
    return said.reason;
  };
  EXPECT_EQ(reason({}), Reason::kInvalid);
  EXPECT_EQ(reason(std::vector<Charge>(65, {"k", kLimit})), Reason::kInvalid);
  EXPECT_EQ(reason({{"k", kLimit}}, kLastInstant + Duration{1}), Reason::kInvalid);
  EXPECT_EQ(reason({{"k", kLimit}, {"k", token_bucket(11).per(1s)}}), Reason::kInvalid);
  EXPECT_EQ(reason({{"k", kLimit}, {"k", gcra(11).per(1s)}}), Reason::kFallback);
  EXPECT_EQ(reason({{"k", kLimit, 1, "t"}, {"k", token_bucket(11).per(1s)}}), Reason::kFallback);
  EXPECT_EQ(reason({{"k", kLimit}, {"k", kLimit}}, kLastInstant), Reason::kFallback);
  EXPECT_EQ(f.limiter.try_acquire("k", kLimit, 1, kFirstInstant - Duration{1}).reason,
            Reason::kInvalid);
}

}  // namespace
}  // namespace sluice::failure_policy_store_test
