#pragma once

#include <optional>
#include <span>
#include <utility>

#include "sluice/deny_cache.h"
#include "sluice/failure_policy.h"
#include "sluice/leased_store.h"
#include "sluice/store.h"

namespace sluice {

namespace policy {

// A request to an asynchronous store, which a question of a policy controls: begin() and answer()
// return whether its decision() is final, and if not, it says what to ask the store next. Deletes
// itself at its end.
template <typename Question>
class AsyncQuestion final : public AsyncStore::Completion {
 public:
  template <typename... Arguments>
  AsyncQuestion(AsyncStore& store, AsyncStore::Completion& completion, Arguments&&... arguments)
      : store_(store), completion_(completion), question_(std::forward<Arguments>(arguments)...) {}

  void start() noexcept { go_on(question_.begin()); }
  void done(const Decision& said) noexcept override { go_on(question_.answer(said)); }

 private:
  void go_on(bool is_done) noexcept {
    if (!is_done) {
      return store_.async_apply(question_.action(), question_.asked(), question_.now(),
                                question_.answers(), *this);
    }
    AsyncStore::Completion& completion = completion_;
    const Decision decision = question_.decision();
    delete this;
    completion.done(decision);
  }

  AsyncStore& store_;
  AsyncStore::Completion& completion_;
  Question question_;
};

}  // namespace policy

// FailurePolicyStore in front of an asynchronous store. It answers by the policy in the thread that
// starts the request if the breaker is open, and in the store's if the store has failed.
//
// RedisChain opens and owns all of these; use this class with AsyncRedisStore.
//
// Thread-safety: that of the store. Ownership: as FailurePolicyStore; the requests under way must
// have ended before it is destroyed. Cost: as FailurePolicyStore, and one allocation.
class AsyncFailurePolicyStore final : public AsyncStore {
 public:
  // Puts the breaker and the policy in front of the store.
  AsyncFailurePolicyStore(AsyncStore& store, CircuitBreaker& breaker,
                          const FailurePolicyOptions& options = {})
      : store_(store), policy_(breaker, options) {}

  // See AsyncStore.
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override;

 private:
  AsyncStore& store_;
  FailurePolicyStore policy_;
};

// DenyCacheStore in front of an asynchronous store. Repeats a recent denial in the thread that
// starts the request, before async_apply() returns.
//
// Thread-safety: that of the store. Ownership: borrows the store and the cache; the requests under
// way must have ended before it is destroyed. Cost: as DenyCacheStore, and one allocation.
class AsyncDenyCacheStore final : public AsyncStore {
 public:
  // Puts the cache in front of the store.
  AsyncDenyCacheStore(AsyncStore& store, DenyCache& cache) noexcept
      : store_(store), cache_(cache) {}

  // See AsyncStore.
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override;

 private:
  AsyncStore& store_;
  DenyCache& cache_;
};

// LeasedStore in front of an asynchronous store. It admits from a lease in the thread that starts
// the request, before async_apply() returns.
//
// It has no thread and no timer: every request also starts to give back what is due. A program
// whose requests may cease calls give_back() at Leases::next_end(), too.
//
// Thread-safety: that of the store. Ownership: borrows the store and the leases; the requests under
// way must have ended before it is destroyed. Cost: as LeasedStore, and one allocation for a
// request that asks the store.
class AsyncLeasedStore final : public AsyncStore {
 public:
  // Puts the leases in front of the store.
  AsyncLeasedStore(AsyncStore& store, Leases& leases) noexcept : store_(store), leases_(leases) {}

  // See AsyncStore.
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override;
  // Starts returning the unused units of ended leases, or of all leases. Sends one request per 64
  // counters, all in this turn of the loop. If a request fails, its units stay taken.
  void give_back(LeaseEnd which = LeaseEnd::kDue) noexcept;

 private:
  AsyncStore& store_;
  Leases& leases_;
};

}  // namespace sluice
