#pragma once

#include "core/state.h"

namespace sluice::core::fixed_window {

// At most L units in each window of P. A window opens at the first admitted request
// (`align: first_request`), at a multiple of P since the Unix epoch (`align: clock`), or as the
// calendar says.

constexpr std::uint64_t period(const Limit& limit) noexcept {
  return static_cast<std::uint64_t>(limit.period().count());
}

// Returns the ticks from the start of the calendar's window that contains `at`, and those to its
// end.
inline std::uint64_t since_start(const Limit& limit, Ticks at) noexcept {
  const Instant start = limit.calendar()->window_at(Instant{Duration{at}}).start;
  return static_cast<std::uint64_t>(at - start.time_since_epoch().count());
}
inline std::uint64_t until_end(const Limit& limit, Ticks at) noexcept {
  const Instant end = limit.calendar()->window_at(Instant{Duration{at}}).end;
  return static_cast<std::uint64_t>(end.time_since_epoch().count() - at);
}

// Returns the ticks until the window of a state ends.
constexpr std::uint64_t left(const Limit& limit, const State& s) noexcept {
  if (limit.calendar() != nullptr) return until_end(limit, s.last);
  return period(limit) - s.aux;
}

// Returns an empty window: that of the clock or the calendar at `now`, or one that opens at `now`.
constexpr State closed_at(const Limit& limit, Ticks now) noexcept {
  if (limit.calendar() != nullptr) {
    return {.last = now, .aux = since_start(limit, now), .tag = tag_of(limit)};
  }
  const bool by_clock = limit.align() == Align::kClock;
  return {.last = now,
          .aux = by_clock ? static_cast<std::uint64_t>(now) % period(limit) : 0,
          .tag = tag_of(limit)};
}

// As advance(): the units stay if the last change was in the calendar's window of `now`.
inline State advance_by_calendar(const Limit& limit, const State& stored, Ticks now) noexcept {
  const Ticks at = effective(now, stored.last);
  const std::uint64_t since = since_start(limit, at);
  const bool is_open = static_cast<std::uint64_t>(at - stored.last) <= since;
  return {.last = at, .aux = since, .units = is_open ? stored.units : 0, .tag = tag_of(limit)};
}

constexpr State advance(const Limit& limit, const State& stored, Ticks now) noexcept {
  if (limit.calendar() != nullptr) return advance_by_calendar(limit, stored, now);
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

constexpr Answer quote(const Limit& limit, const State& s, std::uint64_t cost,
                       std::uint64_t capacity) noexcept {
  if (cost > capacity) return never();
  if (s.units + cost <= capacity) return admitted();
  return denied_for(left(limit, s));
}

constexpr State give_back(const Limit& limit, State s, std::uint64_t cost) noexcept {
  if (cost >= s.units) return closed_at(limit, s.last);
  s.units -= static_cast<std::uint32_t>(cost);
  return s;
}

constexpr Numbers describe(const Limit& limit, const State& s) noexcept {
  const std::uint64_t remaining = s.units < limit.capacity() ? limit.capacity() - s.units : 0;
  if (s.units == 0 || limit.capacity() == 0) return {remaining, 0};
  return {remaining, static_cast<Ticks>(left(limit, s))};
}

// Returns the state of the clock's or the calendar's window at `now` with `units` units used.
constexpr Kept<State> clock_window(const Limit& limit, Ticks now, std::uint32_t units) noexcept {
  State state = closed_at(limit, now);
  state.units = units;
  return {state, Forgotten::after(now + describe(limit, state).reset_after)};
}

constexpr std::uint32_t most_units(const Limit&) noexcept {
  return static_cast<std::uint32_t>(kMaxUnits);
}

inline constexpr FixedSizeFunctions kFunctions{.has_debt = false,
                                               .advance = advance,
                                               .quote = quote,
                                               .give_back = give_back,
                                               .describe = describe,
                                               .most_units = most_units};

// Makes the step of a take whose counter has the limit's numbers and a window that opens at the
// first request: that of step_of_fixed_size(), in short code. Returns false, with nothing of use in
// `step`, for any other take.
[[gnu::always_inline]] constexpr bool take_quickly(const Limit& limit, const State& stored,
                                                   Ticks now, std::uint64_t cost,
                                                   Step<State>& step) noexcept {
  const std::uint64_t p = period(limit);
  const std::uint64_t capacity = limit.capacity();
  if (stored.tag != tag_of(limit) || limit.align() == Align::kClock || stored.aux >= p ||
      cost == 0 || cost > capacity) {
    return false;
  }
  const Ticks at = effective(now, stored.last);
  const std::uint64_t since = stored.aux + static_cast<std::uint64_t>(at - stored.last);
  const bool is_open = stored.units != 0 && since < p;
  const std::uint32_t units = is_open ? stored.units : 0;
  const std::uint64_t aux = is_open ? since : 0;
  const bool admits = units + cost <= capacity;
  const std::uint64_t used = admits ? units + cost : units;
  const Numbers numbers{static_cast<std::uint32_t>(used < capacity ? capacity - used : 0),
                        static_cast<Ticks>(p - aux)};
  step.answer = {admits ? admitted() : denied_for(p - aux), numbers};
  step.change = admits ? Change::kWrite : Change::kNone;
  step.at = at;
  step.next = {
      .last = at, .aux = aux, .units = static_cast<std::uint32_t>(used), .tag = stored.tag};
  return true;
}

constexpr Step<State> step(Action action, const Limit& limit, const Kept<State>& kept, Ticks now,
                           std::uint64_t cost) noexcept {
  return step_of_fixed_size<kFunctions>(action, limit, kept, now, cost);
}
static_assert(StepFunction<decltype(step), State, State>);

}  // namespace sluice::core::fixed_window
