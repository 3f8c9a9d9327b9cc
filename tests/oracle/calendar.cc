#include "tests/oracle/calendar.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <stdexcept>
#include <utility>

namespace sluice_oracle {
namespace {

constexpr std::int64_t kSecond = 1000000;
constexpr std::int64_t kDay = 86400;

// Returns what clocks of the zone show, as seconds from 1970-01-01 00:00:00 on those clocks.
std::int64_t shown(const std::string& zone, std::int64_t at) {
  static std::string present;
  if (present != zone) {
    ::setenv("TZ", zone.c_str(), 1);
    ::tzset();
    present = zone;
  }
  std::tm time{};
  const std::time_t seconds = at;
  if (::localtime_r(&seconds, &time) == nullptr) throw std::out_of_range("no local time");
  return ::timegm(&time);
}

// Returns the first instant at which clocks show midnight of the day, or later.
std::int64_t first_at(const std::string& zone, std::int64_t midnight) {
  std::int64_t before = midnight - 3 * kDay;
  for (;;) {
    const std::int64_t at = before + (midnight - shown(zone, before));
    if (shown(zone, at) == midnight) return at;
    if (shown(zone, at) < midnight) {
      before = at;
      continue;
    }
    std::int64_t after = at;  // clocks skip midnight
    while (after - before > 1) {
      const std::int64_t middle = before + (after - before) / 2;
      (shown(zone, middle) < midnight ? before : after) = middle;
    }
    return after;
  }
}

std::int64_t midnight_of(int year, int month, int day) {
  std::tm date{};
  date.tm_year = year - 1900;
  date.tm_mon = month - 1;
  date.tm_mday = day;
  return ::timegm(&date);
}

// Returns midnight of that day of the month, or of the month's last day.
std::int64_t in_month(int year, int month, int day) {
  const std::int64_t last = midnight_of(year, month + 1, 1) - kDay;
  return std::min(midnight_of(year, month, day), last);
}

// Returns the first day, as its midnight, of the window that is `index` windows after the one of
// the day `today` or the one before that.
std::int64_t first_day(const Calendar& calendar, std::int64_t today, int index) {
  std::tm date{};
  const std::time_t seconds = today;
  ::gmtime_r(&seconds, &date);
  const int year = date.tm_year + 1900;
  switch (calendar.unit) {
    case CalendarUnit::kDay: break;
    case CalendarUnit::kWeek:
      return today + (calendar.day - 1 - (date.tm_wday + 6) % 7 + 7 * index) * kDay;
    case CalendarUnit::kMonth: {
      const int months = year * 12 + date.tm_mon + index;
      return in_month(months / 12, months % 12 + 1, calendar.day);
    }
    case CalendarUnit::kYear: return in_month(year + index, calendar.month, calendar.day);
  }
  return today + index * kDay;
}

}  // namespace

std::int64_t window_start(const Calendar& calendar, std::int64_t instant_us) {
  const std::int64_t instant = instant_us / kSecond;
  const std::int64_t local = shown(calendar.zone, instant);
  const std::int64_t today = local - local % kDay;
  static std::map<std::pair<std::string, std::int64_t>, std::int64_t> known;
  for (int index = 2;; --index) {
    const std::int64_t midnight = first_day(calendar, today, index);
    const auto [found, is_new] = known.try_emplace({calendar.zone, midnight}, 0);
    if (is_new) found->second = first_at(calendar.zone, midnight);
    if (found->second <= instant) return std::max<std::int64_t>(found->second, 0) * kSecond;
  }
}

std::int64_t usual_length_us(CalendarUnit unit) {
  const std::int64_t days[] = {1, 7, 31, 366};
  return days[static_cast<int>(unit)] * kDay * kSecond;
}

}  // namespace sluice_oracle
