#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "sluice/decision.h"

namespace sluice {

// Writes the answer to a request from the answers to its charges, at least one (see Store::apply):
// every store's last step. It reads and writes field by field; whole decisions just written in
// pieces would be slow to copy.
inline void combine(std::span<const Decision> each, Decision& all) noexcept {
  constexpr Duration kNone{-1};
  const Decision* tightest = &each.front();
  Duration retry_after = kNone;
  Duration delay = kNone;
  bool never = false;
  bool blocked = false;
  bool starts_block = false;
  bool over = false;
  for (const Decision& d : each) {
    never |= d.reason == Reason::kNever;
    blocked |= d.reason == Reason::kBlocked;
    starts_block |= d.starts_block;
    over |= d.reason == Reason::kOver;
    if (d.retry_after && *d.retry_after > retry_after) retry_after = *d.retry_after;
    if (d.delay && *d.delay > delay) delay = *d.delay;
    const bool tighter =
        d.allowed() == tightest->allowed() ? d.remaining < tightest->remaining : !d.allowed();
    if (tighter) tightest = &d;
  }
  all.outcome = tightest->outcome;
  all.taken = tightest->taken;
  all.starts_block = starts_block;
  all.reason = tightest->reason;
  if (over) all.reason = Reason::kOver;
  if (blocked) all.reason = Reason::kBlocked;
  if (never) all.reason = Reason::kNever;
  all.capacity = tightest->capacity;
  all.remaining = tightest->remaining;
  all.reset_after = tightest->reset_after;
  all.retry_after.reset();
  if (retry_after != kNone && !never) all.retry_after = retry_after;
  all.delay.reset();
  if (delay != kNone && all.allowed()) all.delay = delay;
}

// As combine() for a release, which has ended the permit if it was live in any of its counters.
inline void combine_released(std::span<const Decision> each, Decision& all) noexcept {
  combine(each, all);
  const bool any = std::any_of(each.begin(), each.end(), std::mem_fn(&Decision::allowed));
  if (!any || all.allowed()) return;
  all.outcome = Outcome::kAllowed;
  all.reason = Reason::kOk;
}

}  // namespace sluice
