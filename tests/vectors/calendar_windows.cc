// Prints the windows of calendars in the form of calendar_windows.py: the calendars are the lines
// of the input that are not indented, the years its arguments.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "core/calendar.h"
#include "sluice/calendar.h"

namespace {

using sluice::Calendar;
using sluice::Instant;

const Calendar& calendar_of(const std::string& zone, const std::string& unit,
                            const std::string& starts) {
  sluice::CalendarSpec spec{.unit = *sluice::core::calendar_unit_from(unit), .zone = zone};
  if (starts != "-") spec = *sluice::core::starting(spec, starts);
  return **Calendar::make(spec);
}

Calendar::Window year_of(const std::string& zone, int year) {
  const std::chrono::sys_days middle = std::chrono::year(year) / std::chrono::July / 1;
  return calendar_of(zone, "year", "01-01").window_at(middle);
}

std::int64_t seconds(sluice::Duration time) { return time / std::chrono::seconds{1}; }

std::uint64_t add_to_checksum(std::uint64_t checksum, const std::string& text) {
  for (const char c : text) checksum = (checksum ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return checksum;
}

void print(const std::string& line, int first_year, int last_year) {
  std::string zone, unit, starts;
  std::istringstream(line) >> zone >> unit >> starts;
  const Calendar& calendar = calendar_of(zone, unit, starts);
  const Instant end = year_of(zone, last_year).end;
  Instant at = year_of(zone, first_year).start;
  if (calendar.window_at(at).start < at) at = calendar.window_at(at).end;
  std::uint64_t checksum = 0xCBF29CE484222325u;
  int count = -1;
  std::string unusual;
  for (; at < end; at = calendar.window_at(at).end) {
    const std::int64_t start = seconds(at.time_since_epoch());
    checksum = add_to_checksum(checksum, std::to_string(start) + "\n");
    ++count;
    const Instant next = calendar.window_at(at).end;
    if (unit == "day" && next < end && next - at != std::chrono::hours{24}) {
      char hours[16];
      std::snprintf(hours, sizeof hours, " %gh\n", static_cast<double>(seconds(next - at)) / 3600);
      unusual += "  " + std::to_string(start) + hours;
    }
  }
  std::printf("%s %s %s %d %016llx\n%s", zone.c_str(), unit.c_str(), starts.c_str(), count,
              static_cast<unsigned long long>(checksum), unusual.c_str());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.starts_with(' ')) print(line, std::atoi(arguments[1]), std::atoi(arguments[2]));
  }
}
