#pragma once

#include "core/budget.h"
#include "core/concurrency.h"
#include "core/fixed_window.h"
#include "core/gcra.h"
#include "core/leaky_bucket.h"
#include "core/log.h"
#include "core/sliding_window_counter.h"
#include "core/sliding_window_hybrid.h"
#include "core/sliding_window_log.h"
#include "core/state.h"
#include "core/token_bucket.h"

namespace sluice::core {

// The step of every algorithm, by the kind of its state. Stores call these. A limit must be of an
// algorithm with that kind of state: see Limit::state_kind().

constexpr bool has_fixed_size(const Limit& limit) noexcept {
  return limit.state_kind() == StateKind::kBucket || limit.state_kind() == StateKind::kWindow;
}

// Makes the step of most requests that take or count units of a counter of fixed size, in short
// code without a call: then the processor begins with the next request while it waits for the
// memory of this one. Returns false, with nothing of use in `made`, for any other request.
[[gnu::always_inline]] constexpr bool take_quickly(Verb verb, const Limit& limit,
                                                   const State& stored, Ticks now,
                                                   std::uint64_t cost, Step<State>& made) noexcept {
  if (limit.state_kind() == StateKind::kWindow) {
    if (!fixed_window::take_quickly(limit, stored, now, cost, made)) return false;
  } else if (limit.refill() != Refill::kContinuous || limit.mode() != LeakyMode::kMeter ||
             !bucket::take_quickly(limit, stored, now, cost, made)) {
    return false;
  }
  if (verb == Verb::kTake) return true;
  // Of these, an admitted one is a take.
  if (verb == Verb::kTakeAtMost) made.answer.taken = static_cast<std::uint32_t>(cost);
  if (verb == Verb::kReserve) made.answer.delay = 0;
  return made.answer.admitted && (takes(verb) || verb == Verb::kCharge);
}

[[gnu::always_inline]] constexpr Step<State> step(Action action, const Limit& limit,
                                                  const Kept<State>& kept, Ticks now,
                                                  std::uint64_t cost) noexcept {
  Step<State> made;
  if (take_quickly(action.verb, limit, kept.state, now, cost, made)) return made;
  switch (limit.algorithm()) {
    case Algorithm::kFixedWindow: return fixed_window::step(action, limit, kept, now, cost);
    case Algorithm::kLeakyBucket: return leaky_bucket::step(action, limit, kept, now, cost);
    case Algorithm::kGcra: return gcra::step(action, limit, kept, now, cost);
    default: return token_bucket::step(action, limit, kept, now, cost);
  }
}

constexpr Numbers describe(const Limit& limit, const State& at) noexcept {
  if (limit.algorithm() == Algorithm::kFixedWindow) return fixed_window::describe(limit, at);
  return limit.refill() == Refill::kInterval ? token_bucket::interval::describe(limit, at)
                                             : bucket::describe(limit, at);
}

// The slices must be on the limit's grid: see sliding_window_counter::on_grid().
constexpr Step<NextSlices> step(Action action, const Limit& limit, const Kept<Slices>& kept,
                                Ticks now, std::uint64_t cost) noexcept {
  return sliding_window_counter::step(action, limit, kept, now, cost);
}

constexpr Step<NextLog> step(Action action, const Limit& limit, const Kept<Log>& kept, Ticks now,
                             std::uint64_t cost) noexcept {
  if (limit.algorithm() == Algorithm::kSlidingWindowLog) {
    return sliding_window_log::step(action, limit, kept, now, cost);
  }
  return sliding_window_hybrid::step(action, limit, kept, now, cost);
}

[[gnu::always_inline]] constexpr Step<NextPermits> step(Action action, const Limit& limit,
                                                        const Kept<Permits>& kept, Ticks now,
                                                        std::uint64_t cost) noexcept {
  return concurrency::step(action, limit, kept, now, cost);
}

inline Step<NextBudget> step(Action action, const Limit& limit, const Kept<Budget>& kept, Ticks now,
                             std::uint64_t cost) noexcept {
  return budget::step(action, limit, kept, now, cost);
}

// Describes a counter with nothing taken, for a request that another limit denies.
template <typename State>
constexpr Answer untaken(const Limit& limit, const Kept<State>& kept, Ticks now) noexcept {
  Answer answer = step(Verb::kPeek, limit, kept, now, 0).answer;
  answer.delay = Answer::kNoDelay;
  return answer;
}

// As above, from the step that admitted the cost.
constexpr Answer untaken(const Limit& limit, const Kept<State>& kept, Ticks now,
                         const Step<State>& taken, std::uint64_t cost) noexcept {
  State at = taken.next;
  at.units -= static_cast<std::uint32_t>(cost);
  Answer answer{admitted(), describe(limit, at)};
  if (kept.state.tag != tag_of(limit) && !kept.forgotten.is_past(now)) {
    kept.forgotten.end(at.last, answer);
  }
  return answer;
}

}  // namespace sluice::core
