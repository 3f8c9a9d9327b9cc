#include "stores/memory/table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "stores/memory/shard.h"

namespace sluice::memory {
namespace {

constexpr core::Ticks kLast = (core::Ticks{1} << 52) - 1;

void expect_kept(const core::State& state) {
  PackedState packed;
  packed.set_state(state);
  EXPECT_EQ(packed.state(), state);
  EXPECT_EQ(packed.slices(), nullptr);
  EXPECT_EQ(packed.log(), nullptr);
}

TEST(PackedState, KeepsStatesAtBothEndsOfTheirRanges) {
  for (const core::Ticks last : {core::Ticks{0}, core::Ticks{1}, kLast}) {
    for (const std::uint64_t aux :
         {std::uint64_t{0}, std::uint64_t{1}, (std::uint64_t{1} << 45) - 1}) {
      for (const std::uint32_t units : {0u, 1u, 0xFFFFFFFFu}) {
        for (const std::uint32_t tag : {0u, 1u, 0xFFFu, 0x1000u, (1u << 29) - 1}) {
          expect_kept({.last = last, .aux = aux, .units = units, .tag = tag});
        }
      }
    }
  }
}

TEST(PackedState, IsUntouchedIfItIsZero) {
  EXPECT_EQ(PackedState{}.state(), core::State{});
  EXPECT_EQ(PackedState{}.slices(), nullptr);
  EXPECT_EQ(PackedState{}.log(), nullptr);
}

TEST(PackedState, KeepsTheKindOfItsBlob) {
  SliceBlob slices;
  core::LogBuffer log;
  PackedState packed;
  packed.set(&slices);
  EXPECT_EQ(packed.slices(), &slices);
  EXPECT_EQ(packed.log(), nullptr);
  packed.set(&log);
  EXPECT_EQ(packed.slices(), nullptr);
  EXPECT_EQ(packed.log(), &log);
  packed.set_state({});
  EXPECT_EQ(packed.slices(), nullptr);
  EXPECT_EQ(packed.log(), nullptr);
}

TEST(PackedState, IsForgottenFromTheNextMultipleOf2To20Ticks) {
  constexpr core::Ticks kUnit = core::Ticks{1} << 20;
  PackedState packed;
  for (const core::Ticks untouched_from : {kUnit + 1, kUnit + 7, 2 * kUnit}) {
    packed.set_forgotten(core::Forgotten::after(untouched_from));
    EXPECT_FALSE(packed.is_forgotten(2 * kUnit - 1));
    EXPECT_TRUE(packed.is_forgotten(2 * kUnit));
    EXPECT_EQ(packed.forgotten().from(), 2 * kUnit);
  }
  packed.set_forgotten(core::Forgotten::after(2 * kUnit + 1));
  EXPECT_FALSE(packed.is_forgotten(2 * kUnit));
}

TEST(PackedState, IsNotForgottenBeforeItIsUntouchedEvenAtTheLastInstant) {
  PackedState packed;
  for (const core::Ticks left :
       {core::Ticks{1}, core::Ticks{1000}, core::Ticks{1} << 45, core::Ticks{1} << 52}) {
    packed.set_forgotten(core::Forgotten::after(kLast + left));
    EXPECT_FALSE(packed.is_forgotten(kLast)) << left;
    EXPECT_GT(packed.forgotten().from(), kLast);
  }
}

TEST(PackedState, IsNotForgottenWhileItIsPinned) {
  PackedState packed;
  packed.expiry = PackedState::kPinned;
  EXPECT_FALSE(packed.is_forgotten(kLast));
  EXPECT_EQ(packed.forgotten().from(), std::numeric_limits<core::Ticks>::max());
  packed.set_forgotten(core::Forgotten::after(std::numeric_limits<core::Ticks>::max() / 2));
  EXPECT_NE(packed.expiry, PackedState::kPinned);
}

TEST(PackedState, LetsOneThreadHoldOrPinIt) {
  PackedState packed;
  packed.leave(7);
  EXPECT_EQ(packed.hold(), 7u);
  EXPECT_EQ(packed.hold(true), PackedState::kHeld);
  EXPECT_EQ(packed.try_mark(PackedState::kPinned), PackedState::kHeld);
  packed.leave(8);
  EXPECT_EQ(packed.pin(), 8u);
  EXPECT_EQ(packed.pin(), PackedState::kPinned);
  EXPECT_EQ(packed.hold(true), PackedState::kPinned);
}

TEST(PackedState, NoExpiryIsAMark) {
  for (core::Ticks from = kLast - 5 * (core::Ticks{1} << 20); from <= kLast + 1;
       from += core::Ticks{1} << 20) {
    const std::uint32_t expiry = PackedState::expiry_of(core::Forgotten::after(from));
    EXPECT_FALSE(PackedState::is_mark(expiry)) << from;
    EXPECT_GE(PackedState::forgotten_of(expiry).from(), from);
  }
}

TEST(SliceBlob, TakesTwentyBytesAndFourForEachCount) {
  EXPECT_EQ(SliceBlob::bytes_for(1), 28u);
  EXPECT_EQ(SliceBlob::bytes_for(10), 64u);
  EXPECT_EQ(SliceBlob::bytes_for(1000), 4024u);
}

}  // namespace
}  // namespace sluice::memory
