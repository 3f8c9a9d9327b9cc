// What a memory store at its bounds evicts, and what it does not.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"

namespace sluice::eviction_test {
namespace {

using namespace std::chrono_literals;

constexpr Instant kNow{1'700'000'000s};
constexpr int kAddresses = 100;

const std::vector<Limit>& one_of_each(std::uint32_t limit, Duration period) {
  static std::vector<Limit> limits;
  limits = {fixed_window(limit).per(period),
            sliding_window_log(limit).per(period),
            sliding_window_counter(limit).per(period),
            sliding_window_hybrid(limit).per(period),
            leaky_bucket(limit).per(period),
            token_bucket(limit).per(period),
            gcra(limit).per(period),
            token_bucket(limit).per(period).refilled_at_intervals(),
            concurrency(limit).lease(period)};
  return limits;
}

class Eviction : public ::testing::Test {
 protected:
  explicit Eviction(const MemoryStoreOptions& options = {.max_keys = std::size_t{1} << 17})
      : options_(options), store_(std::make_unique<MemoryStore>(options)) {}

  void empty_store() { store_ = std::make_unique<MemoryStore>(options_); }
  bool take(std::string_view key, const Limit& limit, std::uint32_t limit_id = 0) {
    const PermitId permit = PermitId::random();
    const Charge charge{
        .key = key, .limit = limit, .permit = &permit, .rule = {Keyspace::kRules, limit_id}};
    return store_->apply_one(Verb::kTake, charge, kNow).allowed();
  }
  static std::string address(int i) { return "login|ip=" + std::to_string(i); }
  void exhaust(const Limit& limit, std::uint32_t limit_id = 0) {
    for (int i = 0; i < kAddresses; ++i) {
      while (take(address(i), limit, limit_id)) continue;
    }
  }
  int denied(const Limit& limit, std::uint32_t limit_id = 0) {
    int count = 0;
    for (int i = 0; i < kAddresses; ++i) count += !take(address(i), limit, limit_id);
    return count;
  }
  void flood(std::size_t keys, const Limit& limit, std::uint32_t limit_id = 0) {
    for (std::size_t i = 0; i < keys; ++i) take("flood|" + std::to_string(i), limit, limit_id);
  }

  const MemoryStoreOptions options_;
  std::unique_ptr<MemoryStore> store_;
};

TEST_F(Eviction, LimitKeepsDenyingThroughAFloodOfKeysOfAnotherLimit) {
  const Limit login = sliding_window_counter(5).per(1min);
  exhaust(login);
  flood(150'000, token_bucket(1000).per(30 * 24h));
  EXPECT_EQ(denied(login), kAddresses);
  EXPECT_GT(store_->stats().evictions, 10'000u);
  EXPECT_LE(store_->stats().keys, std::size_t{1} << 17);
}

TEST_F(Eviction, LimitsWithTheSameNumbersAreToldApartByTheirIds) {
  const Limit limit = token_bucket(1).per(30 * 24h);  // every counter of the flood is exhausted too
  exhaust(limit, 1);
  flood(150'000, limit, 2);
  EXPECT_EQ(denied(limit, 1), kAddresses);
}

class EvictionFromSmallStore : public Eviction {
 protected:
  EvictionFromSmallStore()
      : Eviction({.max_keys = 4096, .max_log_bytes = std::size_t{1} << 20, .shards = 4}) {}
};

// docs/budgets.md, "the memory store has max_keys keys".
TEST_F(EvictionFromSmallStore, OfABudgetLosesItsHoldsAndTakesThoseWithTheMostLeft) {
  const Limit limit = budget(10).never();
  const PermitId id = PermitId::named("call");
  const auto ask = [&](const std::string& key, Action action, std::uint64_t cost) {
    return store_->apply_one(action, {.key = key, .limit = limit, .cost = cost, .permit = &id},
                             kNow);
  };
  const Action hold{Verb::kHold, 1h};
  const Action extend{Verb::kExtend, 1h};
  for (int i = 0; i < kAddresses; ++i) ASSERT_TRUE(ask(address(i), hold, 10));
  constexpr std::size_t kFlood = 6000;
  const auto flooding = [](std::size_t i) { return "flood|" + std::to_string(i); };
  for (std::size_t i = 0; i < kFlood; ++i) ASSERT_TRUE(ask(flooding(i), hold, 1));
  const std::uint64_t evicted = store_->stats().evictions;
  EXPECT_GE(evicted, kFlood + kAddresses - 4096);
  for (int i = 0; i < kAddresses; ++i) EXPECT_TRUE(ask(address(i), extend, 0)) << i;
  std::size_t gone = 0;
  std::string lost;
  for (std::size_t i = 0; i < kFlood; ++i) {
    if (ask(flooding(i), extend, 0)) continue;
    ++gone;
    lost = flooding(i);
  }
  EXPECT_EQ(gone, evicted);
  const Decision settled = ask(lost, Verb::kSettle, 3);
  EXPECT_TRUE(settled.allowed() && settled.late);
  EXPECT_EQ(settled.remaining, 7u);
}

TEST_F(EvictionFromSmallStore, LimitKeepsDenyingWhateverTheAlgorithms) {
  for (const Limit& login : std::vector(one_of_each(5, 1min))) {
    for (const Limit& other : std::vector(one_of_each(1, 30 * 24h))) {
      empty_store();
      exhaust(login, 1);
      flood(6'000, other, 2);
      EXPECT_EQ(denied(login, 1), kAddresses)
          << to_string(login.algorithm()) << " flooded by " << to_string(other.algorithm());
    }
  }
}

TEST_F(EvictionFromSmallStore, ExhaustedCountersOutliveOthersOfTheSameLimit) {
  for (const Limit& login : std::vector(one_of_each(5, 1min))) {
    exhaust(login);  // next to the counters of the other algorithms
    flood(8'000, login);
    EXPECT_EQ(denied(login), kAddresses) << to_string(login.algorithm());
  }
}

TEST_F(EvictionFromSmallStore, OnlyTheLimitWithMostCountersLosesAny) {
  // Twenty limits of 5 to 100 counters each, and then a flood.
  std::mt19937_64 random(7);
  std::vector<std::pair<std::string, std::uint32_t>> held;
  const Limit limit = token_bucket(1).per(1h);
  for (std::uint32_t id = 1; id <= 20; ++id) {
    for (std::uint32_t i = 0; i < 5 * id; ++i) {
      held.emplace_back(std::to_string(random()), id);
      take(held.back().first, limit, id);
    }
  }
  flood(50'000, limit, 21);
  for (const auto& [key, id] : held) EXPECT_FALSE(take(key, limit, id)) << id;
}

TEST_F(EvictionFromSmallStore, FloodDoesNotEvictFromAnotherFloodThatIsSmaller) {
  const Limit limit = token_bucket(1).per(1h);
  flood(1000, limit, 1);
  for (int i = 0; i < 50'000; ++i) take("other|" + std::to_string(i), limit, 2);
  int lost = 0;
  for (int i = 0; i < 1000; ++i) lost += take("flood|" + std::to_string(i), limit, 1);
  EXPECT_EQ(lost, 0);
}

class EvictionOfLogs : public Eviction {
 protected:
  EvictionOfLogs() : Eviction({.max_log_bytes = std::size_t{1} << 20, .shards = 4}) {}
};

TEST_F(EvictionOfLogs, LimitKeepsItsLogsThroughAFloodOfLogsOfAnotherLimit) {
  for (const Limit& login :
       {Limit(sliding_window_log(5).per(1min)), Limit(sliding_window_hybrid(5).per(1min)),
        Limit(sliding_window_counter(5).per(1min))}) {
    exhaust(login, 1);
    flood(50'000, sliding_window_log(3).per(30 * 24h), 2);
    EXPECT_EQ(denied(login, 1), kAddresses) << to_string(login.algorithm());
  }
  EXPECT_GT(store_->stats().evictions, 50'000u);
}

TEST_F(EvictionOfLogs, ExhaustedLogsOutliveOthersOfTheSameLimit) {
  const Limit login = sliding_window_log(5).per(1min);
  exhaust(login);
  flood(50'000, login);
  EXPECT_EQ(denied(login), kAddresses);
}

}  // namespace
}  // namespace sluice::eviction_test
