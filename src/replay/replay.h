#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log_reader.h"
#include "replay/tally.h"
#include "sluice/overrides.h"
#include "sluice/rule_set.h"

namespace sluice::replay {

// The progress of a replay.
struct Progress {
  std::string_view log;
  std::uint64_t lines = 0;
  std::uint64_t inflated = 0;  // bytes of text
  FileProgress file;           // of the log being read
};

struct ReplayOptions {
  std::vector<std::string> logs;  // paths; "-" is standard input
  // The maximum number of counters, and of keys per limit. Beyond it the results are approximate,
  // and the report says so. About 120 bytes per key.
  std::size_t max_keys = std::size_t{4} << 20;
  LogReaderOptions reading = {};
  // What single keys have instead of the numbers of their limits. Null: nothing.
  const Overrides* overrides = nullptr;
  // Called for each problem of a log with one line of text: "LOG:LINE: what". May be empty.
  std::function<void(std::string_view)> complain = {};
  // Called after every batch. May be empty.
  std::function<void(const Progress&)> on_progress = {};
};

// The result of a replay. Borrows the rules.
struct ReplayReport {
  explicit ReplayReport(const RuleSet& rules, std::size_t most_keys) : tally(rules, most_keys) {}

  std::vector<std::string> logs;
  std::size_t opened = 0;          // logs that could be opened
  std::vector<LogFormat> formats;  // of the logs with lines, each once
  bool failed = false;             // whether a log could not be opened or read to its end
  std::uint64_t lines = 0;         // parsed + skipped
  std::uint64_t skipped = 0;       // lines that are not access log lines
  std::uint64_t bytes = 0;         // of text
  std::uint64_t late = 0;          // out-of-order lines, decided at the latest time read so far
  std::optional<Instant> first;    // the earliest timestamp
  std::optional<Instant> last;     // the latest
  std::uint64_t evictions = 0;     // counters evicted because of max_keys
  std::chrono::milliseconds elapsed{0};
  Tally tally;

  std::uint64_t parsed() const noexcept { return lines - skipped; }
  std::uint64_t allowed() const noexcept { return parsed() - tally.denied; }
  bool approximate() const noexcept;
};

// Decides every request of the logs, in their order, by the rules, at the times in the logs. The
// clock never goes back: an out-of-order line is decided at the latest time read so far.
//
// A second thread reads, parses and matches the rules; the calling thread decides. Memory depends
// only on the number of keys. Lines that are not access log lines are counted, and unreadable logs
// are skipped.
ReplayReport replay(const RuleSet& rules, const ReplayOptions& options);

}  // namespace sluice::replay
