#pragma once

#include "core/state.h"
#include "sluice/decision.h"

namespace sluice::core {

// Writes the answer of a limit, field by field: see combine.h.
inline void answer(const Limit& limit, const Quote& quote, const Numbers& numbers,
                   Decision& d) noexcept {
  d.outcome = quote.admitted ? Outcome::kAllowed : Outcome::kDenied;
  d.reason = quote.admitted ? Reason::kOk : quote.never ? Reason::kNever : Reason::kLimited;
  d.capacity = limit.capacity();
  d.remaining = numbers.remaining;
  d.reset_after = Duration{numbers.reset_after};
  d.retry_after.reset();
  if (!quote.admitted && !quote.never) d.retry_after = Duration{quote.wait};
  d.delay.reset();
}

}  // namespace sluice::core
