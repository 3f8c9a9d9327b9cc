#pragma once

#include "sluice/block.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice {

// Whether the verb is one for the algorithm of the charge, and has the permit that it needs: see
// Store::apply().
constexpr bool permit_fits(Verb verb, const Charge& charge) noexcept {
  if (!holds_permits(charge.limit.algorithm())) return !changes_permit(verb);
  const bool needs_permit = takes(verb) || changes_permit(verb);
  return verb != Verb::kCharge && (charge.permit != nullptr || !needs_permit);
}

// Whether the verb may create a counter, so that NewKeyLimit bounds it.
constexpr bool creates(Verb verb) noexcept { return takes(verb) || verb == Verb::kCharge; }

// Whether a verb that changes blocks has one to change, and a length that a block can have.
constexpr bool block_fits(Action action, const Charge& charge) noexcept {
  if (!changes_block(action.verb)) return true;
  const bool has_length = action.max_wait >= kMinPeriod && action.max_wait <= kMaxPeriod;
  return charge.block != nullptr && (has_length || action.verb == Verb::kUnblock);
}

// Whether a denial (kLimited) counts for the block of the charge. A reservation that is denied may
// still wait for its units, except with a bucket.
constexpr bool counts_denials(Verb verb, const Charge& charge) noexcept {
  if (charge.block == nullptr || !takes(verb)) return false;
  return verb != Verb::kReserve || charge.limit.state_kind() == StateKind::kBucket;
}

// Whether two charges of one counter have the same block, or none.
constexpr bool same_block(const Charge& a, const Charge& b) noexcept {
  if (a.block == b.block) return true;
  return a.block != nullptr && b.block != nullptr && *a.block == *b.block;
}

}  // namespace sluice
