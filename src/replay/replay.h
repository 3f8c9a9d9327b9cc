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
#include "sluice/rule_set.h"

namespace sluice::replay {

// How far a replay is, for a progress line.
struct Progress {
  std::string_view log;
  std::uint64_t lines = 0;
  std::uint64_t inflated = 0;  // bytes of text
  FileProgress file;           // of the log being read
};

struct ReplayOptions {
  std::vector<std::string> logs;  // paths; "-" is standard input
  // The most counters kept, and the most keys told apart for each limit. Past it results are
  // approximate, and the report says so. About 120 bytes a key.
  std::size_t max_keys = std::size_t{4} << 20;
  LogReaderOptions reading = {};
  // Told of whatever is wrong with a log, a line of text each: "LOG:LINE: what". May be empty.
  std::function<void(std::string_view)> complain = {};
  // Told how far it is, after every batch. May be empty.
  std::function<void(const Progress&)> on_progress = {};
};

// What a replay found. Borrows the rules.
struct ReplayReport {
  explicit ReplayReport(const RuleSet& rules, std::size_t most_keys) : tally(rules, most_keys) {}

  std::vector<std::string> logs;
  std::size_t opened = 0;        // logs that could be opened
  bool failed = false;           // a log could not be opened, or not be read to its end
  std::uint64_t lines = 0;       // parsed + skipped
  std::uint64_t skipped = 0;     // lines that are not those of an access log
  std::uint64_t bytes = 0;       // of text
  std::uint64_t late = 0;        // lines decided later than they say, as the clock does not go back
  std::optional<Instant> first;  // the earliest timestamp
  std::optional<Instant> last;   // the latest
  std::uint64_t evictions = 0;   // counters lost to max_keys
  std::chrono::milliseconds elapsed{0};
  Tally tally;

  std::uint64_t parsed() const noexcept { return lines - skipped; }
  std::uint64_t allowed() const noexcept { return parsed() - tally.denied; }
  bool approximate() const noexcept;
};

// Decides every request of the logs, in their order, by the rules, at the logs' own instants: the
// clock is the running maximum of all timestamps, and a late line is decided at the clock's
// instant.
//
// Reads and parses in a second thread, decides in the caller's; memory grows with the keys alone.
// Nothing in a log stops it: lines that are none are counted, logs that cannot be read are skipped.
ReplayReport replay(const RuleSet& rules, const ReplayOptions& options);

}  // namespace sluice::replay
