#pragma once

#include <cstdint>

#include "core/ticks.h"
#include "sluice/limit.h"

namespace sluice::core {

// The state of a counter of fixed size: fixed_window and the three buckets.
//
//             units               aux                             tag
//   buckets   whole units spent   and 1/rate_ticks units of one   of the limit's numbers
//   interval  units spent         ticks since the last refill     as above, lowest bit set
//   window    units used          ticks since the window opened   of the limit's numbers
//
// All below 2^53, so that doubles hold them exactly. `State{.last = now}` is an untouched counter.
// Plain data; the algorithms are pure functions on it.
struct State {
  Ticks last = 0;         // instant of the last change; after advance(): the instant decided at
  std::uint64_t aux = 0;  // below 2^45
  std::uint32_t units = 0;
  std::uint32_t tag = 0;  // below 2^29

  friend constexpr bool operator==(const State&, const State&) = default;
};

// What a state remembers of the numbers it was written under.
constexpr std::uint32_t tag_of(const Limit& limit) noexcept {
  return limit.tag() << 1 | (limit.refill() == Refill::kInterval);
}

// What a cost would get: admitted, or after how long it would be, or never.
struct Quote {
  bool admitted = false;
  bool never = false;
  Ticks wait = 0;  // where neither
};

// The cost does not depend on the state here: more than the limit ever holds.
constexpr Quote never() noexcept { return {.admitted = false, .never = true}; }
constexpr Quote admitted() noexcept { return {.admitted = true}; }
constexpr Quote denied_for(std::uint64_t wait) noexcept {
  return {.admitted = false, .never = false, .wait = static_cast<Ticks>(wait)};
}

// What a limit says of itself in a state.
struct Numbers {
  std::uint32_t remaining = 0;
  Ticks reset_after = 0;
};

}  // namespace sluice::core
