#include "limiter/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sluice/memory_store.h"
#include "sluice/permit_id.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::batch_test {
namespace {

using namespace std::chrono_literals;

constexpr Decision kFallbackAllowed{.reason = Reason::kFallback};
constexpr Decision kFallbackDenied{.outcome = Outcome::kDenied, .reason = Reason::kFallback};
constexpr Decision kTimedOut = Decision::refused(Reason::kStoreTimeout);

Limit per_hour(std::uint64_t units) { return fixed_window(units).per(1h); }

// A memory store that counts its requests and can be made to fail.
class TestStore final : public Store {
 public:
  explicit TestStore(const Clock& clock) : memory_({}, clock) {}
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    ++asked;
    if (!full_for.empty() && refuses(charges, each)) return Decision::refused(Reason::kStoreFull);
    if (works) {
      const Decision said = memory_.apply(action, charges, now, each);
      if (const auto charge = std::exchange(untouched_next, {})) {
        memory_.apply_one(Verb::kReset, *charge, now);
      }
      return said;
    }
    std::fill(each.begin(), each.end(), kTimedOut);
    return kTimedOut;
  }
  std::uint64_t left(std::string_view key, std::uint64_t limit) {
    return memory_.apply_one(Verb::kPeek, {key, per_hour(limit), 0}, {}).remaining;
  }

  bool works = true;
  int asked = 0;
  // The keys that it has no room for; and those from the second request on, if any.
  std::set<std::string_view> full_for, full_for_next;
  std::optional<Charge> untouched_next;  // whose counter is untouched from the second request on

 private:
  bool refuses(std::span<const Charge> charges, std::span<Decision> each) {
    bool any = false;
    for (std::size_t i = 0; i < charges.size(); ++i) {
      const bool is_new = full_for.contains(charges[i].key);
      each[i] = is_new ? Decision::refused(Reason::kStoreFull) : Decision{};
      any |= is_new;
    }
    if (!full_for_next.empty()) full_for = full_for_next;
    return any;
  }

  MemoryStore memory_;
};

class BatchTest : public ::testing::Test {
 protected:
  void add(std::string_view key, std::uint64_t limit, const ChargeTerms& terms = {},
           std::uint64_t cost = 1) {
    batch_.add({key, per_hour(limit), cost}, terms);
  }
  // Decides the charges that were added since the last call.
  Decision decide(const BatchTerms& terms = {}) {
    const Decision decision = batch_.decide(terms);
    each_.clear();
    for (std::size_t i = 0; i < batch_.size(); ++i) each_.push_back(batch_.decision(i));
    batch_.clear();
    return decision;
  }

  testing::ManualClock clock_;
  TestStore store_{clock_};
  TestStore shadow_{clock_};
  TestStore local_{clock_};
  Batch batch_{store_, &shadow_, &local_};
  std::vector<Decision> each_;
};

constexpr ChargeTerms kAllow{.on_store_error = FailurePolicy::kAllow};
constexpr ChargeTerms kDeny{.on_store_error = FailurePolicy::kDeny};
constexpr ChargeTerms kLocal{.on_store_error = FailurePolicy::kLocal};

ChargeTerms shadow(std::uint32_t group,
                   std::optional<FailurePolicy> policy = FailurePolicy::kAllow) {
  return {ChargeMode::kShadow, policy, group};
}

TEST_F(BatchTest, WithoutChargesIsAllowed) {
  EXPECT_EQ(decide(), Decision{});
  EXPECT_EQ(store_.asked, 0);
}

TEST_F(BatchTest, TakesAllEnforcedChargesInOneRequestOrNone) {
  add("many", 10);
  add("few", 1);
  EXPECT_EQ(decide(), (Decision{.capacity = 1, .remaining = 0, .reset_after = 1h}));
  EXPECT_EQ(store_.asked, 1);
  add("many", 10);
  add("few", 1);
  EXPECT_EQ(decide().reason, Reason::kLimited);
  EXPECT_TRUE(each_[0].allowed());
  EXPECT_FALSE(each_[1].allowed());
  EXPECT_EQ(store_.left("many", 10), 9U);
}

TEST_F(BatchTest, AnswersASingleChargeAsTheStoreDoes) {
  add("k", 2, {}, 2);
  const Decision first = decide();
  EXPECT_EQ(first, (Decision{.capacity = 2, .remaining = 0, .reset_after = 1h}));
  EXPECT_EQ(each_[0], first);
  add("k", 2);
  EXPECT_EQ(decide().retry_after, Duration{1h});
}

TEST_F(BatchTest, DecidesAtTheGivenInstantByTheGivenVerb) {
  const Instant later = clock_.now() + 2h;
  add("k", 2, {}, 2);
  decide({.now = later});
  add("k", 2, {}, 0);
  EXPECT_EQ(decide({.action = Verb::kPeek, .now = later}).remaining, 0U);
  add("k", 2);
  EXPECT_EQ(decide({.action = Verb::kRefund, .now = later}).remaining, 1U);
  add("k", 2);
  EXPECT_EQ(decide({.action = Verb::kReset, .now = later}).remaining, 2U);
}

TEST_F(BatchTest, EnforcedChargesNeedNotBeAdjacent) {
  add("a", 1);
  add("s", 5, shadow(0));
  add("b", 3);
  add("t", 6, shadow(1));
  add("c", 2);
  EXPECT_TRUE(decide());
  EXPECT_EQ(store_.asked, 1);
  std::vector<std::uint64_t> remaining;
  for (const Decision& decision : each_) remaining.push_back(decision.remaining);
  EXPECT_EQ(remaining, (std::vector<std::uint64_t>{0, 4, 2, 5, 1}));
}

TEST_F(BatchTest, IsInvalidWithMoreThan64EnforcedCharges) {
  for (int i = 0; i < 65; ++i) add("k", 100);
  add("s", 1, shadow(0));
  EXPECT_EQ(decide(), Decision::refused(Reason::kInvalid));
  EXPECT_EQ(each_[0].reason, Reason::kInvalid);
  EXPECT_EQ(each_[0].capacity, 100U);
  EXPECT_EQ(each_[65], Decision{});
  EXPECT_EQ(store_.asked + shadow_.asked, 0);
}

TEST_F(BatchTest, AnEnforcedChargeWithoutAKeyDeniesBeforeAnyStoreIsAsked) {
  add("a", 1);
  add("s", 1, shadow(0));
  batch_.add_refused(per_hour(7), kAllow, Reason::kMissing);
  EXPECT_EQ(decide(), Decision::refused(Reason::kMissing));
  EXPECT_EQ(each_[0], Decision{});
  EXPECT_EQ(each_[2].reason, Reason::kMissing);
  EXPECT_EQ(each_[2].capacity, 7U);
  EXPECT_EQ(store_.asked + shadow_.asked, 0);
  add("a", 1);
  EXPECT_TRUE(decide()) << "clear() forgets the missing key";
}

TEST_F(BatchTest, ShadowChargesNeverDeny) {
  for (int i = 0; i < 2; ++i) {
    add("s", 1, shadow(0));
    add("a", 5);
    EXPECT_EQ(decide().remaining, static_cast<std::uint32_t>(4 - i));
    EXPECT_EQ(each_[0].allowed(), i == 0);
    EXPECT_EQ(batch_.shadow()->allowed(), i == 0);
  }
  EXPECT_EQ(shadow_.asked, 2);
  EXPECT_EQ(store_.asked, 2);
}

TEST_F(BatchTest, ShadowChargesAreDecidedEvenIfTheBatchIsDenied) {
  add("banned", 0);
  add("s", 2, shadow(0));
  EXPECT_FALSE(decide());
  EXPECT_EQ(shadow_.left("s", 2), 1U);
}

TEST_F(BatchTest, AGroupOfShadowChargesIsOneRequest) {
  add("many", 10, shadow(1));
  add("none", 0, shadow(1));
  add("other", 3, shadow(2));
  EXPECT_TRUE(decide());
  EXPECT_EQ(shadow_.asked, 2);
  EXPECT_EQ(shadow_.left("many", 10), 10U);
  EXPECT_EQ(shadow_.left("other", 3), 2U);
}

TEST_F(BatchTest, ReportsTheFirstShadowGroupThatWouldDeny) {
  add("a", 9, shadow(1));
  EXPECT_TRUE(decide());
  EXPECT_EQ(batch_.shadow()->capacity, 9U);
  add("a", 9, shadow(1));
  add("b", 0, shadow(2));
  batch_.add_refused(per_hour(7), shadow(3), Reason::kMissing);
  EXPECT_TRUE(decide());
  EXPECT_EQ(batch_.shadow()->reason, Reason::kNever);
  add("a", 9, shadow(1));
  batch_.add_refused(per_hour(7), shadow(3), Reason::kMissing);
  add("b", 0, shadow(2));
  EXPECT_TRUE(decide());
  EXPECT_EQ(batch_.shadow()->reason, Reason::kMissing);
  add("x", 1);
  decide();
  EXPECT_FALSE(batch_.shadow().has_value());
}

TEST_F(BatchTest, WithoutAShadowStoreShadowChargesAskTheStore) {
  Batch batch(store_);
  batch.add({"s", per_hour(2)}, shadow(0));
  EXPECT_TRUE(batch.decide());
  EXPECT_EQ(store_.left("s", 2), 1U);
}

// Failure policies.

TEST_F(BatchTest, ThePolicyAnswersIfTheStoreFails) {
  store_.works = false;
  add("a", 3, kAllow);
  EXPECT_EQ(decide(), kFallbackAllowed);
  EXPECT_EQ(each_[0], (Decision{.reason = Reason::kFallback, .capacity = 3}));
  add("a", 3, kDeny);
  EXPECT_EQ(decide(), kFallbackDenied);
  EXPECT_EQ(each_[0].capacity, 3U);
}

TEST_F(BatchTest, ThePolicySaysByWhatTheCallerActs) {
  store_.works = false;
  add("a", 9, kAllow, 5);
  add("b", 9, kAllow, 3);
  const Decision taken{.reason = Reason::kFallback, .taken = 3};
  EXPECT_EQ(decide({.action = Verb::kTakeAtMost}), taken) << "the least cost, as if all had room";
  EXPECT_EQ(each_[0].taken, 3U);
  const Charge amount{"a", budget(kMaxAmount).per(1h), kMaxAmount};
  batch_.add(amount, kAllow);
  EXPECT_EQ(decide({.action = Verb::kTakeAtMost}).taken, kMaxAmount);
  add("a", 9, kAllow, kMaxAmount);
  EXPECT_EQ(decide({.action = Verb::kTakeAtMost}).taken, kMaxUnits);
  add("a", 9, kAllow, 5);
  const Decision reserved{.reason = Reason::kFallback, .delay = 0s};
  EXPECT_EQ(decide({.action = {Verb::kReserve, 1min}}), reserved);
  add("a", 9, kDeny, 5);
  EXPECT_EQ(decide({.action = Verb::kTakeAtMost}), kFallbackDenied);
}

TEST_F(BatchTest, EveryReasonOfAFailedStoreFallsBack) {
  class Failing final : public Store {
   public:
    Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                   std::span<Decision> each) noexcept override {
      std::fill(each.begin(), each.end(), failure);
      return failure;
    }
    Decision failure;
  };
  for (const Reason reason :
       {Reason::kStoreError, Reason::kStoreTimeout, Reason::kForeignValue, Reason::kStoreFull}) {
    Failing failing;
    failing.failure = Decision::refused(reason);
    Batch batch(failing);
    batch.add({"k", per_hour(1)}, kAllow);
    EXPECT_EQ(batch.decide(), kFallbackAllowed);
    batch.clear();
    batch.add({"k", per_hour(1)}, kLocal);
    EXPECT_EQ(batch.decide(), failing.failure) << "there is no local store";
  }
}

TEST_F(BatchTest, LocalChargesAreOneRequestToTheLocalStore) {
  store_.works = false;
  add("many", 5, kLocal);
  add("a", 7, kAllow);
  add("few", 1, kLocal);
  EXPECT_EQ(decide(), (Decision{.reason = Reason::kFallback, .capacity = 1, .reset_after = 1h}));
  EXPECT_EQ(
      each_[0],
      (Decision{.reason = Reason::kFallback, .capacity = 5, .remaining = 4, .reset_after = 1h}));
  EXPECT_EQ(each_[1], (Decision{.reason = Reason::kFallback, .capacity = 7}));
  add("many", 5, kLocal);
  add("few", 1, kLocal);
  const Decision denied = decide();
  EXPECT_FALSE(denied);
  EXPECT_EQ(denied.reason, Reason::kFallback);
  EXPECT_EQ(denied.retry_after, Duration{1h});
  EXPECT_TRUE(each_[0].allowed());
  EXPECT_EQ(local_.left("many", 5), 4U) << "a denied request takes nothing";
}

TEST_F(BatchTest, TheLocalStoreIsNotAskedWhileTheStoreAnswers) {
  add("a", 2, kLocal);
  EXPECT_EQ(decide().reason, Reason::kOk);
  EXPECT_EQ(local_.asked, 0);
}

TEST_F(BatchTest, AFullStoreGoesOnDecidingTheCountersThatItHas) {
  store_.full_for = {"new"};
  for (int i = 0; i < 3; ++i) {
    add("old", 2, kAllow);
    add("new", 9, kAllow);
    const Decision decision = decide();
    EXPECT_EQ(decision.allowed(), i < 2) << "whatever new keys a client makes up";
    EXPECT_EQ(decision.reason, i < 2 ? Reason::kFallback : Reason::kLimited);
    EXPECT_EQ(each_[0].reason, i < 2 ? Reason::kOk : Reason::kLimited);
    EXPECT_EQ(each_[1], (Decision{.reason = Reason::kFallback, .capacity = 9}));
  }
}

TEST_F(BatchTest, WorkThatIsDoneIsChargedWhereAFullStoreHasACounter) {
  store_.full_for = {"new", "local"};
  add("old", 9, kAllow);
  add("new", 9, kDeny);
  add("local", 9, kLocal);
  const Decision partly = decide({.action = Verb::kCharge});
  EXPECT_TRUE(partly.allowed()) << "the work is done";
  EXPECT_EQ(partly.reason, Reason::kFallback);
  EXPECT_EQ(each_[0].reason, Reason::kOk);
  EXPECT_EQ(each_[1].reason, Reason::kStoreFull);
  EXPECT_EQ(store_.left("old", 9), 8U) << "once";
  EXPECT_EQ(local_.left("local", 9), 8U);
  add("new", 9, kAllow);
  EXPECT_EQ(decide({.action = Verb::kCharge}), Decision::refused(Reason::kStoreFull));
  add("old", 9);
  add("new", 9);
  EXPECT_EQ(decide({.action = Verb::kCharge}), Decision::refused(Reason::kStoreFull))
      << "without a policy";
  EXPECT_EQ(store_.left("old", 9), 8U);
}

TEST_F(BatchTest, ThePolicyAnswersIfAFullStoreHasNoCounter) {
  store_.full_for = {"new", "other"};
  add("new", 9, kAllow);
  EXPECT_EQ(decide(), kFallbackAllowed);
  add("new", 9, kAllow);
  add("other", 9, kDeny);
  EXPECT_EQ(decide(), kFallbackDenied);
  add("old", 2, kAllow);
  add("new", 9, kDeny);
  EXPECT_EQ(decide(), kFallbackDenied);
  EXPECT_EQ(store_.left("old", 2), 2U);
  add("new", 9);
  EXPECT_EQ(decide(), Decision::refused(Reason::kStoreFull)) << "without a policy";
}

TEST_F(BatchTest, NewCountersOfAFullStoreAreLocalUnlessAnotherLimitDenies) {
  store_.full_for = {"new"};
  for (int i = 0; i < 3; ++i) {
    add("old", 2, kLocal);
    add("new", 9, kLocal);
    EXPECT_EQ(decide().allowed(), i < 2);
    EXPECT_EQ(local_.left("new", 9), i < 2 ? 8U - static_cast<unsigned>(i) : 7U);
  }
  EXPECT_EQ(local_.left("old", 2), 2U);
  add("old", 3, kLocal);
  add("new", 2, kLocal);
  EXPECT_EQ(decide().reason, Reason::kFallback) << "the local counter denies";
  EXPECT_EQ(store_.left("old", 3), 1U);
}

TEST_F(BatchTest, AStoreThatBecomesFullMeanwhileIsAskedAgain) {
  store_.full_for = {"new"};
  store_.full_for_next = {"new", "old"};
  add("old", 2, kAllow);
  add("new", 9, kAllow);
  add("kept", 1, kAllow);
  EXPECT_EQ(decide().reason, Reason::kFallback);
  EXPECT_EQ(each_[2].reason, Reason::kOk);
  EXPECT_EQ(store_.asked, 3);
}

TEST_F(BatchTest, AQuotaOfAFullStoreIsAvailableIfItsPolicyAllows) {
  const ChargeTerms quota{.mode = ChargeMode::kQuota, .on_store_error = kAllow.on_store_error};
  store_.full_for = {"new"};
  for (int i = 0; i < 3; ++i) {
    add("old", 2, quota);
    add("new", 9, quota);
    EXPECT_TRUE(decide());
  }
  EXPECT_FALSE(each_[0].allowed());
  EXPECT_TRUE(each_[1].allowed());
}

TEST_F(BatchTest, NothingIsTakenLocallyIfAnotherPolicyDenies) {
  store_.works = false;
  add("a", 2, kLocal);
  add("b", 9, kDeny);
  EXPECT_EQ(decide(), kFallbackDenied);
  EXPECT_EQ(each_[0], (Decision{.reason = Reason::kFallback, .capacity = 2}));
  EXPECT_EQ(local_.asked, 0);
}

TEST_F(BatchTest, ALocalStoreThatFailsDenies) {
  store_.works = false;
  local_.works = false;
  add("a", 2, kLocal);
  add("b", 2, kAllow);
  EXPECT_EQ(decide(), kTimedOut);
  EXPECT_EQ(each_[0].reason, Reason::kStoreTimeout);
  EXPECT_EQ(each_[1].reason, Reason::kFallback);
}

TEST_F(BatchTest, AChargeWithoutAPolicyFailsTheBatch) {
  store_.works = false;
  add("a", 2, kAllow);
  add("b", 2);
  add("c", 2, kLocal);
  add("s", 2, shadow(0));
  add("r", 2, {ChargeMode::kRefund});
  EXPECT_EQ(decide(), kTimedOut);
  for (const std::size_t i : {0U, 1U, 2U}) EXPECT_EQ(each_[i].reason, Reason::kStoreTimeout);
  EXPECT_EQ(store_.asked, 1);
  EXPECT_EQ(shadow_.asked + local_.asked, 0);
}

TEST_F(BatchTest, AShadowGroupFallsBackByItself) {
  shadow_.works = false;
  add("s", 1, shadow(0, FailurePolicy::kLocal));
  add("t", 1, shadow(1, FailurePolicy::kDeny));
  add("u", 1, shadow(2, std::nullopt));
  add("a", 5);
  EXPECT_EQ(decide().remaining, 4U);
  EXPECT_EQ(each_[0], (Decision{.reason = Reason::kFallback, .capacity = 1, .reset_after = 1h}));
  EXPECT_FALSE(each_[1].allowed());
  EXPECT_EQ(each_[2].reason, Reason::kStoreTimeout);
  EXPECT_EQ(batch_.shadow()->reason, Reason::kFallback);
  EXPECT_EQ(local_.left("s", 1), 0U);
}

TEST_F(BatchTest, NoPolicyAnswersForARefundOrAReset) {
  store_.works = false;
  for (const ChargeTerms& terms : {kAllow, kDeny, kLocal, ChargeTerms{}}) {
    for (const Verb verb : {Verb::kRefund, Verb::kReset}) {
      add("a", 2, terms);
      EXPECT_EQ(decide({.action = verb}), kTimedOut);
      EXPECT_EQ(each_[0].reason, Reason::kStoreTimeout);
    }
  }
}

TEST_F(BatchTest, RefundsAndResetsAreCarriedOutLocallyIfTheStoreFails) {
  store_.works = false;
  add("a", 3, kLocal, 3);
  decide();
  add("a", 3, kLocal, 1);
  decide({.action = Verb::kRefund});
  EXPECT_EQ(local_.left("a", 3), 1U);
  add("a", 3, kLocal);
  decide({.action = Verb::kReset});
  EXPECT_EQ(local_.left("a", 3), 3U);
}

// Refunds within a batch.

constexpr ChargeTerms kRefund{.mode = ChargeMode::kRefund};

TEST_F(BatchTest, GivesBackAfterTheOthersAreAdmitted) {
  add("a", 5, {}, 5);
  decide();
  add("a", 5, kRefund, 2);
  add("b", 5);
  EXPECT_EQ(decide().remaining, 4U);
  EXPECT_EQ(each_[0].remaining, 2U);
  EXPECT_EQ(store_.left("a", 5), 2U);
  add("a", 5, kRefund, UINT64_MAX);
  EXPECT_TRUE(decide());
  EXPECT_EQ(store_.left("a", 5), 5U);
}

TEST_F(BatchTest, GivesNothingBackIfTheBatchIsDenied) {
  add("a", 5, {}, 5);
  decide();
  add("a", 5, kRefund, 2);
  add("banned", 0);
  EXPECT_FALSE(decide());
  EXPECT_TRUE(each_[0].allowed());
  EXPECT_EQ(each_[0].remaining, 0U);
  EXPECT_EQ(store_.left("a", 5), 0U);
}

TEST_F(BatchTest, ARefundThatFailsWithoutAPolicyFailsTheBatch) {
  store_.works = false;
  add("a", 5, kRefund);
  EXPECT_EQ(decide(), kTimedOut);
  for (const FailurePolicy policy :
       {FailurePolicy::kAllow, FailurePolicy::kDeny, FailurePolicy::kLocal}) {
    add("a", 5, {ChargeMode::kRefund, policy});
    EXPECT_EQ(decide(), Decision{});
    EXPECT_EQ(each_[0].reason, Reason::kStoreTimeout);
  }
}

// Quotas.

constexpr ChargeTerms kQuota{.mode = ChargeMode::kQuota};

TEST_F(BatchTest, AnExhaustedQuotaDeniesOnlyIfAllQuotasAreExhausted) {
  const auto ask = [this] {
    add("q1", 1, kQuota);
    add("q2", 2, kQuota);
    add("hard", 9);
    return decide();
  };
  EXPECT_TRUE(ask());
  EXPECT_EQ(ask().reason, Reason::kOk);
  EXPECT_FALSE(each_[0].allowed());
  EXPECT_EQ(each_[1].remaining, 0U);
  EXPECT_EQ(store_.asked, 3) << "the second request is repeated without the exhausted quota";
  EXPECT_FALSE(ask());
  EXPECT_EQ(store_.left("hard", 9), 7U) << "a denied request takes nothing";
}

TEST_F(BatchTest, TakesNoQuotaIfAnotherLimitDenies) {
  add("q1", 0, kQuota);
  add("q2", 2, kQuota);
  add("hard", 0);
  EXPECT_FALSE(decide());
  EXPECT_EQ(store_.left("q2", 2), 2U);
}

TEST_F(BatchTest, APolicyThatDeniesAQuotaLeavesTheOthers) {
  store_.works = false;
  const ChargeTerms denied{ChargeMode::kQuota, FailurePolicy::kDeny};
  const ChargeTerms allowed{ChargeMode::kQuota, FailurePolicy::kAllow};
  add("q1", 1, denied);
  add("q2", 1, allowed);
  EXPECT_EQ(decide(), kFallbackAllowed);
  add("q1", 1, denied);
  add("q2", 1, denied);
  EXPECT_EQ(decide(), kFallbackDenied);
}

// Consuming on reject.

constexpr BatchTerms kConsume{.consume_on_reject = true};

TEST_F(BatchTest, ConsumesOnRejectWhatIsLeft) {
  add("a", 2, {}, 2);
  decide();
  add("a", 2);
  add("b", 3, {}, 5);
  add("c", 4);
  EXPECT_FALSE(decide(kConsume));
  EXPECT_FALSE(each_[0].allowed());
  EXPECT_FALSE(each_[1].allowed());
  EXPECT_EQ(each_[1].remaining, 0U);
  EXPECT_TRUE(each_[2].allowed());
  EXPECT_EQ(store_.left("b", 3), 0U);
  EXPECT_EQ(store_.left("c", 4), 3U);
}

TEST_F(BatchTest, ConsumesOnRejectEvenIfQuotasAreLeft) {
  add("q1", 0, kQuota);
  add("q2", 2, kQuota);
  EXPECT_TRUE(decide(kConsume));
  EXPECT_FALSE(each_[0].allowed());
  EXPECT_EQ(each_[1].remaining, 1U);
}

TEST_F(BatchTest, DeniesAPeekOnceACounterIsPastItsLimitIfItConsumesOnReject) {
  for (const std::uint64_t cost : {0, 1, 0}) {
    add("a", 1, {}, cost);
    EXPECT_TRUE(decide(kConsume)) << "at the limit";
    EXPECT_EQ(each_[0].capacity, 1U);
  }
  EXPECT_EQ(each_[0].remaining, 0U);
  for (const std::uint64_t cost : {1, 0}) {
    add("a", 1, {}, cost);
    EXPECT_EQ(decide(kConsume).reason, Reason::kLimited);
    EXPECT_FALSE(each_[0].allowed());
    EXPECT_EQ(each_[0].reason, Reason::kLimited);
    EXPECT_EQ(each_[0].retry_after, each_[0].reset_after);
  }
  add("a", 1, {}, 0);
  EXPECT_TRUE(decide());
  add("a", 1, kRefund, 1);
  add("a", 1, {}, 0);
  EXPECT_FALSE(decide(kConsume));
  add("a", 1, {}, 0);
  EXPECT_TRUE(decide(kConsume)) << "given back";
}

TEST_F(BatchTest, AZeroLimitIsPastItAfterOneUnitIfItConsumesOnReject) {
  add("banned", 0, {}, 0);
  EXPECT_TRUE(decide(kConsume));
  add("banned", 0);
  EXPECT_FALSE(decide(kConsume));
  EXPECT_EQ(each_[0].reason, Reason::kNever);
  EXPECT_EQ(each_[0].retry_after, std::nullopt);
  add("banned", 0, {}, 0);
  EXPECT_FALSE(decide(kConsume));
}

TEST_F(BatchTest, DeniesAPeekAtAnEmptyBucketIfItConsumesOnReject) {
  const Limit bucket = token_bucket(1).per(1h);
  batch_.add({.key = "a", .limit = bucket}, {});
  EXPECT_TRUE(decide(kConsume));
  batch_.add({.key = "a", .limit = bucket, .cost = 0}, {});
  EXPECT_EQ(decide(kConsume).reason, Reason::kLimited);
}

TEST_F(BatchTest, GivesBackInAnyCaseIfItConsumesOnReject) {
  add("a", 5, {}, 5);
  decide();
  add("a", 5, kRefund, 2);
  add("banned", 0);
  EXPECT_FALSE(decide(kConsume));
  EXPECT_EQ(store_.left("a", 5), 2U);
}

TEST_F(BatchTest, FallsBackIfTheStoreFailsWhileItConsumesOnReject) {
  store_.works = false;
  add("a", 5, kAllow);
  EXPECT_EQ(decide(kConsume), kFallbackAllowed);
}

class BatchThatLooks : public BatchTest {
 protected:
  Charge amount(std::uint64_t cost) const {
    Charge charge{"budget", budget(10).per(1h), cost};
    charge.permit = &id_;
    return charge;
  }
  // Asks a budget under an id next to a limit that is only looked at.
  Decision ask(const Action& action, std::uint64_t cost) {
    batch_.add(amount(cost), {});
    add("looks", 2, {.looks = true}, 2);
    return decide({.action = action});
  }
  Decision tell(Verb verb, std::uint64_t cost) { return store_.apply_one(verb, amount(cost), {}); }
  // Exhausts what is looked at, until the second request if so.
  void exhaust(bool once) {
    add("looks", 2, {}, 2);
    decide();
    if (once) store_.untouched_next = Charge{"looks", per_hour(2)};
  }

  const Action hold_{Verb::kHold, 1min};
  const PermitId id_ = PermitId::named("call");
};

TEST_F(BatchThatLooks, HoldsUnderItsIdIfUnitsComeMeanwhile) {
  exhaust(true);
  const Decision held = ask(hold_, 7);
  EXPECT_EQ(held.reason, Reason::kOk);
  EXPECT_FALSE(held.repeated);
  EXPECT_EQ(held.ends_after, Duration{1min});
  EXPECT_EQ(each_[0].held, 7U);
  EXPECT_EQ(each_[1].remaining, 2U) << "it was only looked at";
  EXPECT_EQ(store_.left("looks", 2), 2U);
  const Decision settled = tell(Verb::kSettle, 3);
  EXPECT_FALSE(settled.late);
  EXPECT_EQ(settled.spent, 3U);
}

TEST_F(BatchThatLooks, TakesOnceUnderItsIdIfUnitsComeMeanwhile) {
  for (const bool repeats : {false, true}) {
    exhaust(true);
    const Decision taken = ask(Verb::kTake, 7);
    EXPECT_EQ(taken.reason, Reason::kOk);
    EXPECT_EQ(taken.repeated, repeats);
    EXPECT_EQ(each_[0].spent, 7U);
    EXPECT_EQ(store_.left("looks", 2), 2U);
  }
}

TEST_F(BatchThatLooks, ReservesIfUnitsComeMeanwhile) {
  exhaust(true);
  add("other", 9, {}, 7);
  add("looks", 2, {.looks = true}, 2);
  EXPECT_TRUE(decide({.action = {Verb::kReserve, 1h}}));
  EXPECT_EQ(store_.left("other", 9), 2U) << "once";
  EXPECT_EQ(store_.left("looks", 2), 2U);
}

TEST_F(BatchThatLooks, DeniesARepeatedHoldAsWhatIsExhausted) {
  EXPECT_TRUE(ask(hold_, 7));
  EXPECT_TRUE(tell(Verb::kSettle, 5));
  EXPECT_TRUE(ask(hold_, 7).repeated);
  exhaust(false);
  const Decision denied = ask(hold_, 7);
  EXPECT_EQ(denied.reason, Reason::kLimited);
  EXPECT_EQ(denied.retry_after, Duration{1h});
}

TEST_F(BatchThatLooks, LooksAtABudgetUnderTheIdOfAHold) {
  for (const bool repeats : {false, true}) {
    batch_.add(amount(7), {});
    Charge charge{"looks", budget(2).per(1h), 2};
    store_.apply_one(Verb::kCharge, charge, {});
    store_.untouched_next = charge;
    charge.permit = &id_;
    batch_.add(charge, {.looks = true});
    const Decision held = decide({.action = hold_});
    EXPECT_EQ(held.reason, Reason::kOk);
    EXPECT_EQ(held.repeated, repeats);
    EXPECT_EQ(each_[1].held + each_[1].spent, 0U);
  }
}

}  // namespace
}  // namespace sluice::batch_test
