// What a limit answers while its store does not, and for counters that a full store does not
// create. The store is asked again without the charges that need a new counter, and their policies
// answer for these.
#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "limiter/answer.h"
#include "limiter/batch.h"
#include "sluice/failure_policy.h"
#include "sluice/store.h"
#include "stores/policy/async_policies.h"

namespace sluice::policy {

// Returns the store's answer; if a permit is gone there, that of the local store, which may have
// given the permit while the store failed.
inline Decision or_local(const Decision& said, Store& local, Action action,
                         std::span<const Charge> charges, std::optional<Instant> now,
                         std::span<Decision> each) noexcept {
  if (said.reason != Reason::kGone) return said;
  std::array<Decision, kMaxCharges> own;
  const std::span<Decision> answers = std::span(own).first(charges.size());
  const Decision decision = local.apply(action, charges, now, answers);
  if (!decision.allowed()) return said;
  std::copy(answers.begin(), answers.end(), each.begin());
  return decision;
}

}  // namespace sluice::policy

namespace sluice {

// A request that has passed the breaker.
class AsyncFailurePolicyStore::Request final : public Completion {
 public:
  Request(AsyncFailurePolicyStore& of, CircuitBreaker::Pass pass, Action action,
          std::span<const Charge> charges, std::optional<Instant> now, std::span<Decision> each,
          Completion& completion) noexcept
      : policy_(of.policy_),
        store_(of.store_),
        pass_(pass),
        action_(action),
        charges_(charges),
        now_(now),
        each_(each),
        completion_(completion) {}

  void start() noexcept { store_.async_apply(action_, charges_, now_, each_, *this); }
  void done(const Decision& said) noexcept override {
    if (pass_) policy_.breaker_->record(pass_, said.reason);
    pass_ = {};  // of the first question only
    if (is_without_new_) return take_rest(said);
    if (said.reason == Reason::kGone && policy_.fallback_ == FailurePolicy::kLocal) {
      return end(policy::or_local(said, *policy_.local_, action_, charges_, now_, each_));
    }
    if (!store_failed(said.reason)) return end(said);
    if (said.reason == Reason::kStoreFull && charges_.size() > 1) {
      if (!policy_.fallback_) return end(said);
      if (goes_on_without_new(action_.verb)) return begin_without_new();
    }
    end(policy_.fall_back(action_, charges_, now_, each_, said.reason));
  }

 private:
  void end(const Decision& decision) noexcept {
    Completion& completion = completion_;
    delete this;
    completion.done(decision);
  }

  // The store is full: the policy answers for the charges that need new counters, and the store is
  // asked for the others. Work that is done is not counted where it needs new counters.
  void begin_without_new() noexcept try {
    is_without_new_ = true;
    for (std::size_t i = 0; i < charges_.size(); ++i) rest_.push_back(i);
    rest_each_.assign(each_.begin(), each_.end());
    leave_out_new();
  } catch (const std::bad_alloc&) {
    fail(Reason::kStoreFull);
  }
  void fail(Reason reason) noexcept {
    std::fill(each_.begin(), each_.end(), Decision::refused(reason));
    end(Decision::refused(reason));
  }
  void leave_out_new() {
    const auto is_new = [&](std::size_t i) { return each_[i].reason == Reason::kStoreFull; };
    std::vector<std::size_t> added;
    std::copy_if(rest_.begin(), rest_.end(), std::back_inserter(added), is_new);
    if (added.empty()) added = rest_;
    const Decision answer = answer_by_policy(added, Reason::kStoreFull);
    std::erase_if(rest_, [&](std::size_t i) {
      return std::find(added.begin(), added.end(), i) != added.end();
    });
    new_.insert(new_.end(), added.begin(), added.end());
    const bool goes_on = answer.allowed() || action_.verb == Verb::kCharge;
    if (!goes_on || rest_.empty()) return end(answer);
    rest_charges_ = select(rest_);
    rest_each_.resize(rest_.size());
    store_.async_apply(action_, rest_charges_, now_, rest_each_, *this);
  }
  void take_rest(const Decision& said) noexcept try {
    for (std::size_t i = 0; i < rest_.size(); ++i) each_[rest_[i]] = rest_each_[i];
    if (said.reason == Reason::kStoreFull) return leave_out_new();
    if (store_failed(said.reason)) return end(answer_by_policy(rest_, said.reason));
    Decision all = said;
    if (all.allowed()) {
      if (all.reason == Reason::kOk) all.reason = Reason::kFallback;
    } else if (takes(action_.verb) && policy_.fallback_ == FailurePolicy::kLocal) {
      std::vector<Decision> unread(new_.size());
      policy_.local_->apply(Verb::kRefund, select(new_), now_, unread);
    }
    end(all);
  } catch (const std::bad_alloc&) {
    fail(Reason::kStoreFull);
  }
  Decision answer_by_policy(const std::vector<std::size_t>& indices, Reason failed) {
    const std::vector<Charge> charges = select(indices);
    std::vector<Decision> answers(indices.size());
    const Decision all = policy_.fall_back(action_, charges, now_, answers, failed);
    for (std::size_t i = 0; i < indices.size(); ++i) each_[indices[i]] = answers[i];
    return all;
  }
  std::vector<Charge> select(const std::vector<std::size_t>& indices) const {
    std::vector<Charge> charges;
    charges.reserve(indices.size());
    for (const std::size_t i : indices) charges.push_back(charges_[i]);
    return charges;
  }

  FailurePolicyStore& policy_;
  AsyncStore& store_;
  CircuitBreaker::Pass pass_;
  const Action action_;
  const std::span<const Charge> charges_;
  const std::optional<Instant> now_;
  const std::span<Decision> each_;
  Completion& completion_;

  bool is_without_new_ = false;
  std::vector<std::size_t> new_;   // charges that the policy has answered
  std::vector<std::size_t> rest_;  // charges that the store is asked for
  std::vector<Charge> rest_charges_;
  std::vector<Decision> rest_each_;
};

void AsyncFailurePolicyStore::async_apply(Action action, std::span<const Charge> charges,
                                          std::optional<Instant> now, std::span<Decision> each,
                                          Completion& completion) noexcept {
  const CircuitBreaker::Pass pass = policy_.breaker_->try_pass();
  auto* const request = pass ? new (std::nothrow)
                                   Request(*this, pass, action, charges, now, each, completion)
                             : nullptr;
  if (request != nullptr) return request->start();
  policy_.breaker_->record(pass, Reason::kInvalid);  // the store is not asked
  completion.done(policy_.fall_back(action, charges, now, each, Reason::kStoreError));
}

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
  Batch batch(*store_, nullptr, local_);
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
