#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/answer.h"
#include "core/forgotten.h"
#include "sluice/limit.h"
#include "sluice/verb.h"

namespace sluice::core {

// The state of a counter as a store keeps it. `State` is the state itself, or a view of it in the
// store's memory. A default one is a counter that was never seen.
template <typename State>
struct Kept {
  State state;
  Forgotten forgotten;
};
template <typename State>
Kept(State, Forgotten) -> Kept<State>;

enum class Change : std::uint8_t {
  kNone,
  kWrite,  // store `next`, forgotten at forgotten()
  kErase,  // forget the counter
};

// The result of a verb on one counter. `Next` is the next state, or how it is made from the view.
template <typename Next>
struct Step {
  Answer answer;
  Change change;
  Ticks at;   // the instant of the decision: `now`, or the last change if that is later
  Next next;  // with the cost if it was admitted

  constexpr Forgotten forgotten() const noexcept {
    return Forgotten::after(at + answer.reset_after);
  }
};

// The shape of every algorithm: a pure function of an action, a limit, a state, an instant and a
// cost. A store makes it atomic. If a request has several counters, the store applies the changes
// of all or of none.
template <typename Function, typename State, typename Next>
concept StepFunction = std::is_nothrow_invocable_r_v<Step<Next>, Function, Action, const Limit&,
                                                     const Kept<State>&, Ticks, std::uint64_t>;

// Returns what a limit answers to a counter that is untouched.
constexpr Answer untouched(const Limit& limit) noexcept {
  return {admitted(), {.remaining = limit.capacity(), .reset_after = 0}};
}

// Returns the units that a take of at most `cost` asks for: one if all are used, to be denied.
constexpr std::uint64_t units_at_most(const Limit& limit, std::uint64_t used,
                                      std::uint64_t cost) noexcept {
  const std::uint64_t capacity = limit.capacity();
  return std::min(cost, used < capacity ? capacity - used : 1);
}

// Whether a counter with so many units is beyond its limit. A limit of 0 counts none.
constexpr bool exceeds(const Limit& limit, std::uint64_t units) noexcept {
  return limit.capacity() > 0 && units > limit.capacity();
}

// Whether a refund can give anything back.
constexpr bool can_give_back(const Limit& limit, const Numbers& numbers,
                             std::uint64_t cost) noexcept {
  return cost > 0 && limit.capacity() > 0 && numbers.reset_after > 0;
}

}  // namespace sluice::core
