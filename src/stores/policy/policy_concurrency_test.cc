#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "sluice/deny_cache.h"
#include "sluice/failure_policy.h"
#include "sluice/leased_store.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"
#include "stores/policy/deny_cache.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 4;

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

// Counts by kind.
class Counts final : public StoreObserver {
 public:
  void on(const StoreEvent& event) noexcept override {
    ++counts_[static_cast<std::size_t>(event.kind)];
  }
  int of(StoreEventKind kind) const { return counts_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<std::atomic<int>, kStoreEventKinds> counts_{};
};

TEST(CircuitBreakerConcurrency, LetsOneOfManyThreadsProbe) {
  for (int round = 0; round < 200; ++round) {
    testing::ManualClock clock;
    Counts counts;
    CircuitBreaker breaker({.failures = 1}, &counts, clock);
    breaker.record(breaker.try_pass(), Reason::kStoreError);
    clock.advance(1s);
    std::atomic<int> passed = 0;
    run_on_threads([&](int) { passed += static_cast<bool>(breaker.try_pass()); });
    EXPECT_EQ(passed, 1);
    EXPECT_EQ(counts.of(StoreEventKind::kBreakerProbing), 1);
    EXPECT_EQ(breaker.refused(), std::uint64_t{kThreads - 1});
  }
}

TEST(CircuitBreakerConcurrency, OpensOnceIfManyRequestsFailAtTheSameTime) {
  for (int round = 0; round < 200; ++round) {
    testing::ManualClock clock;
    Counts counts;
    CircuitBreaker breaker({}, &counts, clock);
    run_on_threads([&](int) {
      std::vector<CircuitBreaker::Pass> passes(8);
      for (auto& pass : passes) pass = breaker.try_pass();
      for (const auto& pass : passes) breaker.record(pass, Reason::kStoreTimeout);
    });
    EXPECT_EQ(counts.of(StoreEventKind::kBreakerOpened), 1);
    EXPECT_EQ(breaker.state(), CircuitBreaker::State::kOpen);
  }
}

TEST(CircuitBreakerConcurrency, AlternatesBetweenOpeningsProbesAndClosings) {
  testing::ManualClock clock;
  Counts counts;
  CircuitBreaker breaker({.failures = 3, .open_for = 2ms, .longest_open = 4ms}, &counts, clock);
  run_on_threads([&](int thread) {
    for (int i = 0; i < 20'000; ++i) {
      const auto pass = breaker.try_pass();
      const bool fails = (i / 100 + thread) % 3 != 0;
      breaker.record(pass, fails ? Reason::kStoreTimeout : Reason::kOk);
      clock.advance(1us);
    }
  });
  const int opened = counts.of(StoreEventKind::kBreakerOpened);
  const int probing = counts.of(StoreEventKind::kBreakerProbing);
  const int closed = counts.of(StoreEventKind::kBreakerClosed);
  EXPECT_GT(opened, 1);
  EXPECT_GT(closed, 1);
  // Closed after a probe, at most once for each opening; opened after a probe or a closing.
  EXPECT_LE(closed, probing);
  EXPECT_LE(closed, opened);
  EXPECT_LE(opened, probing + 1);
}

TEST(DenyTableConcurrency, ReadsADenialAsItWasWritten) {
  using policy::DenyTable;
  DenyTable table(7);
  const auto numbers = policy::PackedNumbers::of(token_bucket(10).per(10s));
  const auto key_of = [](int i) {
    return memory::Fingerprint{.low = static_cast<std::uint64_t>(i % 9 + 1), .high = 1};
  };
  std::atomic<int> writers = kThreads / 2;
  std::atomic<int> found_count = 0;
  const auto write = [&] {
    for (int i = 1; i <= 20'000; ++i) {
      const memory::Fingerprint key = key_of(i);
      DenyTable::Group& group = table.group_of(key);
      const auto n = static_cast<std::uint32_t>(i);
      table.put(group, DenyTable::forgotten(group), key,
                {.numbers = numbers,
                 .denied_at = Instant{Duration{n}},
                 .retry_after = Duration{n},
                 .reset_after = Duration{n},
                 .cost = n,
                 .remaining = n});
      if (i % 10 == 0) table.forget(group, key);
    }
    --writers;
  };
  const auto read = [&](int i) {
    const memory::Fingerprint key = key_of(i);
    const std::optional<policy::Denial> denial = DenyTable::find(table.group_of(key), key);
    if (!denial) return;
    ++found_count;
    const Duration ticks{denial->cost};
    ASSERT_EQ(denial->numbers, numbers);
    ASSERT_EQ(denial->denied_at, Instant{ticks});
    ASSERT_EQ(denial->retry_after, ticks);
    ASSERT_EQ(denial->reset_after, ticks);
    ASSERT_EQ(denial->remaining, denial->cost);
    ASSERT_EQ(denial->cost % 9 + 1, key.low);
  };
  run_on_threads([&](int thread) {
    if (thread % 2 == 0) return write();
    // Once more at the end, when there are denials for certain.
    for (bool is_last = false; !is_last;) {
      is_last = writers == 0;
      for (int i = 0; i < 9; ++i) read(i);
    }
  });
  EXPECT_GT(found_count, 0);
}

TEST(DenyCacheConcurrency, AdmitsExactlyAsManyRequestsAsWithoutIt) {
  testing::ManualClock clock;
  MemoryStore memory({}, clock);
  DenyCache cache({.max_keys = 14}, clock);
  constexpr int kKeys = 20;
  std::vector<std::atomic<int>> admitted(kKeys);
  run_on_threads([&](int) {
    DenyCacheStore store(memory, cache);
    Limiter limiter(store);
    for (int i = 0; i < 4000; ++i) {
      const auto key = static_cast<std::size_t>(i % kKeys);
      admitted[key] += limiter.try_acquire(std::to_string(key), fixed_window(50).per(1h)).allowed();
    }
  });
  for (const auto& count : admitted) EXPECT_EQ(count, 50);
  EXPECT_GT(cache.hits(), 0u);
}

TEST(DenyCacheConcurrency, DoesNotStoreADenialFromBeforeAReset) {
  testing::ManualClock clock;
  MemoryStore memory({}, clock);
  DenyCache cache({}, clock);
  DenyCacheStore store(memory, cache);
  constexpr auto kLimit = fixed_window(kThreads).per(1h);
  for (int round = 0; round < 300; ++round) {
    Limiter limiter(store);
    ASSERT_TRUE(limiter.try_acquire("k", kLimit, kThreads)) << round;
    run_on_threads([&](int thread) {
      if (thread == 0) {
        limiter.reset("k", kLimit);
      } else {
        static_cast<void>(limiter.try_acquire("k", kLimit));
      }
    });
    // The others have taken all but one unit at most.
    ASSERT_TRUE(limiter.try_acquire("k", kLimit)) << round;
    limiter.reset("k", kLimit);
  }
}

TEST(LeasesConcurrency, ThreadsAdmitNoMoreThanTheStoreHasCounted) {
  constexpr Limit kLimit = token_bucket(200'000).per(24h * 300).leased(1ms);
  MemoryStore memory;
  std::array<std::atomic<std::uint64_t>, 2> admitted{};
  const std::array<std::string_view, 2> keys{"a", "b"};
  {
    Leases leases;
    LeasedStore store(memory, leases);
    run_on_threads([&](int thread) {
      Limiter limiter(store);
      for (int i = 0; i < 20'000; ++i) {
        const Charge charges[] = {{keys[0], kLimit}, {keys[1], kLimit}};
        const std::size_t first = static_cast<std::size_t>(i + thread) % 3;
        const auto asked = first == 2 ? std::span(charges) : std::span(charges).subspan(first, 1);
        if (!limiter.check(asked).allowed()) continue;
        if (first != 1) ++admitted[0];
        if (first != 0) ++admitted[1];
      }
    });
    EXPECT_GT(leases.stats().local, 0u);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto peek = memory.apply_one(Verb::kPeek, {keys[i], kLimit, 0}, {});
      EXPECT_LE(admitted[i], kLimit.capacity() - peek.remaining);
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const auto peek = memory.apply_one(Verb::kPeek, {keys[i], kLimit, 0}, {});
    EXPECT_LE(admitted[i], kLimit.capacity() - peek.remaining);
  }
}

}  // namespace
}  // namespace sluice
