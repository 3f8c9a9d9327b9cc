#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/logging/line_file.h"
#include "server/logging/log.h"
#include "sluice/expected.h"

namespace sluice::server {

// Which requests are recorded, and what of them (docs/replay.md).
struct TrafficOptions {
  std::string file;                                  // empty: none
  std::uint32_t share = 100;                         // percent of the clients
  std::string sample_by = "ip";                      // the attribute that names a client
  std::uint64_t max_bytes = std::uint64_t{1} << 30;  // of the file and its predecessor together
  std::vector<std::string> attributes;               // besides those that the rules name
  std::vector<std::string> hash;                     // attributes whose values are hashed
};

// The lines of one thread that wait to be written to the file: a ring of kBytes.
//
// Thread-safety: write() and drop() from one thread, the writer's members from another. Cost of a
// line: a copy, without a lock, a system call or an allocation.
class TrafficLane {
 public:
  static constexpr std::size_t kBytes = std::size_t{4} << 20;

  TrafficLane() : ring_(new char[kBytes]) {}
  // Appends a whole line with its newline. If there is no room, the line is dropped and counted.
  void write(std::string_view line) noexcept;
  void drop() noexcept { dropped_.store(dropped() + 1, std::memory_order_relaxed); }
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

  // For the writer: the whole lines that wait, in up to two pieces.
  std::array<std::string_view, 2> waiting() const noexcept;
  void release(std::size_t bytes) noexcept;

 private:
  std::unique_ptr<char[]> ring_;
  alignas(64) std::atomic<std::uint64_t> end_{0};  // bytes since the start, by the loop's thread
  std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::atomic<std::uint64_t> begin_{0};  // by the writer
};

// Writes recorded requests to a file of whole lines, mode 0600. A thread of its own writes them 50
// times a second, so that a slow disk never delays a decision. When the file has half of max_bytes,
// it replaces an earlier FILE.1 and a new file begins. A new file also begins if somebody else has
// renamed or removed it. Lines that cannot be written are dropped and counted, and the first
// failure is logged.
//
// Thread-safety: any member from any thread. Ownership: borrows the log; owns the lanes, whose
// threads must end before it.
class TrafficLog {
 public:
  // Opens the file, or appends to it. Errors: why it cannot be written, as one line.
  static Expected<std::unique_ptr<TrafficLog>> open(const TrafficOptions& options, Log& log);
  // Writes the waiting lines.
  ~TrafficLog() = default;
  TrafficLog(const TrafficLog&) = delete;
  TrafficLog& operator=(const TrafficLog&) = delete;

  // Makes the lane of one thread.
  TrafficLane& make_lane();

  struct Stats {
    std::uint64_t lines = 0;      // written
    std::uint64_t bytes = 0;      // of these lines
    std::uint64_t dropped = 0;    // lines that could not be written
    std::uint64_t rotations = 0;  // times that the file was full and a new one began
  };
  Stats stats() const;
  const TrafficOptions& options() const noexcept { return options_; }

 private:
  TrafficLog(TrafficOptions options, Log& log)
      : options_(std::move(options)), log_(log), file_(options_.file, "record in") {}
  std::string open_file();
  std::string prepare(std::size_t bytes);
  std::string rotate();
  void drain();
  void report(const std::string& failure);

  const TrafficOptions options_;
  Log& log_;
  LineFile file_;
  bool has_failed_ = false;   // the last write
  std::uint64_t losses_ = 0;  // lines, since the first failure
  mutable std::mutex mutex_;  // protects the members below
  std::deque<TrafficLane> lanes_;
  Stats stats_;
  std::jthread thread_;
};

}  // namespace sluice::server
