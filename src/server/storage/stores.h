#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "metrics/metrics.h"
#include "server/config/config.h"
#include "server/logging/log.h"
#include "server/net/file_lock.h"
#include "server/storage/held_blocks.h"
#include "server/storage/loop_stores.h"
#include "server/storage/store_status.h"
#include "sluice/expected.h"
#include "sluice/limiter.h"

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
  // Used if the store never waits.
  virtual Limiter& limiter() = 0;
  // Returns the stores of one loop if they may wait, else null.
  virtual std::unique_ptr<LoopStores> make(boost::asio::io_context& loop) = 0;

  // Finds at most `most` blocks of rules that hold now. `loop`: the stores of the current loop, on
  // one of its fibers; null if the store never waits. Errors: why Redis cannot say.
  virtual Expected<HeldBlocks> find_blocks(LoopStores* loop, std::size_t most) = 0;

  // In Redis: asks the servers of the store how they are, for the metrics, in this loop. In memory:
  // writes snapshots at intervals. Until stop_following(); call both in the loop's thread.
  virtual void follow(boost::asio::io_context& /*loop*/) {}
  virtual void stop_following() noexcept {}

  // The file that keeps the counters of a memory store (CounterSnapshots). They do nothing without
  // one, and in Redis; then snapshot_lock() is -1.
  virtual Expected<bool> lock_snapshot(std::vector<net::FileLock>&& /*inherited*/) { return true; }
  virtual int snapshot_lock() const noexcept { return -1; }
  virtual void unlock_snapshot() noexcept {}
  virtual void read_snapshot() {}
  virtual bool write_last_snapshot() { return true; }  // false: the counters are lost
  virtual void continue_writing_snapshots() {}

  // In memory: says in the log, at most once a minute, that blocked keys were freed because blocks
  // have reached their bound. Call it often, in one thread.
  virtual void log_freed_keys() {}

  virtual void add_metrics(metrics::Registry& registry) = 0;
  virtual StoreStatus status() const = 0;
};

}  // namespace sluice::server
