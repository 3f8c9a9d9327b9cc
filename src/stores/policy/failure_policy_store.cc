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
  const auto fits = [=](const Charge& charge) { return verb_fits(action, charge); };
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

// What counts of an answer for the breaker: that a peek is answered does not show whether the store
// can write, so the next request is the probe.
Reason counted(const CircuitBreaker::Pass& pass, Verb verb, Reason said) noexcept {
  const bool has_failed = said == Reason::kStoreTimeout || said == Reason::kStoreError;
  const bool shows_nothing = verb == Verb::kPeek && !has_failed && pass.is_probe();
  return shows_nothing ? Reason::kInvalid : said;
}

Decision answer_all(std::span<Decision> each, const Decision& decision) noexcept {
  std::fill(each.begin(), each.end(), decision);
  return decision;
}

// Allows or denies all charges, with the capacities of their limits.
Decision answer_by_policy(Outcome outcome, Verb verb, std::span<const Charge> charges,
                          std::span<Decision> each) noexcept {
  std::uint64_t least_cost = kMaxAmount;
  for (const Charge& charge : charges) {
    least_cost = std::min({least_cost, charge.cost, most_cost(charge.limit)});
  }
  Decision all = detail::fallback(outcome, verb, least_cost);
  std::uint64_t capacity = kMaxAmount;
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

// Copies the answers of a batch. If a policy answers the request, its capacity is the smallest of
// those that a policy answers, as in answer_by_policy().
void copy_answers(const Batch& batch, std::span<Decision> each, Decision& all) noexcept {
  std::uint64_t capacity = kMaxAmount;
  for (std::size_t i = 0; i < each.size(); ++i) {
    each[i] = batch.decision(i);
    if (each[i].reason == Reason::kFallback) capacity = std::min(capacity, each[i].capacity);
  }
  if (all.reason == Reason::kFallback && all.capacity == 0) all.capacity = capacity;
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

// A request that has passed the breaker. If the store says kStoreFull, it is asked again without
// the charges that need new counters, and their policy answers for these.
class FailurePolicyStore::Request {
 public:
  Request(FailurePolicyStore& policy, CircuitBreaker::Pass pass, Action action,
          std::span<const Charge> charges, std::optional<Instant> now,
          std::span<Decision> each) noexcept
      : policy_(policy), pass_(pass), action_(action), charges_(charges), now_(now), each_(each) {}

  static bool begin() noexcept { return false; }
  bool answer(const Decision& said) noexcept try {
    decision_ = said;
    if (!batch_) {
      policy_.breaker_->record(pass_, counted(pass_, action_.verb, said.reason));
      if (!policy_.leaves_out_new(said, action_, charges_)) {
        decision_ = policy_.answer_to(said, action_, charges_, now_, each_);
        return true;
      }
      batch_.emplace(policy_.local_);
      for (const Charge& charge : charges_)
        batch_->add(charge, {.on_store_error = policy_.fallback_});
      batch_->begin({.action = action_, .now = now_}, each_);
    }
    if (!batch_->answer(decision_)) return false;
    copy_answers(*batch_, each_, decision_);
    return true;
  } catch (const std::bad_alloc&) {
    decision_ = answer_all(each_, Decision::refused(Reason::kStoreFull));
    return true;
  }

  Action action() const noexcept { return action_; }
  std::span<const Charge> asked() const noexcept { return batch_ ? batch_->asked() : charges_; }
  std::optional<Instant> now() const noexcept { return now_; }
  std::span<Decision> answers() noexcept { return batch_ ? batch_->answers() : each_; }
  const Decision& decision() const noexcept { return decision_; }

 private:
  FailurePolicyStore& policy_;
  const CircuitBreaker::Pass pass_;
  const Action action_;
  const std::span<const Charge> charges_;
  const std::optional<Instant> now_;
  const std::span<Decision> each_;
  Decision decision_;
  std::optional<Batch> batch_;  // once the store is asked for a part of the charges
};

Decision FailurePolicyStore::apply(Action action, std::span<const Charge> charges,
                                   std::optional<Instant> now, std::span<Decision> each) noexcept {
  const CircuitBreaker::Pass pass = breaker_->try_pass();
  if (!pass) return fall_back(action, charges, now, each, Reason::kStoreError);
  Request request(*this, pass, action, charges, now, each);
  while (!request.answer(store_->apply(action, request.asked(), now, request.answers()))) {
  }
  return request.decision();
}

Decision FailurePolicyStore::apply_one(Action action, const Charge& charge,
                                       std::optional<Instant> now) noexcept {
  Decision one;
  const CircuitBreaker::Pass pass = breaker_->try_pass();
  if (!pass) return fall_back(action, {&charge, 1}, now, {&one, 1}, Reason::kStoreError);
  const Decision said = store_->apply_one(action, charge, now);
  breaker_->record(pass, counted(pass, action.verb, said.reason));
  return answer_to(said, action, {&charge, 1}, now, {&one, 1});
}

bool FailurePolicyStore::leaves_out_new(const Decision& said, Action action,
                                        std::span<const Charge> charges) const noexcept {
  return said.reason == Reason::kStoreFull && charges.size() > 1 && fallback_ &&
         goes_on_without_new(action.verb);
}

Decision FailurePolicyStore::answer_to(const Decision& said, Action action,
                                       std::span<const Charge> charges, std::optional<Instant> now,
                                       std::span<Decision> each) noexcept {
  if (said.reason == Reason::kGone && fallback_ == FailurePolicy::kLocal) {
    return or_local(said, action, charges, now, each);
  }
  const bool says_which_are_new = said.reason == Reason::kStoreFull && charges.size() > 1;
  if (!store_failed(said.reason) || (says_which_are_new && !fallback_)) return said;
  return fall_back(action, charges, now, each, said.reason);
}

// The permit is gone in the store. The local store may have given it while the store failed.
Decision FailurePolicyStore::or_local(const Decision& said, Action action,
                                      std::span<const Charge> charges, std::optional<Instant> now,
                                      std::span<Decision> each) noexcept {
  std::array<Decision, kMaxCharges> own;
  const std::span<Decision> answers = std::span(own).first(charges.size());
  const Decision decision = local_->apply(action, charges, now, answers);
  if (!decision.allowed()) return said;
  std::copy(answers.begin(), answers.end(), each.begin());
  return decision;
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

void AsyncFailurePolicyStore::async_apply(Action action, std::span<const Charge> charges,
                                          std::optional<Instant> now, std::span<Decision> each,
                                          Completion& completion) noexcept {
  const CircuitBreaker::Pass pass = policy_.breaker_->try_pass();
  using Question = policy::AsyncQuestion<FailurePolicyStore::Request>;
  auto* const request = pass ? new (std::nothrow) Question(store_, completion, policy_, pass,
                                                           action, charges, now, each)
                             : nullptr;
  if (request != nullptr) return request->start();
  policy_.breaker_->record(pass, Reason::kInvalid);  // the store is not asked
  completion.done(policy_.fall_back(action, charges, now, each, Reason::kStoreError));
}

}  // namespace sluice
