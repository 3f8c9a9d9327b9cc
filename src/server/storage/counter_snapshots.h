#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "metrics/metrics.h"
#include "server/logging/log.h"
#include "server/net/file_lock.h"
#include "sluice/expected.h"
#include "sluice/memory_store.h"

namespace sluice::server {

// The file that keeps the counters of a memory store (memory.snapshot): read at the start, written
// at intervals by a thread of its own, and when the server ends or hands over.
//
// Thread-safety: any member from any thread, except that read() needs a store that nobody uses.
// Ownership: borrows the store and the log.
class CounterSnapshots {
 public:
  struct Options {
    std::string path;
    std::chrono::milliseconds interval;  // 0: written at the end only
  };
  // What it did since the start. A plain value.
  struct Stats {
    MemorySnapshot last;  // that was written; default: none
    std::chrono::microseconds took{0};
    std::uint64_t failures = 0;  // of reading and writing
  };

  // Errors: the file cannot be replaced at this path, in one line.
  static Expected<std::unique_ptr<CounterSnapshots>> open(MemoryStore& store, Options options,
                                                          Log& log);
  ~CounterSnapshots() { stop(); }
  CounterSnapshots(const CounterSnapshots&) = delete;
  CounterSnapshots& operator=(const CounterSnapshots&) = delete;

  // Keeps other servers from using the file, until this object and the processes that received
  // lock_descriptor() have ended. Call it before read(). Errors: one line.
  Expected<bool> lock(std::vector<net::FileLock> inherited = {});
  int lock_descriptor() const noexcept { return lock_ ? lock_->descriptor() : -1; }
  // Closes the lock. The file stays locked while a successor has it.
  void unlock() noexcept { lock_.reset(); }

  // Reads the file, if there is one. A file that cannot be used is renamed to FILE.damaged, and
  // the store stays empty.
  void read();

  void start();
  // Ends the thread.
  void stop();
  // Writes the file for the next process, and not again until continue_writing(). Returns whether
  // the file has the counters; if not, logs why.
  bool write_last();
  void continue_writing();

  Stats stats() const;
  // Adds the metrics to the registry, which docs/metrics.md lists. Call it once.
  void add_metrics(metrics::Registry& registry);

 private:
  CounterSnapshots(MemoryStore& store, Options options, Log& log)
      : store_(store), options_(std::move(options)), log_(log) {}
  void run();
  void write(bool is_last);
  void put_aside(const std::string& why);

  MemoryStore& store_;
  const Options options_;
  Log& log_;
  std::optional<net::FileLock> lock_;
  std::mutex writing_;            // held while the file is written
  bool is_last_written_ = false;  // under `writing_`
  std::string failure_;           // the last problem, until a file is written; under `writing_`
  mutable std::mutex mutex_;      // of what follows
  Stats stats_;
  bool stops_ = false;
  std::condition_variable stopping_;
  std::thread thread_;
};

}  // namespace sluice::server
