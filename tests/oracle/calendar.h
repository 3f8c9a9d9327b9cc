#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace sluice_oracle {

enum class CalendarUnit { kDay, kWeek, kMonth, kYear };

// Windows of civil days, weeks, months or years of a time zone.
struct Calendar {
  CalendarUnit unit = CalendarUnit::kDay;
  std::string zone = "UTC";
  int day = 1;    // kWeek: from 1, Monday; kMonth and kYear: of the month, or its last day
  int month = 1;  // kYear

  auto operator<=>(const Calendar&) const = default;
};

// Returns the start of the window that contains an instant, in microseconds since the Unix epoch,
// but at least 0. It asks the C library for local times, so it changes the TZ of the process.
std::int64_t window_start(const Calendar& calendar, std::int64_t instant_us);

// Returns the longest usual length of a window.
std::int64_t usual_length_us(CalendarUnit unit);

}  // namespace sluice_oracle
