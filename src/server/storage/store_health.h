#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/metrics.h"
#include "server/logging/log.h"
#include "server/storage/loop_stores.h"
#include "sluice/clock.h"
#include "sluice/deny_cache.h"
#include "sluice/failure_policy.h"
#include "sluice/leased_store.h"
#include "sluice/memory_store.h"
#include "sluice/redis_store.h"
#include "sluice/store.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/target.h"

namespace sluice::server {

// What a Redis server says of itself by INFO. A value that it does not say is absent.
struct ServerInfo {
  std::string name;  // "host:port" in a cluster, else the URL of the store without passwords
  std::optional<std::uint64_t> used_memory;  // bytes
  std::optional<std::uint64_t> max_memory;   // bytes; 0: no maximum
  std::string policy;                        // maxmemory-policy; empty: unknown
  std::optional<std::uint64_t> commands;     // since its start, as the next
  std::optional<std::uint64_t> evicted_keys;
  std::optional<std::uint64_t> replicas;  // that are connected
  // Of the replica that is the furthest behind; absent without replicas.
  std::optional<std::uint64_t> lag_bytes;
  std::optional<std::uint64_t> lag_seconds;  // since a replica has reported its offset

  // Reads the text of INFO, which has no name. Ignores what it does not know.
  static ServerInfo read(std::string_view text);
  // Says that it may delete counters in use, or nothing.
  std::string trouble() const;
};

// Asks each master of a Redis store every five seconds how it is, on connections of its own, which
// may wait longer for an answer than requests do. Logs a warning if one refuses to answer, and once
// for each trouble.
//
// Thread-safety: start() and stop() in the loop's thread, servers() from any. Ownership: borrows
// the log, and the loop until stop().
class RedisHealth {
 public:
  static constexpr std::size_t kMostServers = 100;  // of a cluster; the others are not asked

  static constexpr std::chrono::hours kWarnEvery{1};  // of an error that it answers each time

  RedisHealth(std::shared_ptr<const redis::Target> target, Log& log,
              std::chrono::milliseconds every = std::chrono::seconds(5));
  ~RedisHealth();
  RedisHealth(const RedisHealth&) = delete;
  RedisHealth& operator=(const RedisHealth&) = delete;

  void start(boost::asio::io_context& loop);
  void stop() noexcept;

  // The servers that answered when they were asked last.
  std::vector<ServerInfo> servers() const;
  // The first trouble of one of them, or nothing.
  std::string trouble() const;

 private:
  void look();
  void ask(const std::vector<redis::SlotMaster>& masters);
  void submit(std::optional<std::uint16_t> slot, std::initializer_list<std::string_view> words,
              std::function<void(const redis::Reply* reply)> see);
  void refuse(std::string_view why);
  void finish();

  const std::shared_ptr<const redis::Target> target_;
  Log& log_;
  const std::chrono::milliseconds every_;
  std::string refused_;                                // the latest error of an answer
  std::chrono::steady_clock::time_point next_line_{};  // about the same error
  std::unique_ptr<boost::asio::steady_timer> timer_;
  std::unique_ptr<redis::Client> client_;
  std::deque<redis::AskCommand> asks_;  // of this round
  std::size_t pending_ = 0;             // of them
  std::vector<ServerInfo> seen_;        // in this round
  std::string warned_;                  // the latest trouble
  mutable std::mutex mutex_;            // protects the next
  std::vector<ServerInfo> servers_;
};

// Adds the metrics to the registry, which docs/reference/metrics.md lists. Call it once. Borrows
// the health.
void add_health_metrics(metrics::Registry& registry, const RedisHealth& health);

// Counts the events of the store and writes them to the log. For each kind of event it writes at
// most kLines lines in kEvery. The field `suppressed` is the number of events of that kind that
// were not written since its last line. Other fields: event (the kind), endpoint and why if they
// are known, for an opened breaker the cause, as failing() says it, and for a closed one how long
// the store failed (lasted_ms).
//
// Thread-safety: any member from any thread; its locks are held briefly. Ownership: borrows the log
// and the clocks; the first should be steady, the other dates failures.
class StoreLog final : public StoreObserver {
 public:
  static constexpr std::uint32_t kLines = 5;
  static constexpr std::chrono::seconds kEvery{10};
  static constexpr std::chrono::seconds kSilent{2};

  // What the events say of a store that fails. A plain value.
  struct Failing {
    Instant since{};
    std::string why;         // "Redis at 127.0.0.1:6379 refuses connections"
    bool is_silent = false;  // it has owed an answer for kSilent, whatever its connections do
  };

  // `silent`: why a store fails that does not answer, "Redis at ADDRESS does not answer".
  explicit StoreLog(Log& log, const Clock& clock = SteadyClock::instance(),
                    const Clock& date = SystemClock::instance(),
                    std::string silent = "Redis does not answer")
      : log_(log), clock_(clock), date_(date), silent_(std::move(silent)) {}

  void on(const StoreEvent& event) noexcept override;
  // Says since when the store has owed an answer to the server itself, if it does. Call it often:
  // without requests, nobody else notices that the store hangs.
  void owe(std::optional<Instant> since);
  // Returns the number of events of that kind so far, whether written or not.
  std::uint64_t count(StoreEventKind kind) const noexcept;
  // Since when, and why as known last: from the first connection that failed, the first of the
  // failures that opened the breaker, or the question that has no answer, whichever is earliest;
  // until the breaker is closed, or, if it has not opened, a connection is made or the answer
  // comes. Nothing: neither events nor a question say so.
  std::optional<Failing> failing() const;
  // The latest failure that is over, if it has opened the breaker or lasted at least one second.
  // Failures less than ten seconds apart are one: after an outage, connections that are not back
  // yet may open the breaker again.
  std::optional<PastOutage> last_outage() const;
  // Since when the store has refused new counters because it is full, if it did within a minute.
  std::optional<Instant> full_since() const;

 private:
  struct Kind {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> window{0};  // the number of the time window, and the lines in it
    std::atomic<std::uint64_t> suppressed{0};
  };
  bool admit(Kind& kind) noexcept;
  // Notes a failure that has lasted so long, with mutex_ held.
  void begin(Duration lasted = {});
  Instant from(Instant start) const;  // of the outage before, if it continues that one
  std::string note(const StoreEvent& event, std::optional<Duration>& lasted);

  Log& log_;
  const Clock& clock_;
  const Clock& date_;
  const std::string silent_;
  std::array<Kind, kStoreEventKinds> kinds_;
  mutable std::mutex mutex_;  // protects the next
  std::optional<Instant> failing_since_, owes_since_;
  std::string cause_;
  bool is_open_ = false;  // the breaker
  std::optional<PastOutage> last_outage_;
  std::optional<Instant> full_since_, full_;  // when it was full first, and last
};

// Whether a store is slow: of the requests within a minute, more than 1 %, and at least ten, took
// more than 8 ms.
//
// Thread-safety: one thread at a time.
class SlowRequests {
 public:
  static constexpr std::chrono::seconds kEvery{10};

  // Takes the durations and the timeouts since the start; call it once in kEvery.
  void add(const metrics::DurationCounts& all, std::uint64_t timeouts, Instant now);
  // Since when it is slow; nothing: it is not. And "4.1 % of 1204 requests within a minute took
  // more than 8 ms; 3 had no answer in time and were decided without it".
  std::optional<Instant> since() const noexcept { return since_; }
  const std::string& why() const noexcept { return why_; }

 private:
  static constexpr std::size_t kSamples = 7;  // the time between the first and the last: a minute

  struct Sample {
    std::uint64_t slow = 0, all = 0, timeouts = 0;
  };
  std::deque<Sample> samples_;
  std::optional<Instant> since_;
  std::string why_;
};

// Adds the metrics of a store outside the process to the registry, which docs/reference/metrics.md
// lists. Call it once. Borrows their sources; `stats` and `durations` are called from any thread.
// Without a deny cache, it is null; if durations are not measured, `durations` is empty.
void add_store_metrics(metrics::Registry& registry, const StoreLog& events,
                       const CircuitBreaker& breaker, const Leases& leases,
                       const std::function<RedisStoreStats()>& stats,
                       const DenyCache* deny_cache = nullptr,
                       const std::function<metrics::DurationCounts()>& durations = {});

// Adds the metrics of counters in this process's memory: those of the memory store or of the
// fallback. Call it once.
void add_memory_metrics(metrics::Registry& registry,
                        const std::function<MemoryStoreStats()>& stats);

}  // namespace sluice::server
