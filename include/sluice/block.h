#pragma once

#include <cstdint>

#include "sluice/clock.h"
#include "sluice/expected.h"

namespace sluice {

// The most denials that a block can count.
inline constexpr std::uint32_t kMaxBlockDenials = 100;
// The largest growth of blocks: each lasts 100 times as long as the one before.
inline constexpr std::uint32_t kMaxBlockGrowth = 10'000;
// How long blocks last at most if nothing else is said.
inline constexpr Duration kDefaultLongestBlock = std::chrono::hours{24};

// The numbers of a block that are known at run time only. Block::make checks them. A plain value.
struct BlockSpec {
  // Denials within `within` that start a block: 1 to kMaxBlockDenials.
  std::uint64_t after = 0;
  // The interval, kMinPeriod to kMaxPeriod; denials count if they are less than that old.
  Duration within{0};
  // How long the first block lasts, kMinPeriod to kMaxPeriod.
  Duration time{0};
  // By how much each next block lasts longer, in hundredths: 100 (the same) to kMaxBlockGrowth.
  std::uint64_t growth = 100;
  // How long a block lasts at most, `time` to kMaxPeriod. 0: one day, or `time` if that is longer.
  Duration at_most{0};
};

// Blocks a key for a time after repeated denials (Charge::block; docs/reference/algorithms.md,
// Blocks).
//
// An immutable value of 32 bytes that borrows nothing: copy it freely, use it from any thread.
class Block {
 public:
  // Checks the numbers. Errors: what is wrong with the first wrong one, and what is right.
  static Expected<Block> make(const BlockSpec& spec);

  // The denials that start a block.
  constexpr std::uint32_t after() const noexcept { return after_; }
  // The interval in which they count.
  constexpr Duration within() const noexcept { return within_; }
  // How long the first block lasts.
  constexpr Duration time() const noexcept { return time_; }
  // By how much the next one lasts longer, in hundredths.
  constexpr std::uint32_t growth() const noexcept { return growth_; }
  // How long a block lasts at most.
  constexpr Duration at_most() const noexcept { return at_most_; }

  friend constexpr bool operator==(const Block&, const Block&) = default;

 private:
  explicit Block(const BlockSpec& spec) noexcept;

  Duration within_;
  Duration time_;
  Duration at_most_;
  std::uint32_t after_;
  std::uint32_t growth_;
};

}  // namespace sluice
