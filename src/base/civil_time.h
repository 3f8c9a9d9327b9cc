#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/clock.h"

// Instants as people and programs write them, in UTC.
namespace sluice::base {

// Appends "2024-02-29T12:00:00", with `fraction` digits (0 to 6) of the second after a point and no
// zone. What the digits cannot show is cut. The locale has no effect. Cost: one call of snprintf().
void append_civil(std::string& out, Instant at, int fraction = 0);

// The same with "Z" at the end: RFC 3339 in UTC.
std::string to_rfc3339(Instant at, int fraction = 0);

// What is wrong with a timestamp.
enum class TimestampFault : std::uint8_t {
  kNone,
  kMalformed,
  kNoSuchDate,  // a month, day, time or offset that does not exist
  kOutOfRange,  // before 1970 or after kLastInstant
};

// Reads ISO 8601, such as 2026-11-23T10:00:00.123456Z. A space may replace the T, and a comma the
// point. The zone may be +01:00, +0100 or +01; without a zone the time is UTC. Digits beyond
// microseconds are dropped. Sets `at` if there is no fault. Allocates nothing.
TimestampFault read_iso8601(std::string_view text, Instant& at) noexcept;

// Reads the seconds since 1970, such as 1795428000.123: milliseconds, microseconds or nanoseconds
// if the number has at least 12, 15 or 18 digits before the point. Otherwise as read_iso8601().
TimestampFault read_unix_time(std::string_view text, Instant& at) noexcept;

// Reads RFC 3339, which requires a zone: "Z", or an offset such as +01:00. Absent: the text is no
// such instant from 1970 to kLastInstant.
std::optional<Instant> parse_rfc3339(std::string_view text) noexcept;

}  // namespace sluice::base
