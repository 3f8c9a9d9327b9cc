// A calendar computes its windows from the rules of its time zone and remembers the last one. It is
// made when a limit is made and lives as long as the program, so that a limit refers to it by a
// pointer. Redis knows no time zone: a request contains its windows.
#include "core/calendar.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <tuple>

#include "base/quoted.h"
#include "base/time_zone.h"
#include "sluice/calendar.h"

namespace sluice::core {
namespace {

constexpr unsigned kMostDays = 31;

// Digits only: 0 is no number here.
unsigned number(std::string_view text) noexcept {
  return text.size() <= 2 ? base::read_number<unsigned>(text).value_or(0) : 0;
}

std::string two_digits(unsigned value) { return (value < 10 ? "0" : "") + std::to_string(value); }

Unexpected<std::string> wrong(std::string_view starts, const CalendarSpec& spec) {
  constexpr std::string_view kRight[] = {
      "expected no 'starts': a day begins at midnight",
      "expected a day of the week, monday to sunday",
      "expected a day of the month, 1 to 31; in a shorter month it is the last day",
      "expected a month and a day, such as 04-06"};
  return {"'starts' is " + base::in_quotes(starts) + "; " +
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

namespace sluice {
namespace {

using std::chrono::days;
using std::chrono::sys_days;

// --- the first days of windows ---

sys_days day_in(std::chrono::year year, unsigned month, unsigned day) noexcept {
  const auto last = year / std::chrono::month(month) / std::chrono::last;
  return sys_days(year / std::chrono::month(month) / std::min(std::chrono::day(day), last.day()));
}

// Returns the number of the window with this day, from that of 1970-01-01 on; one more if the day
// is before the first day of its month or year.
int window_with(const CalendarSpec& spec, sys_days day) noexcept {
  const std::chrono::year_month_day date(day);
  const int years = static_cast<int>(date.year()) - 1970;
  const auto number = static_cast<int>(day.time_since_epoch().count());
  switch (spec.unit) {
    case CalendarUnit::kDay: return number;
    case CalendarUnit::kWeek: return number / 7;
    case CalendarUnit::kMonth: return years * 12 + static_cast<int>(unsigned{date.month()}) - 1;
    case CalendarUnit::kYear: break;
  }
  return years;
}

sys_days first_day_of(int window, const CalendarSpec& spec) noexcept {
  constexpr std::chrono::year kYear{1970};
  switch (spec.unit) {
    case CalendarUnit::kDay: return sys_days{days{window}};
    case CalendarUnit::kWeek:  // 1970-01-01 was a Thursday
      return sys_days{days{7 * window + static_cast<int>(spec.day) - 4}};
    case CalendarUnit::kMonth: {
      const auto month = kYear / std::chrono::January + std::chrono::months{window};
      return day_in(month.year(), unsigned{month.month()}, spec.day);
    }
    case CalendarUnit::kYear: break;
  }
  return day_in(kYear + std::chrono::years{window}, spec.month, spec.day);
}

std::string key_of(const CalendarSpec& spec) {
  return std::string(core::name_of(spec.unit))
      .append("/")
      .append(core::starts_of(spec))
      .append("/")
      .append(spec.zone);
}

// FNV-1a: the same in all processes and versions.
std::uint64_t checksum_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

// The parts of a spec that its unit has, by which a calendar is found.
using Parts = std::tuple<CalendarUnit, unsigned, unsigned, std::string_view>;
Parts parts_of(const CalendarSpec& spec) noexcept {
  const bool has_day = spec.unit != CalendarUnit::kDay;
  const bool has_month = spec.unit == CalendarUnit::kYear;
  return {spec.unit, has_day ? spec.day : 1, has_month ? spec.month : 1, spec.zone};
}

// All calendars of the program. Limits refer to them until it ends, so they are not deleted: there
// are as many as zones and first days.
struct Calendars {
  std::shared_mutex mutex;
  std::map<std::string, base::TimeZone, std::less<>> zones;
  std::map<Parts, std::unique_ptr<const Calendar>> all;  // with the names of the zones

  const Calendar* find(const CalendarSpec& spec) {
    const std::shared_lock lock(mutex);
    const auto found = all.find(parts_of(spec));
    return found == all.end() ? nullptr : found->second.get();
  }

  static Calendars& of_program() {
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): guarded by its lock
    static auto* const calendars = new Calendars;
    return *calendars;
  }
};

}  // namespace

Calendar::Calendar(const CalendarSpec& spec, const base::TimeZone& zone, std::uint32_t number)
    : spec_(spec), zone_(zone), checksum_(checksum_of(key_of(spec))), number_(number) {}

Expected<const Calendar*> Calendar::make(const CalendarSpec& spec) {
  if (const auto error = core::find_error(spec)) return Unexpected{*error};
  Calendars& calendars = Calendars::of_program();
  if (const Calendar* const known = calendars.find(spec)) return known;
  auto read = base::TimeZone::read(spec.zone);
  if (!read) return Unexpected{read.error()};
  const std::lock_guard lock(calendars.mutex);
  const auto& [name, zone] =
      *calendars.zones.try_emplace(std::string(spec.zone), *std::move(read)).first;
  CalendarSpec own = spec;
  own.zone = name;
  // If another thread has made it meanwhile, this one is not inserted.
  const auto number = static_cast<std::uint32_t>(calendars.all.size() + 1);
  std::unique_ptr<const Calendar> made(new Calendar(own, zone, number));
  return calendars.all.try_emplace(parts_of(own), std::move(made)).first->second.get();
}

// Returns when a window begins, in seconds.
std::int64_t Calendar::start_of(int window) const noexcept {
  const auto local = first_day_of(window, spec_).time_since_epoch() / std::chrono::seconds{1};
  return std::max<std::int64_t>(zone_.first_at(local), 0);
}

std::uint64_t Calendar::find_window(std::int64_t at) const noexcept {
  const std::chrono::seconds local{at + zone_.offset_at(at)};
  int window = window_with(spec_, std::chrono::floor<days>(std::chrono::sys_seconds{local}));
  std::int64_t start = start_of(window);
  // The day may be in the window before, and clocks may show a day again whose window has ended.
  while (start > at) start = start_of(--window);
  std::int64_t end = start_of(window + 1);
  while (end <= at) {  // even if clocks skip the first day of a window, which then has no length
    start = end;
    end = start_of(++window + 1);
  }
  return static_cast<std::uint64_t>(start) << kLengthBits | static_cast<std::uint64_t>(end - start);
}

Duration Calendar::period() const noexcept {
  switch (spec_.unit) {
    case CalendarUnit::kDay: return days{1};
    case CalendarUnit::kWeek: return days{7};
    case CalendarUnit::kMonth: return days{31};
    case CalendarUnit::kYear: break;
  }
  return days{366};
}

}  // namespace sluice
