#include "stores/redis/client/backoff.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TEST(Backoff, DoublesUpToTheLongestWait) {
  Backoff backoff(20ms, 100ms);
  EXPECT_EQ(backoff.after_failure(0), 20ms);
  EXPECT_EQ(backoff.after_failure(0), 40ms);
  EXPECT_EQ(backoff.after_failure(0), 80ms);
  EXPECT_EQ(backoff.after_failure(0), 100ms);
  EXPECT_EQ(backoff.after_failure(0), 100ms);
}

TEST(Backoff, IsARandomTimeFromTheUpperHalf) {
  for (const std::uint64_t random : {std::uint64_t{0}, std::uint64_t{1}, kMost / 3, kMost}) {
    Backoff backoff(20ms, 100ms);
    const auto delay = backoff.after_failure(random);
    EXPECT_GE(delay, 10ms);
    EXPECT_LE(delay, 20ms);
  }
  Backoff backoff(20ms, 100ms);
  EXPECT_EQ(backoff.after_failure(10'000'000), 10ms);
  EXPECT_EQ(backoff.after_failure(10'000'000),
            30ms);  // of 40: what was drawn before does not count
}

TEST(Backoff, IsZeroAfterALongConnection) {
  Backoff backoff(20ms, 100ms);
  backoff.after_failure(0);
  backoff.after_failure(0);
  EXPECT_EQ(backoff.after_loss(100ms, 0), 0ms);
  EXPECT_EQ(backoff.after_failure(0), 20ms);  // from the beginning
}

TEST(Backoff, ContinuesAfterAShortConnection) {
  Backoff backoff(20ms, 100ms);
  EXPECT_EQ(backoff.after_failure(0), 20ms);
  EXPECT_EQ(backoff.after_loss(99ms, 0), 40ms);
  EXPECT_EQ(backoff.after_loss(0ms, 0), 80ms);
}

}  // namespace
}  // namespace sluice::redis
