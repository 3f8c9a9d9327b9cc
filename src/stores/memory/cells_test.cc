#include "stores/memory/shard.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

namespace sluice::memory {
namespace {

TEST(Cells, EachPieceIsACacheLine) {
  Cells cells;
  std::set<std::uintptr_t> seen;
  for (int i = 0; i < 10000; ++i) {
    void* const cell = cells.take();
    std::memset(cell, i, Cells::kBytes);
    const auto address = reinterpret_cast<std::uintptr_t>(cell);
    EXPECT_EQ(address % Cells::kBytes, 0u);
    EXPECT_TRUE(seen.insert(address).second);
  }
}

TEST(Cells, ReturnsFreedPiecesBeforeNewOnes) {
  Cells cells;
  std::vector<void*> taken;
  for (int i = 0; i < 1000; ++i) taken.push_back(cells.take());
  const std::set<void*> all(taken.begin(), taken.end());
  for (void* const cell : taken) cells.give(cell);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(all.contains(cells.take()));
  EXPECT_FALSE(all.contains(cells.take()));
}

TEST(Cells, PiecesDoNotOverlap) {
  Cells cells;
  std::vector<unsigned char*> taken;
  for (int i = 0; i < 500; ++i) {
    taken.push_back(static_cast<unsigned char*>(cells.take()));
    std::memset(taken.back(), i % 251, Cells::kBytes);
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i][0], i % 251);
    EXPECT_EQ(taken[i][Cells::kBytes - 1], i % 251);
  }
}

}  // namespace
}  // namespace sluice::memory
