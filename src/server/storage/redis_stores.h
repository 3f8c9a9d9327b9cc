#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "metrics/counts.h"
#include "server/config/config.h"
#include "server/storage/loop_stores.h"
#include "sluice/leases.h"
#include "sluice/store_events.h"
#include "stores/policy/chain.h"
#include "stores/redis/store/loop_store.h"

namespace boost::asio {
class io_context;
}

namespace sluice::server {

// The Redis stores of all event loops of a server, and what they share: leases, a circuit
// breaker, a deny cache and a local share. Each loop has its own connection.
//
//   limiter   leases -> deny cache -> circuit breaker -> Redis   used by rules
//   shadow                            circuit breaker -> Redis   used by shadow rules
//   local     this process's share of the limits                 `on_store_error: local`
//
// Thread-safety: make() by the thread that makes the loops; the rest from any thread. Ownership:
// borrows the observer; outlives the stores that it makes.
class RedisStores {
 public:
  // Errors: a mistake in the configuration, or a file of it that cannot be read.
  static Expected<std::unique_ptr<RedisStores>> open(const Config& config, StoreObserver* observer);
  // Gives back the units of leases that have not ended, if there are any, within a second.
  ~RedisStores();

  std::unique_ptr<LoopStores> make(boost::asio::io_context& loop);

  const redis::Target& target() const noexcept { return *target_; }
  const std::shared_ptr<const redis::Target>& shared_target() const noexcept { return target_; }
  const CircuitBreaker& breaker() const noexcept { return shared_.breaker; }
  // Null if it is off.
  const DenyCache* deny_cache() const noexcept {
    return shared_.deny_cache ? &*shared_.deny_cache : nullptr;
  }
  const Leases& leases() const noexcept { return leases_; }
  const LocalShareStore& local() const noexcept { return shared_.local; }
  // The sum of all loops.
  RedisStoreStats stats() const;
  metrics::DurationCounts durations() const;

 private:
  class Chain;

  RedisStores(const Config& config, std::shared_ptr<const redis::Target> target,
              StoreObserver* observer);
  void add(const Chain& chain);
  void remove(const Chain& chain);

  const std::shared_ptr<const redis::Target> target_;
  policy::Shared shared_;
  Leases leases_;
  mutable std::mutex mutex_;  // protects the members below
  std::vector<const Chain*> chains_;
  RedisStoreStats past_;  // the statistics of closed stores, as the next
  metrics::DurationCounts past_durations_;
};

}  // namespace sluice::server
