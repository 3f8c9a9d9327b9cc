#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit.h"
#include "sluice/testing/store_conformance.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 4;
constexpr Instant kNow{std::chrono::seconds{1000000}};

// Limits that admit 1000 at one instant.
const std::vector<Limit>& one_of_each() {
  static const std::vector<Limit> limits = {
      fixed_window(1000).per(1h),
      sliding_window_log(1000).per(1h),
      sliding_window_counter(1000).per(1h),
      sliding_window_hybrid(1000).per(1h),
      leaky_bucket(1000).per(1h),
      token_bucket(1000).per(1h),
      gcra(1000).per(1h),
  };
  return limits;
}

// Runs work(thread) on all threads, which start together.
template <typename Work>
void run_on_threads(Work work) {
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      work(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MemoryStoreConcurrency, ThreadsOnOneKeyAdmitAsManyAsOneThread) {
  for (const Limit& limit : one_of_each()) {
    MemoryStore store;
    std::atomic<int> admitted = 0;
    run_on_threads([&](int) {
      Limiter limiter(store);
      for (int i = 0; i < 400; ++i) {
        admitted += limiter.try_acquire("key", limit, 1, kNow).allowed();
      }
    });
    EXPECT_EQ(admitted, 1000) << to_string(limit.algorithm());
  }
}

// Every unit has one holder at a time, and is free in the end.
TEST(MemoryStoreConcurrency, ThreadsNeverHoldMorePermitsThanTheLimit) {
  constexpr Limit kThree = concurrency(3).lease(1h);
  MemoryStore store;
  std::atomic<int> in_flight = 0;
  std::atomic<int> most = 0;
  std::atomic<int> held = 0;
  run_on_threads([&](int thread) {
    Limiter limiter(store);
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t units = 1 + static_cast<std::uint64_t>(thread + i) % 2;
      Permit permit = limiter.hold("key", kThree, units);
      if (!permit) continue;
      ++held;
      const int now = in_flight += static_cast<int>(units);
      int seen = most;
      while (now > seen && !most.compare_exchange_weak(seen, now)) continue;
      if (i % 16 == 0) permit.extend();
      in_flight -= static_cast<int>(units);
    }
  });
  EXPECT_LE(most, 3);
  EXPECT_GT(held, 0);
  EXPECT_EQ(Limiter(store).peek("key", kThree, 0).remaining, 3u);
}

TEST(MemoryStoreConcurrency, ThreadsOnManyKeysAdmitAsManyAsOneThread) {
  constexpr int kKeys = 200;
  MemoryStore store;
  std::vector<std::atomic<int>> admitted(kKeys);
  run_on_threads([&](int thread) {
    Limiter limiter(store);
    std::minstd_rand random(static_cast<unsigned>(thread));
    for (int i = 0; i < kKeys * 20; ++i) {
      const auto key = static_cast<std::size_t>(i % kKeys);
      const Limit limit =
          *Limit::make({.algorithm = one_of_each()[key % 7].algorithm(), .limit = 50, .per = 1h});
      admitted[key] += limiter.try_acquire(std::to_string(key), limit, 1, kNow).allowed();
      if (random() % 64 == 0) std::this_thread::yield();
    }
  });
  for (const std::atomic<int>& count : admitted) EXPECT_EQ(count, 50);
  EXPECT_EQ(store.stats().keys, std::size_t{kKeys});
}

// The first thread inserts keys that are soon forgotten, so that the table grows and shrinks, at
// once and in steps. The others use counters that move each time.
TEST(MemoryStoreConcurrency, TakesAreExactWhileTheTableMoves) {
  constexpr std::size_t kKeys = 64;
  const Limit limits[] = {fixed_window(1'000'000).per(1h),
                          sliding_window_counter(1'000'000).per(1h)};
  const Limit brief = token_bucket(1).per(1ms);
  MemoryStore store({.shards = 1});
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kKeys; ++i) keys.push_back(std::to_string(i));
  std::vector<std::atomic<std::uint32_t>> admitted(kKeys);
  run_on_threads([&](int thread) {
    Limiter limiter(store);
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    for (int i = 0; i < 30000; ++i) {
      if (thread == 0) {
        const Duration rest = (i / 10000) * 10s;  // in which all are forgotten
        EXPECT_TRUE(
            limiter.try_acquire("brief" + std::to_string(i), brief, 1, kNow + rest + i * 1ms));
        continue;
      }
      const std::size_t key = random() % kKeys;
      const std::size_t other = (key + 1 + random() % (kKeys - 1)) % kKeys;
      const std::vector<Charge> both = {{keys[key], limits[key % 2], 1},
                                        {keys[other], limits[other % 2], 1}};
      if (i % 4 == 0 && limiter.check(both, {}, kNow)) {
        ++admitted[key];
        ++admitted[other];
      }
      admitted[key] += limiter.try_acquire(keys[key], limits[key % 2], 1, kNow).allowed();
    }
  });
  EXPECT_GT(store.stats().swept, 20000u);
  for (std::size_t i = 0; i < kKeys; ++i) {
    const Decision left = Limiter(store).peek(keys[i], limits[i % 2], 0, kNow);
    EXPECT_EQ(admitted[i] + left.remaining, 1'000'000u) << i;
  }
}

TEST(MemoryStoreConcurrency, OverlappingRequestsInAnyOrderAreAllOrNothing) {
  // Each request takes one of three of five keys, in an order of chance: were any taken without the
  // others, or two threads to wait for each other, the sums would differ or the test would not end.
  MemoryStore store({.shards = 8});
  const std::vector<std::string> keys = {"a", "b", "c", "d", "e"};
  std::vector<std::atomic<int>> taken(keys.size());
  run_on_threads([&](int thread) {
    Limiter limiter(store);
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    std::vector<std::size_t> order = {0, 1, 2, 3, 4};
    for (int i = 0; i < 1000; ++i) {
      std::shuffle(order.begin(), order.end(), random);
      std::vector<Charge> charges;
      for (std::size_t k = 0; k < 3; ++k) {
        charges.push_back({keys[order[k]], one_of_each()[order[k]], 1});
      }
      if (!limiter.check(charges, {}, kNow)) continue;
      for (std::size_t k = 0; k < 3; ++k) ++taken[order[k]];
    }
  });
  Limiter limiter(store);
  std::size_t exhausted = 0;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const Decision left = limiter.peek(keys[k], one_of_each()[k], 0, kNow);
    EXPECT_EQ(left.remaining + static_cast<std::uint32_t>(taken[k].load()), 1000u);
    exhausted += left.remaining == 0;
  }
  // 4000 requests for three of five keys of 1000: they end when any three of the keys are out.
  EXPECT_GE(exhausted, 3u);
}

TEST(MemoryStoreConcurrency, TakesAndRefundsConserveUnits) {
  for (const Limit& limit : one_of_each()) {
    MemoryStore store;
    std::atomic<int> kept = 0;
    run_on_threads([&](int thread) {
      Limiter limiter(store);
      for (int i = 0; i < 500; ++i) {
        const std::uint64_t cost = static_cast<std::uint64_t>(thread) + 2;
        if (!limiter.try_acquire("key", limit, cost, kNow)) continue;
        if (i % 10 == 0 && limiter.refund("key", limit, 1, kNow)) ++kept;  // keeps cost - 1
        if (i % 10 == 0) kept += static_cast<int>(cost) - 2;
        if (i % 10 != 0) limiter.refund("key", limit, cost, kNow);
      }
    });
    const Decision left = Limiter(store).peek("key", limit, 0, kNow);
    EXPECT_EQ(left.remaining, 1000u - static_cast<std::uint32_t>(kept.load()))
        << to_string(limit.algorithm());
  }
}

TEST(MemoryStoreConcurrency, BoundsHoldWhileThreadsEvictAndStatsAreRead) {
  constexpr std::size_t kKeys = 256;
  constexpr std::size_t kBytes = 16384;
  MemoryStore store({.max_keys = kKeys, .max_log_bytes = kBytes, .shards = 2});
  std::atomic<bool> done = false;
  std::thread reader([&] {
    std::uint64_t evictions = 0;
    while (!done) {
      const MemoryStoreStats stats = store.stats();
      EXPECT_LE(stats.keys, kKeys);
      EXPECT_GE(stats.evictions, evictions);
      evictions = stats.evictions;
      std::this_thread::yield();
    }
  });
  run_on_threads([&](int thread) {
    Limiter limiter(store);
    for (int i = 0; i < 3000; ++i) {
      const std::string key = std::to_string(thread) + "/" + std::to_string(i);
      const Limit& limit = one_of_each()[static_cast<std::size_t>(i % 7)];
      const std::vector<Charge> charges = {
          {key, limit, 1}, {"shared", limit, 1}, {key, one_of_each()[5], 1}};
      const Decision d = limiter.check(charges, {}, kNow + Duration{i});
      EXPECT_NE(d.reason, Reason::kInvalid);
    }
  });
  done = true;
  reader.join();
  // Only now: shards are looked at one after the other, and hand each other bytes in between.
  EXPECT_LE(store.stats().log_bytes, kBytes);
  EXPECT_GT(store.stats().evictions, 0u);
}

TEST(MemoryStoreConcurrency, ResetsDuringTakesLeaveAConsistentCounter) {
  MemoryStore store;
  const Limit limit = sliding_window_log(1000).per(1h);
  run_on_threads([&](int thread) {
    Limiter limiter(store);
    for (int i = 0; i < 1000; ++i) {
      if (thread == 0) {
        limiter.reset("key", limit);
      } else {
        EXPECT_NE(limiter.try_acquire("key", limit, 1, kNow + Duration{i}).reason,
                  Reason::kStoreError);
      }
    }
  });
  Limiter(store).reset("key", limit);
  EXPECT_EQ(store.stats().keys, 0u);
  EXPECT_EQ(store.stats().log_bytes, 0u);
}

// There are bytes for the slices of one counter. While a thread uses it, another one needs them.
TEST(MemoryStoreConcurrency, BytesInUseByAnotherThreadAreWaitedFor) {
  const Limit limit = sliding_window_counter(1'000'000).per(24h).slices(1000);
  MemoryStore store({.max_log_bytes = 4096, .shards = 1});
  std::atomic<int> failed = 0;
  run_on_threads([&](int thread) {
    Limiter limiter(store);
    const std::string key = "key" + std::to_string(thread);
    for (int i = 0; i < 5000; ++i) {
      failed += limiter.try_acquire(key, limit, 1, kNow).outcome == Outcome::kFailed;
    }
  });
  EXPECT_EQ(failed, 0);
  EXPECT_GT(store.stats().evictions, 0u);
}

// Returns the units that each of some keys has used of a limit.
std::vector<std::uint64_t> used(MemoryStore& store, const Limit& limit) {
  std::vector<std::uint64_t> out;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "known" + std::to_string(i);
    const Decision peek = store.apply_one(Verb::kPeek, {key, limit, 0}, kNow);
    out.push_back(limit.capacity() - peek.remaining);
  }
  return out;
}

// Tables grow meanwhile, and counters move in them.
TEST(MemoryStoreConcurrency, ASnapshotHasEachCounterAsItWasAtAnInstantOfTheCall) {
  const std::string path = ::testing::TempDir() + "/snapshot-of-a-store-in-use";
  const Limit window = fixed_window(1'000'000).per(1h);
  const Limit log = sliding_window_log(1'000'000).per(1h);
  MemoryStore store({.shards = 2});
  std::atomic<bool> stops = false;
  const auto take = [&](int thread) {
    for (std::uint64_t i = 0; !stops; ++i) {
      const std::string known = "known" + std::to_string(i % 20);
      store.apply_one(Verb::kTake, {known, window}, kNow);
      store.apply_one(Verb::kTake, {known, log}, kNow);
      if (i > 20'000) continue;
      const std::string fresh = std::to_string(i) + "of" + std::to_string(thread);
      store.apply_one(Verb::kTake, {fresh, window}, kNow);
    }
  };
  const auto save = [&] {
    const auto windows = used(store, window);
    const auto logs = used(store, log);
    ASSERT_TRUE(store.save(path, kNow));
    MemoryStore loaded;
    ASSERT_TRUE(loaded.load(path, kNow));
    for (const Limit& limit : std::vector<Limit>{window, log}) {
      const auto& least = limit == window ? windows : logs;
      const auto saved = used(loaded, limit);
      const auto most = used(store, limit);
      for (std::size_t i = 0; i < saved.size(); ++i) {
        EXPECT_GE(saved[i], least[i]);
        EXPECT_LE(saved[i], most[i]);
      }
    }
  };
  run_on_threads([&](int thread) {
    if (thread > 0) return take(thread);
    for (int i = 0; i < 5; ++i) save();
    stops = true;
  });
  EXPECT_GT(store.stats().keys, 2'000u);
  std::remove(path.c_str());
}

TEST(MemoryStoreConformance, PassesWithManyShards) {
  const auto make = [](const Clock& clock) {
    return std::make_unique<MemoryStore>(MemoryStoreOptions{}, clock);
  };
  for (const auto& failure : testing::check_store({.make = make, .permits = true, .budgets = true}))
    ADD_FAILURE() << failure;
}

TEST(MemoryStoreConformance, PassesWithOneShard) {
  const auto make = [](const Clock& clock) {
    return std::make_unique<MemoryStore>(MemoryStoreOptions{.shards = 1}, clock);
  };
  for (const auto& failure : testing::check_store({.make = make, .permits = true, .budgets = true}))
    ADD_FAILURE() << failure;
}

}  // namespace
}  // namespace sluice
