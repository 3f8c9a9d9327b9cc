#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "replay/log_line.h"
#include "replay/log_source.h"

namespace sluice::replay {

struct LogReaderOptions {
  // Longer lines are skipped whole and counted once. Bytes, at least 1.
  std::size_t longest_line = std::size_t{1} << 20;
  // Bytes taken from the source at once, at least 1. More: fewer hand-overs, more memory.
  std::size_t block = std::size_t{256} << 10;
};

// A line that is not one of an access log.
struct SkippedLine {
  std::uint64_t number = 0;  // in its file, from 1
  LineFault fault = LineFault::kNone;
  std::string begins;  // its first bytes
};

// Some neighbouring lines of one log.
struct LogBatch {
  std::size_t log = 0;                     // the index of the log's path
  std::vector<LogLine> lines;              // those that parsed, in order; they point into `bytes`
  std::uint64_t skipped = 0;               // those that did not
  std::vector<SkippedLine> first_skipped;  // of each log, the first kMostShown
  bool opened = false;                     // the log could be opened
  bool last = false;                       // the last batch of its log
  std::string error;                       // why the log ends here; empty: its regular end
  FileProgress progress;
  std::uint64_t inflated = 0;  // bytes of text so far, over all logs

  std::unique_ptr<char[]> bytes;
};

// Reads logs one after the other in a thread of its own: inflates, splits and parses ahead of the
// caller, by at most a few batches, so that memory stays the same for logs of any size.
//
// next() and release() are for one thread. The destructor stops reading and waits for the thread,
// which may be waiting for input.
class LogReader {
 public:
  static constexpr std::size_t kMostShown = 5;

  explicit LogReader(std::vector<std::string> paths, const LogReaderOptions& options = {});
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // The next batch, or null after the last of the last log. Valid until released.
  LogBatch* next();
  // Gives a batch back, to be filled again.
  void release(LogBatch* batch);

 private:
  class Splitter;

  void read_all();
  void read_log(std::size_t index);
  std::unique_ptr<LogSource> open(std::size_t index, LogBatch& batch);
  void fill(LogBatch& batch, LogSource& source, Splitter& splitter);
  LogBatch* free_batch(std::size_t index);
  void hand_over(LogBatch* batch);

  const std::vector<std::string> paths_;
  const LogReaderOptions options_;
  std::vector<LogBatch> batches_;
  std::uint64_t inflated_ = 0;  // the reading thread's

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LogBatch*> free_;
  std::deque<LogBatch*> ready_;
  bool ended_ = false;
  bool stopped_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace sluice::replay
