#include "sluice/permit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "limiter/held_permit.h"
#include "sluice/limiter.h"

namespace sluice {

using detail::HeldPermit;

void detail::DeleteHeldPermit::operator()(HeldPermit* held) const noexcept {
  ::operator delete(held);
}

Permit::Permit(Store& store, std::span<const Charge> charges, std::optional<Instant> now,
               std::optional<std::chrono::steady_clock::time_point> deadline)
    : held_(HeldPermit::make(PermitId::random(), charges, charges.size())), store_(&store) {
  const auto holds = [](const Charge& charge) { return holds_permits(charge.limit.algorithm()); };
  const std::span<Decision> each = held_->answers();
  if (std::none_of(charges.begin(), charges.end(), holds)) {
    decision_ = Decision::refused(Reason::kInvalid);
    std::fill(each.begin(), each.end(), decision_);
    return;
  }
  if (charges.size() == 1 && !deadline) {
    Charge charge = charges.front();
    charge.permit = &held_->id;
    decision_ = each.front() = store_->apply_one(Verb::kTake, charge, now);
  } else {
    std::vector<Charge> all(charges.begin(), charges.end());
    for (Charge& charge : all) charge.permit = &held_->id;
    decision_ = deadline ? Limiter(*store_).acquire(all, each, *deadline)
                         : store_->apply(Verb::kTake, all, now, each);
    if (charges.size() == 1) each.front() = decision_;  // the store may not have been asked
  }
  held_->is_live = decision_.allowed() && held_->charge_count > 0;
}

Permit::Permit(Permit&&) noexcept = default;

Permit& Permit::operator=(Permit&& other) noexcept {
  release();
  held_ = std::move(other.held_);
  store_ = other.store_;
  decision_ = other.decision_;
  return *this;
}

Permit::~Permit() { release(); }

std::span<const Decision> Permit::each() const noexcept {
  if (!held_) return {};
  return held_->answers();
}

Decision Permit::release(std::optional<Instant> now) noexcept {
  if (!held_ || !std::exchange(held_->is_live, false)) return Decision::refused(Reason::kGone);
  return held_->apply(Verb::kRelease, *store_, now);
}

Decision Permit::extend(std::optional<Instant> now) noexcept {
  if (!held_ || !held_->is_live) return Decision::refused(Reason::kGone);
  return held_->apply(Verb::kExtend, *store_, now);
}

std::string Permit::text() const {
  std::string out;
  if (held_ && held_->is_live) PermitText::append(held_->id, held_->charges(), out);
  return out;
}

std::string Permit::detach() {
  std::string out = text();
  if (held_) held_->is_live = false;
  return out;
}

Permit Limiter::hold(std::string_view key, const Limit& limit, std::uint64_t cost,
                     std::optional<Instant> now) {
  const Charge charge{key, limit, cost};
  return {*store_, {&charge, 1}, now};
}

Permit Limiter::hold(std::span<const Charge> charges, std::optional<Instant> now) {
  return {*store_, charges, now};
}

Permit Limiter::hold(std::string_view key, const Limit& limit, std::uint64_t cost,
                     std::chrono::steady_clock::time_point deadline) {
  const Charge charge{key, limit, cost};
  return {*store_, {&charge, 1}, {}, deadline};
}

Decision Limiter::release(std::string_view permit, std::optional<Instant> now) {
  const auto parsed = PermitText::parse(permit);
  return parsed ? parsed->release(*store_, now) : Decision::refused(Reason::kInvalid);
}

Decision Limiter::extend(std::string_view permit, std::optional<Instant> now) {
  const auto parsed = PermitText::parse(permit);
  return parsed ? parsed->extend(*store_, now) : Decision::refused(Reason::kInvalid);
}

}  // namespace sluice
