#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "replay/timestamp.h"
#include "sluice/clock.h"

namespace sluice::replay {

// One request as a line of an access log tells it. A field that the log leaves out ("-") has a null
// data(); an empty one does not. The views point into the line, as it was logged: with the log's
// escapes (undo_log_escapes) and the URL's.
struct LogLine {
  Instant at;
  std::string_view client;  // an address or a host name
  std::string_view method;
  std::string_view path;   // of the target, without an absolute target's scheme and host
  std::string_view query;  // of the target, without '?'
  std::string_view status;
  std::string_view referer;
  std::string_view user_agent;
};

// Why a line is not one of an access log.
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
};

// What is wrong, and what would be right.
std::string_view explain(LineFault fault) noexcept;

// Reads lines of the Common and the Combined Log Format:
//
//   client ident user [20/Feb/2016:00:00:45 -0500] "GET /a?b=c HTTP/1.1" 200 187 "referer" "agent"
//
// A request line that is not one of HTTP leaves method and path out. What follows the user agent,
// or the size when no quote does, is ignored. Not thread-safe; allocates nothing.
class LineReader {
 public:
  // `line` comes without its line end; a '\r' at its end is not part of it.
  LineFault read(std::string_view line, LogLine& out) noexcept;

 private:
  TimestampReader timestamps_;
};

// Undoes what servers do to odd bytes when they log a field (\" \\ \n \r \t \b \v \f and \xHH),
// into `out`. Other backslashes stay.
void undo_log_escapes(std::string_view logged, std::string& out);

}  // namespace sluice::replay
