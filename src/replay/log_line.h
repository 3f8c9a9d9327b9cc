#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/civil_time.h"
#include "sluice/clock.h"

namespace sluice::replay {

using base::TimestampFault;

// Reads the times of logs. Remembers the last second and the last day of an access log, as
// neighbouring lines share them: then it costs a comparison. Not thread-safe; allocates nothing.
class LogTimeReader {
 public:
  // The length of a time of an access log, "20/Feb/2016:00:00:45 -0500".
  static constexpr std::size_t kAccessLength = 26;

  // Reads the kAccessLength bytes at `text`, of any zone. A leap second, hh:mm:60, is the first
  // instant of the next minute. Sets `at` if there is no fault.
  TimestampFault read_access(const char* text, Instant& at) noexcept;

  // Reads the time of a JSON or CSV log in any of these forms:
  //
  //   2026-11-23T10:00:00.123456Z   ISO 8601. A space may replace the T, and a zone such as +01:00
  //                                 the Z; without a zone, the time is in UTC
  //   23/Nov/2026:10:00:00 +0100    as in access logs, also in brackets
  //   1795428000.123                seconds since 1970; milliseconds, microseconds or nanoseconds
  //                                 if the number has at least 12, 15 or 18 digits before the point
  //
  // Digits beyond microseconds are dropped. Sets `at` if there is no fault.
  TimestampFault read(std::string_view text, Instant& at) noexcept;
  // Whether a time that can be read says its zone, as those in seconds since 1970 do.
  static bool has_zone(std::string_view text) noexcept;

 private:
  TimestampFault read_time(const char* text, Instant& at) noexcept;
  TimestampFault read_day(const char* text) noexcept;

  char last_[kAccessLength + 1] = "01/Jan/1970:00:00:00 +0000";  // the text of last_at_
  Instant last_at_{};
  std::array<char, 11> day_{};  // the day and the zone of day_start_
  std::array<char, 6> zone_{};
  std::int64_t day_start_seconds_ = 0;  // midnight there, in seconds of UTC
};

// Reads a line from its front to its end.
class LineCursor {
 public:
  explicit LineCursor(std::string_view line) noexcept
      : at_(line.data()), end_(line.data() + line.size()) {}

  std::string_view rest() const noexcept { return {at_, left()}; }
  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  void skip(std::size_t bytes) noexcept { at_ += bytes; }

  bool eat(std::string_view text) noexcept {
    if (left() < text.size() || std::memcmp(at_, text.data(), text.size()) != 0) return false;
    at_ += text.size();
    return true;
  }

  // Returns the text up to the next space or the end, and skips the space. Returns an empty text at
  // the end.
  std::string_view word() noexcept {
    const char* space = find(at_, ' ');
    const char* stop = space == nullptr ? end_ : space;
    const std::string_view found(at_, static_cast<std::size_t>(stop - at_));
    at_ = space == nullptr ? end_ : space + 1;
    return found;
  }

  // Returns the quoted text after an opening quote, or a null data() if the quote is not closed.
  // The closing quote is not escaped, and a space or the end follows it, so unescaped quotes in the
  // names of clients are part of the text.
  std::string_view quoted() noexcept {
    for (const char* quote = find(at_, '"'); quote != nullptr; quote = find(quote + 1, '"')) {
      if ((quote + 1 == end_ || quote[1] == ' ') && !escaped(quote)) {
        const std::string_view inside(at_, static_cast<std::size_t>(quote - at_));
        at_ = quote + 1;
        return inside;
      }
    }
    return {};
  }

 private:
  const char* find(const char* from, char wanted) const noexcept {
    return static_cast<const char*>(
        std::memchr(from, wanted, static_cast<std::size_t>(end_ - from)));
  }

  bool escaped(const char* quote) const noexcept {
    const char* before = quote;
    while (before != at_ && before[-1] == '\\') --before;
    return (quote - before) % 2 != 0;
  }

  const char* at_;
  const char* end_;
};

// "-" is an absent field.
inline std::string_view unless_dash(std::string_view field) noexcept {
  return field.size() == 1 && field[0] == '-' ? std::string_view{} : field;
}

// One request of an access log. A field that the log omits ("-") has a null data(); an empty field
// does not. The views point into the line or into its LogExtras. They contain the escapes of the
// URL, and those of the log (undo_log_escapes) if `escaped`, except for the path of a LogParser.
struct LogLine {
  Instant at;
  std::string_view client;  // an address or a host name
  std::string_view user;  // the third field of an access log, $remote_user; no attribute by itself
  std::string_view method;
  std::string_view path;   // of the target; LogParser normalizes it as the server does
  std::string_view query;  // of the target, without '?'
  std::string_view status;
  std::string_view referer;
  std::string_view user_agent;
  // In LogBatch::names, the second after the first; readers of lines leave them.
  std::uint32_t name_at = 0, name_size = 0, second_name_size = 0;
  // In the LogExtras: other attributes, and the costs of limits.
  std::uint32_t fields_at = 0, fields_size = 0;
  std::uint32_t costs_at = 0, costs_size = 0;
  std::uint64_t units = 1;  // the cost for limits without their own
  bool has_zone = true;     // the time says its zone
  bool has_cost = false;    // the log gives `units`, or the request was recorded with a cost of 1
  bool escaped = true;      // the views contain the escapes of the log
};

// The reason why a line is not an access log line.
enum class LineFault : std::uint8_t {
  kNone,
  kEmpty,
  kNoClient,
  kVirtualHost,
  kNoTimestamp,
  kMalformedTimestamp,
  kNoSuchDate,
  kOutOfRange,
  kNoRequest,
  kOpenRequest,
  kNoStatus,
  kNoSize,
  kOpenReferer,
  kOpenUserAgent,
  kTooLong,
  // Of Envoy's text format, JSON and CSV:
  kNoEnvoyTime,
  kNoEnvoyNumbers,
  kOpenField,
  kMalformedJson,
  kColumns,
  kNoTime,
  kMalformedTime,
  kNoCost,
  kNoRequestFields,
  // Nothing is wrong with these lines, which are no requests to replay:
  kHeader,        // the names of the columns
  kWithoutRules,  // a recorded request that no rules decide
  // A line of another format than the log:
  kIsAccessLine,
  kIsEnvoyLine,
  kIsJsonLine,
};

// Returns what is wrong and what is expected.
std::string_view explain(LineFault fault) noexcept;

// Returns the fault of a line with that time, in any format but the Common and the Combined one.
constexpr LineFault fault_of_time(TimestampFault fault) noexcept {
  if (fault == TimestampFault::kNone) return LineFault::kNone;
  return fault == TimestampFault::kOutOfRange ? LineFault::kOutOfRange : LineFault::kMalformedTime;
}

// Reads a line of the Common or the Combined Log Format:
//
//   client ident user [20/Feb/2016:00:00:45 -0500] "GET /a?b=c HTTP/1.1" 200 187 "referer" "agent"
//
// without its line end; a '\r' at the end is ignored. If the request line is not HTTP, method and
// path are omitted. Ignores text after the user agent, or after the size if no quote follows.
// Allocates nothing.
LineFault read_access_line(std::string_view line, LogTimeReader& times, LogLine& out) noexcept;

// Sets the method and the target of "METHOD TARGET [PROTOCOL]", if it is a request line.
void read_request(std::string_view request, LogLine& out) noexcept;

// Sets the path and the query of a target, which is not empty: "/a?b", "http://host/a?b".
void read_target(std::string_view target, LogLine& out) noexcept;

// Decodes the escapes of servers in a logged field (\" \\ \n \r \t \b \v \f and \xHH) into `out`.
// Other backslashes stay.
void undo_log_escapes(std::string_view logged, std::string& out);

}  // namespace sluice::replay
