#include "base/civil_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace sluice::base {
namespace {

using namespace std::chrono_literals;

constexpr Instant kLeapDay{std::chrono::sys_days{std::chrono::February / 29 / 2024} + 12h + 1us};

TEST(CivilTime, IsWrittenWithTheDigitsOfTheFraction) {
  EXPECT_EQ(to_rfc3339(kLeapDay), "2024-02-29T12:00:00Z");
  EXPECT_EQ(to_rfc3339(kLeapDay, 6), "2024-02-29T12:00:00.000001Z");
  EXPECT_EQ(to_rfc3339(kLeapDay + 999'998us, 3), "2024-02-29T12:00:00.999Z");  // cut
  EXPECT_EQ(to_rfc3339(kLastInstant), "2112-09-17T23:53:47Z");
  std::string text = "at ";
  append_civil(text, Instant{}, 1);
  EXPECT_EQ(text, "at 1970-01-01T00:00:00.0");
}

TEST(CivilTime, ReadsWhatItWrites) {
  for (const Instant at : {kFirstInstant, kLeapDay, kLastInstant}) {
    EXPECT_EQ(parse_rfc3339(to_rfc3339(at, 6)), at) << to_rfc3339(at, 6);
  }
}

TEST(CivilTime, Rfc3339NeedsAZoneAndNothingElse) {
  for (const char* wrong :
       {"2024-02-29T12:00:00", "2024-02-29T12:00:00+0100", "2024-02-29T12:00:00+01",
        "2024-02-29T12:00:00 +01:00", "2024-02-29T12:00:00,5Z", "2024-02-29T12:00:00.Z",
        "2024-02-29", "Z", ".Z", "", "2023-02-29T12:00:00Z", "1969-12-31T23:59:59Z"}) {
    EXPECT_FALSE(parse_rfc3339(wrong)) << wrong;
  }
}

TEST(Rfc3339, ReadsInstants) {
  EXPECT_EQ(parse_rfc3339("1970-01-02T00:00:00Z"), Instant{std::chrono::days{1}});
  EXPECT_EQ(parse_rfc3339("1970-01-02t08:00:00.5+08:00"), Instant{std::chrono::days{1} + 500ms});
  EXPECT_EQ(parse_rfc3339("1970-01-01T23:30:00-00:30"), Instant{std::chrono::days{1}});
  for (const char* wrong :
       {"", "1970-01-02", "1970-02-30T00:00:00Z", "1970-01-02T00:00:00", "1970-01-02T24:00:00Z",
        "1970-01-02T00:00:00.Z", "1970-01-02T00:00:00Zx", "1969-12-31T23:59:59Z",
        "-970-01-02T00:00:00Z"}) {
    EXPECT_FALSE(parse_rfc3339(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace sluice::base
