#include "sluice/calendar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core/calendar.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;

Instant utc(int year, unsigned month, unsigned day, Duration after = Duration{0}) {
  return sys_days(std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day)) +
         after;
}

std::string error_of(const CalendarSpec& spec) {
  const auto calendar = Calendar::make(spec);
  return calendar ? "no error" : calendar.error();
}

std::string error_of(CalendarUnit unit, std::string_view starts) {
  const auto spec = core::starting({.unit = unit}, starts);
  return spec ? "no error" : spec.error();
}

void expect_window(const CalendarSpec& spec, Instant at, Instant start, Instant end) {
  const Calendar& calendar = **Calendar::make(spec);
  for (const Instant inside : {at, start, end - Duration{1}}) {
    const Calendar::Window window = calendar.window_at(inside);
    EXPECT_EQ(window.start, start) << core::to_string(spec);
    EXPECT_EQ(window.end, end) << core::to_string(spec);
  }
  EXPECT_EQ(calendar.window_at(start - Duration{1}).end, start);
  EXPECT_EQ(calendar.window_at(end).start, end);
}

TEST(Calendar, HasMonthsOfTheirTrueLength) {
  expect_window(calendar_month(), utc(2024, 2, 10), utc(2024, 2, 1), utc(2024, 3, 1));
  expect_window(calendar_month("Asia/Shanghai", 15), utc(2026, 11, 23), utc(2026, 11, 14, 16h),
                utc(2026, 12, 14, 16h));
}

TEST(Calendar, BeginsShortMonthsOnTheirLastDay) {
  expect_window(calendar_month("UTC", 31), utc(2026, 2, 28), utc(2026, 2, 28), utc(2026, 3, 31));
  expect_window(calendar_month("UTC", 30), utc(2024, 2, 28), utc(2024, 1, 30), utc(2024, 2, 29));
  expect_window(calendar_year("UTC", std::chrono::February / 29), utc(2026, 1, 1), utc(2025, 2, 28),
                utc(2026, 2, 28));
}

TEST(Calendar, HasDaysOf23And25Hours) {
  expect_window(calendar_day("Europe/Berlin"), utc(2026, 3, 29), utc(2026, 3, 28, 23h),
                utc(2026, 3, 29, 22h));
  expect_window(calendar_day("Europe/Berlin"), utc(2026, 10, 25), utc(2026, 10, 24, 22h),
                utc(2026, 10, 25, 23h));
}

TEST(Calendar, BeginsADayWithoutMidnightAtItsFirstInstant) {
  // In São Paulo clocks went from 00:00 to 01:00.
  expect_window(calendar_day("America/Sao_Paulo"), utc(2018, 11, 4, 12h), utc(2018, 11, 4, 3h),
                utc(2018, 11, 5, 2h));
  // In Apia there was no 30 December.
  expect_window(calendar_day("Pacific/Apia"), utc(2011, 12, 30, 9h), utc(2011, 12, 29, 10h),
                utc(2011, 12, 30, 10h));
  expect_window(calendar_day("Pacific/Apia"), utc(2011, 12, 30, 10h), utc(2011, 12, 30, 10h),
                utc(2011, 12, 31, 10h));
}

TEST(Calendar, BeginsADayThatBeginsTwiceAtItsFirstMidnight) {
  // In Havana clocks go from 01:00 to 00:00.
  expect_window(calendar_day("America/Havana"), utc(2025, 11, 2, 12h), utc(2025, 11, 2, 4h),
                utc(2025, 11, 3, 5h));
}

TEST(Calendar, BeginsWeeksOnTheirWeekday) {
  expect_window(calendar_week(), utc(2026, 11, 23), utc(2026, 11, 23), utc(2026, 11, 30));
  expect_window(calendar_week("UTC", std::chrono::Sunday), utc(2026, 11, 23), utc(2026, 11, 22),
                utc(2026, 11, 29));
}

TEST(Calendar, BeginsYearsOnTheirDate) {
  expect_window(calendar_year("Europe/London", std::chrono::April / 6), utc(2026, 11, 23),
                utc(2026, 4, 5, 23h), utc(2027, 4, 5, 23h));
}

TEST(Calendar, CoversEveryInstantOfADecision) {
  for (const CalendarSpec& spec :
       {calendar_day("Pacific/Kiritimati"), calendar_week("America/New_York"),
        calendar_month("Asia/Kathmandu", 31), calendar_year("Pacific/Pago_Pago")}) {
    const Calendar& calendar = **Calendar::make(spec);
    EXPECT_EQ(calendar.window_at(kFirstInstant).start, kFirstInstant);
    EXPECT_GT(calendar.window_at(kLastInstant).end, kLastInstant);
    Instant at = kFirstInstant;
    while (at <= kLastInstant) {
      const Calendar::Window window = calendar.window_at(at);
      ASSERT_EQ(window.start, at);
      ASSERT_GT(window.end, at);
      at = window.end;
    }
  }
}

TEST(Calendar, IsTheSameForTheSameSpec) {
  const Calendar* const calendar = *Calendar::make(calendar_month("Asia/Shanghai", 15));
  std::string zone = "Asia/Shanghai";
  EXPECT_EQ(*Calendar::make(calendar_month(zone, 15)), calendar);
  zone = "no longer this text";
  EXPECT_EQ(calendar->spec().zone, "Asia/Shanghai");
  const Calendar* const other = *Calendar::make(calendar_month("Asia/Shanghai", 16));
  EXPECT_NE(other->number(), calendar->number());
  EXPECT_NE(other->checksum(), calendar->checksum());
}

TEST(Calendar, IsMadeForEveryZoneAndFirstDayThatAClientNames) {
  std::size_t made = 0;
  for (const char* part : {"Africa", "America", "Europe"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator("/usr/share/zoneinfo/" + std::string(part))) {
      if (!entry.is_regular_file()) continue;
      const std::string zone = std::string(part) + "/" + entry.path().filename().string();
      EXPECT_EQ(error_of(calendar_day(zone)), "no error");
      for (unsigned first = 1; first <= 7; ++first) {
        const std::chrono::weekday day(first);
        EXPECT_EQ(error_of(calendar_week(zone, day)), "no error");
        ++made;
      }
    }
  }
  EXPECT_GT(made, 161U * 7) << "tables of these would need 120 MB";
}

// From an instant to the window, without the one of the call before.
TEST(Calendar, FindsAWindowWhateverWasAskedBefore) {
  for (const CalendarSpec& spec :
       {calendar_day("America/Havana"), calendar_week("Pacific/Apia", std::chrono::Friday),
        calendar_month("America/Sao_Paulo", 31), calendar_year("Asia/Tokyo")}) {
    const Calendar& calendar = **Calendar::make(spec);
    std::vector<Calendar::Window> windows;
    for (Instant at = kFirstInstant; at <= kLastInstant; at = windows.back().end) {
      windows.push_back(calendar.window_at(at));
    }
    std::minstd_rand random(1);
    for (int i = 0; i < 1000; ++i) {
      const Calendar::Window& window = windows[random() % windows.size()];
      const Instant last = std::min(window.end - Duration{1}, kLastInstant);
      EXPECT_EQ(calendar.window_at(last).start, window.start) << core::to_string(spec);
      EXPECT_EQ(calendar.window_at(window.start).end, window.end) << core::to_string(spec);
    }
  }
}

TEST(Calendar, ExplainsAZoneThatDoesNotExist) {
  EXPECT_EQ(error_of(calendar_day("Asia/Shangai")),
            "there is no time zone 'Asia/Shangai' in /usr/share/zoneinfo; expected a name of the "
            "IANA time zone database, such as Asia/Shanghai");
  for (const char* zone : {"", "/etc/passwd", "../zoneinfo/UTC", "Asia", "Asia/", "Europe//Berlin",
                           "zone.tab", "leapseconds", "right/UTC"}) {
    EXPECT_TRUE(error_of(calendar_day(zone)).starts_with("there is no time zone ")) << zone;
  }
}

// Sets TZDIR while it lives.
class ZoneFolder {
 public:
  explicit ZoneFolder(const std::string& path) { ::setenv("TZDIR", path.c_str(), 1); }
  ~ZoneFolder() { ::unsetenv("TZDIR"); }
};

TEST(Calendar, ExplainsThatTheSystemHasNoZones) {
  const ZoneFolder folder("/nonexistent/zoneinfo");
  EXPECT_EQ(error_of(calendar_day("Asia/Tokyo")),
            "the time zone 'Asia/Tokyo' is unknown: there is no folder /nonexistent/zoneinfo; "
            "expected the system's package tzdata, or the zone UTC");
  EXPECT_EQ(error_of(calendar_week("UTC", std::chrono::Friday)), "no error");
}

TEST(Calendar, ExplainsAWrongFirstDay) {
  EXPECT_EQ(error_of(calendar_month("UTC", 32)),
            "'starts' is '32'; expected a day of the month, 1 to 31; in a shorter month it is the "
            "last day");
  EXPECT_EQ(error_of(calendar_year("UTC", std::chrono::February / 30)),
            "'starts' is '2-30'; expected a month and a day, such as 04-06");
  EXPECT_EQ(error_of(CalendarUnit::kMonth, "0"), error_of(calendar_month("UTC", 0)));
  EXPECT_EQ(error_of(CalendarUnit::kWeek, "moonday"),
            "'starts' is 'moonday'; expected a day of the week, monday to sunday");
  EXPECT_EQ(error_of(CalendarUnit::kDay, "5"),
            "'starts' is '5'; expected no 'starts': a day begins at midnight");
  for (const char* text : {"", "4-6", "04/06", "13-01", "04-31", "04-6", "+4-06", "2026-04-06"}) {
    EXPECT_NE(error_of(CalendarUnit::kYear, text), "no error") << text;
  }
}

TEST(Calendar, ReadsAndWritesItsFirstDay) {
  EXPECT_EQ(core::starts_of(*core::starting({.unit = CalendarUnit::kWeek}, "sunday")), "sunday");
  EXPECT_EQ(core::starts_of(*core::starting({.unit = CalendarUnit::kMonth}, "31")), "31");
  EXPECT_EQ(core::starts_of(*core::starting({.unit = CalendarUnit::kYear}, "02-29")), "02-29");
  EXPECT_EQ(core::to_string(calendar_day()), "day");
  EXPECT_EQ(core::to_string(calendar_month("Asia/Shanghai", 15)), "month of Asia/Shanghai from 15");
  EXPECT_EQ(core::to_string(calendar_year("UTC", std::chrono::April / 6)), "year from 04-06");
}

}  // namespace
}  // namespace sluice
