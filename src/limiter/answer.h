#pragma once

#include <algorithm>

#include "core/answer.h"
#include "core/block.h"
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

// Changes the answer of a limit whose key is blocked. `cost` is that of the charges.
inline void write(const BlockAnswer& block, std::uint64_t cost, Decision& d) noexcept {
  if (block.left == 0) return;
  d.remaining = 0;
  d.reset_after = std::max(d.reset_after, Duration{block.left});
  if (cost == 0 || d.reason == Reason::kNever) return;
  d.outcome = Outcome::kDenied;
  d.reason = Reason::kBlocked;
  d.starts_block = block.starts;
  d.taken = 0;
  d.retry_after = std::max(d.retry_after.value_or(Duration{0}), Duration{block.left});
  d.delay.reset();
}

}  // namespace sluice::core
