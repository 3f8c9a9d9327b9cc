#include "base/time_zone.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

namespace sluice::base::time_zone_test {
namespace {

using std::chrono::sys_days;
using std::chrono::year;
using std::chrono::year_month_day;

constexpr std::int64_t kHour = 3600;

std::string file_of(const std::string& zone) {
  std::ifstream in("/usr/share/zoneinfo/" + zone, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::int64_t utc(int y, unsigned m, unsigned d, std::int64_t seconds = 0) {
  const sys_days day = year(y) / std::chrono::month(m) / std::chrono::day(d);
  return day.time_since_epoch() / std::chrono::seconds{1} + seconds;
}

// A file with one type and no transition, and this rule at its end.
std::string file_with_rule(const std::string& rule, std::int32_t offset = 0) {
  std::string header = "TZif2" + std::string(15, '\0');
  for (const int count : {0, 0, 0, 0, 1, 4})
    header += std::string(3, '\0') + static_cast<char>(count);
  std::string type;
  for (int shift = 24; shift >= 0; shift -= 8) type += static_cast<char>(offset >> shift);
  const std::string block = header + type + std::string(2, '\0') + std::string("ABC\0", 4);
  return block + block + "\n" + rule + "\n";
}

TEST(TimeZone, KnowsTheLocalTimesOfDaylightSaving) {
  const auto berlin = TimeZone::parse(file_of("Europe/Berlin"));
  ASSERT_TRUE(berlin);
  EXPECT_EQ(berlin->first_at(utc(2026, 1, 15)), utc(2026, 1, 15) - kHour);
  EXPECT_EQ(berlin->first_at(utc(2026, 7, 15)), utc(2026, 7, 15) - 2 * kHour);
  // Clocks go from 02:00 to 03:00, and from 03:00 to 02:00.
  EXPECT_EQ(berlin->first_at(utc(2026, 3, 29, 9000)), utc(2026, 3, 29, kHour)) << "skipped";
  EXPECT_EQ(berlin->first_at(utc(2026, 10, 25, 9000)), utc(2026, 10, 25, 1800)) << "the first";
}

TEST(TimeZone, FollowsItsLastRuleForEver) {
  const auto berlin = TimeZone::parse(file_of("Europe/Berlin"));
  const auto sydney = TimeZone::parse(file_of("Australia/Sydney"));
  ASSERT_TRUE(berlin && sydney);
  for (const int y : {2037, 2038, 2040, 2100, 2112}) {
    EXPECT_EQ(berlin->first_at(utc(y, 1, 15)), utc(y, 1, 15) - kHour) << y;
    EXPECT_EQ(berlin->first_at(utc(y, 7, 15)), utc(y, 7, 15) - 2 * kHour) << y;
    EXPECT_EQ(sydney->first_at(utc(y, 1, 15)), utc(y, 1, 15) - 11 * kHour) << y;
    EXPECT_EQ(sydney->first_at(utc(y, 7, 15)), utc(y, 7, 15) - 10 * kHour) << y;
  }
}

// Daylight saving begins on January 6 at 23:00, 167 hours after December 31 began, and ends on
// January 5.
TEST(TimeZone, OrdersTheChangesOfARuleThatAreInAnotherYear) {
  const auto zone = TimeZone::parse(file_with_rule("AAA0BBB-2,J365/167,J5/0"));
  ASSERT_TRUE(zone);
  EXPECT_EQ(zone->first_at(utc(2026, 1, 6)), utc(2026, 1, 6));
  EXPECT_EQ(zone->first_at(utc(2026, 7, 1)), utc(2026, 7, 1) - 2 * kHour);
  EXPECT_EQ(zone->first_at(utc(2027, 1, 6)), utc(2027, 1, 6));
}

TEST(TimeZone, WithoutTransitionsHasTheOffsetOfItsType) {
  const auto zone = TimeZone::parse(file_with_rule("", 5 * kHour + 2700));
  ASSERT_TRUE(zone);
  EXPECT_EQ(zone->first_at(utc(2026, 1, 1)), utc(2025, 12, 31, 18 * kHour + 900));
}

TEST(TimeZone, RefusesWhatIsNoTimeZone) {
  const std::string good = file_with_rule("UTC0");
  ASSERT_TRUE(TimeZone::parse(good));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(TimeZone::parse(std::string_view(good).substr(0, size))) << size;
  }
  std::string other = good;
  other[0] = 't';
  EXPECT_FALSE(TimeZone::parse(other));
  other = good;
  other[4] = '\0';
  EXPECT_FALSE(TimeZone::parse(other)) << "version 1";
  EXPECT_FALSE(TimeZone::parse(file_with_rule("", 27 * kHour)));
  EXPECT_FALSE(TimeZone::parse(file_of("right/Europe/Berlin"))) << "it counts leap seconds";
}

TEST(TimeZone, SurvivesAnyChangedByte) {
  const std::string good = file_of("Pacific/Apia");
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string other = good;
      other[at] = static_cast<char>(other[at] ^ flip);
      if (const auto zone = TimeZone::parse(other)) (void)zone->first_at(utc(2026, 1, 1));
    }
  }
  SUCCEED() << "sanitizers watch";
}

TEST(TimeZoneRule, ReadsEveryForm) {
  const auto rule = TimeZoneRule::parse("EST5EDT,M3.2.0,M11.1.0");
  ASSERT_TRUE(rule && rule->has_daylight);
  EXPECT_EQ(rule->standard, -5 * kHour);
  EXPECT_EQ(rule->daylight, -4 * kHour);
  EXPECT_EQ(rule->begins.in_year(year(2026), rule->standard), utc(2026, 3, 8, 7 * kHour));
  EXPECT_EQ(rule->ends.in_year(year(2026), rule->daylight), utc(2026, 11, 1, 6 * kHour));

  const auto nuuk = TimeZoneRule::parse("<-02>2<-01>,M3.5.0/-1,M10.5.0/0");
  ASSERT_TRUE(nuuk);
  EXPECT_EQ(nuuk->standard, -2 * kHour);
  EXPECT_EQ(nuuk->begins.in_year(year(2026), nuuk->standard), utc(2026, 3, 29, kHour));

  const auto by_day = TimeZoneRule::parse("ABC-1:30DEF-2,J60/0,364/26:30:15");
  ASSERT_TRUE(by_day);
  EXPECT_EQ(by_day->standard, 5400);
  EXPECT_EQ(by_day->daylight, 2 * kHour);
  EXPECT_EQ(by_day->begins.in_year(year(2024), 0), utc(2024, 3, 1)) << "February 29 is not counted";
  EXPECT_EQ(by_day->begins.in_year(year(2025), 0), utc(2025, 3, 1));
  EXPECT_EQ(by_day->ends.in_year(year(2025), 0), utc(2025, 12, 31, 26 * kHour + 1815));
  EXPECT_FALSE(TimeZoneRule::parse("<+0530>-5:30")->has_daylight);
}

TEST(TimeZoneRule, RefusesOthers) {
  for (const char* text : {"", "AB0", "EST", "EST5EDT", "EST5EDT,M3.2.0", "EST5EDT,M13.1.0,M1.1.0",
                           "EST5EDT,M3.6.0,M11.1.0", "EST5EDT,J0,J5", "EST25", "<+05-5",
                           "EST5EDT,M3.2.0,M11.1.0,", "EST5 "}) {
    EXPECT_FALSE(TimeZoneRule::parse(text)) << text;
  }
}

}  // namespace
}  // namespace sluice::base::time_zone_test
