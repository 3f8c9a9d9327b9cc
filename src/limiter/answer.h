#pragma once

#include "core/answer.h"
#include "sluice/decision.h"
#include "sluice/limit.h"

namespace sluice::core {

constexpr Reason reason_of(const Answer& answer) noexcept {
  if (answer.admitted) return answer.over ? Reason::kOver : Reason::kOk;
  if (answer.gone) return Reason::kGone;
  return answer.never ? Reason::kNever : Reason::kLimited;
}

// Writes the answer of a limit, field by field: see combine.h.
inline void write(const Limit& limit, const Answer& answer, Decision& d) noexcept {
  d.outcome = answer.admitted ? Outcome::kAllowed : Outcome::kDenied;
  d.reason = reason_of(answer);
  d.capacity = limit.capacity();
  d.remaining = answer.remaining;
  d.taken = answer.taken;
  d.reset_after = Duration{answer.reset_after};
  d.retry_after.reset();
  if (!answer.admitted && !answer.never && !answer.gone) d.retry_after = Duration{answer.wait};
  d.delay.reset();
  if (answer.delay != Answer::kNoDelay) d.delay = Duration{answer.delay};
}

}  // namespace sluice::core
