#include "core/period.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "sluice/limit_builder.h"

namespace sluice::core::period_test {
namespace {

using namespace std::chrono_literals;

std::string error_of(std::string_view text) {
  const auto period = parse_period(text);
  return period ? "no error" : period.error();
}

TEST(Period, ReadsEveryUnit) {
  EXPECT_EQ(*parse_period("500ms"), 500ms);
  EXPECT_EQ(*parse_period("60s"), 60s);
  EXPECT_EQ(*parse_period("5m"), 5min);
  EXPECT_EQ(*parse_period("1h"), 1h);
  EXPECT_EQ(*parse_period("7d"), std::chrono::days{7});
}

TEST(Period, NeedsAUnit) {
  EXPECT_EQ(error_of("10"),
            "'10' has no unit; expected a whole number and its unit (ms, s, m, h or d), such as "
            "10s");
}

TEST(Period, RefusesWhatIsNoPeriodAndSaysWhatIs) {
  for (const char* text : {"", "s", "-1s", "+1s", " 1s", "1s ", "1 s", "1.5s", "1_000s", "0x1s",
                           "1e3s", "1us", "1min", "1S", "1h30m", "1w"}) {
    EXPECT_NE(error_of(text).find("; expected a whole number and its unit"), std::string::npos)
        << text;
  }
}

TEST(Period, SaysAFractionInWholeUnits) {
  const auto example_of = [](std::string_view text) {
    const std::string error = error_of(text);
    return error.substr(error.rfind(' ') + 1);
  };
  EXPECT_EQ(example_of("0.5s"), "500ms");
  EXPECT_EQ(example_of("1.5m"), "90s");
  EXPECT_EQ(example_of("0.25h"), "15m");
  EXPECT_EQ(example_of("1.50d"), "36h");
  EXPECT_EQ(example_of("2.0s"), "2s");
  EXPECT_EQ(example_of("100.1s"), "100100ms");
  for (const char* text : {"0.0001s", "0.0s", "0.5ms", "0.s", "0.5", "0,5s", "0.1234567s", "0us"}) {
    EXPECT_EQ(example_of(text).front(), '1') << text;
  }
}

TEST(Period, RefusesWhatDoesNotFitInsteadOfOverflowing) {
  EXPECT_TRUE(parse_period("106751991d").has_value());
  EXPECT_NE(error_of("106751992d").find("is too long"), std::string::npos);
  EXPECT_NE(error_of("9223372036854775807ms").find("is too long"), std::string::npos);
  EXPECT_NE(error_of(std::string(1000, '9') + "s").find("is too long"), std::string::npos);
}

TEST(Period, FormatIsTheInverseInTheLargestExactUnit) {
  EXPECT_EQ(format_period(60s), "1m");
  EXPECT_EQ(format_period(90s), "90s");
  EXPECT_EQ(format_period(1500ms), "1500ms");
  EXPECT_EQ(format_period(std::chrono::days{366}), "366d");
  EXPECT_EQ(format_period(0ms), "0ms");
  EXPECT_EQ(format_period(Duration{1}), "1us");
  for (const Duration period : {Duration{1ms}, Duration{999ms}, Duration{61s}, Duration{25h}}) {
    EXPECT_EQ(*parse_period(format_period(period)), period);
  }
}

TEST(Period, AndNumbersSayWhatALimitIs) {
  EXPECT_EQ(format_limit(sluice::token_bucket(120).per(1min).burst(60)), "120 per 1m, burst 60");
  EXPECT_EQ(format_limit(sluice::gcra(30).per(1min).burst(15)), "30 per 1m, burst 15");
  EXPECT_EQ(format_limit(sluice::gcra(30).per(1min)), "30 per 1m");
  EXPECT_EQ(format_limit(sluice::fixed_window(5).per(1s)), "5 per 1s");
  EXPECT_EQ(format_limit(sluice::concurrency(3).lease(30s)), "3 at once, lease 30s");
  EXPECT_EQ(format_limit(sluice::budget(50).never()), "50 in total");
}

}  // namespace
}  // namespace sluice::core::period_test
