#include "sluice/leased_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"
#include "tests/property/generate.h"
#include "tests/support/random_cases.h"

namespace sluice_property::leases_test {
namespace {

using namespace std::chrono_literals;
using sluice::Charge;
using sluice::Decision;
using sluice::Duration;
using sluice::Instant;
using sluice::Limit;
using sluice::Reason;
using sluice::Verb;

constexpr std::size_t kKeys = 3;
constexpr std::uint32_t kNodes = 3;
constexpr std::array<std::string_view, kKeys> kNames{"a", "b", "c"};

// A limit that admits nothing again while a history lasts, so that what the store has counted is
// what it ever gave.
Limit limit_of(Dice& dice) {
  const auto units = 20 + dice.below(400);
  switch (dice.below(5)) {
    case 0: return sluice::fixed_window(units).per(24h).leased(50ms);
    case 1: return sluice::gcra(units).per(24h * 100).burst(units).leased(20ms);
    case 2: return sluice::sliding_window_counter(units).per(24h).leased(100ms);
    case 3: return sluice::sliding_window_log(units).per(24h).leased(10ms);
    default: return sluice::token_bucket(units).per(24h * 100).leased(100ms);
  }
}

// A store that fails at random: before it has counted a request, or after.
class FailingStore final : public sluice::Store {
 public:
  FailingStore(Dice& dice, const sluice::Clock& clock)
      : dice_(dice), memory_({.max_keys = 1024}, clock) {}

  Decision apply(sluice::Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    if (fails && dice_.chance(15)) return fail(each, Reason::kStoreError);
    const Decision said = memory_.apply(action, charges, now, each);
    if (fails && dice_.chance(15)) return fail(each, Reason::kStoreTimeout);
    return said;
  }
  std::uint64_t used(std::string_view key, const Limit& limit) {
    return limit.capacity() - memory_.apply_one(Verb::kPeek, {key, limit, 0}, {}).remaining;
  }
  bool fails = true;

 private:
  static Decision fail(std::span<Decision> each, Reason reason) {
    std::fill(each.begin(), each.end(), Decision::refused(reason));
    return Decision::refused(reason);
  }
  Dice& dice_;
  sluice::MemoryStore memory_;
};

struct Fleet {
  Fleet(Dice& dice, bool fails) : store(dice, clock), limit(limit_of(dice)) {
    store.fails = fails;
    for (auto& node : nodes) {
      node.leases = std::make_unique<sluice::Leases>(sluice::LeaseOptions{.nodes = kNodes}, clock);
      node.store = std::make_unique<sluice::LeasedStore>(store, *node.leases,
                                                         sluice::LeaseReturns::kByCaller);
    }
  }
  struct Node {
    std::unique_ptr<sluice::Leases> leases;
    std::unique_ptr<sluice::LeasedStore> store;
  };

  // Takes of one to three keys by a random process. Counts what was admitted.
  void take(Dice& dice) {
    std::vector<Charge> charges;
    const std::size_t first = dice.below(kKeys);
    const std::size_t count = dice.chance(70) ? 1 : 1 + dice.below(kKeys);
    for (std::size_t i = 0; i < count; ++i) {
      charges.push_back(
          {kNames[(first + i) % kKeys], limit, 1 + (dice.chance(80) ? 0 : dice.below(5))});
    }
    std::vector<Decision> each(count);
    auto& node = nodes[dice.below(kNodes)];
    const Decision said = node.store->apply(Verb::kTake, charges, {}, each);
    if (said.reason == Reason::kLease) ++local;
    if (!said.allowed()) return;
    for (std::size_t i = 0; i < count; ++i) admitted[(first + i) % kKeys] += charges[i].cost;
  }

  sluice::testing::ManualClock clock;
  FailingStore store;
  const Limit limit;
  std::array<Node, kNodes> nodes;
  std::array<std::uint64_t, kKeys> admitted{};
  int local = 0;
};

// Returns the number of requests that leases answered.
int run(std::uint64_t seed, bool fails) {
  Dice dice(seed);
  Fleet fleet(dice, fails);
  for (int step = 0; step < 600; ++step) {
    if (dice.chance(30))
      fleet.clock.advance(Duration{static_cast<std::int64_t>(dice.below(20'000))});
    if (dice.chance(20)) fleet.nodes[dice.below(kNodes)].store->give_back();
    fleet.take(dice);
    for (std::size_t key = 0; key < kKeys; ++key) {
      EXPECT_LE(fleet.admitted[key], fleet.store.used(kNames[key], fleet.limit))
          << "seed " << seed << ", step " << step << ", key " << kNames[key];
    }
    if (::testing::Test::HasFailure()) return 0;
  }
  for (auto& node : fleet.nodes) node.store->give_back(sluice::LeaseEnd::kAll);
  for (std::size_t key = 0; !fails && key < kKeys; ++key) {
    EXPECT_EQ(fleet.admitted[key], fleet.store.used(kNames[key], fleet.limit))
        << "seed " << seed << ": all that was not used came back, key " << kNames[key];
  }
  return fleet.local;
}

int run_all(bool fails) {
  const std::uint64_t histories = sluice::testing::random_cases(100, 3000);
  int local = 0;
  for (std::uint64_t seed = 0; seed < histories && !::testing::Test::HasFailure(); ++seed) {
    local += run(seed, fails);
  }
  EXPECT_GT(local, static_cast<int>(histories) * 20) << "requests that leases answer";
  return local;
}

TEST(Leases, AdmitNoUnitThatTheStoreHasNotCounted) { RecordProperty("local", run_all(true)); }

TEST(Leases, GiveBackAllThatIsNotUsed) { RecordProperty("local", run_all(false)); }

}  // namespace
}  // namespace sluice_property::leases_test
