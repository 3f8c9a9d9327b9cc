#include "server/protocol/grpc/protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>

namespace sluice::server::grpc {
namespace {

TEST(Memory, GivesBlocksThatDoNotOverlap) {
  struct Block {
    unsigned char* at;
    std::size_t size;
    unsigned char filled;
  };
  Memory memory;
  std::deque<Block> blocks;
  std::mt19937 random(1);  // the same cases each time
  const std::size_t sizes[] = {0, 1, 15, 16, 17, 200, 1024, 1025, 2880, 4096, 16'394, 100'000};
  const auto holds = [](const Block& block) {
    return std::all_of(block.at, block.at + block.size,
                       [&](unsigned char byte) { return byte == block.filled; });
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t size = sizes[random() % std::size(sizes)];
    const auto filled = static_cast<unsigned char>(i | 1);
    void* at = nullptr;
    if (random() % 2 == 0) {
      at = memory.allocate_zeros(size);
      ASSERT_TRUE(holds({static_cast<unsigned char*>(at), size, 0})) << size;
    } else {
      at = memory.allocate(size);
    }
    ASSERT_NE(at, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(at) % alignof(std::max_align_t), 0U);
    std::memset(at, filled, size);
    blocks.push_back({static_cast<unsigned char*>(at), size, filled});
    if (random() % 8 == 0) {
      Block& grown = blocks.back();
      grown.at = static_cast<unsigned char*>(memory.reallocate(grown.at, 3 * grown.size));
      ASSERT_TRUE(holds(grown));
    }
    if (blocks.size() < 100) continue;
    std::swap(blocks.front(), blocks[random() % blocks.size()]);
    ASSERT_TRUE(holds(blocks.front()));
    memory.release(blocks.front().at);
    blocks.pop_front();
  }
  for (const Block& block : blocks) memory.release(block.at);
}

TEST(Memory, GivesZerosAfterASessionWasFreed) {
  Memory memory;
  for (int i = 0; i < 200; ++i) {
    void* const parts[] = {memory.allocate_zeros(2880), memory.allocate_zeros(4096),
                           memory.allocate(16'394)};
    const std::size_t sizes[] = {2880, 4096, 16'394};
    for (int k = 0; k < 3; ++k) {
      const auto* const at = static_cast<unsigned char*>(parts[k]);
      if (k < 2) {
        ASSERT_TRUE(std::all_of(at, at + sizes[k], [](unsigned char byte) { return byte == 0; }));
      }
      std::memset(parts[k], 'x', sizes[k]);
    }
    for (int k = 0; k < 3; ++k) memory.release(parts[(k + i) % 3]);
  }
}

TEST(Memory, RefusesImpossibleSizes) {
  Memory memory;
  EXPECT_EQ(memory.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(memory.allocate(SIZE_MAX - 8), nullptr);
  memory.release(nullptr);
  void* const block = memory.reallocate(nullptr, 10);
  EXPECT_NE(block, nullptr);
  memory.release(block);
  if (nghttp2_mem* const given = memory.get()) {
    EXPECT_EQ(given->calloc(SIZE_MAX / 2, 4, given->mem_user_data), nullptr);
  }
}

}  // namespace
}  // namespace sluice::server::grpc
