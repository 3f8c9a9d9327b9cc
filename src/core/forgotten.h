#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/answer.h"

namespace sluice::core {

// When a counter is forgotten: at the first multiple of 2^20 µs from which on it is untouched under
// the numbers of its last write. Stores keep that multiple in 32 bits. A counter whose multiple
// does not fit is never forgotten.
class Forgotten {
 public:
  static constexpr int kShift = 20;
  static constexpr std::uint32_t kNever = 0xFFFFFFFE;

  // A counter that was never seen has been forgotten since the epoch.
  constexpr Forgotten() = default;
  constexpr explicit Forgotten(std::uint32_t multiple) noexcept : multiple_(multiple) {}

  static constexpr Forgotten after(Ticks untouched_from) noexcept {
    constexpr std::uint64_t kRoundUp = (std::uint64_t{1} << kShift) - 1;
    const auto multiple = (static_cast<std::uint64_t>(untouched_from) + kRoundUp) >> kShift;
    return Forgotten(multiple < kNever ? static_cast<std::uint32_t>(multiple) : kNever);
  }

  constexpr std::uint32_t multiple() const noexcept { return multiple_; }
  constexpr bool is_past(Ticks now) const noexcept {
    return multiple_ < kNever && multiple_ <= static_cast<std::uint64_t>(now) >> kShift;
  }
  // Returns the first instant at which it is past; if there is none, the last one of all.
  constexpr Ticks from() const noexcept {
    if (multiple_ >= kNever) return std::numeric_limits<Ticks>::max();
    return Ticks{multiple_} << kShift;
  }

  // Cuts the waits of an unchanged counter at the instant at which it is forgotten. They are longer
  // only if the limit's numbers have changed since the last write.
  constexpr void end(Ticks now, Answer& answer) const noexcept {
    const Ticks left = from() - now;
    answer.wait = std::min(answer.wait, left);
    answer.reset_after = std::min(answer.reset_after, left);
  }

 private:
  std::uint32_t multiple_ = 0;
};

}  // namespace sluice::core
