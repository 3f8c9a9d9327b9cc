#include "stores/redis/client/reconnect.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

constexpr Time kNow{1000s};

// Of random numbers; makes a wait as long as it can be.
constexpr std::uint64_t kLongest = 0;

Reconnect make() { return Reconnect(20ms, 100ms); }

TEST(Reconnect, IsDueAtOnceAndNotWhileThereIsALink) {
  Reconnect reconnect = make();
  EXPECT_TRUE(reconnect.is_due(kNow));
  reconnect.connecting();
  EXPECT_FALSE(reconnect.is_due(kNow));
  EXPECT_EQ(reconnect.due(), Time::max());
  reconnect.ready(kNow);
  EXPECT_FALSE(reconnect.is_due(kNow));
  EXPECT_FALSE(reconnect.is_failing());
}

TEST(Reconnect, WaitsLongerAfterEachFailureUpToTheLongestBackoff) {
  Reconnect reconnect = make();
  for (const auto backoff : {20ms, 40ms, 80ms, 100ms, 100ms}) {
    reconnect.connecting();
    reconnect.ended(kNow, kLongest);
    EXPECT_TRUE(reconnect.is_failing());
    EXPECT_EQ(reconnect.due(), kNow + backoff);
    EXPECT_FALSE(reconnect.is_due(kNow + backoff - 1ns));
    EXPECT_TRUE(reconnect.is_due(kNow + backoff));
  }
}

TEST(Reconnect, WaitsARandomTimeFromTheUpperHalf) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t random : {std::uint64_t{0}, std::uint64_t{1}, kMost / 3, kMost}) {
    Reconnect reconnect = make();
    reconnect.ended(kNow, random);
    EXPECT_GE(reconnect.due(), kNow + 10ms);
    EXPECT_LE(reconnect.due(), kNow + 20ms);
  }
  Reconnect reconnect = make();
  reconnect.ended(kNow, 10'000'000);
  EXPECT_EQ(reconnect.due(), kNow + 10ms);
  reconnect.ended(kNow, 10'000'000);
  EXPECT_EQ(reconnect.due(), kNow + 30ms);  // of 40: what was drawn before does not count
}

TEST(Reconnect, CountsAnAttemptThatReplacesAConnectionAsANewOne) {
  Reconnect reconnect = make();
  reconnect.connecting();
  reconnect.ready(kNow);
  reconnect.connecting();  // to another server
  reconnect.ended(kNow + 1h, kLongest);
  EXPECT_TRUE(reconnect.is_failing());
  EXPECT_EQ(reconnect.due(), kNow + 1h + 20ms);
}

TEST(Reconnect, IsFailingUntilAConnectionIsReady) {
  Reconnect reconnect = make();
  reconnect.connecting();
  reconnect.ended(kNow, kLongest);
  reconnect.connecting();
  EXPECT_TRUE(reconnect.is_failing());
  reconnect.ready(kNow);
  EXPECT_FALSE(reconnect.is_failing());
}

TEST(Reconnect, IsDueAtOnceAfterALongConnection) {
  Reconnect reconnect = make();
  reconnect.connecting();
  reconnect.ended(kNow, kLongest);
  reconnect.connecting();
  reconnect.ready(kNow);
  reconnect.ended(kNow + 100ms, kLongest);
  EXPECT_TRUE(reconnect.is_due(kNow + 100ms));
  EXPECT_FALSE(reconnect.is_failing());
  reconnect.connecting();
  reconnect.ended(kNow, kLongest);  // the first backoff again
  EXPECT_EQ(reconnect.due(), kNow + 20ms);
}

TEST(Reconnect, WaitsAfterShortConnectionsAsAfterFailures) {
  Reconnect reconnect = make();
  for (const auto backoff : {20ms, 40ms, 80ms, 100ms}) {
    reconnect.connecting();
    reconnect.ready(kNow);
    reconnect.ended(kNow + 99ms, kLongest);
    EXPECT_TRUE(reconnect.is_failing());
    EXPECT_EQ(reconnect.due(), kNow + 99ms + backoff);
  }
}

}  // namespace
}  // namespace sluice::redis
