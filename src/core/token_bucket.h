#pragma once

#include "core/bucket.h"

namespace sluice::core::token_bucket {

// Tokens refill at L/P up to B; the bucket is full at first. A cost is admitted if the tokens cover
// it. Continuous refill is bucket.h (tokens = B - spent). The code below is `refill: interval`: L
// tokens at once, every P from the bucket's first use. Once it is full, the next use is a first
// one.

namespace interval {

constexpr std::uint64_t period(const Limit& limit) noexcept {
  return static_cast<std::uint64_t>(limit.period().count());
}

// Returns the most units that come back within kMaxWait.
constexpr std::uint32_t most_units(const Limit& limit) noexcept {
  const std::uint64_t refills = static_cast<std::uint64_t>(kMaxWait.count()) / period(limit);
  return static_cast<std::uint32_t>(std::min<Wide>(Wide{refills} * limit.limit(), kMaxUnits));
}

constexpr State renumbered(const Limit& limit, const State& s) noexcept {
  State next = s;
  next.units = bucket::units_rounded_up(s);
  next.aux = bucket::kept_by_interval(s) && s.aux < period(limit) ? s.aux : 0;
  next.tag = tag_of(limit);
  if (limit.limit() != 0) next.units = std::min(next.units, most_units(limit));
  return next;
}

constexpr State full_at(const Limit& limit, Ticks now) noexcept {
  return {.last = now, .tag = tag_of(limit)};
}

constexpr State advance(const Limit& limit, const State& stored, Ticks now) noexcept {
  const Ticks at = effective(now, stored.last);
  State s = stored.tag == tag_of(limit) ? stored : renumbered(limit, stored);
  if (s.units == 0) return full_at(limit, at);
  s.last = at;
  if (limit.limit() == 0) return s;
  const std::uint64_t since = s.aux + static_cast<std::uint64_t>(s.last - stored.last);
  const std::uint64_t refills = since / period(limit);
  if (refills >= ceil_div(std::uint64_t{s.units}, limit.limit())) return full_at(limit, s.last);
  s.units -= static_cast<std::uint32_t>(refills * limit.limit());
  s.aux = since % period(limit);
  return s;
}

// Returns the time until `units` of the spent units have come back.
constexpr std::uint64_t time_to_refill(const Limit& limit, const State& s,
                                       std::uint64_t units) noexcept {
  return ceil_div(units, limit.limit()) * period(limit) - s.aux;
}

constexpr Answer quote(const Limit& limit, const State& s, std::uint64_t cost,
                       std::uint64_t capacity) noexcept {
  if (cost > capacity) return never();
  if (s.units + cost <= capacity) return admitted();
  return denied_for(time_to_refill(limit, s, s.units + cost - capacity));
}

constexpr State give_back(const Limit& limit, State s, std::uint64_t cost) noexcept {
  if (cost >= s.units) return full_at(limit, s.last);
  s.units -= static_cast<std::uint32_t>(cost);
  return s;
}

constexpr Numbers describe(const Limit& limit, const State& s) noexcept {
  const std::uint64_t remaining = s.units < limit.capacity() ? limit.capacity() - s.units : 0;
  if (s.units == 0 || limit.limit() == 0) return {remaining, 0};
  return {remaining, static_cast<Ticks>(time_to_refill(limit, s, s.units))};
}

inline constexpr FixedSizeFunctions kFunctions{.has_debt = true,
                                               .advance = advance,
                                               .quote = quote,
                                               .give_back = give_back,
                                               .describe = describe,
                                               .most_units = most_units};

constexpr Step<State> step(Action action, const Limit& limit, const Kept<State>& kept, Ticks now,
                           std::uint64_t cost) noexcept {
  return step_of_fixed_size<kFunctions>(action, limit, kept, now, cost);
}

}  // namespace interval

constexpr Step<State> step(Action action, const Limit& limit, const Kept<State>& kept, Ticks now,
                           std::uint64_t cost) noexcept {
  return limit.refill() == Refill::kInterval ? interval::step(action, limit, kept, now, cost)
                                             : bucket::step(action, limit, kept, now, cost);
}
static_assert(StepFunction<decltype(step), State, State>);

}  // namespace sluice::core::token_bucket
