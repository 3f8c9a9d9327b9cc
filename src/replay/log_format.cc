#include "replay/log_format.h"

#include <algorithm>
#include <array>

namespace sluice::replay {
namespace {

struct FormatNames {
  LogFormat format;
  std::string_view name;
  std::string_view title;
};
constexpr std::array<FormatNames, 4> kFormats{{
    {LogFormat::kCommon, "common", "Common or Combined Log Format"},
    {LogFormat::kEnvoy, "envoy", "Envoy's text format"},
    {LogFormat::kJson, "json", "JSON lines"},
    {LogFormat::kCsv, "csv", "CSV"},
}};

// Returns the format that a line has by itself. No line shows that it is CSV.
std::optional<LogFormat> format_of_line(std::string_view line) {
  if (line.starts_with('{')) return LogFormat::kJson;
  LogLine read;
  if (line.starts_with('[')) {
    const bool has_time = line.size() > 5 && line[5] == '-' && line.find("] \"") != line.npos;
    return has_time ? std::optional(LogFormat::kEnvoy) : std::nullopt;
  }
  LineReader reader;
  return reader.read(line, read) == LineFault::kNone ? std::optional(LogFormat::kCommon)
                                                     : std::nullopt;
}

}  // namespace

std::string_view to_string(LogFormat format) noexcept {
  return kFormats[static_cast<std::size_t>(format)].name;
}

std::string_view title_of(LogFormat format) noexcept {
  return kFormats[static_cast<std::size_t>(format)].title;
}

std::optional<LogFormat> log_format_of(std::string_view name) noexcept {
  for (const FormatNames& each : kFormats) {
    if (each.name == name) return each.format;
  }
  return {};
}

LogFormat detect_format(std::string_view text, const FieldMap& map) {
  constexpr int kLines = 20;
  std::array<int, kFormats.size()> found{};
  const std::string_view first = text.substr(0, text.find('\n'));
  for (int i = 0; i < kLines && !text.empty(); ++i) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto format = format_of_line(text.substr(0, end))) {
      ++found[static_cast<std::size_t>(*format)];
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto* const most = std::max_element(found.begin(), found.end());
  if (*most > 0) return static_cast<LogFormat>(most - found.begin());
  return CsvLineReader::is_header(first, map) ? LogFormat::kCsv : LogFormat::kCommon;
}

LineFault LogParser::read_other(std::string_view line, LogLine& out, LogExtras& extras) {
  switch (format_) {
    case LogFormat::kCommon: break;
    case LogFormat::kEnvoy: return envoy_.read(line, out, extras);
    case LogFormat::kJson: return json_.read(line, out, extras);
    case LogFormat::kCsv: return csv_.read(line, out, extras);
  }
  return lines_.read(line, out);
}

LineFault LogParser::look_again(std::string_view line, LineFault fault) {
  const std::optional<LogFormat> format = format_of_line(line);
  if (!format || *format == format_ || fault == LineFault::kHeader) return fault;
  if (*format == LogFormat::kJson) return LineFault::kIsJsonLine;
  return *format == LogFormat::kEnvoy ? LineFault::kIsEnvoyLine : LineFault::kIsAccessLine;
}

}  // namespace sluice::replay
