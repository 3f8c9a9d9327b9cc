#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "replay/csv_line.h"
#include "replay/envoy_line.h"
#include "replay/json_line.h"

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
