#include "server/storage/store_log.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::server {
namespace {

// Adds one number of a store's statistics.
template <typename Stats, typename Number>
std::function<double()> one_of(const std::function<Stats()>& stats, Number Stats::* number) {
  return [stats, number] { return static_cast<double>(stats().*number); };
}

void add_requests(metrics::Registry& registry, const std::function<RedisStoreStats()>& stats) {
  registry.add_counter("sluice_store_asked_total", "Requests to the store.",
                       one_of(stats, &RedisStoreStats::requests));
  registry.add_counter("sluice_store_timeouts_total",
                       "Requests to the store without an answer within the deadline.",
                       one_of(stats, &RedisStoreStats::timeouts));
  registry.add_counter("sluice_store_errors_total",
                       "Requests that could not be sent or were answered with an error.",
                       one_of(stats, &RedisStoreStats::errors));
  registry.add_counter("sluice_store_redirects_total", "MOVED and ASK replies of a cluster.",
                       one_of(stats, &RedisStoreStats::redirects));
  registry.add_counter(
      "sluice_store_given_back_total",
      "Requests over several slots that were undone because one slot denied or failed.",
      one_of(stats, &RedisStoreStats::gave_back));
  registry.add_gauge("sluice_store_connections", "Connections to the store that are ready.",
                     one_of(stats, &RedisStoreStats::connected));
  registry.add_gauge("sluice_store_pending", "Requests that wait for an answer of the store.",
                     one_of(stats, &RedisStoreStats::pending));
}

void add_leases(metrics::Registry& registry, const Leases& leases) {
  const std::function<LeaseStats()> stats = [&leases] { return leases.stats(); };
  registry.add_counter("sluice_lease_local_total",
                       "Requests that leases admitted without asking the store.",
                       one_of(stats, &LeaseStats::local));
  registry.add_counter("sluice_lease_batches_total",
                       "Batches of units that leases took from the store.",
                       one_of(stats, &LeaseStats::batches));
  registry.add_counter("sluice_lease_units_taken_total", "Units of these batches.",
                       one_of(stats, &LeaseStats::taken));
  registry.add_counter("sluice_lease_units_given_back_total",
                       "Units that leases did not use and gave back to the store.",
                       one_of(stats, &LeaseStats::given_back));
  registry.add_gauge("sluice_lease_counters", "Counters with a lease.",
                     one_of(stats, &LeaseStats::held));
}

}  // namespace

void add_store_metrics(metrics::Registry& registry, const StoreSources& sources) {
  add_requests(registry, sources.stats);
  registry.add_histogram("sluice_store_duration_seconds",
                         "Time from a request to the store to its answer or its failure.",
                         sources.durations);
  add_leases(registry, sources.leases);
  std::vector<metrics::Registry::Series> kinds;
  for (std::size_t i = 0; i < kStoreEventKinds; ++i) {
    const auto kind = static_cast<StoreEventKind>(i);
    kinds.push_back({std::string(to_string(kind)), [events = &sources.events, kind] {
                       return static_cast<double>(events->count(kind));
                     }});
  }
  registry.add_counters("sluice_store_events_total", "Events of the store, by kind.", "event",
                        std::move(kinds));
  const CircuitBreaker* const breaker = &sources.breaker;
  registry.add_gauge(
      "sluice_store_breaker_open", "1 while the circuit breaker is open, otherwise 0.",
      [breaker] { return breaker->state() == CircuitBreaker::State::kClosed ? 0.0 : 1.0; });
  registry.add_counter(
      "sluice_store_not_asked_total",
      "Requests that were decided without the store because the circuit breaker was open.",
      [breaker] { return static_cast<double>(breaker->refused()); });
  registry.add_counter("sluice_deny_cache_hits_total", "Requests denied by the deny cache.",
                       [cache = sources.deny_cache] {
                         return cache != nullptr ? static_cast<double>(cache->hits()) : 0.0;
                       });
}

void add_memory_metrics(metrics::Registry& registry,
                        const std::function<MemoryStoreStats()>& stats) {
  registry.add_gauge("sluice_store_keys", "Counters in the memory store.",
                     one_of(stats, &MemoryStoreStats::keys));
  registry.add_gauge("sluice_store_log_bytes", "Bytes of window logs and slices.",
                     one_of(stats, &MemoryStoreStats::log_bytes));
  registry.add_counter("sluice_store_evictions_total",
                       "Counters in use that were evicted because of a bound.",
                       one_of(stats, &MemoryStoreStats::evictions));
  registry.add_counter("sluice_store_freed_keys_total",
                       "Blocked keys that were freed because of a bound.",
                       one_of(stats, &MemoryStoreStats::freed_keys));
  registry.add_counter("sluice_store_swept_total",
                       "Counters that were deleted because they were fully replenished.",
                       one_of(stats, &MemoryStoreStats::swept));
  registry.add_counter("sluice_store_merged_logs_total",
                       "Times that a window log was merged into slices because it did not fit.",
                       one_of(stats, &MemoryStoreStats::merged_logs));
}

namespace {

struct Line {
  LogLevel level;
  std::string_view message;
};

Line line_of(StoreEventKind kind) noexcept {
  switch (kind) {
    case StoreEventKind::kConnected: return {LogLevel::kInfo, "connected to the store"};
    case StoreEventKind::kConnectionLost:
      return {LogLevel::kWarning, "a connection to the store was lost"};
    case StoreEventKind::kConnectFailed: return {LogLevel::kWarning, "cannot connect to the store"};
    case StoreEventKind::kTopologyChanged:
      return {LogLevel::kInfo, "the topology of the store has changed"};
    case StoreEventKind::kRequestFailed:
      return {LogLevel::kWarning, "the store answered with an error"};
    case StoreEventKind::kScriptLoaded:
      return {LogLevel::kInfo, "a script was sent to the store again"};
    case StoreEventKind::kBreakerOpened:
      return {LogLevel::kError,
              "the circuit breaker has opened; policies decide without the store"};
    case StoreEventKind::kBreakerProbing: return {LogLevel::kInfo, "one request probes the store"};
    case StoreEventKind::kBreakerClosed:
      return {LogLevel::kInfo, "the circuit breaker has closed; the store decides again"};
  }
  return {LogLevel::kWarning, "an unknown event of the store"};
}

constexpr std::uint64_t kLinesMask = 0xFFFF;
static_assert(StoreLog::kLines < kLinesMask);

}  // namespace

// The time windows begin at the multiples of kEvery.
bool StoreLog::admit(Kind& kind) noexcept {
  const auto since = clock_.now().time_since_epoch();
  const std::uint64_t window = (static_cast<std::uint64_t>(since / kEvery) + 1) << 16;
  std::uint64_t seen = kind.window.load(std::memory_order_relaxed);
  for (;;) {
    const bool same = (seen & ~kLinesMask) == window;
    if (same && (seen & kLinesMask) >= kLines) return false;
    const std::uint64_t next = same ? seen + 1 : window + 1;
    if (kind.window.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return true;
  }
}

void StoreLog::on(const StoreEvent& event) noexcept {
  const auto index = static_cast<std::size_t>(event.kind);
  if (index >= kinds_.size()) return;
  Kind& kind = kinds_[index];
  kind.count.fetch_add(1, std::memory_order_relaxed);
  const Line line = line_of(event.kind);
  if (line.level < log_.options().level) return;
  if (!admit(kind)) {
    kind.suppressed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::array<LogField, 4> fields{LogField{"event", to_string(event.kind)}, LogField{"", ""},
                                 LogField{"", ""}, LogField{"", ""}};
  std::size_t size = 1;
  if (!event.endpoint.empty()) fields[size++] = {"endpoint", event.endpoint};
  if (!event.why.empty()) fields[size++] = {"why", event.why};
  const std::uint64_t suppressed = kind.suppressed.exchange(0, std::memory_order_relaxed);
  if (suppressed > 0) fields[size++] = {"suppressed", suppressed};
  log_.write_all(line.level, line.message, std::span(fields).first(size));
}

std::uint64_t StoreLog::count(StoreEventKind kind) const noexcept {
  const auto index = static_cast<std::size_t>(kind);
  return index < kinds_.size() ? kinds_[index].count.load(std::memory_order_relaxed) : 0;
}

}  // namespace sluice::server
