#pragma once

#include <functional>

#include "metrics/metrics.h"
#include "server/storage/store_log.h"
#include "sluice/circuit_breaker.h"
#include "sluice/deny_cache.h"
#include "sluice/leases.h"
#include "sluice/memory_store.h"
#include "sluice/redis_store.h"

namespace sluice::server {

// The sources of the metrics of a store outside the process. All are borrowed; `stats` and
// `durations` are called from any thread.
struct StoreSources {
  const StoreLog& events;
  const CircuitBreaker& breaker;
  const DenyCache* deny_cache = nullptr;  // null: off
  const Leases& leases;
  std::function<RedisStoreStats()> stats;
  std::function<metrics::DurationCounts()> durations = {};  // empty: they are not measured
};

// Adds the metrics to the registry, which docs/metrics.md lists. Call it once.
void add_store_metrics(metrics::Registry& registry, const StoreSources& sources);

// Adds the metrics of counters in this process's memory: those of the memory store or of the
// fallback. Call it once.
void add_memory_metrics(metrics::Registry& registry,
                        const std::function<MemoryStoreStats()>& stats);

}  // namespace sluice::server
