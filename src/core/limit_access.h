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

  // The numbers that the step of an algorithm needs, as another process has sent them.
  struct Numbers {
    Algorithm algorithm;
    std::uint64_t limit;
    std::uint64_t capacity;
    std::uint64_t period = 1;
    Rate rate = {0, 1};
    std::uint64_t tag = 0;
    std::uint64_t slices = 1;
    Align align = Align::kFirstRequest;
    Weighting weighting = Weighting::kLinear;
    Refill refill = Refill::kContinuous;
  };
  // Returns a limit with these numbers, which the caller has checked: each is in the range of a
  // limit. The others are arbitrary.
  static constexpr Limit restored(const Numbers& numbers) noexcept {
    constexpr Limit kAny{LimitSpec{.limit = 1, .per = kMinPeriod}};
    Limit limit = kAny;
    limit.algorithm_ = numbers.algorithm;
    limit.state_kind_ = info(numbers.algorithm).state;
    limit.limit_ = static_cast<std::uint32_t>(numbers.limit);
    limit.capacity_ = static_cast<std::uint32_t>(numbers.capacity);
    limit.period_ = numbers.period;
    limit.rate_units_ = numbers.rate.units;
    limit.rate_ticks_ = numbers.rate.ticks;
    limit.tag_ = static_cast<std::uint32_t>(numbers.tag);
    limit.slices_ = static_cast<std::uint16_t>(numbers.slices);
    limit.align_ = numbers.align;
    limit.weighting_ = numbers.weighting;
    limit.refill_ = numbers.refill;
    return limit;
  }
};

}  // namespace sluice::core
