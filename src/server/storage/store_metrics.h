#pragma once

#include <functional>

#include "metrics/metrics.h"
#include "server/storage/store_log.h"
#include "sluice/circuit_breaker.h"
#include "sluice/deny_cache.h"
#include "sluice/memory_store.h"
#include "sluice/redis_store.h"

namespace sluice::server {

// What the metrics of a store outside of the process are taken from. All borrowed; `stats` is
// called from any thread.
struct StoreSources {
  const StoreLog& events;
  const CircuitBreaker& breaker;
  const DenyCache* deny_cache = nullptr;  // null: off
  std::function<RedisStoreStats()> stats;
};

// Adds them to the registry, once; docs/metrics.md lists them.
void add_store_metrics(metrics::Registry& registry, const StoreSources& sources);

// Those of counters in the memory of this process: of the store, or of what stands in for it. Once.
void add_memory_metrics(metrics::Registry& registry,
                        const std::function<MemoryStoreStats()>& stats);

}  // namespace sluice::server
