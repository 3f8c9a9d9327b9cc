#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log_reader.h"

namespace sluice::replay {

// How far the logs were read.
struct Progress {
  std::string_view log;
  std::uint64_t lines = 0;
  std::uint64_t inflated = 0;  // bytes of text
  FileProgress file;           // of the log being read
};

// Logs to read.
struct LogInput {
  std::vector<std::string> logs;  // paths; "-" is standard input
  LogReaderOptions reading = {};
  // Called for each problem of a log with one line of text: "LOG:LINE: what". May be empty.
  std::function<void(std::string_view)> complain = {};
  // Called after every batch. May be empty.
  std::function<void(const Progress&)> on_progress = {};
};

// What was read.
struct LogTotals {
  std::vector<std::string> logs;
  std::size_t opened = 0;          // logs that could be opened
  std::vector<LogFormat> formats;  // of the logs with lines, each once
  bool failed = false;             // whether a log could not be opened or read to its end
  std::uint64_t lines = 0;         // parsed + skipped
  std::uint64_t skipped = 0;       // lines that are not of the log's format
  std::uint64_t bytes = 0;         // of text

  std::uint64_t parsed() const noexcept { return lines - skipped; }
};

// Counts the batches of a LogReader, reports the problems of logs, and calls on_progress. Borrows
// both arguments. Not thread-safe.
class LogAccount {
 public:
  LogAccount(const LogInput& input, LogTotals& totals) : input_(input), totals_(totals) {
    totals_.logs = input.logs;
  }
  void add(const LogBatch& batch);

 private:
  void finish_log(const std::string& path, const LogBatch& batch);
  void complain_of(const std::string& path, const SkippedLine& line);
  void complain(std::string_view text);

  const LogInput& input_;
  LogTotals& totals_;
  std::uint64_t log_lines_ = 0;
  std::uint64_t log_parsed_ = 0;
};

}  // namespace sluice::replay
