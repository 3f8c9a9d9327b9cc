#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log_line.h"
#include "sluice/attributes.h"

namespace boost::json {
template <class Handler>
class basic_parser;  // NOLINT(readability-identifier-naming): the name that Boost gives it
}  // namespace boost::json

namespace sluice::replay {

// A field of a log that a person has named: `name` is an attribute of rules, `costs.LIMIT`, `cost`
// or `time`; `source` a column, or the path of a JSON field ("request.headers.X-User").
struct FieldMapping {
  std::string name;
  std::string source;

  std::string option() const { return "--field " + name + "=" + source; }
};

// What a field of a JSON or CSV log is. The kinds up to kTime occur once for a line.
enum class FieldKind : std::uint8_t {
  kClient,        // an address, with or without a port
  kForwardedFor,  // addresses separated by commas; the last one is the client
  kMethod,
  kTarget,   // path and query
  kRequest,  // "GET /path HTTP/1.1"
  kPath,     // without a query
  kQuery,
  kStatus,
  kReferer,
  kUserAgent,
  kUnits,  // the cost for all limits
  kTime,
  kAttribute,
  kCost,  // for the limit of this name
};

// The meaning of a field. If several fields of a line have one meaning, the lowest rank counts.
struct FieldTarget {
  FieldKind kind = FieldKind::kAttribute;
  std::uint8_t rank = 0;
  std::string_view name = {};  // of the attribute or of the limit
};

// Returns the meaning of an attribute's name, of "cost", of "costs.LIMIT" or of "time". Borrows it.
FieldTarget target_of_name(std::string_view name, std::uint8_t rank) noexcept;

// Says what the fields of a log are by their names, in any case: those that a person has named, and
// the usual names of nginx, Envoy, Caddy and others.
//
// Not thread-safe, except for find(). Cost: one look-up in a table.
class FieldMap {
 public:
  explicit FieldMap(std::span<const FieldMapping> mappings = {});
  FieldMap(const FieldMap&) = delete;
  FieldMap& operator=(const FieldMap&) = delete;

  // Returns the meanings of a field: none, one or several. Valid as long as the map.
  std::span<const FieldTarget> find(std::string_view source) const noexcept;

  // Whether a person has named fields.
  bool has_names() const noexcept { return !mappings_.empty(); }
  // Remembers that the logs have a field of this name.
  void note(std::string_view source);
  // Returns "the logs have no field 'tokns'; expected one of: ..." for the first field that a
  // person has named and that is neither noted nor has the same meaning as one that is; else "".
  std::string lack() const {
    return complete_ || noted_.empty() ? "" : lack("the logs have no field", noted_);
  }
  // The same for these fields, such as the columns of a log. `what`: the begin of the message.
  std::string lack(std::string_view what, std::span<const std::string> fields) const;
  // The first of these names, separated by commas.
  static std::string shown(std::span<const std::string> fields);

 private:
  // Hashes and compares names in any case.
  struct AnyCase {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept;
    bool operator()(std::string_view a, std::string_view b) const noexcept;
  };

  std::deque<FieldMapping> mappings_;
  std::vector<std::string> noted_;  // until those of mappings_ are among them
  bool complete_;
  boost::unordered_flat_map<std::string_view, std::vector<FieldTarget>, AnyCase, AnyCase> targets_;
};

// An attribute of a line besides the members of LogLine.
struct LogField {
  std::string_view name;
  std::string_view value;
};

// What lines have besides the members of LogLine, which says which part is theirs. Owns text that
// is not in the lines.
struct LogExtras {
  std::vector<LogField> fields;
  std::vector<LimitCost> costs;
  std::pmr::monotonic_buffer_resource text;

  std::string_view copy(std::string_view from);
  // Replaces the path, which is as it was sent and logged, by the one that the server matches.
  void normalize_path(LogLine& line);
  void clear();

 private:
  std::string unescaped_, normalized_;
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

// Returns a log, or its first line, without a byte order mark at its beginning.
std::string_view without_byte_order_mark(std::string_view log) noexcept;

// Returns the format of a log that begins with these lines: that of most of the first lines, else
// CSV if the first line has names of columns, else kCommon.
LogFormat detect_format(std::string_view text, const FieldMap& map);

// The source of --field that an access log has: its third field.
inline constexpr std::string_view kUserField = "remote_user";

// Reads the lines of one log.
//
// JSON lines are objects. A field of an object in an object has the path of their names,
// "request.headers.X-User". Of an array the first value counts.
//
// The first line of a CSV log (RFC 4180) has the names of the columns and says which of ',' ';' and
// tab separates them. Fields may be quoted, but not contain line breaks.
//
// An access log has the field kUserField, which is an attribute if a person has named it so.
//
// A field of a JSON or CSV line counts if it is known: by the map; a header (request.headers.NAME,
// headers.NAME, and nginx's http_NAME); a recorded attribute or cost (attributes.NAME,
// costs.LIMIT). Of two fields with one meaning and rank, the first counts. Recorded limits
// (without_rules.NAME) make the line kWithoutRules.
//
// Not thread-safe. Borrows the map; a LogLine borrows the line and the extras. Cost: one pass over
// the line; copies what has escapes, or quotes in quotes.
class LogParser {
 public:
  explicit LogParser(FieldMap& map);
  ~LogParser();
  LogParser(const LogParser&) = delete;
  LogParser& operator=(const LogParser&) = delete;

  // Call this once, before the first line.
  void begin(LogFormat format);
  LogFormat format() const noexcept { return format_; }

  // Why the requests of the log may not be read: a person names fields that it lacks, or a CSV log,
  // after its first line, has no column with the time. Empty: they may.
  const std::string& error() const noexcept { return error_; }

  // Reads a line without its line end. A line that is not of the format of the log but of another
  // one is a fault of its own. Returns kHeader for the first line of a CSV log.
  LineFault read(std::string_view line, LogLine& out, LogExtras& extras) {
    const bool is_common = format_ == LogFormat::kCommon;
    const LineFault fault =
        is_common ? read_access_line(line, times_, out) : read_other(line, out, extras);
    if (is_common && fault == LineFault::kNone) finish_access_line(out, extras);
    return fault == LineFault::kNone ? fault : look_again(line, fault);
  }

 private:
  class JsonHandler;

  void finish_access_line(LogLine& out, LogExtras& extras) {
    extras.normalize_path(out);
    if (!user_.empty() && out.user.data() != nullptr) add_user(out, extras);
  }
  void add_user(LogLine& out, LogExtras& extras);
  LineFault read_other(std::string_view line, LogLine& out, LogExtras& extras);
  LineFault read_json(std::string_view line, LogLine& out, LogExtras& extras);
  LineFault read_csv(std::string_view line, LogLine& out, LogExtras& extras);
  LineFault look_again(std::string_view line, LineFault fault);

  // Begin and end a line of named fields, and add each. `needs_request`: a line without any
  // attribute or cost is not a request.
  void begin_fields(LogLine& line, LogExtras& extras);
  void add(std::string_view source, std::string_view value);
  LineFault finish_fields(bool needs_request);
  // Adds a field with this meaning. An empty value and "-" are absent.
  void add(const FieldTarget& target, std::string_view value);
  void add_header(std::string_view name, std::string_view value);
  void add_recorded(std::string_view name, std::string_view value);
  bool takes(FieldKind kind, std::uint8_t rank) noexcept;
  void set(FieldKind kind, std::string_view value);
  void set_cost(std::string_view limit, std::string_view value);

  static constexpr std::size_t kSingles = static_cast<std::size_t>(FieldKind::kTime) + 1;

  LogFormat format_ = LogFormat::kCommon;
  LogTimeReader times_;
  FieldMap& map_;
  std::string error_;
  std::span<const FieldTarget> user_;  // what the user of an access log is
  std::string user_text_;
  std::optional<std::vector<std::string>> columns_;  // of a CSV log, after its first line
  char separator_ = ',';
  bool has_blanks_ = false;  // spaces at separators of the first line, so in others, too
  std::unique_ptr<boost::json::basic_parser<JsonHandler>> json_;
  // Of a line of named fields:
  LogLine* line_ = nullptr;
  LogExtras* extras_ = nullptr;
  std::string_view request_;
  std::array<std::uint8_t, kSingles> ranks_{};  // of what the line has so far
  LineFault time_fault_ = LineFault::kNoTime;
  LineFault cost_fault_ = LineFault::kNone;
  bool without_rules_ = false;
  bool is_path_sent_ = false;  // and not recorded by a server
};

}  // namespace sluice::replay
