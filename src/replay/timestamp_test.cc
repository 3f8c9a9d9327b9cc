#include "replay/log_line.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::replay {
namespace {

// Returns seconds since the epoch, or -1 with the error in `fault`.
std::int64_t seconds_of(const std::string& text, TimestampFault* fault = nullptr) {
  LogTimeReader reader;
  Instant at;
  EXPECT_EQ(text.size(), LogTimeReader::kAccessLength) << text;
  const TimestampFault found = reader.read_access(text.data(), at);
  if (fault != nullptr) *fault = found;
  if (found != TimestampFault::kNone) return -1;
  return std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count();
}

TimestampFault fault_of(const std::string& text) {
  TimestampFault fault = TimestampFault::kNone;
  static_cast<void>(seconds_of(text, &fault));
  return fault;
}

TEST(AccessTime, AppliesTheZone) {
  EXPECT_EQ(seconds_of("20/Feb/2016:00:00:45 +0000"), 1455926445);
  EXPECT_EQ(seconds_of("20/Feb/2016:00:00:45 -0500"), 1455926445 + 5 * 3600);
  EXPECT_EQ(seconds_of("20/Feb/2016:00:00:45 +0545"), 1455926445 - (5 * 60 + 45) * 60);
  EXPECT_EQ(seconds_of("20/Feb/2016:00:00:45 -0000"), 1455926445);
}

TEST(AccessTime, KnowsTheFirstInstant) {
  EXPECT_EQ(seconds_of("01/Jan/1970:00:00:00 +0000"), 0);
  EXPECT_EQ(seconds_of("31/Dec/1969:19:00:00 -0500"), 0);
  EXPECT_EQ(fault_of("31/Dec/1969:23:59:59 +0000"), TimestampFault::kOutOfRange);
  EXPECT_EQ(fault_of("01/Jan/1970:00:00:00 +0001"), TimestampFault::kOutOfRange);
}

TEST(AccessTime, KnowsTheLastInstant) {
  // 2^52 - 1 microseconds is 2112-09-17 23:53:47.37 UTC.
  EXPECT_EQ(seconds_of("17/Sep/2112:23:53:47 +0000"), 4503599627);
  EXPECT_EQ(fault_of("17/Sep/2112:23:53:48 +0000"), TimestampFault::kOutOfRange);
  EXPECT_EQ(fault_of("01/Jan/9999:00:00:00 +0000"), TimestampFault::kOutOfRange);
}

TEST(AccessTime, TakesALeapSecondForTheNextMinute) {
  EXPECT_EQ(seconds_of("31/Dec/2016:23:59:60 +0000"), seconds_of("01/Jan/2017:00:00:00 +0000"));
}

TEST(AccessTime, KnowsLeapDays) {
  EXPECT_EQ(seconds_of("29/Feb/2016:12:00:00 +0000"), 1456747200);
  EXPECT_EQ(fault_of("29/Feb/2015:12:00:00 +0000"), TimestampFault::kNoSuchDate);
  EXPECT_EQ(fault_of("29/Feb/2100:12:00:00 +0000"), TimestampFault::kNoSuchDate);
}

TEST(AccessTime, RefusesTimesThatDoNotExist) {
  for (const char* text :
       {"00/Feb/2016:00:00:45 +0000", "31/Apr/2016:00:00:45 +0000", "20/feb/2016:00:00:45 +0000",
        "20/Foo/2016:00:00:45 +0000", "20/Feb/2016:24:00:45 +0000", "20/Feb/2016:00:60:45 +0000",
        "20/Feb/2016:00:00:61 +0000", "20/Feb/2016:00:00:45 +2400", "20/Feb/2016:00:00:45 +0060"}) {
    EXPECT_EQ(fault_of(text), TimestampFault::kNoSuchDate) << text;
  }
}

TEST(AccessTime, RefusesOtherForms) {
  for (const char* text :
       {"2016-02-20T00:00:45 +00:00", "20 Feb 2016:00:00:45 +0000", "20/Feb/2016 00:00:45 +0000",
        "20/Feb/2016:00:00:45 00000", "20/Feb/2016:0x:00:45 +0000", "20/Feb/ 016:00:00:45 +0000",
        "aa/Feb/2016:00:00:45 +0000", "20/Feb/2016:00:00:45 +0-00"}) {
    EXPECT_EQ(fault_of(text), TimestampFault::kMalformed) << text;
  }
  EXPECT_EQ(fault_of(std::string(26, '\0')), TimestampFault::kMalformed);
}

TEST(AccessTime, RemembersNothingThatIsWrong) {
  LogTimeReader reader;
  Instant first;
  Instant second;
  Instant third;
  ASSERT_EQ(reader.read_access("13/Mar/2016:01:59:59 -0500", first), TimestampFault::kNone);
  ASSERT_EQ(reader.read_access("32/Mar/2016:01:59:59 -0500", second), TimestampFault::kNoSuchDate);
  ASSERT_EQ(reader.read_access("13/Mar/2016:25:59:59 -0500", second), TimestampFault::kNoSuchDate);
  ASSERT_EQ(reader.read_access("13/Mar/2016:03:00:00 -0400", second), TimestampFault::kNone);
  ASSERT_EQ(reader.read_access("13/Mar/2016:01:59:59 -0500", third), TimestampFault::kNone);
  EXPECT_EQ(second - first, std::chrono::seconds{1});  // clocks went forward in between
  EXPECT_EQ(third, first);
}

}  // namespace
}  // namespace sluice::replay
