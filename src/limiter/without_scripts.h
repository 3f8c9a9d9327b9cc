#pragma once

#include "sluice/limit.h"

namespace sluice {

// Returns whether a Redis store without scripts (`scripting: off`) supports the limit: its counter
// must be a plain number per slice of the clock, which INCRBY can change. The loaders of rules
// refuse other limits, and the store answers them with `Reason::kInvalid`.
constexpr bool works_without_scripts(const Limit& limit) noexcept {
  if (limit.state_kind() == StateKind::kSlices) return true;
  return limit.state_kind() == StateKind::kWindow && limit.align() == Align::kClock;
}

}  // namespace sluice
