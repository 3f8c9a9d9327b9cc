#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "metrics/counts.h"
#include "metrics/metrics.h"
#include "server/config/config.h"
#include "server/logging/log.h"
#include "server/net/file_lock.h"
#include "server/storage/loop_stores.h"
#include "server/storage/store_health.h"
#include "sluice/expected.h"
#include "sluice/leased_store.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/store.h"
#include "stores/policy/chain.h"
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
  ~CounterSnapshots() { stop(); }
  CounterSnapshots(const CounterSnapshots&) = delete;
  CounterSnapshots& operator=(const CounterSnapshots&) = delete;

  // Keeps other servers from using the file, until this object and the processes that received
  // lock_descriptor() have ended. Call it before read(). Errors: one line.
  Status lock(std::vector<net::FileLock> inherited = {});
  int lock_descriptor() const noexcept { return lock_ ? lock_->descriptor() : -1; }

  // Reads the file, if there is one. Returns when its counters were saved. A file that cannot be
  // used is renamed to FILE.damaged, and the store stays empty.
  std::optional<Instant> read();

  void start();
  // Ends the thread.
  void stop();
  // Writes the file for the next process. Call it after stop(), when nobody uses the store. Returns
  // whether the file has the counters; if not, logs why.
  bool write_last();

  Stats stats() const;
  // Adds the metrics to the registry, which docs/reference/metrics.md lists. Call it once.
  void add_metrics(metrics::Registry& registry);

 private:
  CounterSnapshots(MemoryStore& store, std::string path, std::chrono::milliseconds interval,
                   Log& log)
      : store_(store), path_(std::move(path)), interval_(interval), log_(log) {}
  void run();
  void write(bool is_last);
  void put_aside(const std::string& why);

  MemoryStore& store_;
  const std::string path_;
  const std::chrono::milliseconds interval_;
  Log& log_;
  std::optional<net::FileLock> lock_;
  std::string failure_;       // the last problem, until a file is written
  mutable std::mutex mutex_;  // of what follows
  Stats stats_;
  bool stops_ = false;
  std::condition_variable stopping_;
  std::thread thread_;
};

}  // namespace sluice::server

namespace boost::asio {
class io_context;
}

namespace sluice::server {

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
  virtual Status lock_files(std::vector<net::FileLock>&& /*inherited*/, bool /*succeeds*/) {
    return {};
  }
  virtual int snapshot_lock() const noexcept { return -1; }
  virtual void begin_files() {}  // before the first request, after the end of the other process
  virtual bool end_files() { return true; }  // after the last request. false: counters are lost

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
