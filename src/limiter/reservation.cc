#include "sluice/reservation.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "limiter/waits.h"
#include "sluice/detail/owned_charges.h"

namespace sluice {

struct Reservation::Request {
  Store* store = nullptr;
  detail::OwnedCharges owned;
  std::vector<Decision> each;
  std::vector<Decision> unread;  // of cancel() and settle()
  std::optional<Instant> at;
  std::chrono::steady_clock::time_point turn;
  bool is_settled = false;

  Duration age(std::optional<Instant> now, Duration delay) const noexcept;
};

// How long ago the charges were reserved.
Duration Reservation::Request::age(std::optional<Instant> now, Duration delay) const noexcept {
  if (now && at) return *now - *at;
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - turn) + delay;
}

Reservation::Reservation(Store& store, std::span<const Charge> charges, Duration max_wait,
                         std::optional<Instant> now)
    : request_(std::make_unique<Request>()) {
  Request& request = *request_;
  request.store = &store;
  request.owned = detail::OwnedCharges(charges);
  request.each.resize(charges.size());
  request.unread.resize(charges.size());
  request.at = now;
  decision_ = store.apply({Verb::kReserve, max_wait}, request.owned.charges(), now, request.each);
  request.turn = std::chrono::steady_clock::now() + delay();
  request.is_settled = !allowed();
  for (std::size_t i = 0; i < charges.size(); ++i) {
    Charge& charge = request.owned.charges()[i];
    charge.rule.new_keys = nullptr;  // borrowed for the call only
    if (request.each[i].passed_over) charge.cost = 0;
  }
}

Reservation::~Reservation() = default;
Reservation::Reservation(Reservation&&) noexcept = default;
Reservation& Reservation::operator=(Reservation&&) noexcept = default;

std::span<const Decision> Reservation::each() const noexcept {
  return request_ ? std::span<const Decision>(request_->each) : std::span<const Decision>();
}

void Reservation::wait() const {
  if (request_ && allowed()) std::this_thread::sleep_until(request_->turn);
}

Decision Reservation::cancel(std::optional<Instant> now) noexcept {
  if (!request_ || request_->is_settled) return Decision::refused(Reason::kInvalid);
  if (request_->age(now, delay()) >= delay()) return Decision::refused(Reason::kInvalid);
  request_->is_settled = true;
  const std::span<Charge> all = request_->owned.charges();
  Decision decision = Decision::refused(Reason::kInvalid);
  std::size_t count = 0;  // of the charges that a refund gives back
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (holds_permits(all[i].limit.algorithm())) {
      decision = request_->store->apply_one(Verb::kRelease, all[i], now);
    } else if (detail::took_units(request_->each[i])) {
      std::swap(all[count], all[i]);
      all[count++].alternative = false;  // the budgets before it have taken nothing
    }
  }
  if (count > 0) {
    decision = request_->store->apply(Verb::kRefund, all.first(count), now,
                                      std::span(request_->unread).first(count));
  }
  detail::released(*request_->store, all);
  return decision;
}

Decision Reservation::settle(std::uint64_t actual, std::optional<Instant> now) noexcept {
  std::array<std::uint64_t, kMaxCharges> all;
  const std::size_t count = request_ ? request_->owned.charges().size() : 0;
  if (count > all.size()) return Decision::refused(Reason::kInvalid);
  std::fill_n(all.begin(), count, actual);
  return settle(std::span(all).first(count), now);
}

Decision Reservation::settle(std::span<const std::uint64_t> actual,
                             std::optional<Instant> now) noexcept {
  if (!request_ || request_->is_settled || actual.size() != request_->owned.charges().size()) {
    return Decision::refused(Reason::kInvalid);
  }
  request_->is_settled = true;
  const Duration age = request_->age(now, delay());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    Charge& charge = request_->owned.charges()[i];
    const Decision& reserved = request_->each[i];
    if (reserved.passed_over) continue;
    charge.gives_back = actual[i] <= charge.cost;
    charge.cost = charge.gives_back ? charge.cost - actual[i] : actual[i] - charge.cost;
    // Then the counter has nothing of the charge, only units of others.
    const bool has_none = age >= reserved.reset_after || !detail::took_units(reserved);
    if (charge.gives_back && has_none) charge.cost = 0;
  }
  return request_->store->apply(Verb::kCharge, request_->owned.charges(), now, request_->unread);
}

Reservation Limiter::reserve(std::string_view key, const Limit& limit, std::uint64_t cost,
                             Duration max_wait, std::optional<Instant> now) {
  const Charge charge{key, limit, cost};
  return {*store_, {&charge, 1}, max_wait, now};
}

Reservation Limiter::reserve(std::span<const Charge> charges, Duration max_wait,
                             std::optional<Instant> now) {
  return {*store_, charges, max_wait, now};
}

}  // namespace sluice
