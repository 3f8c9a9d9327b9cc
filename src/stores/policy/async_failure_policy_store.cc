#include <algorithm>
#include <cstddef>
#include <new>
#include <vector>

#include "sluice/async_policies.h"
#include "stores/policy/local_permits.h"

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
      if (asks(action_.verb)) return begin_without_new();
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
  // asked for the others.
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
    if (!answer.allowed() || rest_.empty()) return end(answer);
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

}  // namespace sluice
