#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

 private:
  TimestampFault read_time(const char* text, Instant& at) noexcept;
  TimestampFault read_day(const char* text) noexcept;

  char last_[kAccessLength + 1] = "01/Jan/1970:00:00:00 +0000";  // the text of last_at_
  Instant last_at_{};
  std::array<char, 11> day_{};  // the day and the zone of day_start_
  std::array<char, 6> zone_{};
  std::int64_t day_start_seconds_ = 0;  // midnight there, in seconds of UTC
};

}  // namespace sluice::replay
