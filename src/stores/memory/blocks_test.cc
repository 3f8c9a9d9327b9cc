#include "stores/memory/shard.h"

#include <gtest/gtest.h>

#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"
#include "sluice/testing/manual_clock.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;

const Block kBlock =
    *Block::make({.after = 2, .within = 10min, .time = 15min, .growth = 200, .at_most = 24h});

class BlocksOfStore : public ::testing::Test {
 protected:
  Charge charge(std::string_view key = "k", const Limit& limit = fixed_window(1).per(1min),
                std::uint64_t cost = 1) const {
    return {.key = key, .limit = limit, .cost = cost, .block = &kBlock};
  }
  Decision take(std::string_view key = "k") { return apply(Verb::kTake, charge(key)); }
  Decision apply(Action action, const Charge& one) { return store_.apply_one(action, one, {}); }
  void block() {
    take();
    take();
    take();
  }

  ManualClock clock_;
  MemoryStore store_{{}, clock_};
};

TEST_F(BlocksOfStore, TheDenialThatStartsABlockSaysForHowLong) {
  EXPECT_TRUE(take());
  const Decision first = take();
  EXPECT_EQ(first.reason, Reason::kLimited);
  EXPECT_EQ(first.retry_after, 1min);
  const Decision second = take();
  EXPECT_EQ(second.reason, Reason::kBlocked);
  EXPECT_TRUE(second.starts_block);
  EXPECT_EQ(second.retry_after, 15min);
  EXPECT_EQ(second.remaining, 0u);
}

TEST_F(BlocksOfStore, ABlockStartsOnceInDecisionsThatAreUsedAgain) {
  const Charge charges[] = {charge("a"), charge("b")};
  Decision each[2];
  for (int i = 0; i < 3; ++i) store_.apply(Verb::kTake, charges, {}, each);
  EXPECT_TRUE(each[0].starts_block);
  const Charge others[] = {charge("c"), {.key = "d", .limit = fixed_window(1).per(1min)}};
  EXPECT_FALSE(store_.apply(Verb::kTake, others, {}, each).starts_block);
  EXPECT_FALSE(each[0].starts_block);
}

TEST_F(BlocksOfStore, DeniesUntilExactlyRetryAfter) {
  block();
  clock_.advance(15min - 1us);
  const Decision last = take();
  EXPECT_EQ(last.reason, Reason::kBlocked);
  EXPECT_FALSE(last.starts_block);
  EXPECT_EQ(last.retry_after, 1us);
  clock_.advance(1us);
  EXPECT_TRUE(take());
}

TEST_F(BlocksOfStore, DenialsWhileBlockedDoNotExtendIt) {
  block();
  for (int i = 0; i < 20; ++i) take();
  EXPECT_EQ(take().retry_after, 15min);
}

TEST_F(BlocksOfStore, WaitsForTheLimitTooIfThatTakesLonger) {
  const Limit daily = fixed_window(1).per(24h);
  apply(Verb::kTake, charge("k", daily));
  apply(Verb::kTake, charge("k", daily));
  const Decision said = apply(Verb::kTake, charge("k", daily));
  EXPECT_EQ(said.reason, Reason::kBlocked);
  EXPECT_EQ(said.retry_after, 24h);
}

TEST_F(BlocksOfStore, APeekAnswersBlockedAndCountsNothing) {
  take();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(apply(Verb::kPeek, charge()).reason, Reason::kLimited);
  EXPECT_EQ(take().reason, Reason::kLimited);
  take();
  EXPECT_EQ(apply(Verb::kPeek, charge()).reason, Reason::kBlocked);
}

TEST_F(BlocksOfStore, ACostOfNothingIsNeverDenied) {
  block();
  const Decision said = apply(Verb::kTake, charge("k", fixed_window(1).per(1min), 0));
  EXPECT_TRUE(said);
  EXPECT_EQ(said.remaining, 0u);
}

TEST_F(BlocksOfStore, ACostThatNeverFitsDoesNotCount) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(apply(Verb::kTake, charge("k", fixed_window(1).per(1min), 2)).reason, Reason::kNever);
  }
  EXPECT_TRUE(take());
}

TEST_F(BlocksOfStore, AChargeOfWorkThatIsDoneIsNotBlocked) {
  block();
  EXPECT_EQ(apply(Verb::kCharge, charge()).reason, Reason::kOver);
}

TEST_F(BlocksOfStore, ARefundDoesNotUnblockAndAResetDoes) {
  block();
  apply(Verb::kRefund, charge());
  EXPECT_EQ(take().reason, Reason::kBlocked);
  apply(Verb::kReset, charge());
  EXPECT_TRUE(take());
}

TEST_F(BlocksOfStore, DenialsOfTakeAtMostAndOfReservationsOfBucketsCount) {
  const Limit bucket = token_bucket(1).per(1min);
  const auto both = [&](Action action) {
    apply(Verb::kUnblock, charge("b", bucket));
    apply(action, charge("b", bucket));
    apply(action, charge("b", bucket));
    return apply(action, charge("b", bucket)).reason;
  };
  EXPECT_EQ(both(Verb::kTakeAtMost), Reason::kBlocked);
  EXPECT_EQ(both(Action(Verb::kReserve, 1s)), Reason::kBlocked);
}

TEST_F(BlocksOfStore, AReservationThatMayStillWaitDoesNotCount) {
  for (int i = 0; i < 9; ++i) apply({Verb::kReserve, 1s}, charge());
  EXPECT_EQ(take().reason, Reason::kLimited);
}

TEST_F(BlocksOfStore, CountsOnlyTheLimitThatDenies) {
  const Limit wide = fixed_window(100).per(1min);
  const std::vector<Charge> both{charge(), charge("other", wide)};
  std::vector<Decision> each(2);
  for (int i = 0; i < 3; ++i) store_.apply(Verb::kTake, both, {}, each);
  EXPECT_EQ(each[0].reason, Reason::kBlocked);
  EXPECT_EQ(each[1].reason, Reason::kOk);
  EXPECT_EQ(each[1].remaining, 99u);
  const Decision all = store_.apply(Verb::kTake, both, {}, each);
  EXPECT_EQ(all.reason, Reason::kBlocked);
  EXPECT_EQ(all.retry_after, 15min);
}

TEST_F(BlocksOfStore, ARequestThatABlockDeniesCountsNoOtherDenial) {
  block();
  apply(Verb::kTake, charge("other"));
  const std::vector<Charge> both{charge(), charge("other")};
  std::vector<Decision> each(2);
  for (int i = 0; i < 9; ++i) store_.apply(Verb::kTake, both, {}, each);
  EXPECT_EQ(each[1].reason, Reason::kLimited);
  EXPECT_EQ(take("other").reason, Reason::kLimited);
}

TEST_F(BlocksOfStore, TwoChargesOnACounterAreOneDenial) {
  const std::vector<Charge> both{charge("k", fixed_window(3).per(1min)),
                                 charge("k", fixed_window(3).per(1min))};
  std::vector<Decision> each(2);
  EXPECT_TRUE(store_.apply(Verb::kTake, both, {}, each));
  EXPECT_EQ(store_.apply(Verb::kTake, both, {}, each).reason, Reason::kLimited);
  EXPECT_EQ(store_.apply(Verb::kTake, both, {}, each).reason, Reason::kBlocked);
}

TEST_F(BlocksOfStore, RefusesOneCounterWithTwoBlocks) {
  const Block other = *Block::make({.after = 3, .within = 1s, .time = 1s});
  std::vector<Charge> both{charge(), charge()};
  both[1].block = &other;
  std::vector<Decision> each(2);
  EXPECT_EQ(store_.apply(Verb::kTake, both, {}, each).reason, Reason::kInvalid);
  EXPECT_EQ(store_.apply({Verb::kBlock, 1h}, both, {}, each).reason, Reason::kInvalid);
  EXPECT_TRUE(take()) << "it is not blocked";
  both[1].block = nullptr;
  EXPECT_EQ(store_.apply(Verb::kTake, both, {}, each).reason, Reason::kInvalid);
}

TEST_F(BlocksOfStore, BlocksAndUnblocksByHand) {
  const Decision said = apply({Verb::kBlock, 1h}, charge());
  EXPECT_TRUE(said);
  EXPECT_EQ(said.reset_after, 1h);
  EXPECT_EQ(take().retry_after, 1h);
  EXPECT_TRUE(apply(Verb::kUnblock, charge()));
  EXPECT_TRUE(take());
}

TEST_F(BlocksOfStore, RefusesToBlockWithoutABlockOrALength) {
  Charge plain = charge();
  plain.block = nullptr;
  EXPECT_EQ(apply({Verb::kBlock, 1h}, plain).reason, Reason::kInvalid);
  EXPECT_EQ(apply(Verb::kUnblock, plain).reason, Reason::kInvalid);
  EXPECT_EQ(apply(Verb::kBlock, charge()).reason, Reason::kInvalid);
  EXPECT_EQ(apply({Verb::kBlock, std::chrono::days{367}}, charge()).reason, Reason::kInvalid);
}

TEST_F(BlocksOfStore, RefusesToBlockByAChargeThatGivesBack) {
  Charge back = charge();
  back.gives_back = true;
  EXPECT_EQ(apply({Verb::kBlock, 1h}, back).reason, Reason::kInvalid);
  EXPECT_TRUE(take()) << "it is not blocked";
  EXPECT_TRUE(apply({Verb::kBlock, 1h}, charge()));
  EXPECT_EQ(apply(Verb::kUnblock, back).reason, Reason::kInvalid);
  EXPECT_EQ(take().reason, Reason::kBlocked) << "it is still blocked";
}

TEST_F(BlocksOfStore, ServesEveryAlgorithm) {
  const PermitId permit = PermitId::random();
  const Limit limits[] = {fixed_window(1).per(1h),
                          sliding_window_log(1).per(1h),
                          sliding_window_counter(1).per(1h),
                          sliding_window_hybrid(1).per(1h),
                          leaky_bucket(1).per(1h),
                          token_bucket(1).per(1h),
                          gcra(1).per(1h),
                          concurrency(1).lease(1h)};
  for (const Limit& limit : limits) {
    Charge one = charge("each", limit);
    one.permit = &permit;
    EXPECT_TRUE(apply(Verb::kTake, one));
    EXPECT_EQ(apply(Verb::kTake, one).reason, Reason::kLimited);
    EXPECT_TRUE(apply(Verb::kTake, one).starts_block) << to_string(limit.algorithm());
  }
}

TEST_F(BlocksOfStore, BlockedKeysAreListed) {
  EXPECT_TRUE(store_.blocked(10).empty());
  block();
  take("denied");
  take("denied");
  Charge by_hand = charge("by hand");
  by_hand.tag = "t";
  by_hand.rule.keyspace = Keyspace::kRules;
  EXPECT_TRUE(apply({Verb::kBlock, 1h}, by_hand));
  const std::string longest(2049, 'x');
  EXPECT_TRUE(apply({Verb::kBlock, 1h}, charge(longest)));
  auto found = store_.blocked(10);
  ASSERT_EQ(found.size(), 2U);
  if (found[0].key == "k") std::swap(found[0], found[1]);
  EXPECT_EQ(found[0].key, "by hand");
  EXPECT_EQ(found[0].tag, "t");
  EXPECT_EQ(found[0].keyspace, Keyspace::kRules);
  EXPECT_EQ(found[0].until, clock_.now() + 1h);
  EXPECT_EQ(found[1].key, "k");
  EXPECT_EQ(found[1].until, clock_.now() + 15min);
  EXPECT_EQ(store_.blocked(1).size(), 1U);
  clock_.advance(15min);
  EXPECT_EQ(store_.blocked(10).size(), 1U);
  EXPECT_TRUE(apply(Verb::kUnblock, by_hand));
  EXPECT_TRUE(store_.blocked(10).empty());
}

const Charge kDenied{.key = "k", .limit = fixed_window(1).per(1min), .block = &kBlock};

// The first word of a fingerprint of blocks_test names it, the second one its part.
memory::Fingerprint fingerprint_of(std::uint64_t number) { return {number, number << 32}; }

class FullBlocks : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRoom = 4096;  // entries without names
  static constexpr core::Ticks kNow = 1;

  // A charge of the limit with this id.
  static Charge of(std::uint32_t limit) {
    return {.key = "k",
            .limit = fixed_window(1).per(1min),
            .block = &kBlock,
            .rule = {.limit_id = limit}};
  }
  void deny(std::uint64_t first, std::uint64_t count, std::uint32_t limit) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      for (int j = 0; j < 2; ++j) blocks_.deny(fingerprint_of(i), of(limit), kNow);
    }
  }
  void block(std::uint64_t first, std::uint64_t count, std::uint32_t limit) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      blocks_.block(fingerprint_of(i), of(limit), core::Ticks{3'600'000'000}, kNow);
    }
  }
  std::uint64_t blocked(std::uint64_t first, std::uint64_t count) const {
    std::uint64_t found = 0;
    for (std::uint64_t i = first; i < first + count; ++i) {
      found += blocks_.look(fingerprint_of(i), kNow).left > 0 ? 1 : 0;
    }
    return found;
  }

  memory::Blocks blocks_{kRoom * memory::Blocks::kEntryBytes};
};

TEST_F(FullBlocks, AFloodOfOneLimitFreesNoKeyOfAnother) {
  deny(1, 50, 1);
  block(101, 20, 2);
  deny(1001, 10 * kRoom, 3);
  EXPECT_EQ(blocked(1, 50), 50u);
  EXPECT_EQ(blocked(101, 20), 20u);
  EXPECT_GT(blocked(1001, 10 * kRoom), kRoom / 3);
  EXPECT_LE(blocks_.bytes(), (kRoom + 20) * memory::Blocks::kEntryBytes);
  EXPECT_GT(blocks_.freed(), 8 * kRoom);
}

TEST_F(FullBlocks, AFloodFreesNoKeyOfItsOwnLimitThatIsBlockedByHand) {
  block(101, 20, 1);
  deny(1001, 10 * kRoom, 1);
  EXPECT_EQ(blocked(101, 20), 20u);
}

TEST_F(FullBlocks, BlocksByHandGiveWayToOthersByHandOnly) {
  block(1, 10 * kRoom, 1);
  EXPECT_GT(blocked(1, 10 * kRoom), kRoom / 3);
  const std::uint64_t freed = blocks_.freed();
  const std::size_t size = blocks_.size();
  EXPECT_GT(freed, 0u);
  deny(1 + 10 * kRoom, kRoom, 2);
  EXPECT_EQ(blocks_.freed(), freed);
  EXPECT_EQ(blocks_.size(), size);
}

TEST_F(FullBlocks, ALostKeyOfASnapshotCountsByWhatItHad) {
  block(1, 10 * kRoom, 1);
  const std::uint64_t evictions = blocks_.evictions();
  const std::uint64_t freed = blocks_.freed();
  const auto lose = [&](std::uint64_t key, const core::BlockState& state) {
    EXPECT_TRUE(blocks_.restore(fingerprint_of(key), {.state = state, .limit = 2}, kNow));
    EXPECT_FALSE(blocks_.contains(fingerprint_of(key)));
  };
  constexpr core::Ticks kLater = kNow + 3'600'000'000;
  lose(1'000'001, {.last = kNow, .end = kLater, .grown = 1, .forgotten = kLater});
  EXPECT_EQ(blocks_.evictions(), evictions + 1) << "a blocked key";
  EXPECT_EQ(blocks_.freed(), freed + 1);
  lose(1'000'002, {.last = kNow, .forgotten = kLater});
  EXPECT_EQ(blocks_.evictions(), evictions + 2) << "a key with denials";
  EXPECT_EQ(blocks_.freed(), freed + 1);
  lose(1'000'003, {.last = kNow, .forgotten = kNow});
  EXPECT_EQ(blocks_.evictions(), evictions + 2) << "a forgotten key";
  EXPECT_EQ(blocks_.freed(), freed + 1);
}

TEST_F(FullBlocks, AKeyThatIsUnblockedAndDeniedAgainIsNotBlockedByHand) {
  block(1, 20, 1);
  for (std::uint64_t i = 1; i <= 20; ++i) blocks_.erase(fingerprint_of(i));
  deny(1, 20, 1);
  deny(1001, 10 * kRoom, 1);
  EXPECT_LT(blocked(1, 20), 20u);
}

TEST_F(FullBlocks, MoreLimitsThanPoolsShareThem) {
  for (std::uint32_t limit = 1; limit <= 2100; ++limit) deny(limit, 1, limit);
  deny(10'001, 10 * kRoom, 4000);
  EXPECT_LE(blocks_.bytes(), (kRoom + 20) * memory::Blocks::kEntryBytes);
  EXPECT_EQ(blocked(1, 2000), 2000u);
}

TEST_F(FullBlocks, AreInPartsOfBoundedSize) {
  deny(1, 2 * kRoom, 1);
  ASSERT_GT(blocks_.parts(), 1u);
  std::size_t seen = 0;
  for (std::size_t part = 0; part < blocks_.parts(); ++part) {
    std::size_t in_part = 0;
    blocks_.for_each_in(part, [&](const auto&, const auto&) { ++in_part; });
    EXPECT_LE(in_part * memory::Blocks::kEntryBytes, memory::Blocks::kPartBytes);
    seen += in_part;
  }
  EXPECT_EQ(seen, blocks_.size());
}

TEST(Blocks, StayWithinTheirBytesAndKeepTheBlockedKeys) {
  memory::Blocks blocks(64 * memory::Blocks::kEntryBytes);
  const memory::Fingerprint blocked{1, 1};
  ASSERT_TRUE(blocks.block(blocked, kDenied, core::Ticks{1} << 40, 0));
  for (std::uint64_t i = 2; i < 10'000; ++i) blocks.deny({i, i}, kDenied, 0);
  EXPECT_LE(blocks.bytes(), 65 * (memory::Blocks::kEntryBytes + 16));
  EXPECT_GT(blocks.evictions(), 9000u);
  EXPECT_GT(blocks.look(blocked, 1).left, 0);
}

TEST(Blocks, DropForgottenEntriesInTheCourseOfTime) {
  memory::Blocks blocks(std::size_t{1} << 30);
  for (std::uint64_t i = 1; i <= 1000; ++i) blocks.deny({i, i}, kDenied, 0);
  const core::Ticks later = kBlock.within().count();
  for (std::uint64_t i = 1001; i <= 3000; ++i) blocks.deny({i, i}, kDenied, later);
  EXPECT_LE(blocks.size(), 2100u);
  EXPECT_EQ(blocks.evictions(), 0u);
}

}  // namespace
}  // namespace sluice
