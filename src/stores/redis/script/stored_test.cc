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
  std::vector<std::uint64_t> memory;
  core::PermitBuffer* const stored = read_permits(bytes, memory);
  ASSERT_NE(stored, nullptr);
  const core::Permits read = stored->view();
  ASSERT_EQ(read.entries.size(), 2u);
  EXPECT_EQ(read.entries[0].id, name);
  EXPECT_EQ(read.entries[1].end, kChanged + 9);
  EXPECT_EQ(read.units, 3u);
  EXPECT_EQ(read.last, kChanged);
  EXPECT_GT(stored->room, stored->count);
  EXPECT_EQ(read_permits(bytes.substr(0, bytes.size() - 1), memory), nullptr);
  EXPECT_EQ(read_permits(bytes.substr(0, format::kPermitsHead.size()), memory), nullptr);
}

TEST(Stored, AnAbsentKeyHasNoPermits) {
  std::vector<std::uint64_t> memory;
  core::PermitBuffer* const stored = read_permits("", memory);
  ASSERT_NE(stored, nullptr);
  EXPECT_TRUE(stored->view().entries.empty());
  EXPECT_EQ(stored->room, 1u);
}

TEST(Stored, IdsOfABudgetAreReadAsTheyWereWritten) {
  const core::HoldName name(PermitId(PermitId::Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  const std::vector<core::IdRecord> ids = {
      {name, core::IdKind::kCancelled, kMaxAmount, (std::uint64_t{1} << 56) - 1},
      {core::HoldName(), core::IdKind::kOpen, 3, kChanged}};
  std::string bytes;
  append_ids(ids, bytes);
  EXPECT_EQ(bytes.substr(0, format::kHoldIdSize), "\1\2\3\4\5\6\7\10\11\12");
  std::vector<core::IdRecord> read;
  ASSERT_TRUE(read_ids(bytes, read));
  ASSERT_EQ(read.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(read[i].name(), ids[i].name());
    EXPECT_EQ(read[i].kind(), ids[i].kind());
    EXPECT_EQ(read[i].amount(), ids[i].amount());
    EXPECT_EQ(read[i].rest(), ids[i].rest());
  }
  EXPECT_FALSE(read_ids(bytes.substr(1), read));
}

TEST(Stored, AHeadOfABudgetIsRefusedIfScriptsRefuseIt) {
  const format::BudgetHead head{.kind = format::kBudgetKind,
                                .changed = kChanged,
                                .spent = 1,
                                .held = 2,
                                .latest = kChanged + 9,
                                .first = kChanged + 5,
                                .known = 3,
                                .forgotten = kForgotten.multiple(),
                                .open = 4,
                                .past = 5,
                                .ended = 6,
                                .open_cells = 7,
                                .ended_cells = 8};
  const auto read = [](const format::BudgetHead& written) {
    std::string bytes;
    format::kBudgetHead.append(written, bytes);
    return read_budget_head(bytes);
  };
  ASSERT_TRUE(read(head));
  EXPECT_EQ(read(head)->ended_cells, 8u);
  const auto refused = [&](std::uint64_t format::BudgetHead::* member, std::uint64_t number) {
    format::BudgetHead other = head;
    other.*member = number;
    return !read(other);
  };
  EXPECT_TRUE(refused(&format::BudgetHead::kind, format::kPermitsKind));
  EXPECT_TRUE(refused(&format::BudgetHead::changed, format::kEndOfInstants));
  EXPECT_TRUE(refused(&format::BudgetHead::forgotten, 1));
  EXPECT_TRUE(refused(&format::BudgetHead::spent, kMaxAmount + 1));
  EXPECT_TRUE(refused(&format::BudgetHead::held, kMaxAmount + 1));
  EXPECT_TRUE(refused(&format::BudgetHead::open_cells, 0));
  EXPECT_TRUE(refused(&format::BudgetHead::open_cells, 10'000));
  EXPECT_TRUE(refused(&format::BudgetHead::ended_cells, 0));
  EXPECT_FALSE(read_budget_head(""));
}

// Borrows the texts.
std::optional<LedgerEntry> read_entry(const std::vector<std::string>& texts) {
  std::vector<Reply> words(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    words[i].type = Reply::kString;
    words[i].text = texts[i];
  }
  Reply fields;
  fields.type = Reply::kArray;
  fields.count = words.size();
  fields.first = words.data();
  return read_ledger_entry(fields);
}

TEST(Stored, AnEntryOfALedgerIsReadAsItWasWritten) {
  LedgerEntry entry{.kind = LedgerKind::kHold,
                    .on_expiry = OnExpiry::kRelease,
                    .is_new = true,
                    .id = "call",
                    .hash = IdHash{0, 1, 2},
                    .at = Instant{Duration{kChanged}},
                    .window = Instant{Duration{kChanged - 9}},
                    .ends = Instant{Duration{kChanged + 9}},
                    .limit = kMaxAmount,
                    .spent = -1,
                    .held = 2,
                    .spent_after = 3,
                    .held_after = 4};
  const std::vector<std::string> texts = fields_of(entry);
  const auto written = read_entry(texts);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->kind, entry.kind);
  EXPECT_EQ(written->on_expiry, entry.on_expiry);
  EXPECT_EQ(written->is_new, entry.is_new);
  EXPECT_EQ(written->id, entry.id);
  EXPECT_EQ(written->hash, entry.hash);
  EXPECT_EQ(written->at, entry.at);
  EXPECT_EQ(written->window, entry.window);
  EXPECT_EQ(written->ends, entry.ends);
  EXPECT_EQ(written->limit, entry.limit);
  EXPECT_EQ(written->spent, entry.spent);
  EXPECT_EQ(written->held, entry.held);
  EXPECT_EQ(written->spent_after, entry.spent_after);
  EXPECT_EQ(written->held_after, entry.held_after);
  entry.kind = LedgerKind::kTake;
  entry.is_new = false;
  entry.hash.reset();
  const std::vector<std::string> other = fields_of(entry);
  const auto take = read_entry(other);
  ASSERT_TRUE(take);
  EXPECT_EQ(take->kind, entry.kind);
  EXPECT_FALSE(take->is_new);
  EXPECT_FALSE(take->hash);
  EXPECT_EQ(take->ends, Instant{}) << "only holds have an end";
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
