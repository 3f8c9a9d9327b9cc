#include "sluice/limiter.h"

#include <array>

namespace sluice {

Decision Limiter::apply(Verb verb, std::span<const Charge> charges, std::span<Decision> each,
                        std::optional<Instant> now) noexcept {
  if (each.size() >= charges.size()) {
    return store_->apply(verb, charges, now, each.first(charges.size()));
  }
  std::array<Decision, kMaxCharges> unread;
  if (charges.size() > unread.size()) {
    return Decision{.outcome = Outcome::kDenied, .reason = Reason::kInvalid};
  }
  return store_->apply(verb, charges, now, std::span(unread).first(charges.size()));
}

}  // namespace sluice
