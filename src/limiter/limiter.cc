#include "sluice/limiter.h"

#include <array>

namespace sluice {

Decision Store::apply_one(Verb verb, const Charge& charge, std::optional<Instant> now) noexcept {
  Decision decision;
  return apply(verb, {&charge, 1}, now, {&decision, 1});
}

namespace {

// Where nobody reads the single answers. Few charges keep the frame small: clearing room for 64
// answers costs more than deciding three.
template <std::size_t N>
Decision apply_unread(Store& store, Verb verb, std::span<const Charge> charges,
                      std::optional<Instant> now) noexcept {
  std::array<Decision, N> unread;
  return store.apply(verb, charges, now, std::span(unread).first(charges.size()));
}

}  // namespace

Decision Limiter::apply(Verb verb, std::span<const Charge> charges, std::span<Decision> each,
                        std::optional<Instant> now) noexcept {
  if (each.size() >= charges.size()) {
    return store_->apply(verb, charges, now, each.first(charges.size()));
  }
  const bool is_short = !each.empty() || charges.size() > kMaxCharges;
  if (is_short) return Decision::refused(Reason::kInvalid);
  if (charges.size() <= 4) return apply_unread<4>(*store_, verb, charges, now);
  return apply_unread<kMaxCharges>(*store_, verb, charges, now);
}

}  // namespace sluice
