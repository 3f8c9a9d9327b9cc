#include "replay/log_line.h"

#include <gtest/gtest.h>

#include <string>

#include "replay/text.h"

namespace sluice::replay {
namespace {

// Returns the microseconds since 1970, or -1 minus the fault.
std::int64_t microseconds(std::string_view text) {
  LogTimeReader reader;
  Instant at{};
  const TimestampFault fault = reader.read(text, at);
  if (fault != TimestampFault::kNone) return -1 - static_cast<int>(fault);
  return at.time_since_epoch().count();
}

constexpr std::int64_t kTenOClock = 1'795'428'000'000'000;  // 2026-11-23T10:00:00Z
constexpr std::int64_t kMalformed = -1 - static_cast<int>(TimestampFault::kMalformed);
constexpr std::int64_t kNoSuchDate = -1 - static_cast<int>(TimestampFault::kNoSuchDate);
constexpr std::int64_t kOutOfRange = -1 - static_cast<int>(TimestampFault::kOutOfRange);

TEST(LogTime, ReadsIsoTimes) {
  EXPECT_EQ(microseconds("2026-11-23T10:00:00Z"), kTenOClock);
  EXPECT_EQ(microseconds("2026-11-23T10:00:00.123456Z"), kTenOClock + 123'456);
  EXPECT_EQ(microseconds("2026-11-23 10:00:00.5"), kTenOClock + 500'000);
  EXPECT_EQ(microseconds("2026-11-23 10:00:00,1234567"), kTenOClock + 123'456);
  EXPECT_EQ(microseconds("2026-11-23T11:30:00+01:30"), kTenOClock);
  EXPECT_EQ(microseconds("2026-11-23T11:30:00 +0130"), kTenOClock);
  EXPECT_EQ(microseconds("2026-11-23T05:00:00-05"), kTenOClock);
}

TEST(LogTime, ReadsTheTimesOfAccessLogs) {
  EXPECT_EQ(microseconds("23/Nov/2026:10:00:00 +0000"), kTenOClock);
  EXPECT_EQ(microseconds("[23/Nov/2026:11:00:00 +0100]"), kTenOClock);
}

TEST(LogTime, ReadsNumbersSince1970) {
  EXPECT_EQ(microseconds("1795428000"), kTenOClock);
  EXPECT_EQ(microseconds("1795428000.123"), kTenOClock + 123'000);
  EXPECT_EQ(microseconds("1795428000.1234569"), kTenOClock + 123'456);
  EXPECT_EQ(microseconds("1795428000123"), kTenOClock + 123'000);
  EXPECT_EQ(microseconds("1795428000123.5"), kTenOClock + 123'500);
  EXPECT_EQ(microseconds("1795428000123456"), kTenOClock + 123'456);
  EXPECT_EQ(microseconds("1795428000123456789"), kTenOClock + 123'456);
  EXPECT_EQ(microseconds("0"), 0);
}

TEST(LogTime, RefusesOtherText) {
  for (const char* text : {"", "-", "now", "[", "[]", "2026-11-23", "2026-11-23T10:00",
                           "2026-11-23T10:00:00X", "2026-11-23T10:00:00+1", "2026-11-23T10:00:00Z ",
                           "2026/11/23 10:00:00", "-1", "1e9", "23/Nov/2026:10:00:00"}) {
    EXPECT_EQ(microseconds(text), kMalformed) << text;
  }
  EXPECT_EQ(microseconds("2026-02-29T10:00:00Z"), kNoSuchDate);
  EXPECT_EQ(microseconds("2026-13-01T10:00:00Z"), kNoSuchDate);
  EXPECT_EQ(microseconds("2026-11-23T24:00:00Z"), kNoSuchDate);
  EXPECT_EQ(microseconds("1969-12-31T23:59:59Z"), kOutOfRange);
  EXPECT_EQ(microseconds("2113-01-01T00:00:00Z"), kOutOfRange);
  EXPECT_EQ(microseconds("99999999999999999999"), kOutOfRange);
  EXPECT_EQ(microseconds("99999999999"), kOutOfRange);
}

}  // namespace
}  // namespace sluice::replay
