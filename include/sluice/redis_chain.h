#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "sluice/deny_cache.h"
#include "sluice/failure_policy.h"
#include "sluice/leased_store.h"
#include "sluice/redis_store.h"

namespace sluice {

// How a RedisChain reaches Redis, and what it does if Redis fails. The defaults suit a service that
// reports failures itself.
struct RedisChainOptions {
  RedisOptions redis = {};
  CircuitBreakerOptions breaker = {};
  // Who answers if Redis cannot. Absent: nobody; the decision is Outcome::kFailed with the store's
  // reason. See FailurePolicyStore.
  std::optional<FailurePolicy> on_store_error = {};
  // For FailurePolicy::kLocal: the number of processes that share the limits, and the memory for
  // their counters.
  LocalShareOptions local = {};
  // How long denials are remembered in this process. `longest` 0: not at all.
  DenyCacheOptions deny_cache = {};
  // The batches of limits with a lease (LimitBuilder::leased).
  LeaseOptions leases = {};
};

// What a RedisChain has done since it was opened, and its state now.
struct RedisChainStatus {
  RedisStoreStats redis = {};
  CircuitBreaker::State breaker = CircuitBreaker::State::kClosed;
  std::uint64_t refused = 0;          // requests that the open breaker kept from Redis
  std::uint64_t deny_cache_hits = 0;  // requests that were denied without asking Redis
  MemoryStoreStats local = {};        // the counters of FailurePolicy::kLocal
  LeaseStats leases = {};
};

// Limits that all machines share, in one object: a Redis client, a circuit breaker, a failure
// policy, a deny cache and leases.
//
//   auto chain = RedisChain::open("redis://10.0.0.5").value();
//   Limiter limiter(*chain);
//
// A request passes through them in this order:
//   1. LeasedStore admits it if its limits have leases with enough units.
//   2. DenyCacheStore denies it if its counter was denied a moment ago.
//   3. CircuitBreaker keeps it from Redis while Redis fails.
//   4. RedisStore decides it in one round trip.
//   5. FailurePolicyStore answers if neither 3 nor 4 could.
// Use these classes instead if several stores share a breaker or a cache, or to leave one out.
// async_apply() passes through the same parts without a thread that sleeps.
//
// Thread-safety: any member from any thread; one chain serves a whole process. Ownership: owns all
// of its parts and two threads; borrows the observer. Errors: apply() answers with a reason, see
// the classes above. Cost: that of RedisStore, a round trip during which the caller sleeps; a hit
// of the deny cache or an open breaker costs about 100 ns. About 5 MB for the deny cache and 3 MB
// for leases.
class RedisChain final : public Store, public AsyncStore {
 public:
  // Does not wait for Redis: the chain connects when it can. Errors: an option that is wrong, with
  // what would be right, or a file that cannot be read.
  static Expected<std::unique_ptr<RedisChain>> open(const RedisChainOptions& options,
                                                    StoreObserver* observer = nullptr);
  // As above, with the defaults for everything but the URL (RedisOptions::url).
  static Expected<std::unique_ptr<RedisChain>> open(std::string_view url,
                                                    StoreObserver* observer = nullptr);
  // No call of apply() may be under way. Ends the requests of async_apply().
  ~RedisChain() override;
  RedisChain(const RedisChain&) = delete;
  RedisChain& operator=(const RedisChain&) = delete;

  // See Store.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;

  // See AsyncStore. `done()` is called in the thread of RedisStore, or before async_apply()
  // returns.
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override;

  // Waits until Redis can be asked, for instance before a service reports that it is ready.
  // Errors: why it cannot, as far as is known.
  Status wait_until_ready(std::chrono::milliseconds at_most);

  // Returns the counts and the state now.
  RedisChainStatus status() const;

 private:
  class Impl;
  explicit RedisChain(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
