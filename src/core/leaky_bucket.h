#pragma once

#include "core/bucket.h"

namespace sluice::core::leaky_bucket {

// A level that drains at L/P; a cost passes when the level has room for it below B. The meter is
// bucket.h as it stands. As a queue it admits by the same test and says how long the admitted one
// has to wait until what is ahead of it has drained, so that they leave evenly at L/P.

// `before`: the state at the instant of the decision, without the request's own cost.
constexpr Ticks delay(const Limit& limit, const State& before) noexcept {
  return bucket::time_to_drain(limit, before);
}

}  // namespace sluice::core::leaky_bucket
