#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log_line.h"
#include "replay/log_record.h"

namespace boost::json {
template <class Handler>
class basic_parser;  // NOLINT(readability-identifier-naming): the name that Boost gives it
}  // namespace boost::json

namespace sluice::replay {

// The format of a log.
enum class LogFormat : std::uint8_t {
  kCommon,  // the Common or the Combined Log Format
  kEnvoy,   // Envoy's default text format
  kJson,    // one JSON object per line: nginx, Envoy, Caddy, recorded traffic
  kCsv,     // columns, whose names are in the first line
};

// "common", "envoy", "json", "csv": for --format and for JSON.
std::string_view to_string(LogFormat format) noexcept;
std::optional<LogFormat> log_format_of(std::string_view name) noexcept;
// "Common or Combined Log Format": for people.
std::string_view title_of(LogFormat format) noexcept;

// Returns the format of a log that begins with these lines: that of most of the first lines, else
// CSV if the first line has names of columns, else kCommon.
LogFormat detect_format(std::string_view text, const FieldMap& map);

// Reads the lines of one log.
//
// JSON lines are objects. A field of an object in an object has the path of their names,
// "request.headers.X-User". Of an array the first value counts.
//
// The first line of a CSV log (RFC 4180) has the names of the columns and says which of ',' ';' and
// tab separates them. Fields may be quoted, but not contain line breaks.
//
// Not thread-safe. Borrows the map; a LogLine borrows the line and the extras. Cost: one pass over
// the line; copies what has escapes, or quotes in quotes.
class LogParser {
 public:
  explicit LogParser(const FieldMap& map);
  ~LogParser();
  LogParser(const LogParser&) = delete;
  LogParser& operator=(const LogParser&) = delete;

  // Call this once, before the first line.
  void begin(LogFormat format) noexcept { format_ = format; }
  LogFormat format() const noexcept { return format_; }

  // Reads a line without its line end. A line that is not of the format of the log but of another
  // one is a fault of its own. Returns kHeader for the first line of a CSV log.
  LineFault read(std::string_view line, LogLine& out, LogExtras& extras) {
    const LineFault fault = format_ == LogFormat::kCommon ? read_access_line(line, times_, out)
                                                          : read_other(line, out, extras);
    return fault == LineFault::kNone ? fault : look_again(line, fault);
  }

 private:
  class JsonHandler;

  LineFault read_other(std::string_view line, LogLine& out, LogExtras& extras);
  LineFault read_json(std::string_view line, LogLine& out, LogExtras& extras);
  LineFault read_csv(std::string_view line, LogLine& out, LogExtras& extras);
  LineFault look_again(std::string_view line, LineFault fault);

  LogFormat format_ = LogFormat::kCommon;
  LogTimeReader times_;
  const FieldMap& map_;
  LogRecord record_;
  std::optional<std::vector<std::string>> columns_;  // of a CSV log, after its first line
  char separator_ = ',';
  std::unique_ptr<boost::json::basic_parser<JsonHandler>> json_;
};

}  // namespace sluice::replay
