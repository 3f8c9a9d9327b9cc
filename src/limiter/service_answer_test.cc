#include "limiter/client_throttle.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{784'111'777s};  // Sun, 06 Nov 1994 08:49:37 GMT

TEST(RetryAfter, IsANumberOfSeconds) {
  EXPECT_EQ(read_retry_after("0", kNow), 0s);
  EXPECT_EQ(read_retry_after(" 120\t", kNow), 120s);
  EXPECT_EQ(read_retry_after("99999999999999999999999", kNow), 1'000'000'000s);
}

TEST(RetryAfter, IsADate) {
  EXPECT_EQ(read_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", kNow - 1500ms), 1500ms);
  EXPECT_EQ(read_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", kNow + 1s), 0s);
  EXPECT_EQ(read_retry_after("Thu, 29 Feb 2024 00:00:00 GMT", Instant{1'709'164'799s}), 1s);
}

TEST(RetryAfter, IsAbsentIfItIsNeither) {
  for (const char* wrong : {"", "-1", "1.5", "soon", "1 2", "Sun, 06 Nov 1994 08:49:37 UTC",
                            "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT",
                            "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:4x:37 GMT"}) {
    EXPECT_EQ(read_retry_after(wrong, kNow), std::nullopt) << wrong;
  }
}

TEST(RateLimit, WaitsForTheLongestPolicyWithoutUnits) {
  EXPECT_EQ(read_rate_limit(R"("user";r=9;t=60)"), 0s);
  EXPECT_EQ(read_rate_limit(R"("user";r=0;t=60)"), 60s);
  EXPECT_EQ(read_rate_limit(R"("a";r=0;t=5, "b";t=7;r=0,"c";r=1;t=90)"), 7s);
  EXPECT_EQ(read_rate_limit(R"("a,b;r=0;t=9\";r=0";r=0;t=3)"), 3s);
  EXPECT_EQ(read_rate_limit(R"("a"; r=0 ; t=4 ;pk=:YQ==:)"), 4s);
}

TEST(RateLimit, UnderstandsOlderDrafts) {
  EXPECT_EQ(read_rate_limit("limit=100, remaining=0, reset=7"), 7s);
  EXPECT_EQ(read_rate_limit("limit=100, remaining=50, reset=7"), 0s);
}

TEST(RateLimit, IgnoresWhatItCannotRead) {
  for (const char* wrong : {"", ",", ";", "\"", "\"a", "\"a\\", "\"a\";r=0", "\"a\";t=5",
                            "\"a\";r=0;t=x", "\"a\";r=-0;t=5", "r", "=", "\"a\";=;=5", "10"}) {
    EXPECT_EQ(read_rate_limit(wrong), 0s) << wrong;
  }
}

}  // namespace
}  // namespace sluice
