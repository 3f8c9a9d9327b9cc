#include "replay/log_format.h"

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/csv.h"
#include "replay/log_line.h"

namespace sluice::replay {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

using base::CsvFields;

std::string_view content_of(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

char separator_of(std::string_view header) {
  char best = ',';
  for (const char candidate : {';', '\t'}) {
    if (std::count(header.begin(), header.end(), candidate) >
        std::count(header.begin(), header.end(), best)) {
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> names_in(std::string_view header) {
  header = content_of(header);
  if (header.starts_with(kByteOrderMark)) header.remove_prefix(kByteOrderMark.size());
  CsvFields fields(header, separator_of(header));
  std::vector<std::string> names;
  for (std::string_view field; fields.next(field);) {
    const std::size_t begin = std::min(field.find_first_not_of(' '), field.size());
    field = field.substr(begin, field.find_last_not_of(' ') + 1 - begin);
    names.push_back(fields.doubled() ? base::undoubled(field) : std::string(field));
  }
  if (fields.fault() != base::CsvFault::kNone) names.clear();
  return names;
}

// Returns whether a line has names of columns, one of which is the time.
bool is_header(std::string_view line, const FieldMap& map) {
  const std::vector<std::string> names = names_in(line);
  const auto is_time = [&](const std::string& name) {
    for (const FieldTarget* target = map.find(name); target != nullptr; target = target->also) {
      if (target->kind == FieldKind::kTime) return true;
    }
    return false;
  };
  return names.size() > 1 && std::any_of(names.begin(), names.end(), is_time);
}

}  // namespace

LineFault LogParser::read_csv(std::string_view line, LogLine& out, LogExtras& extras) {
  line = content_of(line);
  if (line.empty()) return LineFault::kEmpty;
  if (!columns_) {
    separator_ = separator_of(line);
    columns_ = names_in(line);
    return is_header(line, map_) ? LineFault::kHeader : LineFault::kNoTime;
  }
  record_.begin(out, extras);
  CsvFields fields(line, separator_);
  std::size_t column = 0;
  for (std::string_view field; fields.next(field); ++column) {
    if (column == columns_->size()) return LineFault::kColumns;
    record_.add((*columns_)[column],
                fields.doubled() ? extras.copy(base::undoubled(field)) : field);
  }
  if (fields.fault() != base::CsvFault::kNone) return LineFault::kOpenField;
  if (column < columns_->size()) return LineFault::kColumns;
  return record_.finish(false);
}

namespace {

// The quoted fields of Envoy, by their positions.
constexpr std::size_t kForwarded = 0, kAgent = 1, kRequestId = 2, kAuthority = 3, kQuotedFields = 4;
using QuotedRun = std::array<std::string_view, kQuotedFields>;

// Finds the first four quoted fields that follow each other.
LineFault read_quoted_run(LineCursor& cursor, QuotedRun& out) noexcept {
  std::size_t found = 0;
  while (found < kQuotedFields) {
    if (cursor.left() == 0) return LineFault::kNoEnvoyNumbers;
    if (!cursor.eat("\"")) {
      cursor.word();
      found = 0;
      continue;
    }
    out[found] = cursor.quoted();
    if (out[found].data() == nullptr) return LineFault::kOpenField;
    ++found;
    cursor.eat(" ");
  }
  return LineFault::kNone;
}

// The last address of the header, without its port.
std::string_view last_address(std::string_view forwarded) noexcept {
  const std::string_view last = forwarded.substr(forwarded.rfind(',') + 1);
  return unless_dash(last.starts_with(' ') ? last.substr(1) : last);
}

// Reads a line of Envoy's default text format:
//
//   [2026-11-23T10:00:00.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "agent"
//   "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "example.org" "10.0.2.1:80"
//
// The client is the last address of X-Forwarded-For, which Envoy has added or checked. Fields
// before and after the quoted ones may differ, as in the default of Istio.
LineFault read_envoy_line(std::string_view line, LogTimeReader& times, LogLine& out,
                          LogExtras& extras) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) return LineFault::kEmpty;
  out = LogLine{};
  out.escaped = false;
  const std::size_t closing = line.find(']');
  if (!line.starts_with('[') || closing == line.npos) return LineFault::kNoEnvoyTime;
  const auto fault = times.read(line.substr(1, closing - 1), out.at);
  if (fault == TimestampFault::kOutOfRange) return LineFault::kOutOfRange;
  if (fault != TimestampFault::kNone) return LineFault::kMalformedTime;
  LineCursor cursor(line.substr(closing + 1));
  if (!cursor.eat(" \"")) return LineFault::kNoRequest;
  const std::string_view request = cursor.quoted();
  if (request.data() == nullptr) return LineFault::kOpenRequest;
  cursor.eat(" ");
  const std::string_view status = cursor.word();
  QuotedRun fields;
  if (const LineFault quoted = read_quoted_run(cursor, fields); quoted != LineFault::kNone) {
    return quoted;
  }
  read_request(request, out);
  out.status = unless_dash(status);
  out.client = last_address(fields[kForwarded]);
  out.user_agent = unless_dash(fields[kAgent]);
  out.fields_at = static_cast<std::uint32_t>(extras.fields.size());
  const auto add = [&](std::string_view name, std::string_view value) {
    if (unless_dash(value).data() != nullptr) extras.fields.push_back({name, value});
  };
  add("header.x-forwarded-for", fields[kForwarded]);
  add("header.x-request-id", fields[kRequestId]);
  add("host", fields[kAuthority]);
  out.fields_size = static_cast<std::uint32_t>(extras.fields.size()) - out.fields_at;
  return LineFault::kNone;
}

using JsonError = boost::json::error_code;
using JsonText = boost::json::string_view;

}  // namespace

// Passes the values of a JSON text to a record, under the paths of their names. Boost.JSON calls
// it.
class LogParser::JsonHandler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  explicit JsonHandler(LogRecord& record) : record_(record) {}

  void begin(std::string_view line, LogLine& out, LogExtras& extras) {
    line_ = line;
    extras_ = &extras;
    record_.begin(out, extras);
    path_.clear();
    levels_.clear();
    parts_.clear();
  }
  LineFault finish() { return record_.finish(true); }

  bool on_document_begin(JsonError&) { return true; }
  bool on_document_end(JsonError&) { return true; }
  bool on_object_begin(JsonError&) { return open(); }
  bool on_object_end(std::size_t, JsonError&) { return close(); }
  bool on_array_begin(JsonError&) { return open(); }
  bool on_array_end(std::size_t, JsonError&) { return close(); }
  bool on_key_part(JsonText part, std::size_t, JsonError&) { return append(part); }
  bool on_key(JsonText last, std::size_t, JsonError&) {
    append(last);
    path_.resize(levels_.back());
    if (!path_.empty()) path_ += '.';
    path_ += parts_;
    parts_.clear();
    return true;
  }
  bool on_string_part(JsonText part, std::size_t, JsonError&) { return append(part); }
  bool on_string(JsonText last, std::size_t, JsonError&) { return text(last); }
  bool on_number_part(JsonText part, JsonError&) { return append(part); }
  bool on_int64(std::int64_t, JsonText last, JsonError&) { return text(last); }
  bool on_uint64(std::uint64_t, JsonText last, JsonError&) { return text(last); }
  bool on_double(double, JsonText last, JsonError&) { return text(last); }
  bool on_bool(bool value, JsonError&) {
    record_.add(path_, value ? "true" : "false");
    return true;
  }
  bool on_null(JsonError&) { return true; }
  bool on_comment_part(JsonText, JsonError&) { return true; }
  bool on_comment(JsonText, JsonError&) { return true; }

 private:
  bool open() {
    levels_.push_back(path_.size());
    return true;
  }
  bool close() {
    path_.resize(levels_.back());
    levels_.pop_back();
    return true;
  }
  bool append(JsonText part) {
    parts_.append(part.data(), part.size());
    return true;
  }
  // Adds a value whose last part this is. Text of the line is borrowed, other text copied.
  bool text(JsonText last) {
    std::string_view value(last.data(), last.size());
    if (!parts_.empty()) {
      append(last);
      value = extras_->copy(parts_);
      parts_.clear();
    } else if (last.data() < line_.data() || last.data() > line_.data() + line_.size()) {
      value = extras_->copy(value);
    }
    record_.add(path_, value);
    return true;
  }

  LogRecord& record_;
  LogExtras* extras_ = nullptr;
  std::string_view line_;
  std::string path_;                 // of the value
  std::vector<std::size_t> levels_;  // the sizes of the paths of the open objects and arrays
  std::string parts_;                // of a key or a value that the parser passes in parts
};

namespace {

constexpr boost::json::parse_options parse_options() {
  boost::json::parse_options options;
  options.allow_invalid_utf8 = true;  // servers log the bytes of clients
  return options;
}

}  // namespace

LogParser::LogParser(const FieldMap& map)
    : map_(map),
      record_(map),
      json_(std::make_unique<boost::json::basic_parser<JsonHandler>>(parse_options(), record_)) {}
LogParser::~LogParser() = default;

LineFault LogParser::read_json(std::string_view line, LogLine& out, LogExtras& extras) {
  const std::size_t end = line.find_last_not_of(" \t\r");
  if (end == line.npos) return LineFault::kEmpty;
  line = line.substr(0, end + 1);
  if (line.find_first_not_of(" \t") != line.find('{')) return LineFault::kMalformedJson;
  json_->reset();
  json_->handler().begin(line, out, extras);
  JsonError error;
  const std::size_t read = json_->write_some(false, line.data(), line.size(), error);
  if (error || read != line.size()) return LineFault::kMalformedJson;
  return json_->handler().finish();
}

namespace {

constexpr std::array<std::string_view, 4> kNames{"common", "envoy", "json", "csv"};
constexpr std::array<std::string_view, 4> kTitles{"Common or Combined Log Format",
                                                  "Envoy's text format", "JSON lines", "CSV"};

// Returns the format that a line has by itself. No line shows that it is CSV.
std::optional<LogFormat> format_of_line(std::string_view line) {
  if (line.starts_with('{')) return LogFormat::kJson;
  LogLine read;
  if (line.starts_with('[')) {
    const bool has_time = line.size() > 5 && line[5] == '-' && line.find("] \"") != line.npos;
    return has_time ? std::optional(LogFormat::kEnvoy) : std::nullopt;
  }
  LogTimeReader times;
  return read_access_line(line, times, read) == LineFault::kNone ? std::optional(LogFormat::kCommon)
                                                                 : std::nullopt;
}

}  // namespace

std::string_view to_string(LogFormat format) noexcept {
  return kNames[static_cast<std::size_t>(format)];
}

std::string_view title_of(LogFormat format) noexcept {
  return kTitles[static_cast<std::size_t>(format)];
}

std::optional<LogFormat> log_format_of(std::string_view name) noexcept {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? std::nullopt
                               : std::optional(static_cast<LogFormat>(found - kNames.begin()));
}

LogFormat detect_format(std::string_view text, const FieldMap& map) {
  constexpr int kLines = 20;
  std::array<int, kNames.size()> found{};
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
  return is_header(first, map) ? LogFormat::kCsv : LogFormat::kCommon;
}

LineFault LogParser::read_other(std::string_view line, LogLine& out, LogExtras& extras) {
  if (format_ == LogFormat::kEnvoy) return read_envoy_line(line, times_, out, extras);
  return format_ == LogFormat::kJson ? read_json(line, out, extras) : read_csv(line, out, extras);
}

LineFault LogParser::look_again(std::string_view line, LineFault fault) {
  const std::optional<LogFormat> format = format_of_line(line);
  if (!format || *format == format_ || fault == LineFault::kHeader) return fault;
  if (*format == LogFormat::kJson) return LineFault::kIsJsonLine;
  return *format == LogFormat::kEnvoy ? LineFault::kIsEnvoyLine : LineFault::kIsAccessLine;
}

}  // namespace sluice::replay
