#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sluice/expected.h"

namespace sluice::base {

// The day and time of a change to or from daylight saving time, each year.
struct YearlyChange {
  int day = 0;                     // of the week, 0 is Sunday; without a month of the year from 0
  int month = 0, week = 0;         // week 5 is the last one
  bool counts_29_february = true;  // only without a month
  std::int64_t time = 0;           // seconds of the clocks from the day's midnight, also negative

  // Returns the instant of the change if clocks are `offset` seconds ahead of UTC until then.
  std::int64_t in_year(std::chrono::year year, std::int64_t offset) const noexcept;
};

// The rule at the end of a TZif file, in the form of the environment variable TZ in POSIX, with the
// extensions of RFC 8536: "EST5EDT,M3.2.0,M11.1.0".
struct TimeZoneRule {
  std::int64_t standard = 0;  // seconds ahead of UTC
  bool has_daylight = false;
  std::int64_t daylight = 0;
  YearlyChange begins;  // of daylight saving time
  YearlyChange ends;

  // Absent: the text is not such a rule.
  static std::optional<TimeZoneRule> parse(std::string_view text);
};

// The offsets of a time zone from UTC, as a TZif file of the IANA time zone database says (RFC
// 8536): its transitions, and those that its last rule makes until `kLastYear`.
//
// An immutable value. Instants are seconds since the Unix epoch. Cost: 16 bytes for each
// transition, about 5 kB for a zone with daylight saving time; a search in them for each call.
class TimeZone {
 public:
  static constexpr int kLastYear = 2114;

  // The zone with a constant offset of 0.
  static TimeZone utc() { return TimeZone(); }
  // Reads the content of a file. Absent: it is not a valid TZif file of version 2 or later, or it
  // counts leap seconds.
  static std::optional<TimeZone> parse(std::string_view file);
  // Reads a zone of the system: from the folder of the environment variable TZDIR, or from
  // /usr/share/zoneinfo. UTC needs no file. Errors: "WHAT IS WRONG; WHAT WOULD BE RIGHT".
  static Expected<TimeZone> read(std::string_view name);

  // Returns how many seconds clocks of the zone are ahead of UTC at an instant.
  std::int64_t offset_at(std::int64_t instant) const noexcept;
  // Returns the first instant at which clocks of the zone show `local` or later: seconds from
  // 1970-01-01 00:00:00 on those clocks. If clocks skip `local`, it is the instant of the skip; if
  // they show it twice, the first of the two.
  std::int64_t first_at(std::int64_t local) const noexcept;

 private:
  // From `at` on clocks are `offset` seconds ahead of UTC.
  struct Period {
    std::int64_t at;
    std::int64_t offset;
  };

  TimeZone() = default;
  void follow(const TimeZoneRule& rule);
  std::vector<Period>::const_iterator after(std::int64_t instant) const noexcept;

  std::int64_t first_offset_ = 0;
  std::vector<Period> periods_;  // in the order of their instants
};

}  // namespace sluice::base
