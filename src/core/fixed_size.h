#pragma once

#include "core/bucket.h"
#include "core/fixed_window.h"
#include "core/leaky_bucket.h"
#include "core/state.h"
#include "core/token_bucket.h"

namespace sluice::core {

// The algorithms whose state is a State, behind one set of names. A decision on one counter is
//   at = advance(limit, stored, now);  quote(limit, at, cost);  next = take(at, cost);
//   describe(limit, next)
// and an absent counter is `State{.last = now}`.

constexpr bool has_fixed_size(Algorithm a) noexcept {
  return a == Algorithm::kFixedWindow || detail::is_bucket(a);
}

constexpr State advance(const Limit& limit, const State& stored, Ticks now) noexcept {
  if (limit.algorithm() == Algorithm::kFixedWindow)
    return fixed_window::advance(limit, stored, now);
  return token_bucket::advance(limit, stored, now);
}

// A cost of 0 is never denied.
constexpr Quote quote(const Limit& limit, const State& at, std::uint64_t cost) noexcept {
  if (cost == 0) return admitted();
  if (limit.algorithm() == Algorithm::kFixedWindow) return fixed_window::quote(limit, at, cost);
  return token_bucket::quote(limit, at, cost);
}

// For a cost that was admitted.
constexpr State take(State at, std::uint64_t cost) noexcept {
  at.units += static_cast<std::uint32_t>(cost);
  return at;
}

// Whether anything is left to give back.
constexpr bool holds_anything(const Limit& limit, const State& at) noexcept {
  return at.units != 0 || (limit.algorithm() != Algorithm::kFixedWindow && at.aux != 0);
}

constexpr State give_back(const Limit& limit, const State& at, std::uint64_t cost) noexcept {
  if (limit.algorithm() == Algorithm::kFixedWindow) return fixed_window::give_back(limit, at, cost);
  return token_bucket::give_back(limit, at, cost);
}

constexpr Numbers describe(const Limit& limit, const State& at) noexcept {
  if (limit.algorithm() == Algorithm::kFixedWindow) return fixed_window::describe(limit, at);
  return token_bucket::describe(limit, at);
}

constexpr bool is_queue(const Limit& limit) noexcept {
  return limit.algorithm() == Algorithm::kLeakyBucket && limit.mode() == LeakyMode::kQueue;
}

}  // namespace sluice::core
