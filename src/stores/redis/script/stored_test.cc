#include "stores/redis/script/stored.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::redis::stored_test {
namespace {

using core::Forgotten;
using core::Ticks;

constexpr Ticks kChanged = 1700000000123456;
constexpr Forgotten kForgotten = Forgotten::after(kChanged + 60'000'000);

std::string state_bytes(StateKind kind, const core::State& state, Forgotten forgotten) {
  std::string bytes;
  append_state(kind, state, forgotten, bytes);
  return bytes;
}

TEST(Stored, AStateIsReadAsItWasWritten) {
  const core::State state{.last = kChanged, .aux = 17, .units = 4'000'000'000, .tag = 77};
  for (const StateKind kind : {StateKind::kBucket, StateKind::kWindow}) {
    const auto read = read_state(kind, state_bytes(kind, state, kForgotten));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->state.last, state.last);
    EXPECT_EQ(read->state.aux, state.aux);
    EXPECT_EQ(read->state.units, state.units);
    EXPECT_EQ(read->state.tag, state.tag);
    EXPECT_EQ(read->forgotten.multiple(), kForgotten.multiple());
  }
}

TEST(Stored, AStateOfAnotherKindIsRefused) {
  const std::string bucket = state_bytes(StateKind::kBucket, {.last = kChanged}, kForgotten);
  EXPECT_FALSE(read_state(StateKind::kWindow, bucket));
  EXPECT_FALSE(read_state(StateKind::kBucket, bucket.substr(1)));
  EXPECT_FALSE(read_state(StateKind::kBucket, bucket + '\0'));
  EXPECT_FALSE(read_state(StateKind::kBucket, ""));
}

TEST(Stored, AStateThatWasForgottenBeforeItsLastChangeIsRefused) {
  const core::State state{.last = kChanged};
  EXPECT_FALSE(read_state(StateKind::kBucket,
                          state_bytes(StateKind::kBucket, state, Forgotten::after(kChanged / 2))));
  EXPECT_TRUE(read_state(StateKind::kBucket,
                         state_bytes(StateKind::kBucket, state, Forgotten(Forgotten::kNever))));
}

TEST(Stored, SlicesAreWrittenWithoutTheEmptyOnesAtTheEnd) {
  const std::vector<std::uint32_t> counts = {3, 0, 5, 0, 0};
  std::string bytes;
  append_slices({counts, kChanged, core::SliceGrid(60'000'000, 4)}, kForgotten, bytes);
  std::vector<std::uint32_t> held;
  const auto read = read_slices(bytes, held);
  ASSERT_TRUE(read);
  EXPECT_EQ(held, (std::vector<std::uint32_t>{3, 0, 5}));
  EXPECT_EQ(read->state.counts.data(), held.data());
  EXPECT_EQ(read->state.last, kChanged);
  EXPECT_EQ(read->state.grid, core::SliceGrid(60'000'000, 4));
  EXPECT_FALSE(read_slices(bytes.substr(0, bytes.size() - 1), held));
}

TEST(Stored, PermitsAreReadAsTheyWereWritten) {
  const PermitId name(PermitId::Bytes{1, 2, 3});
  const std::vector<core::PermitEntry> entries = {{kChanged + 5, name, 2}, {kChanged + 9, {}, 1}};
  std::string bytes;
  append_permits({.entries = entries,
                  .units = 3,
                  .first_end = kChanged + 5,
                  .last_end = kChanged + 9,
                  .last = kChanged},
                 bytes);
  StoredPermits stored;
  ASSERT_TRUE(stored.read(bytes));
  const core::Permits read = stored.buffer().view();
  ASSERT_EQ(read.entries.size(), 2u);
  EXPECT_EQ(read.entries[0].id, name);
  EXPECT_EQ(read.entries[1].end, kChanged + 9);
  EXPECT_EQ(read.units, 3u);
  EXPECT_EQ(read.last, kChanged);
  EXPECT_GT(stored.buffer().room, stored.buffer().count);
  EXPECT_FALSE(stored.read(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(stored.read(bytes.substr(0, format::kPermitsHead.size())));
}

TEST(Stored, AnAbsentKeyHasNoPermits) {
  StoredPermits stored;
  ASSERT_TRUE(stored.read(""));
  EXPECT_TRUE(stored.buffer().view().entries.empty());
  EXPECT_EQ(stored.buffer().room, 1u);
}

TEST(Stored, ABlockKeepsTheDenialsThatCount) {
  const std::vector<Ticks> denials = {kChanged - 9, kChanged - 5};
  const core::BlockState before{.last = kChanged - 5, .denials = denials};
  core::NextBlock next{.state = {.last = kChanged, .end = 7, .grown = 8, .forgotten = 9}};
  next.expired = 1;
  next.adds = true;
  std::string bytes;
  append_block(next, before, bytes);
  std::vector<Ticks> held;
  const auto read = read_block(bytes, held);
  ASSERT_TRUE(read);
  EXPECT_EQ(held, (std::vector<Ticks>{kChanged - 5, kChanged}));
  EXPECT_EQ(read->end, 7);
  EXPECT_EQ(read->grown, 8);
  EXPECT_EQ(read->forgotten, 9);
  EXPECT_FALSE(read_block(bytes.substr(1), held));
}

}  // namespace
}  // namespace sluice::redis::stored_test
