#include "stores/redis/script/plan.h"

#include <gtest/gtest.h>

#include "sluice/limit.h"
#include "stores/redis/client/command.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/state_reader.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

const Block kBlock = *Block::make({.after = 2, .within = 10min, .time = 15min});

class OneBlock : public ::testing::Test {
 protected:
  static std::string value(std::uint64_t kind, std::uint64_t end, std::string_view more = {}) {
    std::string bytes = "\1";
    format::kKeyBlockHead.append({kind, 100, end, 50, 1000}, bytes);
    return bytes + std::string(more);
  }
  KeyBlock begin(std::optional<std::uint16_t> slot = {}, std::string_view tag = {}) {
    charge_.tag = tag;
    KeyBlock block;
    block.begin(charge_, "p:", "f{}key", slot);
    return block;
  }

  Charge charge_{.key = "key", .limit = fixed_window(1).per(1min), .block = &kBlock};
};

TEST_F(OneBlock, HasAKeyBesideItsCounter) {
  EXPECT_EQ(begin().key(), "p:xf{}key");
  EXPECT_EQ(begin(17, "tag").key(), "p:xf{}key");
  const std::string in_slot = begin(17).key();
  EXPECT_EQ(in_slot, "p:x{" + std::to_string(number_in_slot(17)) + "}f{}key");
  EXPECT_EQ(slot_of(in_slot), 17);
}

TEST_F(OneBlock, FindsANumberInEverySlot) {
  for (std::uint32_t slot = 0; slot < 16384; ++slot) {
    ASSERT_EQ(slot_of(std::to_string(number_in_slot(static_cast<std::uint16_t>(slot)))), slot);
  }
}

TEST_F(OneBlock, IsFoundByItsKey) {
  const auto name = read_block_name("x{123}rt{tag}key");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->algorithm, Algorithm::kTokenBucket);
  EXPECT_EQ(name->tag, "tag");
  EXPECT_EQ(name->key, "key");
  EXPECT_EQ(name->keyspace, Keyspace::kRules);
  EXPECT_EQ(read_block_name("xf{}key")->key, "key");
  EXPECT_FALSE(read_block_name("f{}key"));
  EXPECT_FALSE(read_block_name("x{f"));
}

TEST_F(OneBlock, RefusesWhatTheScriptsDoNotReturn) {
  KeyBlock block = begin();
  EXPECT_TRUE(block.read("\1", 500));
  EXPECT_TRUE(block.read(value(format::kKeyBlockKind, 700), 500));
  block.look();
  EXPECT_EQ(block.answer().left, 200);
  EXPECT_FALSE(block.read("", 500));
  EXPECT_FALSE(block.read(value(format::kKeyBlockKind, 700).substr(0, 20), 500));
  EXPECT_FALSE(block.read(value(format::kKeyBlockKind, 700, "abc"), 500));
  EXPECT_FALSE(block.read(value(format::kFixedWindowKind, 700), 500));
}

TEST_F(OneBlock, DoesNotStartIfTheServerHasNotWrittenIt) {
  std::string found = value(format::kKeyBlockKind, 0, std::string("\x64\0\0\0\0\0\0", 7));
  KeyBlock block = begin();
  ASSERT_TRUE(block.read(found, 500));
  block.deny(Verb::kTake);
  EXPECT_TRUE(block.answer().starts);
  found[0] = 0;
  KeyBlock other = begin();
  ASSERT_TRUE(other.read(found, 500));
  other.deny(Verb::kTake);
  EXPECT_EQ(other.answer(), core::BlockAnswer{});
}

}  // namespace
}  // namespace sluice::redis
