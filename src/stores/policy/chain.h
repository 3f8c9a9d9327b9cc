#pragma once

#include <optional>

#include "sluice/deny_cache.h"
#include "sluice/failure_policy.h"
#include "stores/policy/async_policies.h"

namespace sluice::policy {

// What all stores of a process that ask one server share. It observes their clients: it passes
// events on, and lets the breaker probe at once when a client has a connection again or follows a
// failover.
//
// Thread-safety: the members are thread-safe. Ownership: borrows the observer and the clock.
struct Shared final : StoreObserver {
  // There is no cache if its `longest` is 0.
  Shared(const CircuitBreakerOptions& breaker_options, const DenyCacheOptions& cache,
         const LocalShareOptions& share, StoreObserver* observer,
         const Clock& clock = SteadyClock::instance())
      : breaker(breaker_options, observer, clock), local(share), observer_(observer) {
    if (cache.longest > Duration{0}) deny_cache.emplace(cache, clock);
  }

  void on(const StoreEvent& event) noexcept override {
    const bool may_work =
        event.kind == StoreEventKind::kConnected || event.kind == StoreEventKind::kTopologyChanged;
    if (may_work) breaker.probe_soon();
    if (observer_ != nullptr) observer_->on(event);
  }

  CircuitBreaker breaker;
  std::optional<DenyCache> deny_cache;
  LocalShareStore local;

 private:
  StoreObserver* const observer_;
};

// Deny cache, then circuit breaker and failure policy, then a store, in the stores' blocking or
// asynchronous forms.
//
// Thread-safety: that of the store. Ownership: borrows the store and the shared parts.
template <typename Kind, typename Guarded, typename Cached>
class ChainOf {
 public:
  ChainOf(Kind& store, Shared& shared, std::optional<FailurePolicy> fallback = {})
      : guarded_(store, shared.breaker, {.fallback = fallback, .local = &shared.local}) {
    if (shared.deny_cache) cached_.emplace(guarded_, *shared.deny_cache);
  }
  ChainOf(const ChainOf&) = delete;
  ChainOf& operator=(const ChainOf&) = delete;

  Kind& store() noexcept { return cached_ ? static_cast<Kind&>(*cached_) : guarded_; }
  // Without the deny cache.
  Kind& uncached() noexcept { return guarded_; }

 private:
  Guarded guarded_;
  std::optional<Cached> cached_;
};

using Chain = ChainOf<Store, FailurePolicyStore, DenyCacheStore>;
using AsyncChain = ChainOf<AsyncStore, AsyncFailurePolicyStore, AsyncDenyCacheStore>;

}  // namespace sluice::policy
