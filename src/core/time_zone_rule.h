#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::core {

// The day and time of a change to or from daylight saving time, each year.
struct YearlyChange {
  enum class Kind : std::uint8_t { kDayWithout29February, kDayOfYear, kWeekday };

  Kind kind = Kind::kDayOfYear;
  int day = 0;              // kDay...: from 1 or 0; kWeekday: 0 is Sunday
  int month = 0, week = 0;  // kWeekday: week 5 is the last one
  std::int64_t time = 0;    // seconds of the clocks from the day's midnight, also negative

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

}  // namespace sluice::core
