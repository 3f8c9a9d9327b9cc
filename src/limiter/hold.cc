#include "sluice/hold.h"

#include <algorithm>
#include <array>
#include <vector>

#include "sluice/detail/owned_charges.h"
#include "sluice/permit_id.h"

namespace sluice {
namespace {

constexpr bool is_budget(const Charge& charge) noexcept {
  return holds_amounts(charge.limit.algorithm());
}

}  // namespace

struct Hold::Request {
  Store* store = nullptr;
  std::string id;
  PermitId name;
  detail::OwnedCharges held;         // those of budgets
  std::vector<std::size_t> indices;  // of those among the charges of the request
  std::vector<Decision> each;
  std::vector<Decision> unread;  // of changes
};

Hold::Hold(Store& store, std::string_view id, std::span<const Charge> charges, Duration ttl,
           std::optional<Instant> now)
    : request_(std::make_unique<Request>()) {
  Request& request = *request_;
  request.store = &store;
  request.id = id.empty() ? PermitId::random_text() : std::string(id);
  request.name = PermitId::named(request.id);
  request.each.resize(charges.size());
  std::vector<Charge> all(charges.begin(), charges.end());
  std::vector<Charge> held;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_budget(all[i])) continue;
    all[i].permit = &request.name;
    all[i].id_text = request.id;
    request.indices.push_back(i);
    held.push_back(all[i]);
    held.back().rule.new_keys = nullptr;  // borrowed for the call only
  }
  request.held = detail::OwnedCharges(held);
  request.unread.resize(held.size());
  if (request.id.size() > kMaxIdBytes || request.indices.empty()) {
    decision_ = Decision::refused(Reason::kInvalid);
    std::fill(request.each.begin(), request.each.end(), decision_);
    return;
  }
  decision_ = store.apply({Verb::kHold, ttl}, all, now, request.each);
}

Hold::~Hold() = default;
Hold::Hold(Hold&&) noexcept = default;
Hold& Hold::operator=(Hold&&) noexcept = default;

std::span<const Decision> Hold::each() const noexcept {
  return request_ ? std::span<const Decision>(request_->each) : std::span<const Decision>();
}

std::string_view Hold::id() const noexcept {
  return request_ ? std::string_view(request_->id) : std::string_view();
}

Decision Hold::change(Action action, std::optional<Instant> now) noexcept {
  if (!request_ || !allowed()) return Decision::refused(Reason::kInvalid);
  return request_->store->apply(action, request_->held.charges(), now, request_->unread);
}

Decision Hold::settle(std::uint64_t actual, std::optional<Instant> now) noexcept {
  if (request_) {
    for (Charge& charge : request_->held.charges()) charge.cost = actual;
  }
  return change(Verb::kSettle, now);
}

Decision Hold::settle(std::span<const std::uint64_t> actual, std::optional<Instant> now) noexcept {
  if (!request_ || actual.size() != request_->each.size()) {
    return Decision::refused(Reason::kInvalid);
  }
  for (std::size_t i = 0; i < request_->indices.size(); ++i) {
    request_->held.charges()[i].cost = actual[request_->indices[i]];
  }
  return change(Verb::kSettle, now);
}

Decision Hold::cancel(std::optional<Instant> now) noexcept { return change(Verb::kCancel, now); }

Decision Hold::extend(Duration ttl, std::optional<Instant> now) noexcept {
  return change({Verb::kExtend, ttl}, now);
}

Hold Limiter::hold(std::string_view id, std::string_view key, const Limit& limit,
                   std::uint64_t cost, Duration ttl, std::optional<Instant> now) {
  const Charge charge{key, limit, cost};
  return {*store_, id, {&charge, 1}, ttl, now};
}

Hold Limiter::hold(std::string_view id, std::span<const Charge> charges, Duration ttl,
                   std::optional<Instant> now) {
  return {*store_, id, charges, ttl, now};
}

}  // namespace sluice
