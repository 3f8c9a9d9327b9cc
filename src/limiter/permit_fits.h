#pragma once

#include "sluice/store.h"

namespace sluice {

// Whether the verb is one for the algorithm of the charge, and has the permit that it needs: see
// Store::apply().
constexpr bool permit_fits(Verb verb, const Charge& charge) noexcept {
  if (!holds_permits(charge.limit.algorithm())) return !changes_permit(verb);
  const bool needs_permit = takes(verb) || changes_permit(verb);
  return verb != Verb::kCharge && (charge.permit != nullptr || !needs_permit);
}

}  // namespace sluice
