#include "stores/policy/lease_request.h"

#include <algorithm>

#include "limiter/answer.h"

namespace sluice::policy {

bool LeaseRequest::concerns(Action action, std::span<const Charge> charges,
                            std::optional<Instant> now, std::span<Decision> each) noexcept {
  return action.verb == Verb::kTake && !now && charges.size() <= kMost &&
         each.size() == charges.size() &&
         std::any_of(charges.begin(), charges.end(), Leases::Impl::may_lease);
}

LeaseRequest::LeaseRequest(Leases::Impl& leases, std::span<const Charge> charges,
                           std::span<Decision> each) noexcept
    : leases_(leases), charges_(charges), each_(each), rest_(charges.size()) {
  bool repeats = false;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    of_[i].part = leases.part_of(charges[i]);
    for (std::size_t j = 0; j < i; ++j) repeats |= of_[i].part.key == of_[j].part.key;
  }
  // Two charges on one counter count together: only the store knows how.
  for (Of& of : of_) of.part.is_leased &= !repeats;
}

std::optional<LeaseRequest::Ask> LeaseRequest::go_on() noexcept {
  asked_at_ = leases_.now();
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    Of& of = of_[i];
    if (of.is_done || !leases_.take(charges_[i], asked_at_, of.part, each_[i])) continue;
    of.is_done = true;
    --rest_;
  }
  if (rest_ == 0) {
    combine(each_, decision_);
    const bool was_asked =
        std::any_of(of_.begin(), of_.end(), [](const Of& of) { return of.was_asked; });
    if (!was_asked) leases_.note_local();
    return std::nullopt;
  }
  if (auto ask = ask_batch()) return ask;
  return ask_rest();
}

std::optional<LeaseRequest::Ask> LeaseRequest::ask_batch() noexcept {
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    Of& of = of_[i];
    if (of.is_done || of.was_asked) continue;
    const std::uint32_t units = leases_.begin_batch(charges_[i], asked_at_, of.part);
    if (units == 0) continue;
    of.was_asked = true;
    batch_of_ = i;
    Charge batch = charges_[i];
    batch.cost = units;
    asked_ = 0;
    add(batch);
    return Ask{Verb::kTakeAtMost, asked_charges(), std::span(asked_each_).first(1)};
  }
  return std::nullopt;
}

LeaseRequest::Ask LeaseRequest::ask_rest() noexcept {
  if (rest_ == charges_.size()) return {Verb::kTake, charges_, each_};
  asked_ = 0;
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    if (!of_[i].is_done) add(charges_[i]);
  }
  return {Verb::kTake, asked_charges(), std::span(asked_each_).first(asked_)};
}

std::optional<LeaseRequest::Ask> LeaseRequest::answer(const Decision& said) noexcept {
  if (batch_of_) return answer_batch(said);
  if (rest_ != charges_.size()) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < charges_.size(); ++i) {
      if (!of_[i].is_done) each_[i] = asked_each_[next++];
    }
  }
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    if (of_[i].is_done) continue;
    leases_.learn(charges_[i], asked_at_, of_[i].part, each_[i], said.allowed());
  }
  finish(said);
  return std::nullopt;
}

std::optional<LeaseRequest::Ask> LeaseRequest::answer_batch(const Decision& said) noexcept {
  const std::size_t i = *batch_of_;
  batch_of_.reset();
  Decision answer = said;
  if (leases_.end_batch(charges_[i], asked_at_, of_[i].part, answer)) {
    each_[i] = answer;
    of_[i].is_done = true;
    // If another limit denies, its units go to the lease that they are from.
    --rest_;
    return go_on();
  }
  // A denial of one unit is one of the request. Otherwise the store is asked for exactly the cost,
  // unless it has failed.
  const bool is_for_one = !answer.allowed() && charges_[i].cost == 1;
  const bool is_full = answer.reason == Reason::kStoreFull;
  const bool is_final =
      !is_full &&
      (store_failed(answer.reason) ||
       (rest_ == 1 && charges_.size() == 1 && (is_for_one || answer.reason == Reason::kFallback)));
  if (!is_final || answer.reason == Reason::kInvalid) return go_on();
  for (std::size_t other = 0; other < charges_.size(); ++other) {
    if (!of_[other].is_done) each_[other] = answer;
  }
  finish(answer);
  return std::nullopt;
}

// Combines the answers of leases and of the store. What only the store can say is its own.
void LeaseRequest::finish(const Decision& said) noexcept {
  decision_ = said;
  const bool is_mixed = rest_ != charges_.size();
  const bool is_own = store_failed(said.reason) || said.reason == Reason::kInvalid ||
                      said.reason == Reason::kFallback;
  if (is_mixed && !is_own) combine(each_, decision_);
  if (said.allowed()) return;
  for (std::size_t i = 0; i < charges_.size(); ++i) {
    if (of_[i].is_done) leases_.put_back(charges_[i], asked_at_, of_[i].part);
  }
}

namespace {

// Decides one charge that has a lease with enough units, or that is not tracked: most requests.
bool decide_one(Leases::Impl& leases, Store& store, const Charge& charge,
                Decision& answer) noexcept {
  const Instant now = leases.now();
  Leases::Impl::Part part = leases.part_of(charge);
  if (leases.take(charge, now, part, answer)) {
    leases.note_local();
    return true;
  }
  if (part.is_tracked) return false;
  answer = store.apply_one(Verb::kTake, charge, {});
  leases.learn(charge, now, part, answer, answer.allowed());
  return true;
}

}  // namespace

Decision apply_leased(Leases::Impl& leases, Store& store, std::span<const Charge> charges,
                      std::span<Decision> each) noexcept {
  if (charges.size() == 1 && decide_one(leases, store, charges.front(), each.front())) {
    return each.front();
  }
  LeaseRequest request(leases, charges, each);
  auto ask = request.begin();
  while (ask) {
    Decision said;
    if (ask->charges.size() == 1) {
      said = ask->each.front() = store.apply_one(ask->verb, ask->charges.front(), {});
    } else {
      said = store.apply(ask->verb, ask->charges, {}, ask->each);
    }
    ask = request.answer(said);
  }
  return request.decision();
}

void drop_leases(Leases::Impl& leases, std::span<const Charge> charges) noexcept {
  for (const Charge& charge : charges) leases.drop(charge);
}

}  // namespace sluice::policy
