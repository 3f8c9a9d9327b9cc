#include "replay/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/csv.h"
#include "replay/log_attributes.h"
#include "replay/log_line.h"
#include "replay/text.h"
#include "rules/request_names.h"

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
  if (!fields.error().empty()) names.clear();
  return names;
}

// Returns whether one of the columns is the time.
bool has_time(const std::vector<std::string>& names, const FieldMap& map) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const auto targets = map.find(name);
    return std::ranges::find(targets, FieldKind::kTime, &FieldTarget::kind) != targets.end();
  });
}

// Returns whether the first line has names of columns: one is the time, or all are identifiers and
// the next line has as many fields.
bool has_header(std::string_view text, const FieldMap& map) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::vector<std::string> names = names_in(text.substr(0, end));
  if (names.size() < 2) return false;
  if (has_time(names, map)) return true;
  const auto is_name = [](const std::string& name) {
    constexpr std::string_view kOthers = "0123456789_.-:@$";
    const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
    return !name.empty() && (is_letter(name[0]) || name[0] == '_') &&
           std::all_of(name.begin(), name.end(),
                       [&](char c) { return is_letter(c) || kOthers.find(c) != kOthers.npos; });
  };
  const std::string_view rest = text.substr(std::min(end + 1, text.size()));
  return std::all_of(names.begin(), names.end(), is_name) &&
         names_in(rest.substr(0, rest.find('\n'))).size() == names.size();
}

}  // namespace

LineFault LogParser::read_csv(std::string_view line, LogLine& out, LogExtras& extras) {
  line = content_of(line);
  if (line.empty()) return LineFault::kEmpty;
  if (!columns_) {
    separator_ = separator_of(line);
    columns_ = names_in(line);
    error_ = map_.lack("the log has no column", *columns_);
    if (error_.empty() && !has_time(*columns_, map_)) {
      error_ = "no column is the time; expected --field time=COLUMN with one of: " +
               FieldMap::shown(*columns_);
    }
    return LineFault::kHeader;
  }
  record_.begin(out, extras);
  CsvFields fields(line, separator_);
  std::size_t column = 0;
  for (std::string_view field; fields.next(field); ++column) {
    if (column == columns_->size()) return LineFault::kColumns;
    record_.add((*columns_)[column],
                fields.doubled() ? extras.copy(base::undoubled(field)) : field);
  }
  if (!fields.error().empty()) return LineFault::kOpenField;
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
  const LineFault wrong_time = fault_of_time(times.read(line.substr(1, closing - 1), out.at));
  if (wrong_time != LineFault::kNone) return wrong_time;
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
  extras.normalize_path(out);
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
  bool on_null(JsonError&) {
    record_.note(path_);
    return true;
  }
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

LogParser::LogParser(FieldMap& map)
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
  return record_.finish(true);
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
  std::string_view rest = text;
  for (int i = 0; i < kLines && !rest.empty(); ++i) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (const auto format = format_of_line(rest.substr(0, end))) {
      ++found[static_cast<std::size_t>(*format)];
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto* const most = std::max_element(found.begin(), found.end());
  if (*most > 0) return static_cast<LogFormat>(most - found.begin());
  return has_header(text, map) ? LogFormat::kCsv : LogFormat::kCommon;
}

namespace {

// Returns the error if --field names a field that a log of this format never has; else empty.
std::string lack_of(LogFormat format, const FieldMap& map) {
  if (format == LogFormat::kEnvoy && map.has_names()) {
    return "--field names fields of JSON and CSV logs, and the format of this log is " +
           std::string(title_of(format));
  }
  if (format != LogFormat::kCommon) return "";
  for (const FieldTarget& user : map.find(kUserField)) {
    if (user.kind == FieldKind::kAttribute) continue;
    return "--field: the user of an access log can be an attribute that the log lacks, such as "
           "header.x-user=remote_user";
  }
  return map.lack(
      "--field names fields of JSON and CSV logs, and the user of Common and Combined ones; "
      "the log has no field",
      std::array{std::string(kUserField)});
}

}  // namespace

void LogParser::begin(LogFormat format) {
  format_ = format;
  error_ = lack_of(format, map_);
  if (format != LogFormat::kCommon) return;
  user_ = map_.find(kUserField);
  if (!user_.empty()) map_.note(kUserField);
}

void LogParser::add_user(LogLine& out, LogExtras& extras) {
  std::string_view user = out.user;
  if (user.find('\\') != user.npos) {
    undo_log_escapes(user, user_text_);
    user = extras.copy(user_text_);
  }
  out.fields_at = static_cast<std::uint32_t>(extras.fields.size());
  for (const FieldTarget& target : user_) extras.fields.push_back({target.name, user});
  out.fields_size = static_cast<std::uint32_t>(user_.size());
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

namespace {

using namespace std::string_view_literals;

constexpr std::size_t kCompressedBlock = std::size_t{128} << 10;
constexpr std::string_view kGzipMagic = "\x1f\x8b"sv;

// Returns what to do with a file of another compression, or an empty text.
std::string_view advice_for(std::string_view head) {
  if (head.starts_with("\xfd"
                       "7zXZ")) {
    return "it is xz; only gzip is read: xz -dc LOG | sluice ... -";
  }
  if (head.starts_with("\x28\xb5\x2f\xfd")) {
    return "it is zstd; only gzip is read: zstd -dc LOG | sluice ... -";
  }
  if (head.starts_with("BZh")) {
    return "it is bzip2; only gzip is read: bzip2 -dc LOG | sluice ... -";
  }
  if (head.starts_with("PK\x03\x04")) {
    return "it is zip; only gzip is read: unzip -p LOG | sluice ... -";
  }
  return {};
}

std::string system_error(std::string_view what) {
  return std::string(what) + ": " + std::strerror(errno);
}

}  // namespace

Expected<std::unique_ptr<LogSource>> LogSource::open(const std::string& path) {
  const bool is_input = path == "-";
  const int descriptor = is_input ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::unique_ptr<LogSource> source(new LogSource(descriptor, !is_input));
  struct stat status{};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
    return Unexpected{system_error("cannot open")};
  }
  if (S_ISDIR(status.st_mode)) return Unexpected{"is a directory; expected a log file"};
  const auto head = source->peek();
  if (!head) return Unexpected{head.error()};
  if (const auto advice = advice_for(*head); !advice.empty())
    return Unexpected{std::string(advice)};
  if (head->starts_with(kGzipMagic)) {
    source->inflater_ = std::make_unique<Inflater>();
    source->buffer_.resize(kCompressedBlock);
  }
  return source;
}

LogSource::LogSource(int descriptor, bool is_owned)
    : descriptor_(descriptor), is_owned_(is_owned) {}

LogSource::~LogSource() {
  if (is_owned_ && descriptor_ >= 0) ::close(descriptor_);
}

// Returns the first bytes. read_plain() returns them again.
Expected<std::string_view> LogSource::peek() {
  while (peeked_ < peek_.size()) {
    const auto got = read_descriptor(std::span(peek_).subspan(peeked_));
    if (!got) return Unexpected{got.error()};
    if (*got == 0) break;
    peeked_ += *got;
  }
  return std::string_view(peek_.data(), peeked_);
}

Expected<std::size_t> LogSource::read_descriptor(std::span<char> into) {
  ssize_t got = 0;
  do {
    got = ::read(descriptor_, into.data(), into.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) return Unexpected{system_error("cannot read")};
  bytes_read_ += static_cast<std::uint64_t>(got);
  return static_cast<std::size_t>(got);
}

Expected<std::size_t> LogSource::read_plain(std::span<char> into) {
  if (given_back_ == peeked_) return read_descriptor(into);
  const std::size_t size = std::min(into.size(), peeked_ - given_back_);
  std::copy_n(peek_.data() + given_back_, size, into.data());
  given_back_ += size;
  return size;
}

Expected<std::size_t> LogSource::read(std::span<char> into) {
  if (inflater_ == nullptr) return read_plain(into);
  while (true) {
    if (inflater_->is_corrupt()) {
      return Unexpected{"the gzip data is corrupt; what was read before it is counted"};
    }
    if (input_.empty() && !has_ended_) {
      const auto got = read_plain(buffer_);
      if (!got) return Unexpected{got.error()};
      input_ = std::span<const char>(buffer_).first(*got);
      has_ended_ = *got == 0;
    }
    if (is_between_members_) {
      const auto more = begin_member();
      if (!more) return Unexpected{more.error()};
      if (!*more) return std::size_t{0};
      if (is_between_members_) continue;
    }
    const std::size_t size = inflater_->inflate(input_, into);
    is_between_members_ = inflater_->has_ended();
    if (size > 0) return size;
    if (!inflater_->is_corrupt() && input_.empty() && has_ended_ && !is_between_members_) {
      return Unexpected{"the gzip data is cut off; what was read before it is counted"};
    }
  }
}

// Examines the bytes after a member. Returns false at the end of the file.
Expected<bool> LogSource::begin_member() {
  while (!input_.empty() && input_.front() == '\0' && !is_first_) {
    has_padding_ = true;
    input_ = input_.subspan(1);
  }
  if (input_.empty()) return !has_ended_;
  if (!is_first_ && (has_padding_ || input_.front() != kGzipMagic[0])) {
    return Unexpected{"bytes that are not gzip follow the gzip data; they are not counted"};
  }
  if (!is_first_) inflater_->begin_member();
  is_first_ = false;
  is_between_members_ = false;
  return true;
}

namespace {

// Of one log: one is decided, one is read, two are buffers between them.
constexpr std::size_t kBatches = 4;
constexpr std::size_t kExcerpt = 60;

}  // namespace

// An open log, whose text it splits into lines across the blocks.
class LogReader::Splitter {
 public:
  Splitter(const LogInput& input, FieldMap& fields, std::unique_ptr<LogSource> source)
      : source_(std::move(source)), input_(input), fields_(fields), parser_(fields) {}

  LogSource& source() { return *source_; }

  // Copies the carried text to the batch and returns the space after it, for the next block.
  std::span<char> room(LogBatch& batch) {
    std::copy(carried_.begin(), carried_.end(), batch.bytes.get());
    return {batch.bytes.get() + carried_.size(), input_.block};
  }

  // Parses the lines that `fresh` new bytes complete.
  void split(LogBatch& batch, std::size_t fresh) {
    const char* line = batch.bytes.get();
    const char* scan = line + carried_.size();
    const char* const end = scan + fresh;
    begin(batch, {line, static_cast<std::size_t>(end - line)});
    while (const char* newline = find_newline(scan, end)) {
      take(batch, {line, static_cast<std::size_t>(newline - line)});
      line = scan = newline + 1;
    }
    rest_ = {line, static_cast<std::size_t>(end - line)};
    carry();
  }

  // Call this at the log's end, after the last split(). Parses the remaining text as the last line.
  void finish(LogBatch& batch) {
    if (number_ == 0) parser_.begin(batch.format = format_of(rest_));
    if (!rest_.empty() || too_long_) take(batch, rest_);
  }

 private:
  static const char* find_newline(const char* from, const char* end) {
    return static_cast<const char*>(std::memchr(from, '\n', static_cast<std::size_t>(end - from)));
  }

  // Decides about the format of the log at its first complete line.
  void begin(LogBatch& batch, std::string_view text) {
    if (number_ == 0 && text.find('\n') != text.npos) parser_.begin(format_of(text));
    batch.format = parser_.format();
  }
  LogFormat format_of(std::string_view text) const {
    return input_.format ? *input_.format : detect_format(text, fields_);
  }

  void take(LogBatch& batch, std::string_view line) {
    if (refused_) return;
    ++number_;
    const bool dropped = std::exchange(too_long_, false) || line.size() > input_.longest_line;
    LineFault fault = LineFault::kTooLong;
    if (!dropped) {
      LogLine& read = batch.lines.emplace_back();
      fault = parser_.read(line, read, batch.extras);
      const bool is_refused = !parser_.error().empty();
      if (fault == LineFault::kNone && !is_refused) return name(batch, read);
      batch.lines.pop_back();
      if (is_refused && (fault == LineFault::kNone || fault == LineFault::kHeader)) {
        refused_ = true;
        batch.error = parser_.error();
        return;
      }
      if (fault == LineFault::kHeader) return;
      if (fault == LineFault::kWithoutRules) return static_cast<void>(++batch.without_rules);
    }
    ++batch.skipped;
    batch.wrong_costs += fault == LineFault::kNoCost ? 1 : 0;
    if (shown_ == kMostShown) return;
    ++shown_;
    std::string& what =
        batch.complaints.emplace_back(":" + std::to_string(number_) + ": skipped: ");
    what += explain(fault);
    if (!line.empty()) what += ": " + printable(line.substr(0, kExcerpt));
  }

  void name(LogBatch& batch, LogLine& line) {
    if (input_.names == nullptr || line.units != 1 || line.costs_size > 0) return;
    attributes_.show(line, batch.fields(line));
    line.name_at = static_cast<std::uint32_t>(batch.names.size());
    line.name_size = append_name(batch, *input_.names);
    if (input_.second_names != nullptr) {
      line.second_name_size = append_name(batch, *input_.second_names);
    }
  }

  std::uint32_t append_name(LogBatch& batch, rules::RequestNames& names) {
    const std::string_view name = names.name(attributes_);
    batch.names.append(name);
    return static_cast<std::uint32_t>(name.size());
  }

  // Keeps an unfinished line for the next block, unless it exceeds the bound.
  void carry() {
    too_long_ = too_long_ || rest_.size() > input_.longest_line;
    carried_.assign(too_long_ ? std::string_view{} : rest_);
  }

  const std::unique_ptr<LogSource> source_;
  const LogInput& input_;
  FieldMap& fields_;
  LogParser parser_;
  LogAttributes attributes_;
  std::string_view rest_;  // the unfinished line at the end of the last split's text
  std::string carried_;    // the same, for the next block
  bool too_long_ = false;  // the current line exceeds the bound
  bool refused_ = false;   // the log may not be read
  std::uint64_t number_ = 0;
  std::size_t shown_ = 0;
};

namespace {

LogQueue queue_of(const LogInput& input) {
  LogQueue queue;
  for (std::size_t log = 0; log < input.logs.size(); ++log) {
    queue.emplace(input.starts.empty() ? kFirstInstant : input.starts[log], log);
  }
  return queue;
}

}  // namespace

LogReader::LogReader(const LogInput& input)
    : input_(input),
      fields_(input.fields),
      queue_(queue_of(input)),
      open_(input.logs.size()),
      batches_(kBatches + input.logs.size()) {
  for (LogBatch& batch : batches_) free_.push_back(&batch);
  thread_ = std::thread([this] { read_all(); });
}

LogReader::~LogReader() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

LogBatch* LogReader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || ended_; });
  if (ready_.empty()) return nullptr;
  LogBatch* batch = ready_.front();
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void LogReader::release(LogBatch* batch) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(batch);
  }
  changed_.notify_all();
}

void LogReader::read_all() {
  while (!queue_.empty()) {
    auto [at, log] = queue_.top();
    LogBatch* const batch = free_batch(log);
    if (batch == nullptr) break;
    read(*batch, open_[log]);
    queue_.pop();
    if (!queue_.empty()) {
      for (const LogLine& line : batch->lines) at = std::max(at, line.at);
    }
    if (batch->last) {
      open_[log].reset();
    } else {
      queue_.emplace(at, log);
    }
    hand_over(batch);
  }
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void LogReader::read(LogBatch& batch, std::unique_ptr<Splitter>& log) {
  try {  // memory may be exhausted, and a thread must not throw
    if (batch.bytes == nullptr) {
      batch.bytes.reset(new char[input_.longest_line + input_.block]);  // uninitialised
    }
    if (log == nullptr) {
      auto opened = LogSource::open(input_.logs[batch.log]);
      if (!opened) throw std::runtime_error(opened.error());
      log = std::make_unique<Splitter>(input_, fields_, *std::move(opened));
    }
    LogSource& source = log->source();
    const std::span<char> room = log->room(batch);
    std::size_t fresh = 0;
    while (fresh < room.size() && !batch.last) {
      const auto got = source.read(room.subspan(fresh));
      batch.last = !got || *got == 0;
      if (!got) batch.error = got.error();
      if (got) fresh += *got;
    }
    batch.inflated = inflated_ += fresh;
    batch.bytes_read = source.bytes_read();
    log->split(batch, fresh);
    if (batch.last) log->finish(batch);
  } catch (const std::exception& exception) {
    batch.error = exception.what();
  }
  batch.last = batch.last || !batch.error.empty();
}

// Returns an empty batch to fill, or null if reading must stop.
LogBatch* LogReader::free_batch(std::size_t index) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return (!free_.empty() && ready_.size() + 1 < kBatches) || stopped_; });
  if (stopped_) return nullptr;
  LogBatch* batch = free_.back();
  free_.pop_back();
  lock.unlock();
  batch->log = index;
  batch->lines.clear();
  batch->names.clear();
  batch->extras.clear();
  batch->skipped = 0;
  batch->wrong_costs = 0;
  batch->without_rules = 0;
  batch->complaints.clear();
  batch->last = false;
  batch->error.clear();
  batch->bytes_read = 0;
  batch->inflated = inflated_;
  return batch;
}

void LogReader::hand_over(LogBatch* batch) {
  {
    const std::lock_guard lock(mutex_);
    ready_.push_back(batch);
  }
  changed_.notify_all();
}

namespace {

void complain(const LogInput& input, const std::string& path, const std::string& what) {
  if (input.complain) input.complain(path + what);
}

void warn(const LogInput& input, LogTotals& totals, const std::string& path,
          const std::string& what, const char* kind = "warning: ") {
  complain(input, path, std::string(": ") + kind + what);
  totals.problems.push_back(path + ": " + what);
}

}  // namespace

std::vector<Instant> starts_of(const LogInput& input) {
  std::vector<Instant> starts(input.logs.size(), kFirstInstant);
  for (std::size_t log = 0; log < starts.size(); ++log) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(input.logs[log], ignored)) continue;
    LogInput one = input;
    one.logs = {input.logs[log]};
    one.block = std::size_t{16} << 10;
    LogReader reader(one);
    LogBatch* batch = reader.next();
    while (batch != nullptr && batch->lines.empty()) {
      reader.release(batch);
      batch = reader.next();
    }
    if (batch != nullptr) starts[log] = batch->lines.front().at;
  }
  return starts;
}

namespace {

// Servers write a line when the response ends, and its time can be that of the request.
constexpr Duration kUsualLateness = std::chrono::seconds{10};

// What was taken of a log.
struct TakenLog {
  LogBatch* batch = nullptr;  // the current one
  std::size_t line = 0;       // of it
  std::uint64_t lines = 0, parsed = 0, late = 0, very_late = 0;
  // To recognize a log whose newest line is first: lines that are much later than one before them,
  // and those that are later and earlier than the line before.
  std::uint64_t very_early = 0, rises = 0, falls = 0;
  std::uint64_t without_cost = 0;  // lines
  std::uint64_t bytes_read = 0;
  std::optional<Instant> first;
  Instant lowest = Instant::max(), previous = Instant::max();
  bool has_zone = true;  // of the first line
};

// The bytes of all logs, if they are files.
std::optional<std::uint64_t> size_of(const LogInput& input) {
  std::uint64_t size = 0;
  for (const std::string& log : input.logs) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(log, error)) return std::nullopt;
    size += std::filesystem::file_size(log, error);
    if (error) return std::nullopt;
  }
  return size;
}

// Counts the lines of a batch that was taken.
void count(TakenLog& log, LogTotals& totals) {
  const LogBatch& batch = *log.batch;
  const std::uint64_t fresh = batch.lines.size() + batch.skipped + batch.without_rules;
  totals.lines += fresh;
  totals.skipped += batch.skipped;
  totals.wrong_costs += batch.wrong_costs;
  totals.without_rules += batch.without_rules;
  totals.bytes = batch.inflated;
  auto& formats = totals.formats;
  if (fresh > 0 && std::find(formats.begin(), formats.end(), batch.format) == formats.end()) {
    formats.push_back(batch.format);
  }
  log.lines += fresh;
  log.parsed += batch.lines.size() + batch.without_rules;
  if (batch.lines.empty()) return;
  if (!log.first) {
    log.first = batch.lines.front().at;
    log.has_zone = batch.lines.front().has_zone;
  }
}

// Counts whether the line comes late, and whether it lacks a cost.
void count(TakenLog& log, const LogLine& line, Instant latest) {
  const Instant own = line.at;
  log.without_cost += line.has_cost || line.costs_size > 0 ? 0 : 1;
  log.late += own < latest ? 1 : 0;
  log.very_late += latest - own > kUsualLateness ? 1 : 0;
  log.lowest = std::min(log.lowest, own);
  log.very_early += own - log.lowest > kUsualLateness ? 1 : 0;
  log.rises += own > log.previous ? 1 : 0;
  log.falls += own < log.previous ? 1 : 0;
  log.previous = own;
}

// Says what is wrong with a log that has ended.
void judge(const LogInput& input, const TakenLog& log, LogTotals& totals) {
  totals.late += log.late;
  const std::string& path = input.logs[log.batch->log];
  const auto complain_of = [&](const std::string& problem) {
    warn(input, totals, path, problem, "");
  };
  if (!log.batch->error.empty()) {
    totals.failed = true;
    return complain_of(log.batch->error);
  }
  if (log.lines == 0) return complain_of("is empty");
  if (log.parsed == 0) {
    totals.failed = true;
    return complain_of("no line could be read as " + std::string(title_of(log.batch->format)) +
                       "; is it an access log? --format and --field say what it is");
  }
  if (log.parsed * 2 < log.lines) {
    warn(
        input, totals, path,
        "most lines are skipped, " + grouped(log.lines - log.parsed) + " of " + grouped(log.lines));
  }
  if (log.without_cost > 0 && log.without_cost < log.parsed) {
    warn(input, totals, path,
         grouped(log.without_cost) + " of " + grouped(log.parsed) + " requests" +
             (log.without_cost == 1 ? " has no cost; it counts" : " have no cost; each counts") +
             " as 1 unit, or as the 'cost' of a limit says");
  }
  if (log.very_late * 20 <= log.parsed) return;
  totals.disordered = true;
  const bool is_reversed = log.very_early * 20 <= log.parsed && log.rises < log.falls;
  warn(input, totals, path,
       percent(log.very_late, log.parsed) + " of the requests are more than " +
           duration_text(kUsualLateness) + " earlier than one before them" +
           (is_reversed ? ", because the newest is first; reverse the log: tac LOG"
                        : ", so the results are wrong; sort the log by time, or name the log of "
                          "each server"));
}

// Says which logs have times without a zone, if others have one.
void compare_zones(const LogInput& input, const std::vector<TakenLog>& logs, LogTotals& totals) {
  const auto has_zone = [](const TakenLog& log) { return log.first && log.has_zone; };
  if (std::none_of(logs.begin(), logs.end(), has_zone)) return;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    if (!logs[i].first || logs[i].has_zone) continue;
    warn(input, totals, input.logs[i],
         "its times have no zone and are read as UTC, and other logs have a zone");
  }
}

}  // namespace

void read_logs(const LogInput& input, LogTotals& totals,
               const std::function<void(const LogBatch&, std::size_t, Instant)>& take) {
  totals.logs = input.logs;
  totals.has_user = !FieldMap(input.fields).find(kUserField).empty();
  LogReader reader(input);
  std::vector<TakenLog> logs(input.logs.size());
  totals.size = size_of(input);
  for (LogQueue queue = queue_of(input); !queue.empty();) {
    auto [at, index] = queue.top();
    queue.pop();
    TakenLog& log = logs[index];
    if (log.batch == nullptr) log.batch = reader.next();
    LogBatch& batch = *log.batch;
    for (; log.line < batch.lines.size(); ++log.line) {
      const Instant own = batch.lines[log.line].at;
      at = std::max(at, own);
      if (!queue.empty() && queue.top() < std::pair(at, index)) break;
      count(log, batch.lines[log.line], at);
      take(batch, log.line, at);
    }
    if (log.line < batch.lines.size() || !batch.last) queue.emplace(at, index);
    if (log.line < batch.lines.size()) continue;
    count(log, totals);
    for (const std::string& what : batch.complaints) complain(input, input.logs[index], what);
    if (batch.last) judge(input, log, totals);
    totals.read += batch.bytes_read - std::exchange(log.bytes_read, batch.bytes_read);
    if (input.on_progress) input.on_progress(totals, input.logs[index]);
    log.line = 0;
    reader.release(std::exchange(log.batch, nullptr));
  }
  compare_zones(input, logs, totals);
  totals.fault = reader.lack();
}

}  // namespace sluice::replay
