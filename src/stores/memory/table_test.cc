#include "stores/memory/table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

namespace sluice::memory::table_test {
namespace {

constexpr auto kKeepAll = [](const Slot&, core::Forgotten) { return true; };

// A key of the first group of every table, or, with `high` near to 2^64, of the last.
Fingerprint key_of(std::uint64_t low, std::uint64_t high = 0) { return {low, high}; }

Table table_of(std::size_t groups) { return Table(groups); }

std::uint32_t& units_of(Table& table, const Fingerprint& key) {
  return table.find(key)->state.units;
}

TEST(Table, FindsNothingWhileItIsEmpty) {
  Table table;
  EXPECT_EQ(table.find(key_of(1)), nullptr);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_TRUE(table.is_full());  // it has no group yet
  Table one = table_of(1);
  EXPECT_EQ(one.find(key_of(1)), nullptr);
  EXPECT_FALSE(one.is_full());
}

TEST(Table, InsertsAnEmptyStateAndFindsItUntilItIsErased) {
  Table table = table_of(4);
  Slot& slot = table.insert(key_of(7, 42));
  EXPECT_EQ(slot.key, key_of(7, 42));
  EXPECT_EQ(slot.state.units, 0u);
  EXPECT_EQ(slot.state.expiry, 1u);
  EXPECT_EQ(table.find(key_of(7, 42)), &slot);
  EXPECT_EQ(table.find(key_of(7, 43)), nullptr);
  EXPECT_EQ(table.find(key_of(8, 42)), nullptr);
  table.erase(slot);
  EXPECT_EQ(table.find(key_of(7, 42)), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

TEST(Table, ClearsASlotThatIsUsedAgain) {
  Table table = table_of(1);
  table.insert(key_of(1)).state.units = 99;
  table.erase(*table.find(key_of(1)));
  EXPECT_EQ(table.insert(key_of(1)).state.units, 0u);
}

TEST(Table, DistinguishesKeysThatDifferInOneBit) {
  Table table = table_of(2);
  table.insert(key_of(256));  // the byte that serves as its tag is zero
  table.insert(key_of(1));    // which is read as this one's
  table.insert(key_of(256, 1));
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.find(key_of(256))->key, key_of(256));
  EXPECT_EQ(table.find(key_of(1))->key, key_of(1));
  EXPECT_EQ(table.find(key_of(256, 1))->key, key_of(256, 1));
  EXPECT_EQ(table.find(key_of(512)), nullptr);
}

TEST(Table, UsesLaterGroupsIfOneIsFullAlsoAroundTheEnd) {
  for (const std::uint64_t high : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    Table table = table_of(4);
    for (std::uint64_t i = 1; i <= 50; ++i) {
      table.insert(key_of(i, high)).state.units = static_cast<std::uint32_t>(i);
    }
    for (std::uint64_t i = 1; i <= 50; ++i) EXPECT_EQ(units_of(table, key_of(i, high)), i);
    EXPECT_EQ(table.find(key_of(51, high)), nullptr);
  }
}

TEST(Table, FindsLaterKeysOfAChainAfterOneIsErased) {
  Table table = table_of(4);
  for (std::uint64_t i = 1; i <= 50; ++i) table.insert(key_of(i));
  for (std::uint64_t gone = 1; gone <= 50; ++gone) {
    table.erase(*table.find(key_of(gone)));
    EXPECT_EQ(table.find(key_of(gone)), nullptr);
    for (std::uint64_t i = gone + 1; i <= 50; ++i) ASSERT_NE(table.find(key_of(i)), nullptr) << i;
  }
}

TEST(Table, FindsMoreThan255KeysBeyondAFullGroup) {
  Table table = table_of(40);
  for (std::uint64_t i = 1; i <= 500; ++i) table.insert(key_of(i));
  for (std::uint64_t i = 1; i <= 500; i += 2) table.erase(*table.find(key_of(i)));
  for (std::uint64_t i = 1; i <= 500; ++i) {
    EXPECT_EQ(table.find(key_of(i)) != nullptr, i % 2 == 0) << i;
  }
  for (std::uint64_t i = 2; i <= 500; i += 2) table.erase(*table.find(key_of(i)));
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.find(key_of(2)), nullptr);
  table.insert(key_of(3));
  EXPECT_NE(table.find(key_of(3)), nullptr);
}

TEST(Table, RebuildKeepsTheSelectedCounters) {
  Table table = table_of(2);
  for (std::uint64_t i = 1; i <= 26; ++i) {
    table.insert(key_of(i, i << 59)).state.units = static_cast<std::uint32_t>(i);
  }
  for (const std::size_t groups : {30u, 3u, 2u}) {
    table.rebuild(Table(groups), kKeepAll);
    EXPECT_EQ(table.group_count(), groups);
    EXPECT_EQ(table.size(), 26u);
    for (std::uint64_t i = 1; i <= 26; ++i) EXPECT_EQ(units_of(table, key_of(i, i << 59)), i);
  }
  table.rebuild(Table(1), [](const Slot& slot, core::Forgotten) { return slot.state.units > 20; });
  EXPECT_EQ(table.size(), 6u);
  EXPECT_EQ(table.find(key_of(20, std::uint64_t{20} << 59)), nullptr);
  EXPECT_EQ(units_of(table, key_of(21, std::uint64_t{21} << 59)), 21u);
}

TEST(Table, TakesAKeyThatIsThereAndNoOther) {
  Table table = table_of(2);
  std::uint32_t expiry = 0;
  EXPECT_EQ(Table::take(table.view(), key_of(1), false, expiry), nullptr);
  table.insert(key_of(1), 7);
  table.insert(key_of(257), 8);  // with the same tag
  Slot* const slot = Table::take(table.view(), key_of(257), false, expiry);
  EXPECT_EQ(slot, table.find(key_of(257)));
  EXPECT_EQ(expiry, 8u);
  EXPECT_EQ(Table::take(table.view(), key_of(257), true, expiry), nullptr) << "it is held";
  ASSERT_NE(Table::take(table.view(), key_of(1), true, expiry), nullptr);
  EXPECT_EQ(expiry, 7u);
}

TEST(Table, KeepsExpiriesAndOwnersOfARebuild) {
  Table table = table_of(2);
  table.owner_of(table.insert(key_of(1), 7)) = 9;
  const Table old = table.rebuild(Table(3), kKeepAll);
  EXPECT_EQ(old.size(), 0u);
  EXPECT_EQ(table.find(key_of(1))->state.expiry, 7u);
  EXPECT_EQ(table.owner_of(*table.find(key_of(1))), 9u);
}

TEST(Table, RebuildWithoutMemoryChangesNothing) {
  Table table = table_of(2);
  table.insert(key_of(1)).state.units = 5;
  const std::size_t beyond_all_memory = std::size_t{1} << 50;
  EXPECT_THROW(table.rebuild(Table(beyond_all_memory), kKeepAll), std::bad_alloc);
  EXPECT_EQ(table.group_count(), 2u);
  EXPECT_EQ(units_of(table, key_of(1)), 5u);
}

TEST(Table, VisitsEveryCounterOnceEvenIfSomeAreErased) {
  Table table = table_of(10);
  for (std::uint64_t i = 1; i <= 100; ++i) table.insert(key_of(i, i << 57));
  std::vector<int> seen(101);
  table.for_each([&](Slot& slot) {
    ++seen[slot.key.low];
    table.erase(slot);
  });
  EXPECT_EQ(std::vector<int>(seen.begin() + 1, seen.end()), std::vector<int>(100, 1));
  EXPECT_EQ(table.size(), 0u);
}

TEST(Table, GroupsForReturnsEnoughGroups) {
  for (std::size_t counters = 1; counters < 5000; ++counters) {
    const std::size_t groups = Table::groups_for(counters);
    ASSERT_GE(Table::fill_limit(groups), counters);
    ASSERT_LT(Table::fill_limit(groups), groups * Tags::kSlots);
    if (groups > 1) {
      ASSERT_LT(Table::fill_limit(groups - 1), counters);
    }
  }
}

// Random inserts, erases, look-ups and rebuilds. `homes`: the keys come from so few groups that
// they crowd them.
void agrees_with_a_map(std::uint64_t seed, std::uint64_t homes) {
  std::mt19937_64 random(seed);
  Table table = table_of(8);
  std::unordered_map<std::uint64_t, std::uint32_t> map;
  for (std::uint32_t step = 0; step < 60000; ++step) {
    const std::uint64_t low = random() % 400 + 1;
    const Fingerprint key{low << 24 | low, low % homes * (~std::uint64_t{0} / homes)};
    Slot* const slot = table.find(key);
    ASSERT_EQ(slot != nullptr, map.contains(low)) << "step " << step;
    if (slot != nullptr) {
      ASSERT_EQ(slot->state.units, map[low]) << "step " << step;
    }
    if (slot != nullptr && random() % 2 == 0) {
      table.erase(*slot);
      map.erase(low);
    } else if (slot == nullptr) {
      if (table.is_full()) table.rebuild(Table(Table::groups_for(table.size() + 10)), kKeepAll);
      table.insert(key).state.units = step;
      map[low] = step;
    }
    if (random() % 5000 == 0) table.rebuild(Table(Table::groups_for(table.size() + 1)), kKeepAll);
    ASSERT_EQ(table.size(), map.size());
  }
}

TEST(Table, AgreesWithAMapOverRandomOperations) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) agrees_with_a_map(seed, 97);
}

TEST(Table, AgreesWithAMapIfAllKeysAreInAFewGroups) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) agrees_with_a_map(seed, 2);
}

}  // namespace
}  // namespace sluice::memory::table_test
