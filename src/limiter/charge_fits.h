#pragma once

#include "sluice/block.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice {

// Whether the verb is one for the algorithm of the charge, and has the permit that it needs; and
// whether the charge may give back: see Store::apply().
constexpr bool verb_fits(Verb verb, const Charge& charge) noexcept {
  if (charge.gives_back) return verb == Verb::kCharge;
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

// Adds another charge on a counter to what those before ask: a cost, and whether they give it back.
// A sum beyond all limits stays beyond them.
constexpr void add_charge(const Charge& charge, std::uint64_t& cost, bool& gives_back) noexcept {
  if (charge.gives_back == gives_back) {
    if (__builtin_add_overflow(cost, charge.cost, &cost)) cost = ~std::uint64_t{0};
  } else if (charge.cost <= cost) {
    cost -= charge.cost;
  } else {
    cost = charge.cost - cost;
    gives_back = charge.gives_back;
  }
}

// Whether two charges of one counter have the same block, or none.
constexpr bool same_block(const Charge& a, const Charge& b) noexcept {
  if (a.block == b.block) return true;
  return a.block != nullptr && b.block != nullptr && *a.block == *b.block;
}

}  // namespace sluice
