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
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "metrics/counts.h"
#include "metrics/metrics.h"
#include "server/config/config.h"
#include "server/logging/log.h"
#include "server/net/file_lock.h"
#include "server/storage/loop_stores.h"
#include "sluice/clock.h"
#include "sluice/deny_cache.h"
#include "sluice/expected.h"
#include "sluice/failure_policy.h"
#include "sluice/leased_store.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/redis_store.h"
#include "sluice/store.h"
#include "stores/policy/chain.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/target.h"
#include "stores/redis/store/loop_store.h"

namespace sluice::server {

// The file that keeps the counters of a memory store (memory.snapshot): read at the start, written
// at intervals by a thread of its own, and when the server ends or hands over.
//
// Thread-safety: any member from any thread, except that read() and write_last() need a store that
// nobody uses.
// Ownership: borrows the store and the log.
class CounterSnapshots {
 public:
  // What it did since the start. A plain value.
  struct Stats {
    MemorySnapshot last;  // that was written; default: none
    std::chrono::microseconds took{0};
    std::uint64_t failures = 0;  // of reading and writing
  };

  // Without an `interval` (0), the file is written at the end only. Errors: the file cannot be
  // replaced at this path, in one line.
  static Expected<std::unique_ptr<CounterSnapshots>> open(MemoryStore& store, std::string path,
                                                          std::chrono::milliseconds interval,
                                                          Log& log);
  ~CounterSnapshots() = default;
  CounterSnapshots(const CounterSnapshots&) = delete;
  CounterSnapshots& operator=(const CounterSnapshots&) = delete;

  // Keeps other servers from using the file, until this object and the processes that received
  // lock_descriptor() have ended. Call it before read(). Errors: one line.
  Status lock(std::vector<net::FileDescriptor> inherited = {});
  int lock_descriptor() const noexcept { return lock_.get(); }

  // Reads the file, if there is one. Returns when its counters were saved. A file that cannot be
  // used is renamed to FILE.damaged, and the store stays empty.
  std::optional<Instant> read();

  void start();
  // Ends the thread.
  void stop() { thread_ = {}; }
  // Writes the file for the next process. Call it after stop(), when nobody uses the store. Returns
  // whether the file has the counters; if not, logs why.
  bool write_last();

  Stats stats() const;
  // Why the file could not be written last, or nothing.
  std::string failure() const;
  // Adds the metrics to the registry, which docs/reference/metrics.md lists. Call it once.
  void add_metrics(metrics::Registry& registry);

 private:
  CounterSnapshots(MemoryStore& store, std::string path, std::chrono::milliseconds interval,
                   Log& log)
      : store_(store), path_(std::move(path)), interval_(interval), log_(log) {}
  void write(bool is_last);
  void put_aside(const std::string& why);

  MemoryStore& store_;
  const std::string path_;
  const std::chrono::milliseconds interval_;
  Log& log_;
  net::FileDescriptor lock_;
  mutable std::mutex mutex_;  // of what follows
  Stats stats_;
  std::string failure_;  // the last problem, until a file is written
  std::jthread thread_;
};

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
  void ask(std::string name, std::optional<std::uint16_t> slot);
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
    std::string why;  // "Redis at 127.0.0.1:6379 refuses connections"
    // Whatever its connections do: it has owed an answer for kSilent.
    bool is_silent = false;
    bool is_partial = false;  // masters of a cluster cannot be used; others may
  };

  // `silent`: why a store fails that does not answer, "Redis at ADDRESS does not answer". With
  // `is_cluster`, each master fails by itself, until it is connected or the map changes.
  explicit StoreLog(Log& log, const Clock& clock = SteadyClock::instance(),
                    const Clock& date = SystemClock::instance(),
                    std::string silent = "Redis does not answer", bool is_cluster = false)
      : log_(log),
        clock_(clock),
        date_(date),
        silent_(std::move(silent)),
        is_cluster_(is_cluster) {}

  void on(const StoreEvent& event) noexcept override;
  // Says since when the store has owed an answer to the server itself, if it does. Call it often:
  // without requests, nobody else notices that the store hangs.
  void owe(std::optional<Instant> since);
  // Whether it has owed one for so long that a connection which decides should ask, and that it has
  // answered there: then only the connection of the first question fails.
  bool owes() const;
  void answered();
  // Returns the number of events of that kind so far, whether written or not.
  std::uint64_t count(StoreEventKind kind) const noexcept;
  // Since when, and why as known last: from the first connection that failed, the first of the
  // failures that opened the breaker, or the question that has no answer, whichever is earliest;
  // until the breaker is closed, or, if it has not opened, a connection is made or the answer
  // comes. A master of a cluster that refuses requests for at least one second also fails, until
  // it has not for ten seconds or the map changes. Nothing: neither events nor a question say so.
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
    LineRate lines{kLines};
  };
  // Notes a failure that has lasted so long, with mutex_ held.
  void begin(Duration lasted = {});
  Instant from(Instant start) const;  // of the outage before, if it continues that one
  std::string note(const StoreEvent& event, std::optional<Duration>& lasted);
  void refuse();
  void end(const StoreEvent& event, std::optional<Duration>& lasted);
  void owe_locked(std::optional<Instant> since);

  Log& log_;
  const Clock& clock_;
  const Clock& date_;
  const std::string silent_;
  const bool is_cluster_;
  std::array<Kind, kStoreEventKinds> kinds_;
  mutable std::mutex mutex_;  // protects the next
  std::optional<Instant> failing_since_, owes_since_;
  Instant answered_{};
  std::set<std::string, std::less<>> lost_;  // masters of a cluster
  std::string cause_;
  bool is_open_ = false;  // the breaker
  std::optional<PastOutage> last_outage_;
  Instant refusing_since_{};
  std::optional<Instant> refused_;            // when a master of a cluster did last
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

// The place of a server's counters: its memory or Redis, as `store` in its configuration says.
//
// Thread-safety: any member from any thread. Ownership: borrows the log; outlives the stores that
// it makes.
class Stores {
 public:
  // Errors: a mistake in the configuration of Redis, or a file of it that cannot be read. It is no
  // error if Redis cannot be reached: the server connects when it can.
  static Expected<std::unique_ptr<Stores>> open(const Config& config, Log& log,
                                                const Clock& steady = SteadyClock::instance());

  virtual ~Stores() = default;
  // Decides if the store never waits; null: the stores of each loop do.
  virtual Limiter* limiter() { return nullptr; }
  // Returns the stores of one loop if they may wait, else null.
  virtual std::unique_ptr<LoopStores> make(boost::asio::io_context& loop) = 0;

  // Finds at most `most` blocks of rules that hold now. `loop`: the stores of the current loop, on
  // one of its fibers; null if the store never waits. Errors: why Redis cannot say.
  virtual Expected<HeldBlocks> find_blocks(LoopStores* loop, std::size_t most) = 0;

  // Reads the ledger of the budgets: `see` receives each change of a counter, and a "gap" where
  // there are no entries any more before its instant, of all counters or of one. `loop`: likewise.
  // Errors: there is none, it is too large, or why it cannot be read; and what is expected.
  virtual Status read_ledger(LoopStores* loop, const LedgerReplay::See& see) = 0;

  // In Redis: asks the servers of the store how they are, for the metrics, in this loop. In memory:
  // writes snapshots at intervals. Until stop_following(); call both in the loop's thread.
  virtual void follow(boost::asio::io_context& /*loop*/) {}
  virtual void stop_following() noexcept {}

  // The files of a memory store: its counters (CounterSnapshots) and the ledger of its budgets.
  // They do nothing without one, and in Redis; without a snapshot, snapshot_lock() is -1.
  // `succeeds`: this process waits for the end of another one, which has the files.
  virtual Status lock_files(std::vector<net::FileDescriptor>&& /*inherited*/, bool /*succeeds*/) {
    return {};
  }
  virtual int snapshot_lock() const noexcept { return -1; }
  // Before the first request, when the other process has said that it is done. It may still write
  // the ledger until its end (pidfd_open).
  virtual void begin_files(net::FileDescriptor /*other*/) {}
  virtual bool end_files() { return true; }  // after the last request. false: not all is written

  // Says since when the store has owed an answer to the server itself, if it does. Call it often.
  virtual void owe(std::optional<Instant> /*since*/) {}
  // Says in the log, in memory at most once a minute, that blocked keys were freed because blocks
  // have reached their bound, and in Redis that it is slow. Call it often, in one thread.
  virtual void look() {}

  virtual void add_metrics(metrics::Registry& registry) = 0;
  virtual StoreStatus status() const = 0;
};

// The parts of limits that the quota service of another server assigns (docs/quota.md): each loop
// decides by its own, and waits only for the first assignment of a counter. Errors: a file of the
// configuration that cannot be read.
Expected<std::unique_ptr<Stores>> open_quota_stores(const Config& config, Log& log);

// The counters of a server in Redis: the stores of all its event loops, and what they share:
// leases, a circuit breaker, a deny cache and a local share. Each loop has its own connection.
//
//   limiter   leases -> deny cache -> circuit breaker -> Redis   used by rules
//   shadow                            circuit breaker -> Redis   used by shadow rules
//   local     this process's share of the limits                 `on_store_error: local`
//
// Thread-safety: make() by the thread that makes the loops; the rest as Stores.
class RedisStores final : public Stores {
 public:
  // Errors: a mistake in the configuration, or a file of it that cannot be read.
  static Expected<std::unique_ptr<RedisStores>> open(const Config& config, Log& log);
  // Gives back the units of leases that have not ended, if there are any, within a second.
  ~RedisStores() override;

  std::unique_ptr<LoopStores> make(boost::asio::io_context& loop) override;
  Expected<HeldBlocks> find_blocks(LoopStores* loop, std::size_t most) override;
  Status read_ledger(LoopStores* loop, const LedgerReplay::See& see) override;
  void follow(boost::asio::io_context& loop) override { health_.start(loop); }
  void stop_following() noexcept override { health_.stop(); }
  void owe(std::optional<Instant> since) override { events_.owe(since); }
  void look() override;
  void add_metrics(metrics::Registry& registry) override;
  StoreStatus status() const override;

  const CircuitBreaker& breaker() const noexcept { return shared_.breaker; }
  // Null if it is off.
  const DenyCache* deny_cache() const noexcept {
    return shared_.deny_cache ? &*shared_.deny_cache : nullptr;
  }
  const LocalShareStore& local() const noexcept { return shared_.local; }
  // The sum of all loops.
  RedisStoreStats stats() const;
  metrics::DurationCounts durations() const;

 private:
  class Chain;

  RedisStores(const Config& config, std::shared_ptr<const redis::Target> target, Log& log);
  void add(const Chain& chain);
  void remove(const Chain& chain);

  const std::shared_ptr<const redis::Target> target_;
  const bool has_ledger_;
  Log& log_;
  StoreLog events_;
  RedisHealth health_;
  policy::Shared shared_;
  Leases leases_;
  mutable std::mutex mutex_;  // protects the members below
  std::vector<const Chain*> chains_;
  RedisStoreStats past_;  // the statistics of closed stores, as the next
  metrics::DurationCounts past_durations_;
  SlowRequests slow_;
  Instant next_look_{};  // at slow_
};

}  // namespace sluice::server
