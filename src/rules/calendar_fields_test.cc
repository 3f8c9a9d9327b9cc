#include "rules/rule_set.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "sluice/limit.h"
#include "sluice/rule_set.h"

namespace sluice {
namespace {

// Returns a file with one limit of these keys. The first of them is in line 4, column 17.
std::string file_with(const std::string& keys) {
  return "version: 1\nrules:\n  - name: r\n    limits: [ { " + keys + " } ]\n";
}

std::string errors_of(const std::string& yaml, const RuleTerms& terms = {}) {
  const auto rules = RuleSet::parse(yaml, "f", terms);
  if (rules) return "ok";
  std::string out;
  for (const RuleError& error : rules.error()) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

std::string limit_errors(const std::string& keys) { return errors_of(file_with(keys)); }

Limit limit_of(const std::string& keys) {
  const auto rules = RuleSet::parse(file_with(keys), "f");
  EXPECT_TRUE(rules.has_value()) << rules.error().front().to_string();
  return rules->rules().front().limits.front().limit;
}

TEST(CalendarFields, MakeWindowsOfTheCalendar) {
  EXPECT_EQ(
      limit_of("algorithm: fixed_window, limit: 5, per: month, zone: Asia/Shanghai, starts: 15"),
      fixed_window(5).per(calendar_month("Asia/Shanghai", 15)));
  EXPECT_EQ(limit_of("algorithm: fixed_window, limit: 5, per: day"),
            fixed_window(5).per(calendar_day()));
  EXPECT_EQ(limit_of("algorithm: fixed_window, limit: 5, per: week, starts: sunday"),
            fixed_window(5).per(calendar_week("UTC", std::chrono::Sunday)));
  EXPECT_EQ(
      limit_of("algorithm: fixed_window, limit: 5, per: year, starts: 04-06, zone: Europe/London"),
      fixed_window(5).per(calendar_year("Europe/London", std::chrono::April / 6)));
}

TEST(CalendarFields, MayTakeThePeriodFromAPlan) {
  const auto rules = RuleSet::parse(R"(
version: 1
plans:
  free: { units: { limit: 10, per: day } }
  pro: { units: { limit: 1000, per: month } }
rules:
  - name: r
    plan: { from: "{header.x-plan}", default: free }
    limits: [ { name: units, algorithm: fixed_window, zone: Asia/Tokyo } ]
)",
                                    "f");
  ASSERT_TRUE(rules.has_value()) << rules.error().front().to_string();
  const RuleLimit& limit = rules->rules().front().limits.front();
  ASSERT_EQ(limit.by_plan.size(), 2u);
  EXPECT_EQ(limit.by_plan[0], fixed_window(10).per(calendar_day("Asia/Tokyo")));
  EXPECT_EQ(limit.by_plan[1], fixed_window(1000).per(calendar_month("Asia/Tokyo")));
}

TEST(CalendarFields, ExplainAZoneThatDoesNotExist) {
  EXPECT_EQ(
      limit_errors("algorithm: fixed_window, limit: 5, per: day, zone: Asia/Shangai"),
      "f:4:68: error: there is no time zone 'Asia/Shangai' in /usr/share/zoneinfo; expected a "
      "name of the IANA time zone database, such as Asia/Shanghai");
  ::setenv("TZDIR", "/nonexistent", 1);
  EXPECT_EQ(
      limit_errors("algorithm: fixed_window, limit: 5, per: day, zone: Asia/Seoul"),
      "f:4:68: error: the time zone 'Asia/Seoul' is unknown: there is no folder /nonexistent; "
      "expected the system's package tzdata, or the zone UTC");
  ::unsetenv("TZDIR");
}

TEST(CalendarFields, ExplainAWrongFirstDay) {
  const std::string window = "algorithm: fixed_window, limit: 5, per: ";
  EXPECT_EQ(limit_errors(window + "month, starts: 32"),
            "f:4:72: error: 'starts' is '32'; expected a day of the month, 1 to 31; in a shorter "
            "month it is the last day");
  EXPECT_EQ(limit_errors(window + "week, starts: 1"),
            "f:4:71: error: 'starts' is '1'; expected a day of the week, monday to sunday");
  EXPECT_EQ(limit_errors(window + "year, starts: 15"),
            "f:4:71: error: 'starts' is '15'; expected a month and a day, such as 04-06");
  EXPECT_EQ(limit_errors(window + "day, starts: 5"),
            "f:4:70: error: 'starts' is '5'; expected no 'starts': a day begins at midnight");
  EXPECT_EQ(limit_errors(window + "month, starts: [1]"),
            "f:4:72: error: 'starts' is a list; expected a day such as 15, sunday or 04-06");
}

TEST(CalendarFields, NeedAPeriodOfTheCalendar) {
  EXPECT_EQ(
      limit_errors("algorithm: fixed_window, limit: 5, per: 30d, zone: Asia/Shanghai"),
      "f:4:68: error: 'zone' applies only to windows of the calendar; expected also 'per' with "
      "day, week, month or year");
  EXPECT_EQ(limit_errors("algorithm: gcra, limit: 5, per: 30d, starts: 15"),
            "f:4:62: error: 'starts' applies only to windows of the calendar; expected also 'per' "
            "with day, week, month or year");
  EXPECT_EQ(limit_errors("algorithm: fixed_window, limit: 5, per: months"),
            "f:4:57: error: 'per': 'months' is not a period; expected a whole number and its unit "
            "(ms, s, m, h or d), such as 60s, or day, week, month, year or never; did you mean "
            "'month'?");
}

TEST(CalendarFields, NeedAFixedWindowWithoutAlign) {
  EXPECT_EQ(limit_errors("algorithm: token_bucket, limit: 5, per: month"),
            "f:4:57: error: per month does not apply to token_bucket; it applies to fixed_window "
            "and budget");
  EXPECT_EQ(limit_errors("algorithm: fixed_window, limit: 5, per: month, align: clock"),
            "f:4:71: error: align does not apply to per month, whose windows begin at midnight; "
            "leave it out");
}

TEST(CalendarFields, NeedScriptsInRedis) {
  EXPECT_EQ(
      errors_of(file_with("algorithm: fixed_window, limit: 5, per: month"), {.scripting = false}),
      "f:4:57: error: windows of the calendar cannot be stored without scripts (scripting: "
      "off); expected a period, and 'align: clock'");
}

}  // namespace
}  // namespace sluice
