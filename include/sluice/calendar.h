#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "sluice/clock.h"
#include "sluice/expected.h"

namespace sluice {

namespace base {
class TimeZone;
}

// The length of a window that follows the calendar.
enum class CalendarUnit : std::uint8_t { kDay, kWeek, kMonth, kYear };

// Says where the windows of a calendar begin: at the midnight of a day in a time zone. The
// functions below make one, to be read as a sentence:
//
//   sluice::fixed_window(1000).per(sluice::calendar_month("Asia/Shanghai", 15))
//
// A plain value that borrows its text.
struct CalendarSpec {
  CalendarUnit unit = CalendarUnit::kDay;
  // A name of the IANA time zone database.
  std::string_view zone = "UTC";
  // kMonth, kYear: the day of the month, 1 to 31; in a shorter month its last day. kWeek: 1
  // (Monday) to 7.
  unsigned day = 1;
  // kYear: 1 (January) to 12.
  unsigned month = 1;
};

// Days of a time zone.
constexpr CalendarSpec calendar_day(std::string_view zone = "UTC") noexcept {
  return {.unit = CalendarUnit::kDay, .zone = zone};
}
// Weeks that start on this weekday.
constexpr CalendarSpec calendar_week(std::string_view zone = "UTC",
                                     std::chrono::weekday starts = std::chrono::Monday) noexcept {
  return {.unit = CalendarUnit::kWeek, .zone = zone, .day = starts.iso_encoding()};
}
// Months that start on this day, or on their last day if they have no such day.
constexpr CalendarSpec calendar_month(std::string_view zone = "UTC", unsigned starts = 1) noexcept {
  return {.unit = CalendarUnit::kMonth, .zone = zone, .day = starts};
}
// Years that start on this date.
constexpr CalendarSpec calendar_year(std::string_view zone = "UTC",
                                     std::chrono::month_day starts = std::chrono::January /
                                                                     1) noexcept {
  return {.unit = CalendarUnit::kYear,
          .zone = zone,
          .day = static_cast<unsigned>(starts.day()),
          .month = static_cast<unsigned>(starts.month())};
}

// The windows of a calendar from 1970 to 2112: civil days, weeks, months or years of a time zone,
// of their true length. A window begins at the first instant at which clocks of the zone show its
// first day; the first one, of the year 1970, at kFirstInstant.
//
// Used from any thread. There is one for each spec, which lives as long as the program. It keeps
// the rules of the time zone from when it was made. Cost: about 130 bytes, and about 5 kB for each
// time zone.
class Calendar {
 public:
  // A window: from `start` until just before `end`, which is the start of the next one.
  struct Window {
    Instant start;
    Instant end;
  };

  // Returns the calendar of the spec. The first call for a spec reads the system's time zones:
  // the folder of the environment variable TZDIR, or /usr/share/zoneinfo; "UTC" needs none.
  // Errors: says what is wrong with the spec, or that there is no such time zone.
  static Expected<const Calendar*> make(const CalendarSpec& spec);

  // The spec, which borrows from the calendar.
  const CalendarSpec& spec() const noexcept { return spec_; }
  // The usual length of a window, the longest if there are several: 1, 7, 31 or 366 days.
  Duration period() const noexcept;
  // The number of the calendar in this process, from 1.
  std::uint32_t number() const noexcept { return number_; }
  // A checksum of the spec, the same in all processes.
  std::uint64_t checksum() const noexcept { return checksum_; }

  // Returns the window of an instant from kFirstInstant to kLastInstant. Cost: one load if the
  // window is that of the call before; otherwise some searches in the rules of the time zone.
  Window window_at(Instant now) const noexcept {
    using std::chrono::seconds;
    const std::int64_t at = now.time_since_epoch() / seconds{1};
    std::uint64_t window = last_.load(std::memory_order_relaxed);
    if (static_cast<std::uint64_t>(at) - (window >> kLengthBits) >= (window & kMostLength)) {
      window = find_window(at);
      last_.store(window, std::memory_order_relaxed);
    }
    const Instant start{seconds{window >> kLengthBits}};
    return {start, start + seconds{window & kMostLength}};
  }

 private:
  // A window as one number: its start in seconds since kFirstInstant, then its length in seconds.
  static constexpr unsigned kLengthBits = 25;  // for 388 days
  static constexpr std::uint64_t kMostLength = (std::uint64_t{1} << kLengthBits) - 1;

  Calendar(const CalendarSpec& spec, const base::TimeZone& zone, std::uint32_t number);
  std::uint64_t find_window(std::int64_t at) const noexcept;
  std::int64_t start_of(int window) const noexcept;

  const CalendarSpec spec_;
  const base::TimeZone& zone_;
  const std::uint64_t checksum_;
  const std::uint32_t number_;
  mutable std::atomic<std::uint64_t> last_{0};
};

}  // namespace sluice
