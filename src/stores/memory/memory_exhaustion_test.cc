#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"

// A test can let the allocations of this program fail.
namespace {

long& allocations_left() {
  static long left = std::numeric_limits<long>::max();
  return left;
}

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (allocations_left()-- <= 0) return nullptr;
  return std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Not inlined, because the compiler would warn of a release that does not match its allocation.
[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

constexpr std::size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, kUsual); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, kUsual); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, kUsual);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{std::chrono::seconds{1000000}};

// While it exists, `left` more allocations succeed.
class Shortage {
 public:
  explicit Shortage(long left) { allocations_left() = left; }
  ~Shortage() { allocations_left() = std::numeric_limits<long>::max(); }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
};

struct World {
  MemoryStore store{{.max_keys = 100000, .shards = 1}};
  Limiter limiter{store};
  std::vector<std::string> keys;
  std::vector<Charge> known;  // on counters that exist

  World() {
    const Limit limits[] = {fixed_window(50).per(1h), sliding_window_log(50).per(1h),
                            sliding_window_counter(50).per(1h), sliding_window_hybrid(50).per(1h),
                            token_bucket(50).per(1h)};
    for (int i = 0; i < 8; ++i) keys.push_back("key" + std::to_string(i));
    for (const std::string& key : keys) {
      for (const Limit& limit : limits) known.push_back({key, limit, 3});
    }
    for (const Charge& charge : known) {
      EXPECT_TRUE(limiter.try_acquire(charge.key, charge.limit, charge.cost, kNow));
    }
  }

  // All that a caller can see of the counters.
  std::vector<Decision> all() {
    std::vector<Decision> seen;
    for (const Charge& charge : known) {
      seen.push_back(limiter.peek(charge.key, charge.limit, 0, kNow + 1min));
    }
    return seen;
  }
};

// Repeats a request with one more allocation each time until it succeeds, and checks that no
// failure changes a counter.
void expect_failures_change_nothing(World& world, Verb verb, const std::vector<Charge>& charges) {
  std::vector<Decision> each(charges.size());
  for (long left = 0;; ++left) {
    ASSERT_LT(left, 1000);
    const std::vector<Decision> before = world.all();
    const MemoryStoreStats stats = world.store.stats();
    Decision answer;
    {
      const Shortage shortage(left);
      answer = world.store.apply(verb, charges, kNow + 1min, each);
    }
    if (answer.reason != Reason::kStoreError) {
      EXPECT_TRUE(answer.allowed());
      EXPECT_GT(left, 0) << "nothing had to be allocated";
      return;
    }
    EXPECT_EQ(world.all(), before);
    EXPECT_EQ(world.store.stats().keys, stats.keys);
    EXPECT_EQ(world.store.stats().evictions, stats.evictions);
  }
}

TEST(MemoryExhaustion, FirstCounterFailsWithoutMemoryAndWorksLater) {
  MemoryStore store({.shards = 1});
  Limiter limiter(store);
  const Limit limit = token_bucket(1).per(1h);
  {
    const Shortage shortage(0);
    EXPECT_EQ(limiter.try_acquire("key", limit, 1, kNow).reason, Reason::kStoreError);
    EXPECT_FALSE(limiter.try_acquire("key", limit, 1, kNow));
  }
  EXPECT_TRUE(limiter.try_acquire("key", limit, 1, kNow));
}

TEST(MemoryExhaustion, DecisionsOnKnownCountersNeedNoMemory) {
  World world;
  const Shortage shortage(0);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(world.limiter.try_acquire("key0", token_bucket(50).per(1h), 1, kNow));
    EXPECT_TRUE(world.limiter.try_acquire("key0", fixed_window(50).per(1h), 1, kNow));
    EXPECT_TRUE(world.limiter.try_acquire("key0", sliding_window_counter(50).per(1h), 1, kNow));
    EXPECT_TRUE(world.limiter.try_acquire("key0", sliding_window_log(50).per(1h), 1, kNow));
  }
}

TEST(MemoryExhaustion, NewCountersOfARequestAreAllInsertedOrNone) {
  World world;
  std::vector<Charge> charges(world.known.begin(), world.known.begin() + 24);
  std::vector<std::string> fresh;
  for (int i = 0; i < 40; ++i) fresh.push_back("fresh" + std::to_string(i));
  for (std::size_t i = 0; i < 40; ++i) {
    charges.push_back({fresh[i], world.known[i % 5].limit, 2});
  }
  expect_failures_change_nothing(world, Verb::kTake, charges);
}

TEST(MemoryExhaustion, LogsGrowOrDoNotChange) {
  World world;
  for (int i = 0; i < 5; ++i) {
    for (const std::string& key : world.keys) {
      const Instant now = kNow + Duration{i + 1};
      EXPECT_TRUE(world.limiter.try_acquire(key, sliding_window_log(50).per(1h), 1, now));
      if (i < 3) {
        EXPECT_TRUE(world.limiter.try_acquire(key, sliding_window_hybrid(50).per(1h), 1, now));
      }
    }
  }
  std::vector<Charge> charges;
  for (const std::string& key : world.keys) {
    charges.push_back({key, sliding_window_log(50).per(1h), 1});
    charges.push_back({key, sliding_window_hybrid(50).per(1h), 1});
    charges.push_back({key, token_bucket(50).per(1h), 1});
  }
  for (int i = 0; i < 2; ++i) {
    std::vector<Decision> each(charges.size());
    EXPECT_TRUE(world.store.apply(Verb::kTake, charges, kNow + Duration{10 + i}, each));
  }
  expect_failures_change_nothing(world, Verb::kTake, charges);
}

TEST(MemoryExhaustion, SlicesAreConvertedToAnotherGridOrDoNotChange) {
  for (const Verb verb : {Verb::kTake, Verb::kRefund}) {
    World world;
    std::vector<Charge> charges;
    for (const std::string& key : world.keys) {
      charges.push_back({key, token_bucket(50).per(1h), 2});
      charges.push_back({key, sliding_window_counter(50).per(1h).slices(50), 2});
    }
    expect_failures_change_nothing(world, verb, charges);
  }
}

TEST(MemoryExhaustion, CountersOfAFailedRequestCanStillBeEvicted) {
  // A failed request pins nothing any more, so the store can fill up and evict all counters.
  MemoryStore store({.max_keys = 128, .shards = 1});
  Limiter limiter(store);
  const Limit slices = sliding_window_counter(50).per(1h);
  std::vector<std::string> keys;
  for (int i = 0; i < 128; ++i) keys.push_back(std::to_string(i));
  for (const std::string& key : keys) EXPECT_TRUE(limiter.try_acquire(key, slices, 1, kNow));
  for (const Verb verb : {Verb::kTake, Verb::kRefund}) {
    for (const std::string& key : keys) {
      const Charge charge{key, sliding_window_counter(50).per(1h).slices(50), 1};
      Decision each;
      const Shortage shortage(0);
      EXPECT_EQ(store.apply(verb, {&charge, 1}, kNow, {&each, 1}).reason, Reason::kStoreError);
    }
  }
  for (int i = 128; i < 1000; ++i) {
    ASSERT_TRUE(limiter.try_acquire(std::to_string(i), token_bucket(5).per(2h), 5, kNow));
  }
  EXPECT_EQ(store.stats().keys, 128u);
}

}  // namespace
}  // namespace sluice
