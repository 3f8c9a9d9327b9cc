#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/state.h"

namespace sluice {

// When a counter is forgotten: at the first multiple of 2^20 µs from which on it is untouched by
// the numbers it was last written under. Stores keep that multiple; one that 32 bits cannot express
// is never forgotten.
class Forgotten {
 public:
  static constexpr int kShift = 20;
  static constexpr std::uint32_t kNever = 0xFFFFFFFE;

  constexpr explicit Forgotten(std::uint32_t multiple) noexcept : multiple_(multiple) {}

  static constexpr Forgotten after(core::Ticks untouched_from) noexcept {
    constexpr std::uint64_t kRoundUp = (std::uint64_t{1} << kShift) - 1;
    const auto multiple = (static_cast<std::uint64_t>(untouched_from) + kRoundUp) >> kShift;
    return Forgotten(multiple < kNever ? static_cast<std::uint32_t>(multiple) : kNever);
  }

  constexpr std::uint32_t multiple() const noexcept { return multiple_; }
  constexpr bool is_past(core::Ticks now) const noexcept {
    return multiple_ < kNever && multiple_ <= static_cast<std::uint64_t>(now) >> kShift;
  }
  // The first instant at which it is past, far away for one that never is.
  constexpr core::Ticks from() const noexcept {
    if (multiple_ >= kNever) return std::numeric_limits<core::Ticks>::max();
    return core::Ticks{multiple_} << kShift;
  }

  // What the numbers of a state as it stands say ends where the state is forgotten; that is before
  // its time only under other numbers than it was written under.
  constexpr void end(core::Ticks now, core::Quote& quote, core::Numbers& numbers) const noexcept {
    const core::Ticks left = from() - now;
    quote.wait = std::min(quote.wait, left);
    numbers.reset_after = std::min(numbers.reset_after, left);
  }

 private:
  std::uint32_t multiple_;
};

}  // namespace sluice
