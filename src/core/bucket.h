#pragma once

#include <algorithm>

#include "core/limit.h"
#include "core/state.h"

namespace sluice::core::bucket {

// A bucket that drains evenly. The amount of units spent, stored as units + aux/p, loses l/p units
// each tick (l/p is the rate in lowest terms). Source: the leaky bucket as a meter, Turner 1986. An
// integer level has no drift and is exact on every date.

constexpr bool kept_by_interval(const State& s) noexcept { return (s.tag & 1) != 0; }

// Returns the most whole units that drain within kMaxWait.
constexpr std::uint32_t most_units(const Limit& limit) noexcept {
  const Rate rate = LimitAccess::rate(limit);
  constexpr std::uint64_t kSlow = static_cast<std::uint64_t>(kMaxWait.count()) / kMaxUnits;
  if (rate.ticks <= rate.units * kSlow) return kMaxUnits;  // without a division
  const Wide most = Wide{static_cast<std::uint64_t>(kMaxWait.count())} * rate.units / rate.ticks;
  return static_cast<std::uint32_t>(std::min<Wide>(most, kMaxUnits));
}

// Returns the units spent, rounded up, for any numbers that they were counted under.
constexpr std::uint32_t units_rounded_up(const State& s) noexcept {
  const bool fraction = !kept_by_interval(s) && s.aux != 0 && s.units != kMaxUnits;
  return s.units + fraction;
}

// Returns the state under changed numbers, at the instant of its last change.
constexpr State renumbered(const Limit& limit, const State& s) noexcept {
  State next = s;
  next.units = units_rounded_up(s);
  next.aux = 0;
  next.tag = tag_of(limit);
  if (LimitAccess::rate(limit).units != 0) next.units = std::min(next.units, most_units(limit));
  return next;
}

// Drains `ticks` if the level does not fit in 64 bits.
constexpr void drain_wide(const Limit& limit, State& s, std::uint64_t ticks) noexcept {
  const auto [l, p] = LimitAccess::rate(limit);
  const Wide level = Wide{s.units} * p + s.aux;
  const Wide drained = Wide{ticks} * l;
  const Wide left = drained < level ? level - drained : 0;
  s.units = static_cast<std::uint32_t>(left / p);
  s.aux = static_cast<std::uint64_t>(left % p);
}

// Sets `level` to what is spent in parts of a unit, 1/p each. Returns false if it does not fit.
constexpr bool level_of(const State& s, std::uint64_t p, std::uint64_t& level) noexcept {
  return !__builtin_mul_overflow(std::uint64_t{s.units}, p, &level) &&
         !__builtin_add_overflow(level, s.aux, &level);
}

// Returns what is left of a level after `ticks`, each of which drains `l` parts.
constexpr std::uint64_t drained(std::uint64_t level, std::uint64_t ticks,
                                std::uint64_t l) noexcept {
  std::uint64_t parts = 0;
  const bool all = __builtin_mul_overflow(ticks, l, &parts);
  // Without a branch: whether anything is left is unpredictable from key to key.
  return (level - parts) & -static_cast<std::uint64_t>(!all & (parts < level));
}

constexpr void drain(const Limit& limit, State& s, std::uint64_t ticks) noexcept {
  const auto [l, p] = LimitAccess::rate(limit);
  std::uint64_t level = 0;
  if (!level_of(s, p, level)) return drain_wide(limit, s, ticks);
  level = drained(level, ticks, l);
  s.units = static_cast<std::uint32_t>(level / p);
  s.aux = level % p;
}

constexpr State advance(const Limit& limit, const State& stored, Ticks now) noexcept {
  const Ticks at = effective(now, stored.last);
  if (stored.units == 0 && stored.aux == 0) return {.last = at, .tag = tag_of(limit)};
  State s = stored.tag == tag_of(limit) ? stored : renumbered(limit, stored);
  s.last = at;
  drain(limit, s, static_cast<std::uint64_t>(at - stored.last));
  return s;
}

// Returns the units spent, rounded up.
constexpr std::uint64_t spent(const State& s) noexcept {
  return std::uint64_t{s.units} + (s.aux != 0);
}

constexpr State without_fraction(State s) noexcept {
  s.aux = 0;
  return s;
}

constexpr Answer quote(const Limit& limit, const State& s, std::uint64_t cost,
                       std::uint64_t capacity) noexcept {
  if (cost > capacity) return never();
  if (spent(s) + cost <= capacity) return admitted();
  const std::uint64_t excess = s.units + cost - capacity;
  const Rate rate = LimitAccess::rate(limit);
  return denied_for(ceil_mul_div(excess, rate.ticks, s.aux, rate.units));
}

constexpr State give_back(const Limit&, State s, std::uint64_t cost) noexcept {
  if (cost > s.units) return {.last = s.last, .tag = s.tag};
  s.units -= static_cast<std::uint32_t>(cost);
  return s;
}

// Returns the time until everything spent has drained.
constexpr Ticks time_to_drain(const Limit& limit, const State& s) noexcept {
  const Rate rate = LimitAccess::rate(limit);
  if (rate.units == 0) return 0;
  return static_cast<Ticks>(ceil_mul_div(s.units, rate.ticks, s.aux, rate.units));
}

constexpr Numbers describe(const Limit& limit, const State& s) noexcept {
  const std::uint64_t used = spent(s);
  const std::uint64_t remaining = used < limit.capacity() ? limit.capacity() - used : 0;
  return {static_cast<std::uint32_t>(remaining), time_to_drain(limit, s)};
}

inline constexpr FixedSizeFunctions kFunctions{.has_debt = true,
                                               .advance = advance,
                                               .quote = quote,
                                               .give_back = give_back,
                                               .describe = describe,
                                               .most_units = most_units,
                                               .spent = spent,
                                               .without_fraction = without_fraction};

// Makes the step of a take whose counter has the limit's numbers, and whose level fits in 64 bits.
// It is that of step_of_fixed_size(), but no division waits for the result of another one. Returns
// false, with nothing of use in `step`, for any other take.
[[gnu::always_inline]] constexpr bool take_quickly(const Limit& limit, const State& stored,
                                                   Ticks now, std::uint64_t cost,
                                                   Step<State>& step) noexcept {
  const auto [l, p] = LimitAccess::rate(limit);
  const std::uint64_t capacity = limit.capacity();
  std::uint64_t level = 0;
  std::uint64_t more = 0;
  if (stored.tag != tag_of(limit) || l == 0 || cost == 0 || cost > capacity ||
      !level_of(stored, p, level) || __builtin_mul_overflow(cost, p, &more)) {
    return false;
  }
  const Ticks at = effective(now, stored.last);
  level = drained(level, static_cast<std::uint64_t>(at - stored.last), l);
  if (__builtin_add_overflow(level, more, &more)) return false;
  const std::uint64_t units = level / p;
  step.at = step.next.last = at;
  step.next.aux = level % p;
  step.next.tag = stored.tag;
  const std::uint64_t used = units + (step.next.aux != 0);
  if (used + cost <= capacity) [[likely]] {
    const Numbers numbers{static_cast<std::uint32_t>(capacity - used - cost),
                          static_cast<Ticks>(ceil_div(more, std::uint64_t{l}))};
    step.answer = {admitted(), numbers};
    step.change = Change::kWrite;
    step.next.units = static_cast<std::uint32_t>(units + cost);
  } else {
    const Numbers numbers{static_cast<std::uint32_t>(used < capacity ? capacity - used : 0),
                          static_cast<Ticks>(ceil_div(level, std::uint64_t{l}))};
    step.answer = {denied_for(ceil_div(more - capacity * p, std::uint64_t{l})), numbers};
    step.change = Change::kNone;
    step.next.units = static_cast<std::uint32_t>(units);
  }
  return true;
}

constexpr Step<State> step(Action action, const Limit& limit, const Kept<State>& kept, Ticks now,
                           std::uint64_t cost) noexcept {
  return step_of_fixed_size<kFunctions>(action, limit, kept, now, cost);
}
static_assert(StepFunction<decltype(step), State, State>);

}  // namespace sluice::core::bucket
