#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/step.h"
#include "sluice/block.h"

// The block of a counter: docs/reference/algorithms.md, Blocks. Pure functions of its numbers, its
// state and an instant; a store makes them atomic together with the counter's own step.
namespace sluice::core {

// The state of a block as a store keeps it. A default one is that of a key that was never denied.
struct BlockState {
  Ticks last = 0;       // instant of the last change
  Ticks end = 0;        // of the latest block; 0: there was none
  Ticks grown = 0;      // how long the latest block after denials lasted; 0: there was none
  Ticks forgotten = 0;  // the instant from which on the state has no effect
  std::span<const Ticks> denials = {};  // since the latest block, the oldest first

  // Returns the state as it counts at an instant.
  constexpr BlockState at(Ticks now) const noexcept {
    return forgotten > now ? *this : BlockState{};
  }
};

// What a block answers to a request.
struct BlockAnswer {
  Ticks left = 0;       // until the block ends; 0: the key is not blocked
  bool starts = false;  // because of this request

  friend constexpr bool operator==(const BlockAnswer&, const BlockAnswer&) = default;
};

// The next state. Its denials are those of the old one without the oldest `expired`; and if `adds`
// is set, `last` follows them.
struct NextBlock {
  BlockState state;  // without denials
  std::size_t expired = 0;
  bool adds = false;
  BlockAnswer answer = {};
};

constexpr BlockAnswer look(const BlockState& state, Ticks now) noexcept {
  const Ticks at = effective(now, state.last);
  return {.left = state.end > at ? state.end - at : 0};
}

namespace detail {

// Returns for how long `grown` counts after a block that ended at `end`.
constexpr Ticks grown_at(const Block& block, const BlockState& state, Ticks at) noexcept {
  return at - state.end < block.at_most().count() ? state.grown : 0;
}

constexpr Ticks next_length(const Block& block, Ticks grown) noexcept {
  const Ticks first = block.time().count();
  if (grown == 0) return first;
  const Ticks growth = block.growth();
  const Ticks longer = grown / 100 * growth + ceil_div<Ticks>(grown % 100 * growth, 100);
  return std::clamp(longer, first, block.at_most().count());
}

constexpr Ticks forgotten_from(const Block& block, const BlockState& state) noexcept {
  return state.grown == 0 ? state.end : state.end + block.at_most().count();
}

}  // namespace detail

// Registers a denial of a key that is not blocked.
constexpr NextBlock deny(const Block& block, const BlockState& state, Ticks now) noexcept {
  const Ticks at = effective(now, state.last);
  NextBlock next{.state = {.last = at, .end = state.end}};
  next.state.grown = detail::grown_at(block, state, at);
  while (next.expired < state.denials.size() &&
         at - state.denials[next.expired] >= block.within().count()) {
    ++next.expired;
  }
  next.adds = state.denials.size() - next.expired + 1 < block.after();
  if (next.adds) {
    next.state.forgotten =
        std::max(detail::forgotten_from(block, next.state), at + block.within().count());
    return next;
  }
  next.expired = state.denials.size();
  next.state.grown = detail::next_length(block, next.state.grown);
  next.state.end = at + next.state.grown;
  next.state.forgotten = detail::forgotten_from(block, next.state);
  next.answer = {.left = next.state.grown, .starts = true};
  return next;
}

// Blocks a key for a time, by hand. How long the latest block lasted still counts for the next one.
constexpr NextBlock block_for(const Block& block, const BlockState& state, Ticks now,
                              Ticks time) noexcept {
  const Ticks at = effective(now, state.last);
  NextBlock next{.state = {.last = at, .end = at + time}, .expired = state.denials.size()};
  next.state.grown = detail::grown_at(block, state, at);
  next.state.forgotten = detail::forgotten_from(block, next.state);
  next.answer.left = time;
  return next;
}

}  // namespace sluice::core
