#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "sluice/store.h"

namespace sluice::policy {

// Returns the store's answer; if a permit is gone there, that of the local store, which may have
// given the permit while the store failed.
inline Decision or_local(const Decision& said, Store& local, Action action,
                         std::span<const Charge> charges, std::optional<Instant> now,
                         std::span<Decision> each) noexcept {
  if (said.reason != Reason::kGone) return said;
  std::array<Decision, kMaxCharges> own;
  const std::span<Decision> answers = std::span(own).first(charges.size());
  const Decision decision = local.apply(action, charges, now, answers);
  if (!decision.allowed()) return said;
  std::copy(answers.begin(), answers.end(), each.begin());
  return decision;
}

}  // namespace sluice::policy
