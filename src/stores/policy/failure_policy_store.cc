#include <algorithm>
#include <new>

#include "limiter/answer.h"
#include "limiter/batch.h"
#include "sluice/failure_policy.h"
#include "stores/policy/local_permits.h"

namespace sluice {
namespace {

// The conditions of Store::apply().
bool is_valid(Action action, std::span<const Charge> charges, std::optional<Instant> now,
              std::span<const Decision> each) noexcept {
  if (charges.empty() || charges.size() > kMaxCharges || each.size() != charges.size()) {
    return false;
  }
  if (now && (*now < kFirstInstant || *now > kLastInstant)) return false;
  if (action.max_wait < Duration{0}) return false;
  const auto fits = [=](const Charge& charge) { return verb_fits(action.verb, charge); };
  if (!std::all_of(charges.begin(), charges.end(), fits)) return false;
  for (std::size_t i = 1; i < charges.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (is_same_counter(charges[i], charges[j]) && charges[i].limit != charges[j].limit) {
        return false;
      }
    }
  }
  return true;
}

Decision answer_all(std::span<Decision> each, const Decision& decision) noexcept {
  std::fill(each.begin(), each.end(), decision);
  return decision;
}

// Allows or denies all charges, with the capacities of their limits.
Decision answer_by_policy(Outcome outcome, Verb verb, std::span<const Charge> charges,
                          std::span<Decision> each) noexcept {
  std::uint64_t least_cost = kMaxUnits;
  for (const Charge& charge : charges) least_cost = std::min(least_cost, charge.cost);
  Decision all = detail::fallback(outcome, verb, least_cost);
  std::uint32_t capacity = kMaxUnits;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    each[i] = all;
    each[i].capacity = charges[i].limit.capacity();
    capacity = std::min(capacity, each[i].capacity);
  }
  all.capacity = capacity;
  return all;
}

// Returns the answer of the local store with the reason of a fallback.
Decision as_fallback(const Decision& local, std::span<Decision> each) noexcept {
  if (store_failed(local.reason) || local.reason == Reason::kInvalid) return local;
  for (Decision& decision : each) decision.reason = Reason::kFallback;
  Decision all = local;
  all.reason = Reason::kFallback;
  return all;
}

}  // namespace

FailurePolicyStore::FailurePolicyStore(Store& store, CircuitBreaker& breaker,
                                       const FailurePolicyOptions& options)
    : FailurePolicyStore(breaker, options) {
  // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): a delegating constructor has none
  store_ = &store;
}

FailurePolicyStore::FailurePolicyStore(CircuitBreaker& breaker, const FailurePolicyOptions& options)
    : store_(nullptr),
      breaker_(&breaker),
      fallback_(options.fallback),
      own_local_(options.fallback == FailurePolicy::kLocal && options.local == nullptr
                     ? std::make_unique<LocalShareStore>(LocalShareOptions{.nodes = options.nodes})
                     : nullptr),
      local_(own_local_ ? own_local_.get() : options.local) {}

Decision FailurePolicyStore::apply(Action action, std::span<const Charge> charges,
                                   std::optional<Instant> now, std::span<Decision> each) noexcept {
  const CircuitBreaker::Pass pass = breaker_->try_pass();
  if (!pass) return fall_back(action, charges, now, each, Reason::kStoreError);
  const Decision said = store_->apply(action, charges, now, each);
  breaker_->record(pass, said.reason);
  if (!store_failed(said.reason)) {
    const bool asks_local = fallback_ == FailurePolicy::kLocal;
    return asks_local ? policy::or_local(said, *local_, action, charges, now, each) : said;
  }
  if (said.reason == Reason::kStoreFull && charges.size() > 1) {
    return without_new(action, charges, now, each, said);
  }
  return fall_back(action, charges, now, each, said.reason);
}

// The policy answers only for the charges that need new counters.
Decision FailurePolicyStore::without_new(Action action, std::span<const Charge> charges,
                                         std::optional<Instant> now, std::span<Decision> each,
                                         const Decision& said) noexcept try {
  if (!fallback_) return said;
  Batch batch({*store_, nullptr, local_});
  for (const Charge& charge : charges) batch.add(charge, {.on_store_error = fallback_});
  const Decision all = batch.decide({.action = action, .now = now});
  for (std::size_t i = 0; i < each.size(); ++i) each[i] = batch.decision(i);
  return all;
} catch (const std::bad_alloc&) {
  return answer_all(each, Decision::refused(said.reason));
}

Decision FailurePolicyStore::apply_one(Action action, const Charge& charge,
                                       std::optional<Instant> now) noexcept {
  Reason failed = Reason::kStoreError;
  if (const CircuitBreaker::Pass pass = breaker_->try_pass()) {
    const Decision said = store_->apply_one(action, charge, now);
    breaker_->record(pass, said.reason);
    if (said.reason == Reason::kGone && fallback_ == FailurePolicy::kLocal) {
      Decision own;
      return policy::or_local(said, *local_, action, {&charge, 1}, now, {&own, 1});
    }
    if (!store_failed(said.reason)) return said;
    failed = said.reason;
  }
  Decision one;
  return fall_back(action, {&charge, 1}, now, {&one, 1}, failed);
}

Decision FailurePolicyStore::fall_back(Action action, std::span<const Charge> charges,
                                       std::optional<Instant> now, std::span<Decision> each,
                                       Reason failed) noexcept {
  if (!is_valid(action, charges, now, each))
    return answer_all(each, Decision::refused(Reason::kInvalid));
  if (!fallback_) return answer_all(each, Decision::refused(failed));
  const bool decides = asks(action.verb);
  if (*fallback_ == FailurePolicy::kLocal) {
    const Decision local = local_->apply(action, charges, now, each);
    if (decides) return as_fallback(local, each);
  }
  if (!decides) return answer_all(each, Decision::refused(failed));
  return answer_by_policy(
      *fallback_ == FailurePolicy::kAllow ? Outcome::kAllowed : Outcome::kDenied, action.verb,
      charges, each);
}

}  // namespace sluice
