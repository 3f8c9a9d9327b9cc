#include "stores/redis/cluster/cluster_client.h"

#include <gtest/gtest.h>

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

constexpr Time kNow{1000s};

Reconnect make(std::uint64_t random) {
  return Reconnect(20ms, 100ms, [random] { return random; });
}

TEST(Reconnect, IsDueAtOnceAndNotWhileThereIsALink) {
  Reconnect reconnect = make(0);
  EXPECT_TRUE(reconnect.is_due(kNow));
  reconnect.connecting();
  EXPECT_FALSE(reconnect.is_due(kNow));
  EXPECT_EQ(reconnect.due(), Time::max());
  reconnect.ready(kNow);
  EXPECT_FALSE(reconnect.is_due(kNow));
  EXPECT_FALSE(reconnect.is_failing());
}

TEST(Reconnect, WaitsLongerAfterEachFailureUpToTheLongestBackoff) {
  Reconnect reconnect = make(0);  // the longest random wait
  for (const auto backoff : {20ms, 40ms, 80ms, 100ms, 100ms}) {
    reconnect.connecting();
    reconnect.ended(kNow);
    EXPECT_TRUE(reconnect.is_failing());
    EXPECT_EQ(reconnect.due(), kNow + backoff);
    EXPECT_FALSE(reconnect.is_due(kNow + backoff - 1ns));
    EXPECT_TRUE(reconnect.is_due(kNow + backoff));
  }
}

TEST(Reconnect, IsFailingUntilAConnectionIsReady) {
  Reconnect reconnect = make(0);
  reconnect.connecting();
  reconnect.ended(kNow);
  reconnect.connecting();
  EXPECT_TRUE(reconnect.is_failing());
  reconnect.ready(kNow);
  EXPECT_FALSE(reconnect.is_failing());
}

TEST(Reconnect, IsDueAtOnceAfterALongConnection) {
  Reconnect reconnect = make(0);
  reconnect.connecting();
  reconnect.ended(kNow);
  reconnect.connecting();
  reconnect.ready(kNow);
  reconnect.ended(kNow + 100ms);
  EXPECT_TRUE(reconnect.is_due(kNow + 100ms));
  EXPECT_FALSE(reconnect.is_failing());
  reconnect.connecting();
  reconnect.ended(kNow);  // the first backoff again
  EXPECT_EQ(reconnect.due(), kNow + 20ms);
}

TEST(Reconnect, WaitsAfterShortConnectionsAsAfterFailures) {
  Reconnect reconnect = make(0);
  for (const auto backoff : {20ms, 40ms, 80ms, 100ms}) {
    reconnect.connecting();
    reconnect.ready(kNow);
    reconnect.ended(kNow + 99ms);
    EXPECT_TRUE(reconnect.is_failing());
    EXPECT_EQ(reconnect.due(), kNow + 99ms + backoff);
  }
}

}  // namespace
}  // namespace sluice::redis
