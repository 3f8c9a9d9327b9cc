#pragma once

#include <algorithm>
#include <cstdint>

#include "sluice/decision.h"
#include "sluice/limit.h"
#include "sluice/verb.h"

namespace sluice::detail {

// What a failure policy answers in place of a store. It has no numbers but those by which the
// caller acts: a take of at most the cost takes the least cost of the request, and a reservation
// does not wait.
constexpr Decision fallback(Outcome outcome, Verb verb, std::uint64_t least_cost) noexcept {
  Decision answer{.outcome = outcome, .reason = Reason::kFallback};
  if (outcome != Outcome::kAllowed) return answer;
  if (verb == Verb::kReserve) answer.delay = Duration{0};
  if (verb == Verb::kTakeAtMost) {
    answer.taken = static_cast<std::uint32_t>(std::min(least_cost, kMaxUnits));
  }
  return answer;
}

}  // namespace sluice::detail
