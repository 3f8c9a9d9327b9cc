#include "core/calendar_text.h"

#include <algorithm>
#include <charconv>

#include "core/quoted.h"

namespace sluice::core {
namespace {

constexpr unsigned kMostDays = 31;

// Digits only: 0 is no number here.
unsigned number(std::string_view text) noexcept {
  unsigned value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  const bool is_number = error == std::errc() && at == end && text.size() <= 2;
  return is_number ? value : 0;
}

std::string two_digits(unsigned value) { return (value < 10 ? "0" : "") + std::to_string(value); }

Unexpected<std::string> wrong(std::string_view starts, const CalendarSpec& spec) {
  constexpr std::string_view kRight[] = {
      "expected no 'starts': a day begins at midnight",
      "expected a day of the week, monday to sunday",
      "expected a day of the month, 1 to 31; in a shorter month it is the last day",
      "expected a month and a day, such as 04-06"};
  return {"'starts' is " + in_quotes(starts) + "; " +
          std::string(kRight[static_cast<std::size_t>(spec.unit)])};
}

unsigned days_of(unsigned month) noexcept {
  const std::chrono::month_day_last last{std::chrono::month(month)};
  return month == 2 ? 29 : static_cast<unsigned>((std::chrono::year(2001) / last).day());
}

bool has_valid_start(const CalendarSpec& spec) noexcept {
  switch (spec.unit) {
    case CalendarUnit::kDay: return true;
    case CalendarUnit::kWeek: return spec.day >= 1 && spec.day <= kWeekdays.size();
    case CalendarUnit::kMonth: return spec.day >= 1 && spec.day <= kMostDays;
    case CalendarUnit::kYear:
      return spec.month >= 1 && spec.month <= 12 && spec.day >= 1 &&
             spec.day <= days_of(spec.month);
  }
  return false;
}

}  // namespace

std::optional<CalendarUnit> calendar_unit_from(std::string_view name) noexcept {
  const auto* const found = std::find(kCalendarUnits.begin(), kCalendarUnits.end(), name);
  if (found == kCalendarUnits.end()) return std::nullopt;
  return static_cast<CalendarUnit>(found - kCalendarUnits.begin());
}

Expected<CalendarSpec> starting(CalendarSpec spec, std::string_view starts) {
  spec.day = 0;
  if (spec.unit == CalendarUnit::kWeek) {
    const auto* const found = std::find(kWeekdays.begin(), kWeekdays.end(), starts);
    if (found != kWeekdays.end()) spec.day = static_cast<unsigned>(found - kWeekdays.begin()) + 1;
  } else if (spec.unit == CalendarUnit::kMonth) {
    spec.day = number(starts);
  } else if (starts.size() == 5 && starts[2] == '-') {
    spec.month = number(starts.substr(0, 2));
    spec.day = number(starts.substr(3));
  }
  if (spec.unit == CalendarUnit::kDay || !has_valid_start(spec)) return wrong(starts, spec);
  return spec;
}

std::string starts_of(const CalendarSpec& spec) {
  switch (spec.unit) {
    case CalendarUnit::kDay: break;
    case CalendarUnit::kWeek: return std::string(kWeekdays[spec.day - 1]);
    case CalendarUnit::kMonth: return std::to_string(spec.day);
    case CalendarUnit::kYear: return two_digits(spec.month) + "-" + two_digits(spec.day);
  }
  return {};
}

std::optional<std::string> find_error(const CalendarSpec& spec) {
  if (has_valid_start(spec)) return std::nullopt;
  const std::string day = std::to_string(spec.day);
  const bool is_year = spec.unit == CalendarUnit::kYear;
  return wrong(is_year ? std::to_string(spec.month) + "-" + day : day, spec).error;
}

std::string to_string(const CalendarSpec& spec) {
  std::string out(name_of(spec.unit));
  if (spec.zone != "UTC") out.append(" of ").append(spec.zone);
  const std::string starts = starts_of(spec);
  if (starts != starts_of({.unit = spec.unit})) out.append(" from ").append(starts);
  return out;
}

}  // namespace sluice::core
