#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <utility>

#include "core/limit.h"
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

// For states without a fraction of a unit.
constexpr std::uint64_t whole_units(const State& at) noexcept { return at.units; }
constexpr State unchanged(State at) noexcept { return at; }

// The functions of an algorithm whose state has a fixed size. `at` is the state at the instant of
// the decision.
struct FixedSizeFunctions {
  bool has_debt;  // units that come back can be reserved
  // A stored state, at the later instant.
  State (*advance)(const Limit& limit, const State& stored, Ticks now) noexcept;
  // A cost, of this many units in all.
  Answer (*quote)(const Limit& limit, const State& at, std::uint64_t cost,
                  std::uint64_t capacity) noexcept;
  // Without the newest units.
  State (*give_back)(const Limit& limit, State at, std::uint64_t units) noexcept;
  Numbers (*describe)(const Limit& limit, const State& at) noexcept;
  std::uint32_t (*most_units)(const Limit& limit) noexcept;        // that a state can have
  std::uint64_t (*spent)(const State& at) noexcept = whole_units;  // rounded up
  State (*without_fraction)(State at) noexcept = unchanged;
};

namespace detail {

// Takes the cost if the quote admits it.
template <const FixedSizeFunctions& F>
[[gnu::always_inline]] constexpr Step<State> take_if(const Answer& quote, const Limit& limit,
                                                     const State& at, std::uint64_t cost) noexcept {
  if (!quote.admitted || cost == 0) {
    return {{quote, F.describe(limit, at)}, Change::kNone, at.last, at};
  }
  const State next = core::take(at, cost);
  return {{quote, F.describe(limit, next)}, Change::kWrite, at.last, next};
}

template <const FixedSizeFunctions& F>
[[gnu::always_inline]] constexpr Step<State> take(const Limit& limit, const State& at,
                                                  std::uint64_t cost) noexcept {
  const Answer quote = cost == 0 ? admitted() : F.quote(limit, at, cost, limit.capacity());
  return take_if<F>(quote, limit, at, cost);
}

template <const FixedSizeFunctions& F>
constexpr Step<State> take_at_most(const Limit& limit, const State& at,
                                   std::uint64_t cost) noexcept {
  cost = units_at_most(limit, F.spent(at), cost);
  Step<State> step = take<F>(limit, at, cost);
  if (step.answer.admitted) step.answer.taken = static_cast<std::uint32_t>(cost);
  return step;
}

// Quotes a reservation, whose delay is `wait` if it is admitted. The counter is forgotten after
// `left` if it does not change.
template <const FixedSizeFunctions& F>
constexpr Answer quote_ahead(const Limit& limit, const State& at, Ticks left, std::uint64_t cost,
                             Ticks max_wait) noexcept {
  Answer quote = F.quote(limit, at, cost, limit.capacity());
  if (!F.has_debt || quote.admitted || quote.never) return quote;
  quote.wait = std::min(quote.wait, left);
  Ticks denied_for = quote.wait > max_wait ? quote.wait - max_wait : 0;
  const std::uint32_t most = F.most_units(limit);
  if (F.spent(at) + cost > most) {
    denied_for = std::max(denied_for, std::min(F.quote(limit, at, cost, most).wait, left));
  }
  quote.admitted = denied_for == 0;
  if (!quote.admitted) quote.wait = denied_for;
  return quote;
}

template <const FixedSizeFunctions& F>
constexpr Step<State> reserve(const Limit& limit, const State& at, Ticks left, std::uint64_t cost,
                              Ticks max_wait) noexcept {
  const Answer quote = cost == 0 ? admitted() : quote_ahead<F>(limit, at, left, cost, max_wait);
  Step<State> step = take_if<F>(quote, limit, at, cost);
  if (quote.admitted) step.answer.delay = std::exchange(step.answer.wait, 0);
  return step;
}

// Counts work that is done, as far as the state can have its units.
template <const FixedSizeFunctions& F>
constexpr Step<State> charge(const Limit& limit, const State& at, std::uint64_t cost) noexcept {
  const std::uint64_t most = limit.capacity() > 0 ? F.most_units(limit) : 0;
  const std::uint64_t spent = F.spent(at);
  const bool fits = most > spent && cost <= most - spent;
  Step<State> step = take_if<F>(admitted(), limit, at, fits ? cost : 0);
  if (cost > 0 && !fits && most > 0) {
    step.next = F.without_fraction(at);
    step.next.units = static_cast<std::uint32_t>(most);
    if (step.next != at) step.change = Change::kWrite;
    step.answer = {admitted(), F.describe(limit, step.next)};
  }
  step.answer.over = (cost > 0 && !fits) || exceeds(limit, F.spent(step.next));
  return step;
}

template <const FixedSizeFunctions& F>
constexpr Step<State> refund(const Limit& limit, const State& at, std::uint64_t cost) noexcept {
  const Numbers numbers = F.describe(limit, at);
  if (!can_give_back(limit, numbers, cost)) {
    return {{admitted(), numbers}, Change::kNone, at.last, at};
  }
  const State next = F.give_back(limit, at, cost);
  return {{admitted(), F.describe(limit, next)}, Change::kWrite, at.last, next};
}

}  // namespace detail

// The step of an algorithm whose state has a fixed size.
template <const FixedSizeFunctions& F>
[[gnu::always_inline]] constexpr Step<State> step_of_fixed_size(Action action, const Limit& limit,
                                                                const Kept<State>& kept, Ticks now,
                                                                std::uint64_t cost) noexcept {
  State stored = kept.state;
  // Under its own numbers a state is untouched when it is forgotten, so that only a state of other
  // numbers needs a look at `forgotten`.
  bool ends = stored.tag != tag_of(limit);
  if (ends && kept.forgotten.is_past(now)) {
    ends = false;
    stored = State{.last = now};
  }
  const State at = F.advance(limit, stored, now);
  Step<State> step;
  switch (action.verb) {
    case Verb::kRelease:  // no store asks a limit without permits
    case Verb::kExtend:
    case Verb::kBlock:  // nor for what changes only blocks
    case Verb::kUnblock:
    case Verb::kPeek:
      step = detail::take<F>(limit, at, cost);
      if (step.change == Change::kNone) break;
      step.change = Change::kNone;
      return step;
    case Verb::kReset: return {untouched(limit), Change::kErase, now, State{.last = now}};
    case Verb::kRefund: step = detail::refund<F>(limit, at, cost); break;
    case Verb::kCharge: step = detail::charge<F>(limit, at, cost); break;
    case Verb::kTakeAtMost: step = detail::take_at_most<F>(limit, at, cost); break;
    case Verb::kReserve: {
      const Ticks left = ends ? kept.forgotten.from() - at.last : kMaxWait.count();
      step = detail::reserve<F>(limit, at, left, cost, action.max_wait.count());
      break;
    }
    case Verb::kSettle:  // nor for what only budgets do
    case Verb::kCancel:
    case Verb::kHold:
    case Verb::kTake: step = detail::take<F>(limit, at, cost); break;
  }
  if (ends && step.change == Change::kNone) kept.forgotten.end(at.last, step.answer);
  return step;
}

}  // namespace sluice::core
