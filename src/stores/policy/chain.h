#pragma once

#include <optional>

#include "sluice/deny_cache.h"
#include "sluice/failure_policy.h"
#include "stores/policy/async_policies.h"

namespace sluice::policy {

// Passes events on, and lets the breaker probe at once when the client has a connection again or
// follows a failover.
//
// Thread-safety: any thread. Ownership: borrows both.
class BreakerWaker final : public StoreObserver {
 public:
  BreakerWaker(CircuitBreaker& breaker, StoreObserver* next) noexcept
      : breaker_(breaker), next_(next) {}

  void on(const StoreEvent& event) noexcept override {
    const bool may_work =
        event.kind == StoreEventKind::kConnected || event.kind == StoreEventKind::kTopologyChanged;
    if (may_work) breaker_.probe_soon();
    if (next_ != nullptr) next_->on(event);
  }

 private:
  CircuitBreaker& breaker_;
  StoreObserver* const next_;
};

// What all stores of a process that ask one server share.
//
// Thread-safety: the members are thread-safe. Ownership: borrows the observer and the clock.
struct Shared {
  struct Options {
    CircuitBreakerOptions breaker = {};
    std::optional<DenyCacheOptions> deny_cache = {};
    LocalShareOptions local = {};
  };
  explicit Shared(const Options& options, StoreObserver* observer,
                  const Clock& clock = SteadyClock::instance())
      : breaker(options.breaker, observer, clock),
        client_events(breaker, observer),
        local(options.local) {
    if (options.deny_cache) deny_cache.emplace(*options.deny_cache, clock);
  }

  CircuitBreaker breaker;
  BreakerWaker client_events;  // receives the events of the clients
  std::optional<DenyCache> deny_cache;
  LocalShareStore local;
};

// Deny cache, then circuit breaker and failure policy, then a store.
//
// Thread-safety: that of the store. Ownership: borrows the store and the shared parts.
class Chain {
 public:
  Chain(Store& store, Shared& shared, std::optional<FailurePolicy> fallback = {})
      : guarded_(store, shared.breaker, {.fallback = fallback, .local = &shared.local}) {
    if (shared.deny_cache) cached_.emplace(guarded_, *shared.deny_cache);
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  Store& store() noexcept { return cached_ ? static_cast<Store&>(*cached_) : guarded_; }
  // Without the deny cache.
  Store& uncached() noexcept { return guarded_; }

 private:
  FailurePolicyStore guarded_;
  std::optional<DenyCacheStore> cached_;
};

// The same in front of an asynchronous store.
class AsyncChain {
 public:
  AsyncChain(AsyncStore& store, Shared& shared, std::optional<FailurePolicy> fallback = {})
      : guarded_(store, shared.breaker, {.fallback = fallback, .local = &shared.local}) {
    if (shared.deny_cache) cached_.emplace(guarded_, *shared.deny_cache);
  }
  AsyncChain(const AsyncChain&) = delete;
  AsyncChain& operator=(const AsyncChain&) = delete;

  AsyncStore& store() noexcept { return cached_ ? static_cast<AsyncStore&>(*cached_) : guarded_; }

 private:
  AsyncFailurePolicyStore guarded_;
  std::optional<AsyncDenyCacheStore> cached_;
};

}  // namespace sluice::policy
