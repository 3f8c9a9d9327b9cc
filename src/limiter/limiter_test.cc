#include "sluice/limiter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace sluice {
namespace {

using namespace std::chrono_literals;

// Remembers what it was asked, and answers each charge with its index as `remaining`.
class RecordingStore final : public Store {
 public:
  Decision apply(Action action, std::span<const Charge> asked_charges, std::optional<Instant> at,
                 std::span<Decision> each) noexcept override {
    ++calls;
    verb = action.verb;
    charges.assign(asked_charges.begin(), asked_charges.end());
    now = at;
    answers = each.size();
    for (std::size_t i = 0; i < each.size(); ++i) {
      each[i].remaining = static_cast<std::uint32_t>(i);
    }
    return Decision{.remaining = 99};
  }

  int calls = 0;
  Verb verb = Verb::kTake;
  std::vector<Charge> charges;
  std::optional<Instant> now;
  std::size_t answers = 0;
};

constexpr Limit kLimit = token_bucket(10).per(1s);

TEST(Limiter, TryAcquireTakesOneUnitAtTheStoresTime) {
  RecordingStore store;
  Limiter limiter(store);
  EXPECT_EQ(limiter.try_acquire("key", kLimit).remaining, 99u);
  EXPECT_EQ(store.verb, Verb::kTake);
  ASSERT_EQ(store.charges.size(), 1u);
  EXPECT_EQ(store.charges[0].key, "key");
  EXPECT_EQ(store.charges[0].limit, kLimit);
  EXPECT_EQ(store.charges[0].cost, 1u);
  EXPECT_EQ(store.now, std::nullopt);
  EXPECT_EQ(store.answers, 1u);
}

TEST(Limiter, EachVerbIsPassedOnWithItsCostAndInstant) {
  RecordingStore store;
  Limiter limiter(store);
  const Instant now{5s};
  (void)limiter.try_acquire("key", kLimit, 3, now);
  EXPECT_EQ(store.verb, Verb::kTake);
  EXPECT_EQ(store.charges[0].cost, 3u);
  EXPECT_EQ(store.now, now);
  (void)limiter.peek("key", kLimit, 4, now);
  EXPECT_EQ(store.verb, Verb::kPeek);
  EXPECT_EQ(store.charges[0].cost, 4u);
  limiter.refund("key", kLimit, 5, now);
  EXPECT_EQ(store.verb, Verb::kRefund);
  EXPECT_EQ(store.charges[0].cost, 5u);
  limiter.reset("key", kLimit);
  EXPECT_EQ(store.verb, Verb::kReset);
  EXPECT_EQ(store.calls, 4);
}

TEST(Limiter, CheckGivesEachChargeItsAnswer) {
  RecordingStore store;
  Limiter limiter(store);
  const std::vector<Charge> charges = {{"a", kLimit}, {"b", kLimit}, {"c", kLimit}};
  std::vector<Decision> each(3);
  EXPECT_EQ(limiter.check(charges, each, Instant{1s}).remaining, 99u);
  EXPECT_EQ(store.charges.size(), 3u);
  EXPECT_EQ(store.now, Instant{1s});
  EXPECT_EQ(each[2].remaining, 2u);
}

TEST(Limiter, CheckNeedsNoRoomForAnswersThatNobodyReads) {
  RecordingStore store;
  Limiter limiter(store);
  const std::vector<Charge> charges(kMaxCharges, Charge{"a", kLimit});
  EXPECT_EQ(limiter.check(charges).remaining, 99u);
  EXPECT_EQ(store.answers, kMaxCharges);
}

TEST(Limiter, RoomBeyondTheChargesStaysAsItWas) {
  RecordingStore store;
  Limiter limiter(store);
  const std::vector<Charge> charges = {{"a", kLimit}, {"b", kLimit}};
  std::vector<Decision> each(3, Decision{.remaining = 7});
  (void)limiter.check(charges, each);
  EXPECT_EQ(store.answers, 2u);
  EXPECT_EQ(each[1].remaining, 1u);
  EXPECT_EQ(each[2].remaining, 7u);
}

TEST(Limiter, MoreChargesThanARequestMayCarryAreInvalid) {
  RecordingStore store;
  Limiter limiter(store);
  const std::vector<Charge> charges(kMaxCharges + 1, Charge{"a", kLimit});
  EXPECT_EQ(limiter.check(charges).reason, Reason::kInvalid);
  EXPECT_EQ(store.calls, 0);
}

TEST(Limiter, AnswersForSomeOfTheChargesOnlyAreInvalid) {
  RecordingStore store;
  Limiter limiter(store);
  const std::vector<Charge> charges = {{"a", kLimit}, {"b", kLimit}};
  Decision one;
  EXPECT_EQ(limiter.check(charges, {&one, 1}).reason, Reason::kInvalid);
  EXPECT_EQ(store.calls, 0);
}

TEST(Limiter, ApplyTakesAnyVerb) {
  RecordingStore store;
  Limiter limiter(store);
  const Charge charge{"a", kLimit, 2};
  limiter.apply(Verb::kRefund, {&charge, 1}, {}, Instant{3s});
  EXPECT_EQ(store.verb, Verb::kRefund);
  EXPECT_EQ(store.now, Instant{3s});
  EXPECT_EQ(&limiter.store(), &store);
}

}  // namespace
}  // namespace sluice
