#include "limiter/new_key_limit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using namespace std::chrono_literals;

TEST(NewKeyLimit, AllowsItsNumberInEachSecond) {
  NewKeyLimit limit(3);
  for (const auto second : {0s, 1s, 1700000000s, 1700000001s}) {
    const Instant begin{second};
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(limit.allows(begin));
      limit.count(begin);
    }
    EXPECT_FALSE(limit.allows(begin));
    EXPECT_FALSE(limit.allows(begin + 999'999us));
    EXPECT_TRUE(limit.allows(begin + 1s));
  }
}

TEST(NewKeyLimit, AllowsNoMoreInTheSecondBefore) {
  NewKeyLimit limit(1);
  limit.count(Instant{100s});
  EXPECT_FALSE(limit.allows(Instant{99s}));
  limit.count(Instant{99s});
  EXPECT_FALSE(limit.allows(Instant{100s}));
  EXPECT_TRUE(limit.allows(Instant{101s}));
  EXPECT_TRUE(limit.allows(kLastInstant));
}

TEST(NewKeyLimit, BeginsAgainIfTheClockGoesBack) {
  NewKeyLimit limit(1);
  limit.count(Instant{100s});
  EXPECT_TRUE(limit.allows(kFirstInstant));
  EXPECT_TRUE(limit.allows(Instant{50s}));
  limit.count(Instant{50s});
  EXPECT_FALSE(limit.allows(Instant{50s}));
  EXPECT_TRUE(limit.allows(Instant{51s}));
}

TEST(NewKeyLimit, CountsThoseOfAllThreads) {
  NewKeyLimit limit(4000);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) limit.count(Instant{7s});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(limit.allows(Instant{7s}));
}

}  // namespace
}  // namespace sluice
