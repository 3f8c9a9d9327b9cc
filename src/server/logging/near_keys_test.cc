#include "server/logging/denial_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{1h};

TEST(NearKeys, AddsAKeyOncePerWindow) {
  NearKeys keys;
  EXPECT_TRUE(keys.add(7, kNow, 10s));
  EXPECT_FALSE(keys.add(7, kNow + 1s, 10s));
  EXPECT_FALSE(keys.add(7, kNow + 10s - 1us, 10s));
  EXPECT_TRUE(keys.add(7, kNow + 10s, 10s));
  EXPECT_TRUE(keys.add(0, kNow, 10s)) << "a hash of 0 is a key like any other";
  EXPECT_FALSE(keys.add(0, kNow, 10s));
}

TEST(NearKeys, ForgetsTheKeyWhoseWindowEndsFirstIfThereIsNoRoom) {
  NearKeys keys;
  constexpr std::uint64_t kSets = NearKeys::kMost / 8;  // hashes of the same set
  for (std::uint64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(keys.add(i * kSets, kNow, i == 3 ? 5s : 60s));
  }
  EXPECT_TRUE(keys.add(8 * kSets, kNow, 60s));
  for (std::uint64_t i = 0; i <= 8; ++i) {
    if (i == 3) continue;
    EXPECT_FALSE(keys.add(i * kSets, kNow, 60s)) << i;
  }
  EXPECT_TRUE(keys.add(3 * kSets, kNow, 60s));
}

TEST(NearKeys, AddsAKeyOnceIfThreadsAddItAtTheSameTime) {
  NearKeys keys;
  std::atomic<int> added{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t hash = 0; hash < 5000; ++hash) added += keys.add(hash, kNow, 1h) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(added, 5000);
}

}  // namespace
}  // namespace sluice::server
