#pragma once

#include <string>
#include <string_view>

#include "sluice/limit.h"

namespace sluice {

// Returns whether a Redis store without scripts (`scripting: off`) supports the limit, or a state
// with this alignment: the counter must be a plain number per slice of the clock, which INCRBY can
// change. The loaders of rules refuse other limits, and the store answers them with
// `Reason::kInvalid`.
constexpr bool works_without_scripts(StateKind state, Align align) noexcept {
  return state == StateKind::kSlices || (state == StateKind::kWindow && align == Align::kClock);
}
constexpr bool works_without_scripts(const Limit& limit) noexcept {
  return works_without_scripts(limit.state_kind(), limit.align()) && limit.calendar() == nullptr;
}

// Lists the algorithms of limits that work without scripts: "A, B, or C with align: clock".
// `if_aligned` follows the name of an algorithm that must be aligned to the clock.
std::string algorithms_without_scripts(std::string_view if_aligned);

}  // namespace sluice
