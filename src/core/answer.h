#pragma once

#include <cstdint>

#include "core/ticks.h"

namespace sluice::core {

// Whether a cost is admitted.
struct Quote {
  bool admitted = false;
  bool never = false;  // the cost exceeds what the limit can ever hold
  Ticks wait = 0;      // if neither: until the same cost is admitted
};

constexpr Quote never() noexcept { return {.admitted = false, .never = true}; }
constexpr Quote admitted() noexcept { return {.admitted = true}; }
constexpr Quote denied_for(std::uint64_t wait) noexcept {
  return {.admitted = false, .never = false, .wait = static_cast<Ticks>(wait)};
}

// The state of a limit in numbers.
struct Numbers {
  std::uint32_t remaining = 0;  // whole units that would pass now
  Ticks reset_after = 0;        // until the counter is untouched; 0: it is
};

// What a limit answers to a verb.
struct Answer {
  static constexpr Ticks kNoDelay = -1;

  bool admitted = false;
  bool never = false;
  bool over = false;  // admitted beyond the limit
  bool gone = false;  // the permit has ended
  std::uint32_t remaining = 0;
  std::uint32_t taken = 0;  // kTakeAtMost only
  Ticks wait = 0;
  Ticks reset_after = 0;
  Ticks delay = kNoDelay;  // how long an admitted request has to wait

  constexpr Answer() = default;
  constexpr Answer(const Quote& quote, const Numbers& numbers) noexcept
      : admitted(quote.admitted),
        never(quote.never),
        remaining(numbers.remaining),
        wait(quote.wait),
        reset_after(numbers.reset_after) {}

  friend constexpr bool operator==(const Answer&, const Answer&) = default;
};

}  // namespace sluice::core
