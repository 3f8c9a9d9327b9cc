#pragma once

#include <string_view>

#include "replay/timestamp.h"
#include "sluice/clock.h"

namespace sluice::replay {

// Reads the time of a JSON or CSV log in any of these forms:
//
//   2026-11-23T10:00:00.123456Z   ISO 8601: also with a space instead of the T, with a zone such as
//                                 +01:00, or without one, which means UTC
//   23/Nov/2026:10:00:00 +0100    as in access logs, also in brackets
//   1795428000.123                seconds since 1970; milliseconds, microseconds or nanoseconds if
//                                 the number has at least 12, 15 or 18 digits before the point
//
// Digits beyond microseconds are dropped. Not thread-safe; allocates nothing.
class LogTimeReader {
 public:
  // Sets `at` if there is no fault.
  TimestampFault read(std::string_view text, Instant& at) noexcept;

 private:
  TimestampReader timestamps_;
};

}  // namespace sluice::replay
