#include "stores/memory/shard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <vector>

namespace sluice::memory::shard_test {
namespace {

using namespace std::chrono_literals;

constexpr core::Ticks kUnit = core::Ticks{1} << 20;  // the unit of expiries
constexpr Charge kCharge{"", token_bucket(10).per(1s)};
constexpr std::size_t kPlenty = std::size_t{1} << 30;

// Random keys, as fingerprints are.
Fingerprint key_of(std::uint64_t i) {
  std::mt19937_64 random(i);
  const std::uint64_t low = random();
  return {low, random()};
}

// A shard and its shared bytes.
struct Rig {
  explicit Rig(std::size_t max_keys, std::size_t own_bytes = kPlenty, std::size_t shared_bytes = 0)
      : shared(shared_bytes), shard(max_keys, own_bytes, shared) {}

  Slot& add(std::uint64_t i, core::Ticks untouched_from, core::Ticks now = 0) {
    Slot& slot = shard.find_or_insert(key_of(i), kCharge, now);
    slot.state.set_forgotten(core::Forgotten::after(untouched_from));
    return slot;
  }
  bool has(std::uint64_t i) { return shard.find(key_of(i)) != nullptr; }

  SharedBytes shared;
  Shard shard;
};

TEST(Shard, FindsInsertedCountersUntilTheyAreErased) {
  Rig rig(1000);
  EXPECT_FALSE(rig.has(1));
  rig.add(1, kUnit);
  EXPECT_TRUE(rig.has(1));
  EXPECT_EQ(&rig.add(1, kUnit), rig.shard.find(key_of(1)));
  EXPECT_EQ(rig.shard.size(), 1u);
  rig.shard.erase(*rig.shard.find(key_of(1)));
  EXPECT_FALSE(rig.has(1));
}

TEST(Shard, KeepsAllCountersUpToItsBound) {
  Rig rig(1000);
  for (std::uint64_t i = 0; i < 1000; ++i) rig.add(i, 100 * kUnit);
  EXPECT_EQ(rig.shard.size(), 1000u);
  EXPECT_EQ(rig.shard.evictions() + rig.shard.swept(), 0u);
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_TRUE(rig.has(i));
}

TEST(Shard, EvictsAndCountsOneCounterForEachBeyondItsBound) {
  Rig rig(1000);
  for (std::uint64_t i = 0; i < 10000; ++i) {
    rig.add(i, 100 * kUnit);
    ASSERT_LE(rig.shard.size(), 1000u);
    ASSERT_TRUE(rig.has(i));
  }
  EXPECT_EQ(rig.shard.size(), 1000u);
  EXPECT_EQ(rig.shard.evictions(), 9000u);
  EXPECT_EQ(rig.shard.swept(), 0u);
}

TEST(Shard, DropsForgottenCountersBeforeItEvicts) {
  Rig rig(1000);
  for (std::uint64_t i = 0; i < 1000; ++i) rig.add(i, kUnit);
  for (std::uint64_t i = 1000; i < 2000; ++i) rig.add(i, 100 * kUnit, 2 * kUnit);
  EXPECT_EQ(rig.shard.evictions(), 0u);
  EXPECT_EQ(rig.shard.swept(), 1000u);
  for (std::uint64_t i = 1000; i < 2000; ++i) EXPECT_TRUE(rig.has(i));
}

TEST(Shard, DoesNotGrowWhileItHasForgottenCounters) {
  // A hundred of a hundred thousand counters are live at any time. Sweeps drop the others, so the
  // shard stays far below its bound.
  Rig rig(1000000);
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const auto now = static_cast<core::Ticks>(i / 100) * kUnit;
    rig.add(i, now + kUnit, now);
  }
  EXPECT_LT(rig.shard.size(), 1000u);
  EXPECT_GT(rig.shard.swept(), 99000u);
  EXPECT_EQ(rig.shard.evictions(), 0u);
}

TEST(Shard, DropsForgottenCountersAndTheirBlobsWhileItsTableGrows) {
  Rig rig(1000000);
  for (std::uint64_t i = 0; i < 40000; ++i) {
    Slot& slot = rig.add(i, i % 2 == 0 ? kUnit : 100 * kUnit, 2 * kUnit);
    if (i % 10 < 2) rig.shard.make_slices(slot, sliding_window_counter(9).per(1s), 5);
  }
  for (std::uint64_t i = 1; i < 40000; i += 2) ASSERT_TRUE(rig.has(i)) << i;
  EXPECT_EQ(rig.shard.size() + rig.shard.swept(), 40000u);
  EXPECT_GT(rig.shard.swept(), 10000u);
  EXPECT_EQ(rig.shard.evictions(), 0u);
  std::size_t blobs = 0;
  for (std::uint64_t i = 0; i < 40000; ++i) blobs += i % 10 < 2 && rig.has(i);
  EXPECT_EQ(rig.shard.blob_bytes(), blobs * Cells::kBytes);
}

TEST(Shard, EvictsTheFirstToBeUntouchedAmongAFew) {
  Rig rig(8);  // so few that one search sees most of them
  for (std::uint64_t i = 0; i < 8; ++i) rig.add(i, (10 + static_cast<core::Ticks>(i)) * kUnit);
  rig.add(100, 1000 * kUnit);
  EXPECT_EQ(rig.shard.size(), 8u);
  std::size_t lost = 0;
  for (std::uint64_t i = 0; i < 8; ++i) lost += !rig.has(i);
  EXPECT_EQ(lost, 1u);
  EXPECT_TRUE(rig.has(7));  // the last to be untouched; with this seed no search sees it alone
  EXPECT_TRUE(rig.has(100));
}

TEST(Shard, NeverDropsAPinnedCounter) {
  Rig rig(128);  // nearly all are pinned, and whole groups contain nothing else
  for (std::uint64_t i = 0; i < 120; ++i) rig.add(i, 0).state.expiry = PackedState::kPinned;
  const core::Ticks last = (core::Ticks{1} << 52) - 1;
  for (std::uint64_t i = 120; i < 5000; ++i) rig.add(i, i % 2 == 0 ? 0 : last + kUnit, last);
  EXPECT_EQ(rig.shard.size(), 128u);
  for (std::uint64_t i = 0; i < 120; ++i) EXPECT_TRUE(rig.has(i)) << i;
}

// --- blobs ---

const Limit kSlices = sliding_window_counter(100).per(1s).slices(10);
const Limit kLog = sliding_window_log(100).per(1s);

TEST(Shard, CountsTheBytesOfItsBlobs) {
  Rig rig(1000);
  SliceBlob* const slices = rig.shard.make_slices(rig.add(1, kUnit), kSlices, 5);
  ASSERT_NE(slices, nullptr);
  EXPECT_EQ(slices->counts().size(), 11u);
  EXPECT_EQ(rig.shard.blob_bytes(), 64u);
  core::LogBuffer* const log = rig.shard.make_room_in_log(rig.add(2, kUnit), kLog, 5);
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(rig.shard.blob_bytes(), 64u + log->bytes());
  EXPECT_EQ(log->bytes(), core::LogBuffer::bytes_for(log->summary_room, log->entry_room));
  rig.shard.erase(*rig.shard.find(key_of(1)));
  rig.shard.erase(*rig.shard.find(key_of(2)));
  EXPECT_EQ(rig.shard.blob_bytes(), 0u);
}

TEST(Shard, CountsASmallBlobAsAWholeCell) {
  Rig rig(1000);
  rig.shard.make_slices(rig.add(1, kUnit), sliding_window_counter(1).per(1s).slices(1), 5);
  EXPECT_EQ(rig.shard.blob_bytes(), Cells::kBytes);
  rig.shard.erase(*rig.shard.find(key_of(1)));
  EXPECT_EQ(rig.shard.blob_bytes(), 0u);
}

TEST(Shard, DoesNotCountAReplacedBlobTwice) {
  Rig rig(1000);
  Slot& slot = rig.add(1, kUnit);
  rig.shard.make_slices(slot, kSlices, 5);
  rig.shard.make_slices(slot, sliding_window_counter(100).per(1s).slices(20), 5);
  EXPECT_EQ(rig.shard.blob_bytes(), SliceBlob::bytes_for(20));
  Slot& other = rig.add(2, kUnit);
  for (int i = 0; i < 20; ++i) {
    core::LogBuffer* const log = rig.shard.make_room_in_log(other, kLog, 5);
    while (log->head + log->entries < log->entry_room) {
      log->write({.units = log->log_units, .added = 1}, log->last + 1);
    }
  }
  EXPECT_EQ(rig.shard.blob_bytes(), SliceBlob::bytes_for(20) + other.state.log()->bytes());
}

TEST(Shard, KeepsTheEntriesOfALogThatGrows) {
  Rig rig(1000);
  Slot& slot = rig.add(1, kUnit);
  core::LogBuffer* log = rig.shard.make_room_in_log(slot, kLog, 0);
  for (core::Ticks at = 1; at <= 500; ++at) {
    if (log->head + log->entries == log->entry_room) {
      log = rig.shard.make_room_in_log(slot, kLog, 0);
    }
    log->write({.units = log->log_units, .added = static_cast<std::uint32_t>(at)}, at);
  }
  const core::Log held = log->view();
  ASSERT_EQ(held.entries.size(), 500u);
  EXPECT_EQ(held.units, 500u * 501 / 2);
  for (core::Ticks at = 1; at <= 500; ++at) {
    const core::LogEntry& entry = held.entries[static_cast<std::size_t>(at) - 1];
    ASSERT_EQ(entry.at(), at);
    ASSERT_EQ(entry.units(), static_cast<std::uint32_t>(at));
  }
}

TEST(Shard, FreesTheBlobsOfDroppedCounters) {
  Rig rig(100);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    rig.shard.make_slices(rig.add(i, i % 3 == 0 ? kUnit : 9 * kUnit, 2 * kUnit), kSlices, 5);
    ASSERT_EQ(rig.shard.blob_bytes(), rig.shard.size() * 64);
  }
  EXPECT_GT(rig.shard.swept(), 0u);
  EXPECT_GT(rig.shard.evictions(), 0u);
}

TEST(Shard, EvictsOtherBlobsIfBytesRunOutButNoPinnedOnes) {
  Rig rig(1000, 640);
  rig.shard.make_slices(rig.add(0, kUnit), kSlices, 5);
  rig.shard.find(key_of(0))->state.expiry = PackedState::kPinned;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    Slot& slot = rig.add(i, 9 * kUnit);
    slot.state.expiry = PackedState::kPinned;
    ASSERT_NE(rig.shard.make_slices(slot, kSlices, 5), nullptr);
    slot.state.set_forgotten(core::Forgotten::after(9 * kUnit));
    ASSERT_LE(rig.shard.blob_bytes(), 640u);
  }
  EXPECT_EQ(rig.shard.evictions(), 91u);
  EXPECT_TRUE(rig.has(0));
}

TEST(Shard, EvictsNothingForABlobThatCannotFit) {
  Rig rig(1000, 640);
  for (std::uint64_t i = 1; i <= 10; ++i) rig.shard.make_slices(rig.add(i, kUnit), kSlices, 5);
  Slot& slot = rig.add(11, kUnit);
  EXPECT_EQ(rig.shard.make_slices(slot, sliding_window_counter(1).per(1s).slices(1000), 5),
            nullptr);
  EXPECT_EQ(rig.shard.evictions(), 0u);
  EXPECT_EQ(rig.shard.blob_bytes(), 640u);
  EXPECT_EQ(slot.state.slices(), nullptr);
}

TEST(Shard, TakesBytesBeyondItsOwnFromTheSharedOnes) {
  SharedBytes shared(100);
  Shard one(1000, 64, shared);
  Shard other(1000, 64, shared);
  const auto add = [](Shard& shard, std::uint64_t i) {
    Slot& slot = shard.find_or_insert(key_of(i), kCharge, 0);
    slot.state.expiry = PackedState::kPinned;
    return shard.make_slices(slot, kSlices, 5) != nullptr;
  };
  EXPECT_TRUE(add(one, 1));
  EXPECT_TRUE(add(one, 2));
  EXPECT_EQ(shared.left(), 36u);
  EXPECT_TRUE(add(other, 1));
  EXPECT_FALSE(add(other, 2));
  one.erase(*one.find(key_of(2)));
  EXPECT_EQ(shared.left(), 100u);
  EXPECT_TRUE(add(other, 3));
}

TEST(Shard, ReturnsAllSharedBytesWhenItIsDestroyed) {
  SharedBytes shared(100000);
  {
    Shard shard(1000, 0, shared);
    for (std::uint64_t i = 0; i < 100; ++i) {
      Slot& slot = shard.find_or_insert(key_of(i), kCharge, 0);
      slot.state.set_forgotten(core::Forgotten::after(kUnit));
      ASSERT_NE(shard.make_slices(slot, kSlices, 0), nullptr);
    }
    EXPECT_EQ(shared.left(), 100000u - 6400);
  }
  EXPECT_EQ(shared.left(), 100000u);
}

}  // namespace
}  // namespace sluice::memory::shard_test
