#pragma once

#include <algorithm>
#include <optional>
#include <span>

#include "sluice/decision.h"

namespace sluice {

// The answer to a request from the answers to its charges (see Store::apply). Every store's last
// step. No charges make `kInvalid`.
inline Decision combine(std::span<const Decision> each) noexcept {
  if (each.empty()) return Decision{.outcome = Outcome::kDenied, .reason = Reason::kInvalid};
  if (each.size() == 1) return each.front();
  const auto later = [](std::optional<Duration>& longest, std::optional<Duration> wait) {
    if (wait && (!longest || *wait > *longest)) longest = wait;
  };
  const Decision* tightest = &each.front();
  std::optional<Duration> retry_after;
  std::optional<Duration> delay;
  bool never = false;
  for (const Decision& d : each) {
    never |= d.reason == Reason::kNever;
    later(retry_after, d.retry_after);
    later(delay, d.delay);
    const bool tighter = d.allowed() == tightest->allowed() ? d.remaining < tightest->remaining
                                                            : !d.allowed();
    if (tighter) tightest = &d;
  }
  Decision all = *tightest;
  if (never) all.reason = Reason::kNever;
  all.retry_after = never ? std::nullopt : retry_after;
  all.delay = all.allowed() ? delay : std::nullopt;
  return all;
}

}  // namespace sluice
