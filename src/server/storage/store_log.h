#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "metrics/metrics.h"
#include "server/logging/log.h"
#include "sluice/circuit_breaker.h"
#include "sluice/clock.h"
#include "sluice/deny_cache.h"
#include "sluice/leases.h"
#include "sluice/memory_store.h"
#include "sluice/redis_store.h"
#include "sluice/store_events.h"

namespace sluice::server {

// Counts the events of the store and writes them to the log. For each kind of event it writes at
// most kLines lines in kEvery. The field `suppressed` is the number of events of that kind that
// were not written since its last line. Other fields: event (the kind), and endpoint and why if
// they are known.
//
// Thread-safety: any member from any thread; takes no lock except for the log's. Ownership: borrows
// the log and the clock, which should be steady.
class StoreLog final : public StoreObserver {
 public:
  static constexpr std::uint32_t kLines = 5;
  static constexpr std::chrono::seconds kEvery{10};

  explicit StoreLog(Log& log, const Clock& clock = SteadyClock::instance()) noexcept
      : log_(log), clock_(clock) {}

  void on(const StoreEvent& event) noexcept override;
  // Returns the number of events of that kind so far, whether written or not.
  std::uint64_t count(StoreEventKind kind) const noexcept;

 private:
  struct Kind {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> window{0};  // the number of the time window, and the lines in it
    std::atomic<std::uint64_t> suppressed{0};
  };
  bool admit(Kind& kind) noexcept;

  Log& log_;
  const Clock& clock_;
  std::array<Kind, kStoreEventKinds> kinds_;
};

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
