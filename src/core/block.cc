// A block is part of its charge (`Charge::block`), not a charge of its own: each limit keeps one
// answer, policies pass it on, and the store that denies counts the denial in the same step. In
// memory it is in a map next to the table of its shard; in Redis under a second key in the slot of
// the counter, which the same script reads and writes.
#include "sluice/block.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/period.h"
#include "sluice/limit.h"

namespace sluice {
namespace {

bool is_in_range(Duration period) noexcept { return period >= kMinPeriod && period <= kMaxPeriod; }

Unexpected<std::string> wrong_time(std::string_view name, Duration is, Duration least) {
  return {std::string(name) + " " + core::format_period(is) + " is out of range; it must be " +
          core::format_period(least) + " to 366d"};
}

Duration longest(const BlockSpec& spec) noexcept {
  return spec.at_most != Duration{0} ? spec.at_most : std::max(spec.time, kDefaultLongestBlock);
}

}  // namespace

Expected<Block> Block::make(const BlockSpec& spec) {
  if (spec.after < 1 || spec.after > kMaxBlockDenials) {
    return Unexpected{"after " + std::to_string(spec.after) + " is out of range; it must be 1 to " +
                      std::to_string(kMaxBlockDenials)};
  }
  if (!is_in_range(spec.within)) return wrong_time("within", spec.within, kMinPeriod);
  if (!is_in_range(spec.time)) return wrong_time("for", spec.time, kMinPeriod);
  if (spec.growth < 100 || spec.growth > kMaxBlockGrowth) {
    return Unexpected{"grow is out of range; it must be 1 to 100"};
  }
  if (longest(spec) < spec.time || !is_in_range(longest(spec))) {
    return wrong_time("at_most", spec.at_most, spec.time);
  }
  return Block(spec);
}

Block::Block(const BlockSpec& spec) noexcept
    : within_(spec.within),
      time_(spec.time),
      at_most_(longest(spec)),
      after_(static_cast<std::uint32_t>(spec.after)),
      growth_(static_cast<std::uint32_t>(spec.growth)) {}

}  // namespace sluice
