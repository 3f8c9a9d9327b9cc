#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/calendar.h"
#include "sluice/expected.h"

namespace sluice::core {

// Calendars as people write them: `per: month`, `starts: 15`.

// In the order of CalendarUnit.
inline constexpr std::array<std::string_view, 4> kCalendarUnits{"day", "week", "month", "year"};
inline constexpr std::array<std::string_view, 7> kWeekdays{
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"};

constexpr std::string_view name_of(CalendarUnit unit) noexcept {
  return kCalendarUnits[static_cast<std::size_t>(unit)];
}
std::optional<CalendarUnit> calendar_unit_from(std::string_view name) noexcept;

// What is wrong with 'zone' and 'starts' next to a period that is none of the calendar.
inline constexpr std::string_view kNeedsCalendar =
    "applies only to windows of the calendar; expected also 'per' with day, week, month or year";

// Sets the first day of a spec with this unit: a weekday of a week, the day of a month, and the
// month and day of a year, such as 04-06. Errors: "WHAT IS WRONG; WHAT WOULD BE RIGHT".
Expected<CalendarSpec> starting(CalendarSpec spec, std::string_view starts);
// Returns what `starts` would say, and nothing for a day.
std::string starts_of(const CalendarSpec& spec);

// Returns the first error of a spec, except for its zone: "WHAT IS WRONG; WHAT WOULD BE RIGHT".
std::optional<std::string> find_error(const CalendarSpec& spec);

// "month", or "month of Asia/Shanghai from 15" if it is not the default.
std::string to_string(const CalendarSpec& spec);

}  // namespace sluice::core
