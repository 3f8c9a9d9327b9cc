#pragma once

#include "core/state.h"

namespace sluice::core::fixed_window {

// At most L units in each window of P. A window opens at the first admitted request
// (`align: first_request`) or at a multiple of P since the Unix epoch (`align: clock`).

constexpr std::uint64_t period(const Limit& limit) noexcept {
  return static_cast<std::uint64_t>(limit.period().count());
}

// Returns an empty window: that of the clock at `now`, or one that opens at `now`.
constexpr State closed_at(const Limit& limit, Ticks now) noexcept {
  const bool by_clock = limit.align() == Align::kClock;
  return {.last = now,
          .aux = by_clock ? static_cast<std::uint64_t>(now) % period(limit) : 0,
          .tag = tag_of(limit)};
}

constexpr State advance(const Limit& limit, const State& stored, Ticks now) noexcept {
  const std::uint64_t p = period(limit);
  const Ticks at = effective(now, stored.last);
  if (stored.units == 0) return closed_at(limit, at);
  const auto last = static_cast<std::uint64_t>(stored.last);
  const bool by_clock = limit.align() == Align::kClock;
  // If the period is now shorter than the time since the opening, the window restarts at its last
  // change.
  const std::uint64_t into = by_clock ? last % p : (stored.aux < p ? stored.aux : 0);
  const std::uint64_t since = into + static_cast<std::uint64_t>(at - stored.last);
  if (since >= p) return closed_at(limit, at);
  return {.last = at, .aux = since, .units = stored.units, .tag = tag_of(limit)};
}

constexpr Quote quote(const Limit& limit, const State& s, std::uint64_t cost,
                      std::uint64_t capacity) noexcept {
  if (cost > capacity) return never();
  if (s.units + cost <= capacity) return admitted();
  return denied_for(period(limit) - s.aux);
}

constexpr State give_back(const Limit& limit, State s, std::uint64_t cost) noexcept {
  if (cost >= s.units) return closed_at(limit, s.last);
  s.units -= static_cast<std::uint32_t>(cost);
  return s;
}

constexpr Numbers describe(const Limit& limit, const State& s) noexcept {
  const std::uint32_t remaining = s.units < limit.capacity() ? limit.capacity() - s.units : 0;
  if (s.units == 0 || limit.capacity() == 0) return {remaining, 0};
  return {remaining, static_cast<Ticks>(period(limit) - s.aux)};
}

// Returns the state of the clock's window at `now` with so many units used.
constexpr Kept<State> clock_window(const Limit& limit, Ticks now, std::uint32_t units) noexcept {
  State state = closed_at(limit, now);
  state.units = units;
  return {state, Forgotten::after(now + describe(limit, state).reset_after)};
}

constexpr std::uint32_t most_units(const Limit&) noexcept {
  return static_cast<std::uint32_t>(kMaxUnits);
}

// The functions above, for step_of_fixed_size().
struct Functions {
  static constexpr bool kHasDebt = false;
  static constexpr auto advance = fixed_window::advance;
  static constexpr auto quote = fixed_window::quote;
  static constexpr auto give_back = fixed_window::give_back;
  static constexpr auto describe = fixed_window::describe;
  static constexpr auto spent = core::whole_units;
  static constexpr auto most_units = fixed_window::most_units;
  static constexpr auto without_fraction = core::unchanged;
};

constexpr Step<State> step(Action action, const Limit& limit, const Kept<State>& kept, Ticks now,
                           std::uint64_t cost) noexcept {
  return step_of_fixed_size<Functions>(action, limit, kept, now, cost);
}
static_assert(StepFunction<decltype(step), State, State>);

}  // namespace sluice::core::fixed_window
