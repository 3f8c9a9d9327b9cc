#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "sluice/memory_store.h"

namespace sluice::verbs_test {
namespace {

using namespace std::chrono_literals;

constexpr Instant at(Duration since_epoch) { return Instant{since_epoch}; }

// The verbs of several charges (docs/reference/algorithms.md); those of one counter are in core.

class SeveralCharges : public ::testing::Test {
 protected:
  Decision apply(Action action, std::vector<Charge> charges) {
    each_.resize(charges.size());
    return store_.apply(action, charges, at(0s), each_);
  }
  std::uint64_t left(std::string_view key, const Limit& limit) {
    return store_.apply_one(Verb::kPeek, {key, limit, 0}, at(0s)).remaining;
  }

  static constexpr Limit kBucket = token_bucket(10).per(1s).burst(10);
  static constexpr Limit kWindow = fixed_window(6).per(1s);
  MemoryStore store_;
  std::vector<Decision> each_;
};

TEST_F(SeveralCharges, TakeAtMostTakesTheSameOfEach) {
  const Decision all = apply(Verb::kTakeAtMost, {{"a", kBucket, 8}, {"b", kWindow, 9}});
  EXPECT_EQ(all.taken, 6u);
  EXPECT_EQ(each_[0].taken, 6u);
  EXPECT_EQ(left("a", kBucket), 4u);
  EXPECT_EQ(left("b", kWindow), 0u);
  const Decision none = apply(Verb::kTakeAtMost, {{"a", kBucket, 8}, {"b", kWindow, 9}});
  EXPECT_FALSE(none);
  EXPECT_EQ(none.retry_after, Duration{1s});
  EXPECT_EQ(none.taken, 0u);
  EXPECT_TRUE(each_[0].allowed());
  EXPECT_EQ(left("a", kBucket), 4u);
}

TEST_F(SeveralCharges, TakeAtMostSharesACounterBetweenItsCharges) {
  EXPECT_EQ(apply(Verb::kTakeAtMost, {{"a", kBucket, 9}, {"a", kBucket, 4}}).taken, 4u);
  EXPECT_EQ(apply(Verb::kTakeAtMost, {{"a", kBucket, 9}, {"a", kBucket, 4}}).taken, 1u);
  const Decision none = apply(Verb::kTakeAtMost, {{"a", kBucket, 9}, {"a", kBucket, 4}});
  EXPECT_EQ(none.retry_after, Duration{200ms});
}

TEST_F(SeveralCharges, TakeAtMostOfNothingIsAllowed) {
  store_.apply_one(Verb::kTake, {"a", kBucket, 10}, at(0s));
  const Decision all = apply(Verb::kTakeAtMost, {{"a", kBucket, 8}, {"b", kWindow, 0}});
  EXPECT_TRUE(all);
  EXPECT_EQ(all.taken, 0u);
}

TEST_F(SeveralCharges, ReserveWaitsForTheLongest) {
  constexpr Limit kSlow = gcra(1).per(1s).burst(0);
  EXPECT_EQ(apply({Verb::kReserve, 2s}, {{"a", kBucket, 10}, {"c", kSlow}}).delay, Duration{0});
  EXPECT_EQ(apply({Verb::kReserve, 2s}, {{"a", kBucket, 5}, {"c", kSlow}}).delay, Duration{1s});
  const Decision denied = apply({Verb::kReserve, 1s}, {{"a", kBucket, 9}, {"c", kSlow}});
  EXPECT_EQ(denied.retry_after, Duration{1s});
  EXPECT_EQ(each_[0].retry_after, Duration{400ms});
  EXPECT_EQ(apply({Verb::kReserve, 1s}, {{"a", kBucket, 1}, {"b", kWindow, 7}}).reason,
            Reason::kNever);
}

TEST_F(SeveralCharges, ReserveIsAllOrNothing) {
  EXPECT_TRUE(apply(Verb::kTake, {{"b", kWindow, 6}}));
  const Decision denied = apply({Verb::kReserve, 5s}, {{"a", kBucket, 3}, {"b", kWindow}});
  EXPECT_EQ(denied.retry_after, Duration{1s});
  EXPECT_FALSE(denied.delay);
  EXPECT_EQ(left("a", kBucket), 10u);
}

TEST_F(SeveralCharges, ChargeCountsEachAndSaysOverIfOneIs) {
  EXPECT_EQ(apply(Verb::kCharge, {{"a", kBucket, 3}, {"b", kWindow, 7}}).reason, Reason::kOver);
  EXPECT_EQ(each_[0].reason, Reason::kOk);
  EXPECT_EQ(each_[1].reason, Reason::kOver);
  EXPECT_EQ(left("a", kBucket), 7u);
}

TEST_F(SeveralCharges, AreDecidedInPlaceAsInSteps) {
  for (const Verb verb : {Verb::kCharge, Verb::kReserve}) {
    MemoryStore one;
    MemoryStore other;
    std::vector<Decision> each(2);
    for (int i = 0; i < 5; ++i) {
      const std::vector<Charge> charges{{"a", kBucket, 4}, {"b", kBucket, 3}};
      // A charge of 0 on a third counter keeps the second store from deciding in place.
      std::vector<Charge> three = charges;
      const std::string name = std::to_string(i);
      three.push_back({name, kBucket, 0});
      const Action action{verb, 1s};
      one.apply(action, charges, at(0s), each);
      std::vector<Decision> more(3);
      other.apply(action, three, at(0s), more);
      more.pop_back();
      EXPECT_EQ(each, more) << i;
    }
  }
}

}  // namespace
}  // namespace sluice::verbs_test
