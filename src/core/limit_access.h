#pragma once

#include <cstdint>

#include "sluice/limit.h"

namespace sluice::core {

// limit/period in lowest terms: `units` units each `ticks` ticks. {0, 1} for a ban.
struct Rate {
  std::uint32_t units;
  std::uint64_t ticks;
};

// The numbers of a limit that its algorithm needs and its user does not.
struct LimitAccess {
  static constexpr Rate rate(const Limit& limit) noexcept {
    return {limit.rate_units_, limit.rate_ticks_};
  }
  // A checksum of 28 bits over limit, period, capacity, refill, align
  // and calendar: by it a counter notices
  // that its numbers have changed (docs/algorithms.md).
  static constexpr std::uint32_t tag(const Limit& limit) noexcept { return limit.tag_; }
};

}  // namespace sluice::core
