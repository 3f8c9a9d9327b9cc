#pragma once

#include "core/bucket.h"

namespace sluice::core::leaky_bucket {

// A level that drains at L/P. A cost is admitted if the level plus the cost is at most B. The meter
// is bucket.h. The queue admits by the same test and answers a delay, the time until everything
// ahead has drained, so that admitted requests leave evenly at L/P.

constexpr Step<State> step(Action action, const Limit& limit, const Kept<State>& kept, Ticks now,
                           std::uint64_t cost) noexcept {
  Step<State> step = bucket::step(action, limit, kept, now, cost);
  const bool decides = takes(action.verb) || action.verb == Verb::kPeek;
  if (limit.mode() == LeakyMode::kQueue && decides && step.answer.admitted) {
    State ahead = step.next;
    if (action.verb == Verb::kTakeAtMost) cost = step.answer.taken;
    ahead.units -= static_cast<std::uint32_t>(cost);
    step.answer.delay = bucket::time_to_drain(limit, ahead);
  }
  return step;
}
static_assert(StepFunction<decltype(step), State, State>);

}  // namespace sluice::core::leaky_bucket
