#pragma once

#include <cstdint>

#include "core/limit_access.h"
#include "core/step.h"

namespace sluice::core {

// A state of fixed size: that of a fixed window or a bucket.
//
//             units               aux                             tag
//   buckets   whole units spent   and 1/rate_ticks units of one   of the limit's numbers
//   interval  units spent         ticks since the last refill     as above, lowest bit set
//   window    units used          ticks since the window opened   of the limit's numbers
//
// All are below 2^53, so that doubles hold them exactly. `State{.last = now}` is untouched.
struct State {
  Ticks last = 0;         // instant of the last change; after advance(): of the decision
  std::uint64_t aux = 0;  // below 2^45
  std::uint32_t units = 0;
  std::uint32_t tag = 0;  // below 2^29

  friend constexpr bool operator==(const State&, const State&) = default;
};

// Identifies the numbers that a state was written under.
constexpr std::uint32_t tag_of(const Limit& limit) noexcept {
  return LimitAccess::tag(limit) << 1 | (limit.refill() == Refill::kInterval);
}

// Takes a cost that was admitted.
constexpr State take(State at, std::uint64_t cost) noexcept {
  at.units += static_cast<std::uint32_t>(cost);
  return at;
}

namespace detail {

constexpr Step<State> unchanged(const State& at, const Answer& answer) noexcept {
  return {answer, Change::kNone, at.last, at};
}

}  // namespace detail

// The step of an algorithm whose state has a fixed size, from its four functions:
//   Advance(limit, state, now)       the state at `now`, under the limit's numbers
//   QuoteCost(limit, at, cost)       whether the cost is admitted
//   GiveBack(limit, at, cost)        the state without the newest `cost` units
//   Describe(limit, at)              the numbers of a state
template <auto Advance, auto QuoteCost, auto GiveBack, auto Describe>
[[gnu::always_inline]] constexpr Step<State> step_of_fixed_size(Verb verb, const Limit& limit,
                                                                const Kept<State>& kept, Ticks now,
                                                                std::uint64_t cost) noexcept {
  if (verb == Verb::kReset) return {untouched(limit), Change::kErase, now, State{.last = now}};
  State stored = kept.state;
  // Under its own numbers a state is untouched when it is forgotten, so that only a state of other
  // numbers needs a look at `forgotten`.
  bool ends = stored.tag != tag_of(limit);
  if (ends && kept.forgotten.is_past(now)) {
    ends = false;
    stored = State{.last = now};
  }
  const State at = Advance(limit, stored, now);
  if (verb == Verb::kRefund) {
    const Numbers numbers = Describe(limit, at);
    if (can_give_back(limit, numbers, cost)) {
      const State next = GiveBack(limit, at, cost);
      return {{admitted(), Describe(limit, next)}, Change::kWrite, at.last, next};
    }
    cost = 0;
  }
  const Quote quoted = cost == 0 ? admitted() : QuoteCost(limit, at, cost);
  if (quoted.admitted && cost > 0) {
    const State next = take(at, cost);
    const Change change = verb == Verb::kTake ? Change::kWrite : Change::kNone;
    return {{quoted, Describe(limit, next)}, change, at.last, next};
  }
  Step<State> step = detail::unchanged(at, {quoted, Describe(limit, at)});
  if (ends) kept.forgotten.end(at.last, step.answer);
  return step;
}

}  // namespace sluice::core
