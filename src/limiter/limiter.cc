#include "sluice/limiter.h"

#include <array>

namespace sluice {

Decision Store::apply_one(Action action, const Charge& charge,
                          std::optional<Instant> now) noexcept {
  Decision decision;
  return apply(action, {&charge, 1}, now, {&decision, 1});
}

namespace {

// Where nobody reads the single answers. Few charges keep the frame small: clearing room for 64
// answers costs more than deciding three.
template <std::size_t N>
Decision apply_unread(Store& store, Action action, std::span<const Charge> charges,
                      std::optional<Instant> now) noexcept {
  std::array<Decision, N> unread;
  return store.apply(action, charges, now, std::span(unread).first(charges.size()));
}

}  // namespace

Decision Limiter::apply(Action action, std::span<const Charge> charges, std::span<Decision> each,
                        std::optional<Instant> now) noexcept {
  if (each.size() >= charges.size()) {
    return store_->apply(action, charges, now, each.first(charges.size()));
  }
  const bool is_short = !each.empty() || charges.size() > kMaxCharges;
  if (is_short) return Decision::refused(Reason::kInvalid);
  if (charges.size() <= 4) return apply_unread<4>(*store_, action, charges, now);
  return apply_unread<kMaxCharges>(*store_, action, charges, now);
}

}  // namespace sluice
