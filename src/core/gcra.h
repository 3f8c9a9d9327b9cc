#pragma once

#include "core/bucket.h"

namespace sluice::core::gcra {

// The generic cell rate algorithm (ITU-T I.371): a cell conforms if it comes no earlier than its
// theoretical arrival time less the tolerance. With capacity = burst + 1 that is a bucket, and the
// theoretical arrival time is the instant at which the bucket has drained. The stored state is the
// bucket's: an arrival time alone could not follow a clock that goes back, nor keep what was
// consumed if the rate changes.

constexpr Step<State> step(Action action, const Limit& limit, const Kept<State>& kept, Ticks now,
                           std::uint64_t cost) noexcept {
  return bucket::step(action, limit, kept, now, cost);
}
static_assert(StepFunction<decltype(step), State, State>);

}  // namespace sluice::core::gcra
