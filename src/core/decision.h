#pragma once

#include <string_view>

#include "sluice/decision.h"

namespace sluice::core {

// The outcome as every wire format, metric and log spells it: "allowed" or "denied". A store that
// failed is "denied" there, and the reason says what failed.
constexpr std::string_view wire_outcome(Outcome outcome) noexcept {
  return outcome == Outcome::kAllowed ? "allowed" : "denied";
}

}  // namespace sluice::core
