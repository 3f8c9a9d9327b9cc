#include "stores/memory/counter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "sluice/permit_id.h"

namespace sluice::memory {
namespace {

using namespace std::chrono_literals;

constexpr core::Ticks kNow = 1'700'000'000'000'000;
constexpr core::Ticks kSecond = 1'000'000;
constexpr std::size_t kPlenty = std::size_t{1} << 30;
constexpr std::uint64_t kLargest = ~std::uint64_t{0};

constexpr auto kBucket = token_bucket(10).per(10s);
constexpr auto kSlices = sliding_window_counter(10).per(10s).slices(5);
constexpr auto kLog = sliding_window_log(10).per(10s);

Fingerprint key_of(std::uint64_t i) { return {i, i * 0x9E3779B97F4A7C15}; }

class CounterTest : public ::testing::Test {
 protected:
  // A counter that is about to take units of this limit.
  Counter& begin(const Limit& limit, std::uint64_t cost, core::Ticks now = kNow,
                 std::uint64_t key = 1) {
    charge_ = {"", limit, cost};
    return counter_.emplace(key_of(key), shard_, charge_, now);
  }
  // Decides the verb as a store does and returns the answer.
  Decision decide(Verb verb, const Limit& limit, std::uint64_t cost, core::Ticks now = kNow,
                  std::uint64_t key = 1) {
    Counter& counter = begin(limit, cost, now, key);
    EXPECT_EQ(carry_out(verb, {&counter, 1}), Reason::kOk);
    return answer();
  }
  Decision answer() const {
    Decision decision;
    counter_->answer(decision);
    return decision;
  }
  std::uint64_t remaining(const Limit& limit, core::Ticks now = kNow) {
    return decide(Verb::kPeek, limit, 0, now).remaining;
  }

  SharedBytes shared_{kPlenty};
  Shard shard_{1000, 0, shared_};
  Charge charge_{"", kBucket};
  std::optional<Counter> counter_;
};

TEST_F(CounterTest, NeverAdmitsASumOfCostsThatOverflows) {
  for (const Limit& limit : {Limit(kBucket), Limit(kSlices), Limit(kLog)}) {
    Counter& counter = begin(limit, kLargest);
    counter.add({"", kBucket, 1});
    counter.add({"", kBucket, 3});
    counter.find();
    counter.look(Verb::kTake);
    EXPECT_FALSE(counter.admits());
    EXPECT_EQ(answer().reason, Reason::kNever);
  }
}

TEST_F(CounterTest, AddsTheCostsOfItsCharges) {
  Counter& counter = begin(kBucket, 4);
  counter.add({"", kBucket, 6});
  counter.find();
  counter.look(Verb::kTake);
  EXPECT_TRUE(counter.admits());
  EXPECT_EQ(answer().remaining, 0u);
  counter.add({"", kBucket, 1});
  counter.look(Verb::kTake);
  EXPECT_FALSE(counter.admits());
}

TEST_F(CounterTest, ChangesNothingUntilItWrites) {
  for (const Limit& limit : {Limit(kBucket), Limit(kSlices), Limit(kLog)}) {
    Counter& counter = begin(limit, 3);
    counter.find();
    counter.look(Verb::kTake);
    EXPECT_TRUE(counter.admits() && counter.writes());
    EXPECT_FALSE(counter.is_found() || counter.is_ready());
    EXPECT_EQ(shard_.size(), 0u);

    counter.insert();
    EXPECT_TRUE(counter.make_room());
    EXPECT_TRUE(counter.is_ready());
    counter.write();
    EXPECT_EQ(remaining(limit), 7u);
    EXPECT_TRUE(decide(Verb::kReset, limit, 0));
    EXPECT_EQ(shard_.size(), 0u);
  }
}

TEST_F(CounterTest, RemovesASlotThatItInsertedIfItDoesNotWrite) {
  Counter& counter = begin(kLog, 3);
  counter.find();
  counter.look(Verb::kTake);
  counter.insert();
  ASSERT_TRUE(counter.make_room());
  EXPECT_GT(shard_.blob_bytes(), 0u);
  counter.undo();
  EXPECT_EQ(shard_.size(), 0u);
  EXPECT_EQ(shard_.blob_bytes(), 0u);
  EXPECT_EQ(shared_.left(), kPlenty);
}

TEST_F(CounterTest, LeavesAnExistingSlotAsItWasIfItDoesNotWrite) {
  decide(Verb::kTake, kSlices, 3);
  const std::uint32_t expiry = shard_.find(key_of(1))->state.expiry;
  Counter& counter = begin(kSlices, 3);
  counter.find();
  counter.look(Verb::kTake);
  EXPECT_EQ(shard_.find(key_of(1))->state.expiry, PackedState::kPinned);
  counter.undo();
  counter.leave();
  counter.leave();  // does nothing more
  EXPECT_EQ(shard_.find(key_of(1))->state.expiry, expiry);
  EXPECT_EQ(remaining(kSlices), 7u);
}

TEST_F(CounterTest, DropsAForgottenWindowButUsesTheSlotOfABucketAgain) {
  const core::Ticks later = kNow + 3600 * kSecond;
  for (const Limit& limit : {Limit(kSlices), Limit(kLog)}) {
    decide(Verb::kTake, limit, 3);
    Counter& counter = begin(limit, 1, later);
    counter.find();
    EXPECT_FALSE(counter.is_found());
    EXPECT_EQ(shard_.size(), 0u);
    EXPECT_EQ(shard_.blob_bytes(), 0u);
  }
  decide(Verb::kTake, kBucket, 3);
  Counter& counter = begin(kBucket, 1, later);
  counter.find();
  EXPECT_TRUE(counter.is_found());
  counter.look(Verb::kTake);
  EXPECT_EQ(answer().remaining, 9u);
}

TEST_F(CounterTest, AnswersWithoutTheTakeIfAnotherLimitDenies) {
  const Limit queue = leaky_bucket(10).per(10s).queueing();
  decide(Verb::kTake, queue, 2);
  Counter& counter = begin(queue, 3);
  counter.find();
  counter.look(Verb::kTake);
  EXPECT_EQ(answer().delay, Duration{2s});
  counter.leave_untaken();
  EXPECT_FALSE(counter.writes());
  counter.write();
  EXPECT_EQ(answer().remaining, 8u);
  EXPECT_EQ(answer().delay, std::nullopt);
  EXPECT_EQ(remaining(queue), 8u);
}

TEST_F(CounterTest, KeepsItsOwnDenialIfAnotherLimitDeniesToo) {
  decide(Verb::kTake, kBucket, 9);
  Counter& counter = begin(kBucket, 3);
  counter.find();
  counter.look(Verb::kTake);
  counter.leave_untaken();
  EXPECT_EQ(answer().retry_after, Duration{2s});
}

TEST_F(CounterTest, KeepsItsUnitsIfTheSlicesChange) {
  decide(Verb::kTake, kSlices, 5);
  const Limit finer = sliding_window_counter(10).per(10s).slices(1000);
  Counter& counter = begin(finer, 1);
  counter.find();
  counter.look(Verb::kTake);
  EXPECT_EQ(answer().remaining, 4u);
  EXPECT_FALSE(counter.is_ready()) << "1000 slices need more memory than 5";
  ASSERT_TRUE(counter.make_room());
  EXPECT_EQ(answer().remaining, 4u);
  counter.write();
  counter.leave();
  EXPECT_EQ(remaining(finer), 4u);
  EXPECT_EQ(shard_.find(key_of(1))->state.slices()->slices, 1000u);
  EXPECT_FALSE(decide(Verb::kTake, finer, 5));
}

TEST_F(CounterTest, GrowsALogAndKeepsItsEntries) {
  const Limit limit = sliding_window_log(1000).per(10s);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(decide(Verb::kTake, limit, 1, kNow + i));
  EXPECT_EQ(remaining(limit, kNow + 300), 700u);
  EXPECT_EQ(remaining(limit, kNow + 10 * kSecond + 99), 800u) << "the first 100 have expired";
}

TEST_F(CounterTest, FailsWithoutBytesForItsWindowAndLeavesNoSlot) {
  SharedBytes none{0};
  Shard shard{1000, 0, none};
  for (const Limit& limit : {Limit(kSlices), Limit(kLog)}) {
    const Charge charge{"", limit, 1};
    Counter counter(key_of(1), shard, charge, kNow);
    counter.find();
    counter.look(Verb::kTake);
    counter.insert();
    EXPECT_FALSE(counter.make_room());
    counter.undo();
    EXPECT_EQ(shard.size(), 0u);
  }
}

TEST_F(CounterTest, IsNotEvictedWhileItIsPinned) {
  Shard small{8, 0, shared_};
  const Charge charge{"", kBucket, 1};
  Counter counter(key_of(0), small, charge, kNow);
  counter.find();
  counter.look(Verb::kTake);
  counter.insert();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    small.find_or_insert(key_of(i), charge, kNow)
        .state.set_forgotten(core::Forgotten::after(kNow + 3600 * kSecond));
  }
  EXPECT_GT(small.evictions(), 0u);
  ASSERT_TRUE(counter.make_room());
  counter.write();
  ASSERT_NE(small.find(key_of(0)), nullptr);
  EXPECT_EQ(small.find(key_of(0))->state.state().units, 1u);
}

TEST(InPlace, DoesNotUseABlobOfAnotherKind) {
  SharedBytes bytes{kPlenty};
  Shard shard{1000, 0, bytes};
  const PermitId permit(PermitId::Bytes{1});
  const Charge permits{.key = "", .limit = concurrency(10).lease(1s), .permit = &permit};
  const Charge slices{"", kSlices};
  Slot* slot = &shard.find_or_insert(key_of(1), permits, kNow);
  ASSERT_NE(shard.make_slices(*slot, kSlices, kNow), nullptr);
  InPlace counter;
  counter.key = key_of(1);
  ASSERT_TRUE(counter.find(shard));
  EXPECT_FALSE(counter.look(Verb::kTake, permits, kNow));
  EXPECT_TRUE(counter.look(Verb::kTake, slices, kNow));
  counter.leave();

  slot = &shard.find_or_insert(key_of(2), slices, kNow);
  ASSERT_NE(shard.make_room_for_permit(*slot, permits.limit, kNow), nullptr);
  counter.key = key_of(2);
  ASSERT_TRUE(counter.find(shard));
  EXPECT_FALSE(counter.look(Verb::kTake, slices, kNow));
  EXPECT_TRUE(counter.look(Verb::kTake, permits, kNow));
  counter.leave();
}

}  // namespace
}  // namespace sluice::memory
