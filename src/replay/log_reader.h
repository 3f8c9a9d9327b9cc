#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "replay/log_line.h"
#include "replay/log_parser.h"
#include "sluice/expected.h"

namespace sluice::base {
class JsonWriter;
}  // namespace sluice::base

namespace sluice::rules {
class RequestNames;
}  // namespace sluice::rules

namespace sluice::replay {

// Inflates consecutive gzip members and verifies the checksum and the size of each.
//
// Uses ISA-L if it is available, otherwise zlib. Not thread-safe. Takes about 150 KiB.
class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Prepares for the first byte of a member.
  void begin_member();
  // Inflates until `in` is empty, `out` is full, or the member ends. Removes from `in` what it has
  // read. Returns the number of bytes in `out`.
  std::size_t inflate(std::span<const char>& in, std::span<char> out);
  // What the last call of inflate() has found.
  bool has_ended() const noexcept { return has_ended_; }  // the member
  bool is_corrupt() const noexcept { return is_corrupt_; }

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  bool has_ended_ = false;
  bool is_corrupt_ = false;
};

// The bytes of a log, in order. A gzip file, recognized by its first bytes, is inflated: all of its
// members, as in the output of `cat a.gz b.gz`. Zeros after the last member are padding. Other
// bytes are an error, because they may be a member with a damaged header. Not thread-safe.
class LogSource {
 public:
  // Opens a file, or standard input for "-". Errors: why it cannot be read, without its name.
  static Expected<std::unique_ptr<LogSource>> open(const std::string& path);
  ~LogSource();
  LogSource(const LogSource&) = delete;
  LogSource& operator=(const LogSource&) = delete;

  // Reads into the front of `into`, which must not be empty. Returns 0 at the end. Errors: what is
  // wrong with the file, without its name, after all bytes before the error were returned.
  Expected<std::size_t> read(std::span<char> into);
  // The bytes of the file that were read.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  LogSource(int descriptor, bool is_owned);
  Expected<std::string_view> peek();
  Expected<std::size_t> read_plain(std::span<char> into);
  Expected<std::size_t> read_descriptor(std::span<char> into);
  Expected<bool> begin_member();

  const int descriptor_;
  const bool is_owned_;
  std::uint64_t bytes_read_ = 0;
  std::array<char, 6> peek_{};  // the first bytes: enough for every magic number
  std::size_t peeked_ = 0;
  std::size_t given_back_ = 0;
  // Of a gzip file:
  std::unique_ptr<Inflater> inflater_;  // null: it is none
  std::vector<char> buffer_;
  std::span<const char> input_;
  bool has_ended_ = false;  // the file
  bool is_between_members_ = true;
  bool is_first_ = true;
  bool has_padding_ = false;
};

struct LogTotals;

// Which logs to read, and how.
struct LogInput {
  std::vector<std::string> logs = {};  // paths; "-" is standard input
  // starts_of() the logs: each is opened when the others have come to it. Empty: all at once.
  std::vector<Instant> starts = {};
  // The maximum length of a line in bytes, at least 1. Longer lines are skipped and counted once.
  std::size_t longest_line = std::size_t{1} << 20;
  // Bytes per batch, at least 1. A larger batch needs fewer handovers and more memory.
  std::size_t block = std::size_t{256} << 10;
  // Names the requests. Only the reading thread uses it. Null: LogBatch::name() is empty.
  rules::RequestNames* names = nullptr;
  // The same for a second set of rules: LogBatch::second_name().
  rules::RequestNames* second_names = nullptr;
  // The format of all logs. Absent: that of each log is detected.
  std::optional<LogFormat> format = {};
  // What fields of JSON and CSV logs are, besides those with usual names.
  std::vector<FieldMapping> fields = {};
  // Called for each problem of a log with one line of text: "LOG:LINE: what". May be empty.
  std::function<void(std::string_view)> complain = {};
  // Called after every batch, with the log that is being read. May be empty.
  std::function<void(const LogTotals& so_far, std::string_view log)> on_progress = {};
};

// Consecutive lines of one log.
struct LogBatch {
  std::size_t log = 0;                    // the index of the log's path
  LogFormat format = LogFormat::kCommon;  // of the log
  std::vector<LogLine> lines;             // the parsed lines, in order; they point into `bytes`
  std::uint64_t without_rules = 0;        // the number of recorded requests that no rules decide
  std::uint64_t skipped = 0;              // the number of other lines
  std::uint64_t wrong_costs = 0;          // of `skipped`: those with a wrong cost
  std::vector<std::string> complaints;    // about the first kMostShown of them: ":LINE: what"
  bool last = false;                      // whether this is the last batch of its log
  std::string error;                      // why the log ends here; empty at its regular end
  std::uint64_t bytes_read = 0;           // of the log's file
  std::uint64_t inflated = 0;             // bytes of text of all logs so far

  // The name of the request in a line (RequestNames).
  std::string_view name(std::size_t line) const noexcept {
    return std::string_view(names).substr(lines[line].name_at, lines[line].name_size);
  }

  std::string_view second_name(std::size_t line) const noexcept {
    return std::string_view(names).substr(lines[line].name_at + lines[line].name_size,
                                          lines[line].second_name_size);
  }
  // The attributes of a line besides its members, and its costs.
  std::span<const LogField> fields(const LogLine& line) const noexcept {
    return std::span(extras.fields).subspan(line.fields_at, line.fields_size);
  }
  RequestCosts costs(const LogLine& line) const noexcept {
    return {line.units, std::span(extras.costs).subspan(line.costs_at, line.costs_size)};
  }

  std::unique_ptr<char[]> bytes;
  std::string names;
  LogExtras extras;
};

// Logs by the times of their next lines. The time of a line that is earlier than one before it in
// its log is that of the latest before it.
using LogQueue = std::priority_queue<std::pair<Instant, std::size_t>,
                                     std::vector<std::pair<Instant, std::size_t>>, std::greater<>>;

// Reads logs in a separate thread. The thread inflates, splits and parses at most a few batches
// ahead of the caller, so that memory does not depend on the size of the logs. The next batch is of
// the log whose last line so far is the earliest. A caller that takes the lines of all logs in the
// order of a LogQueue needs no batch of a log but the latest.
//
// One thread may call next() and release(). The destructor stops reading and waits for the thread,
// which may wait for input.
class LogReader {
 public:
  static constexpr std::size_t kMostShown = 5;

  // Calls no function of the input.
  explicit LogReader(const LogInput& input);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Returns the next batch, or null after the last batch of the last log. Valid until release().
  LogBatch* next();
  // Returns a batch to the reader, which fills it again.
  void release(LogBatch* batch);
  // After the last batch: FieldMap::lack() of the lines that have named fields.
  std::string lack() const { return fields_.lack(); }

 private:
  class Splitter;
  void read_all();
  void read(LogBatch& batch, std::unique_ptr<Splitter>& log);
  LogBatch* free_batch(std::size_t index);
  void hand_over(LogBatch* batch);

  const LogInput input_;
  // Used only by the reading thread:
  FieldMap fields_;
  LogQueue queue_;
  std::vector<std::unique_ptr<Splitter>> open_;  // by log; null: it is not open
  std::uint64_t inflated_ = 0;

  std::vector<LogBatch> batches_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LogBatch*> free_;
  std::deque<LogBatch*> ready_;
  bool ended_ = false;
  bool stopped_ = false;
  std::thread thread_;  // declared last, because it uses the other members
};

// What was read.
struct LogTotals {
  std::vector<std::string> logs;
  std::vector<LogFormat> formats;  // of the logs with lines, each once
  bool has_user = false;           // whether a person has named the user of access logs
  bool failed = false;             // whether a log could not be opened or read to its end, or has
                                   // no line that could be read
  bool disordered = false;         // whether over 5 % of a log are much earlier than others
                                   // before them
  std::vector<std::string> problems;  // of whole logs: "LOG: what"
  std::string fault;                  // why the counts are of no use; empty: they are
  std::uint64_t lines = 0;            // parsed + skipped + without_rules
  std::uint64_t skipped = 0;        // lines that are not of the log's format, or have a wrong cost
  std::uint64_t wrong_costs = 0;    // the latter
  std::uint64_t without_rules = 0;  // recorded requests that no rules decide
  std::uint64_t bytes = 0;          // of text
  std::uint64_t read = 0;           // bytes of the files, before inflating
  std::optional<std::uint64_t> size;  // of the files; absent if one is a pipe
  std::uint64_t late = 0;             // lines that are earlier than one before them in their log

  std::uint64_t parsed() const noexcept { return lines - skipped - without_rules; }
  // Returns the name of the log, or their number.
  std::string logs_text() const;
  // Says what is wrong with the skipped lines.
  std::string skipped_text() const;
  // Returns "; expected --field ..." or another source of an attribute or a cost that the logs
  // lack. Empty: there is none.
  std::string expected_source(std::string_view name) const;
};

// Write the counts of lines, and an instant or null.
void write_totals(base::JsonWriter& out, const LogTotals& totals);
void write_instant(base::JsonWriter& out, std::string_view name, const std::optional<Instant>& at);

// Returns the times of the first requests of logs. The first instant of all for what is no file, or
// has no request that can be read.
std::vector<Instant> starts_of(const LogInput& input);

// Reads all logs, and calls `take` with each line of a batch, ordered by time where each log is.
// The time is that of the line, or of a later line before it: it never goes back. Reports the
// problems of logs, and calls on_progress. Counts in `totals`.
void read_logs(
    const LogInput& input, LogTotals& totals,
    const std::function<void(const LogBatch& batch, std::size_t line, Instant at)>& take);

}  // namespace sluice::replay
