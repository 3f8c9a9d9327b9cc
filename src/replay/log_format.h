#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log_line.h"
#include "replay/log_record.h"

namespace sluice::replay {

// Reads lines of CSV (RFC 4180). The first line has the names of the columns and says which of ','
// ';' and tab separates them. Fields may be quoted, but not contain line breaks.
//
// Not thread-safe. Borrows the map; the LogLine borrows the line and the extras. Cost: one pass
// over the line; copies what has quotes in quotes.
class CsvLineReader {
 public:
  explicit CsvLineReader(const FieldMap& map) : map_(map), record_(map) {}

  // Returns whether a line has names of columns, one of which is the time.
  static bool is_header(std::string_view line, const FieldMap& map);

  // Returns kHeader for the first line.
  LineFault read(std::string_view line, LogLine& out, LogExtras& extras);

 private:
  LineFault read_header(std::string_view line);

  const FieldMap& map_;
  LogRecord record_;
  std::optional<std::vector<std::string>> columns_;
  char separator_ = ',';
};

// Reads lines of Envoy's default text format:
//
//   [2026-11-23T10:00:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "agent"
//   "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "example.org" "10.0.2.1:80"
//
// The client is the last address of X-Forwarded-For, which Envoy has added or checked. Fields
// before and after the quoted ones may differ, as in the default of Istio. Not thread-safe.
class EnvoyLineReader {
 public:
  LineFault read(std::string_view line, LogLine& out, LogExtras& extras);

 private:
  LogTimeReader times_;
};

// Reads lines that are JSON objects. A field of an object in an object has the path of their names,
// "request.headers.X-User". Of an array the first value counts.
//
// Not thread-safe. Borrows the map; the LogLine borrows the line and the extras. Cost: one pass
// over the line; copies what has escapes.
class JsonLineReader {
 public:
  explicit JsonLineReader(const FieldMap& map);
  ~JsonLineReader();
  JsonLineReader(const JsonLineReader&) = delete;
  JsonLineReader& operator=(const JsonLineReader&) = delete;

  LineFault read(std::string_view line, LogLine& out, LogExtras& extras);

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

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

// Reads the lines of one log. Not thread-safe; borrows the map.
class LogParser {
 public:
  explicit LogParser(const FieldMap& map) : json_(map), csv_(map) {}

  // Call this once, before the first line.
  void begin(LogFormat format) noexcept { format_ = format; }
  LogFormat format() const noexcept { return format_; }

  // Reads a line without its line end. A line that is not of the format of the log but of another
  // one is a fault of its own.
  LineFault read(std::string_view line, LogLine& out, LogExtras& extras) {
    LineFault fault = LineFault::kNone;
    if (format_ == LogFormat::kCommon) {
      fault = lines_.read(line, out);
    } else {
      fault = read_other(line, out, extras);
    }
    return fault == LineFault::kNone ? fault : look_again(line, fault);
  }

 private:
  LineFault read_other(std::string_view line, LogLine& out, LogExtras& extras);
  LineFault look_again(std::string_view line, LineFault fault);

  LogFormat format_ = LogFormat::kCommon;
  LineReader lines_;
  EnvoyLineReader envoy_;
  JsonLineReader json_;
  CsvLineReader csv_;
};

}  // namespace sluice::replay
