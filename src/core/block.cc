// A block is part of its charge (`Charge::block`), not a charge of its own: each limit keeps one
// answer, policies pass it on, and the store that denies counts the denial in the same step. In
// memory it is in a map next to the table of its shard; in Redis under a second key in the slot of
// the counter, which the same script reads and writes.
#include "sluice/block.h"

#include <algorithm>

#include "core/period.h"
#include "sluice/limit.h"

namespace sluice {
namespace {

bool is_in_range(Duration period) noexcept { return period >= kMinPeriod && period <= kMaxPeriod; }

std::string too_short(std::string_view name, Duration is, Duration least) {
  return std::string(name) + " " + core::format_period(is) + " is out of range; it must be " +
         core::format_period(least) + " to 366d";
}

Duration longest(const BlockSpec& spec) noexcept {
  return spec.at_most != Duration{0} ? spec.at_most : std::max(spec.time, kDefaultLongestBlock);
}

}  // namespace

BlockError Block::find_error(const BlockSpec& spec) noexcept {
  if (spec.after < 1 || spec.after > kMaxBlockDenials) return BlockError::kAfter;
  if (!is_in_range(spec.within)) return BlockError::kWithin;
  if (!is_in_range(spec.time)) return BlockError::kTime;
  if (spec.growth < 100 || spec.growth > kMaxBlockGrowth) return BlockError::kGrowth;
  const bool is_long_enough = longest(spec) >= spec.time;
  return is_long_enough && is_in_range(longest(spec)) ? BlockError::kNone : BlockError::kAtMost;
}

std::string Block::explain(BlockError error, const BlockSpec& spec) {
  switch (error) {
    case BlockError::kNone: return "nothing is wrong";
    case BlockError::kAfter:
      return "after " + std::to_string(spec.after) + " is out of range; it must be 1 to " +
             std::to_string(kMaxBlockDenials);
    case BlockError::kWithin: return too_short("within", spec.within, kMinPeriod);
    case BlockError::kTime: return too_short("for", spec.time, kMinPeriod);
    case BlockError::kGrowth: return "grow is out of range; it must be 1 to 100";
    case BlockError::kAtMost: return too_short("at_most", spec.at_most, spec.time);
  }
  return "unknown error";
}

Expected<Block> Block::make(const BlockSpec& spec) {
  const BlockError error = find_error(spec);
  if (error != BlockError::kNone) return Unexpected{explain(error, spec)};
  return Block(spec);
}

Block::Block(const BlockSpec& spec) noexcept
    : within_(spec.within),
      time_(spec.time),
      at_most_(longest(spec)),
      after_(static_cast<std::uint32_t>(spec.after)),
      growth_(static_cast<std::uint32_t>(spec.growth)) {}

}  // namespace sluice
