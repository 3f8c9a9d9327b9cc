#pragma once

#include "core/bucket.h"

namespace sluice::core::gcra {

// The generic cell rate algorithm (ITU-T I.371): a cell conforms when it comes no earlier than its
// theoretical arrival time less the tolerance; with capacity = burst + 1 that is bucket.h, and the
// state kept is the bucket's. A bare arrival time could neither honour a clock that steps back nor
// keep what was consumed when the rate changes; it follows from the bucket where it is wanted:

// The theoretical arrival time of the next cell, rounded up to a tick.
constexpr Ticks theoretical_arrival_time(const Limit& limit, const State& s) noexcept {
  return s.last + bucket::time_to_drain(limit, s);
}

}  // namespace sluice::core::gcra
