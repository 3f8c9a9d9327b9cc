#include "stores/memory/table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

namespace sluice::memory::growing_table_test {
namespace {

constexpr auto kKeepAll = [](const Slot&, core::Forgotten) { return true; };
constexpr std::size_t kGroups = 256;

// Mixes the bits of a number (splitmix64).
std::uint64_t mixed(std::uint64_t i) {
  i = (i ^ i >> 30) * 0xBF58'476D'1CE4'E5B9;
  i = (i ^ i >> 27) * 0x94D0'49BB'1331'11EB;
  return i ^ i >> 31;
}
// Keys like random ones, as fingerprints are.
Fingerprint key_of(std::uint64_t i) {
  constexpr std::uint64_t kStep = 0x9E37'79B9'7F4A'7C15;
  return {mixed((2 * i + 1) * kStep), mixed((2 * i + 2) * kStep)};
}

// Fills an empty table of `groups` groups with keys 0, 1, …. Returns their number.
std::uint64_t fill(GrowingTable& table, std::size_t groups) {
  table.rebuild(groups, kKeepAll);
  std::uint64_t count = 0;
  for (; !table.is_full(); ++count) {
    Slot& slot = table.insert(key_of(count));
    slot.state.units = static_cast<std::uint32_t>(count);
    table.owner_of(slot) = static_cast<std::uint16_t>(count % 1000);
  }
  return count;
}

void expect_all(GrowingTable& table, std::uint64_t count) {
  ASSERT_EQ(table.size(), count);
  for (std::uint64_t i = 0; i < count; ++i) {
    Slot* const slot = table.find(key_of(i));
    ASSERT_NE(slot, nullptr) << i;
    ASSERT_EQ(slot->state.units, i);
    ASSERT_EQ(table.owner_of(*slot), i % 1000);
  }
}

TEST(GrowingTable, KeepsAllCountersAtEachStepOfAMove) {
  for (const std::size_t groups : {kGroups + kGroups / 4, kGroups, kGroups + 1}) {
    GrowingTable table;
    const std::uint64_t count = fill(table, kGroups);
    table.begin_move(groups);
    EXPECT_FALSE(table.is_full());
    std::size_t steps = 0;
    for (; table.is_moving(); ++steps) {
      if (steps % 16 == 0) expect_all(table, count);
      table.move_some(kKeepAll);
    }
    EXPECT_EQ(steps, kGroups / 2);
    EXPECT_EQ(table.group_count(), groups);
    expect_all(table, count);
  }
}

TEST(GrowingTable, DropsTheOthersWhenTheyMove) {
  GrowingTable table;
  const std::uint64_t count = fill(table, kGroups);
  table.begin_move(kGroups);
  const auto keep = [](const Slot& slot, core::Forgotten) { return slot.state.units % 3 == 0; };
  while (table.is_moving()) table.move_some(keep);
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSERT_EQ(table.find(key_of(i)) != nullptr, i % 3 == 0) << i;
  }
  EXPECT_EQ(table.size(), (count + 2) / 3);
}

TEST(GrowingTable, IsRebuiltIfMoreCountersAreKeptThanItHasRoomFor) {
  GrowingTable table;
  const std::uint64_t count = fill(table, 3 * kGroups);
  table.begin_move(GrowingTable::kFewGroups);
  while (table.is_moving()) table.move_some(kKeepAll);
  expect_all(table, count);
  EXPECT_GE(Table::fill_limit(table.group_count()), count);
}

TEST(GrowingTable, WithoutMemoryChangesNothing) {
  GrowingTable table;
  const std::uint64_t count = fill(table, kGroups);
  EXPECT_THROW(table.begin_move(std::size_t{1} << 50), std::bad_alloc);
  EXPECT_FALSE(table.is_moving());
  expect_all(table, count);
}

TEST(GrowingTable, VisitsEveryCounterOnceAtEachStepOfAMove) {
  GrowingTable table;
  const std::uint64_t count = fill(table, kGroups);
  table.begin_move(kGroups + kGroups / 4);
  while (table.is_moving()) {
    std::size_t seen = 0;
    table.for_each([&](Slot&) { ++seen; });
    ASSERT_EQ(seen, count);
    // By groups it may miss the few that are not in the group of their key.
    seen = 0;
    for (std::size_t i = 0; i < table.group_count(); ++i) {
      table.for_each_in(i, [&](Slot&) { ++seen; });
    }
    ASSERT_LE(seen, count);
    ASSERT_GE(seen + 60, count);
    for (int i = 0; i < 16 && table.is_moving(); ++i) table.move_some(kKeepAll);
  }
}

// The slots of a table of this size take several huge pages, which are released as they move.
TEST(GrowingTable, ReleasesNoMemoryThatIsInUse) {
  constexpr std::size_t kLarge = 20'000;
  GrowingTable table;
  const std::uint64_t count = fill(table, kLarge);
  table.begin_move(kLarge + kLarge / 4);
  std::uint64_t next = count;
  for (; table.is_moving(); ++next) {
    table.move_some(kKeepAll);
    Slot& slot = table.insert(key_of(next));
    slot.state.units = static_cast<std::uint32_t>(next);
    table.owner_of(slot) = static_cast<std::uint16_t>(next % 1000);
  }
  expect_all(table, next);
}

// The memory of a table is used again if the next one has half its size or more.
TEST(GrowingTable, UsesTheMemoryOfEarlierTablesAgain) {
  for (const std::size_t size : {kGroups, 40 * kGroups}) {  // small memory, and pages
    GrowingTable table;
    const std::uint64_t count = fill(table, size);
    table.rebuild(2 * size, kKeepAll);
    std::vector<const Slot*> places;
    for (const std::size_t groups : {size, 2 * size, size, 2 * size - 1, size, size + 1}) {
      table.rebuild(groups, kKeepAll);
      expect_all(table, count);
      places.push_back(table.find(key_of(1)));
    }
    EXPECT_EQ(places[0], places[2]);
    EXPECT_EQ(places[0], places[4]);
  }
}

TEST(GrowingTable, TakesACounterWhereverItIsWhileItMoves) {
  GrowingTable table;
  const std::uint64_t count = fill(table, kGroups);
  table.find(key_of(1))->state.pin();  // as the thread that moves the table may have done
  table.begin_move(kGroups + kGroups / 4);
  while (table.is_moving()) {
    for (int i = 0; i < 16 && table.is_moving(); ++i) table.move_some(kKeepAll);
    std::uint32_t expiry = 0;
    for (std::uint64_t i = 0; i < count; i += 7) {
      Slot* const slot = table.take(key_of(i), false, expiry);
      ASSERT_EQ(slot, table.find(key_of(i)));
      slot->state.leave(expiry + 1);
    }
  }
  EXPECT_EQ(table.find(key_of(1))->state.expiry, PackedState::kPinned);
  const std::uint32_t steps = table.find(key_of(0))->state.expiry;
  EXPECT_GE(steps, 8u);
  EXPECT_EQ(table.find(key_of(7))->state.expiry, steps);
}

TEST(GrowingTable, AgreesWithAMapOverRandomOperations) {
  std::mt19937_64 random(7);
  GrowingTable table;
  table.rebuild(GrowingTable::kFewGroups, kKeepAll);
  std::unordered_map<std::uint64_t, std::uint32_t> map;
  for (std::uint32_t step = 0; step < 200'000; ++step) {
    const std::uint64_t i = random() % (step < 100'000 ? 20'000 : 5'000);
    Slot* const slot = table.find(key_of(i));
    ASSERT_EQ(slot != nullptr, map.contains(i)) << "step " << step;
    if (slot != nullptr) {
      ASSERT_EQ(slot->state.units, map[i]) << "step " << step;
      if (random() % 3 != 0) continue;
      table.erase(*slot);
      map.erase(i);
      continue;
    }
    if (table.is_full() || (!table.is_moving() && random() % 20'000 == 0)) {
      const std::size_t groups = Table::groups_for(table.size() + table.size() / 4);
      table.begin_move(std::max(groups, GrowingTable::kFewGroups));
    }
    if (table.is_moving()) table.move_some(kKeepAll);
    table.insert(key_of(i)).state.units = step;
    map[i] = step;
  }
  EXPECT_EQ(table.size(), map.size());
}

}  // namespace
}  // namespace sluice::memory::growing_table_test
