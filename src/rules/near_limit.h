#pragma once

#include <cstdint>

#include "sluice/decision.h"
#include "sluice/rule_limit.h"

namespace sluice::rules {

// Returns whether so much of the limit is used that its `warn` applies. A decision without the
// numbers of the limit and a limit that holds nothing are not near.
constexpr bool is_near(const RuleLimit& limit, const Decision& decision) noexcept {
  if (limit.warn_percent == 0 || decision.capacity == 0 || !has_numbers(decision)) return false;
  constexpr std::uint64_t kAll = 100;
  return decision.remaining * kAll <= (kAll - limit.warn_percent) * decision.capacity;
}

}  // namespace sluice::rules
