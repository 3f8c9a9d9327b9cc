#include "core/block.h"

#include <gtest/gtest.h>

#include <vector>

#include "sluice/limit.h"

namespace sluice::core {
namespace {

using namespace std::chrono_literals;

constexpr Ticks kSecond = 1'000'000;

// The block of one key, as a store keeps it.
class Key {
 public:
  explicit Key(const BlockSpec& spec) : block_(*Block::make(spec)) {}

  BlockAnswer deny(Ticks now) { return write(core::deny(block_, state().at(now), now)); }
  BlockAnswer block(Ticks now, Ticks time) {
    return write(block_for(block_, state().at(now), now, time));
  }
  Ticks left(Ticks now) const { return look(state().at(now), now).left; }
  BlockState state() const {
    BlockState whole = state_;
    whole.denials = denials_;
    return whole;
  }

 private:
  BlockAnswer write(const NextBlock& next) {
    denials_.erase(denials_.begin(), denials_.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                            next.expired, denials_.size())));
    if (next.adds) denials_.push_back(next.state.last);
    state_ = next.state;
    return next.answer;
  }

  Block block_;
  BlockState state_;
  std::vector<Ticks> denials_;
};

const BlockSpec kLogin{.after = 3, .within = 60s, .time = 10s, .growth = 200, .at_most = 35s};

TEST(Block, StartsAtTheLastOfTheDenials) {
  Key key(kLogin);
  EXPECT_EQ(key.deny(0), BlockAnswer{});
  EXPECT_EQ(key.deny(kSecond), BlockAnswer{});
  EXPECT_EQ(key.deny(2 * kSecond), (BlockAnswer{.left = 10 * kSecond, .starts = true}));
  EXPECT_EQ(key.left(12 * kSecond - 1), 1);
  EXPECT_EQ(key.left(12 * kSecond), 0);
}

TEST(Block, CountsADenialUntilItIsExactlyAsOldAsTheInterval) {
  Key key(kLogin);
  key.deny(0);
  key.deny(30 * kSecond);
  EXPECT_FALSE(key.deny(60 * kSecond).starts);
  Key other(kLogin);
  other.deny(0);
  other.deny(30 * kSecond);
  EXPECT_TRUE(other.deny(60 * kSecond - 1).starts);
}

TEST(Block, CountsInEveryIntervalAndNotInWindowsFromTheFirstDenial) {
  Key key(kLogin);
  key.deny(0);
  key.deny(59 * kSecond);
  EXPECT_FALSE(key.deny(61 * kSecond).starts);
  EXPECT_TRUE(key.deny(62 * kSecond).starts);
}

TEST(Block, CountsDenialsOfOneInstantSeparately) {
  Key key(kLogin);
  key.deny(5);
  key.deny(5);
  EXPECT_TRUE(key.deny(5).starts);
}

// Blocks the key again as soon as the previous block ends.
Ticks block_again(Key& key, Ticks now) {
  key.deny(now);
  key.deny(now);
  return key.deny(now).left;
}

TEST(Block, GrowsUpToItsMost) {
  Key key(kLogin);
  Ticks now = 0;
  for (const Ticks seconds : {10, 20, 35, 35}) {
    EXPECT_EQ(block_again(key, now), seconds * kSecond);
    now += seconds * kSecond;
  }
}

TEST(Block, StartsAnewAfterAsLongWithoutOneAsItsMost) {
  Key key(kLogin);
  EXPECT_EQ(block_again(key, 0), 10 * kSecond);
  EXPECT_EQ(block_again(key, 45 * kSecond - 1), 20 * kSecond);
  Key other(kLogin);
  EXPECT_EQ(block_again(other, 0), 10 * kSecond);
  EXPECT_EQ(block_again(other, 45 * kSecond), 10 * kSecond);
}

TEST(Block, GrowsByHundredthsRoundedUp) {
  BlockSpec spec = kLogin;
  spec.after = 1;
  spec.time = 1001us;
  spec.growth = 150;
  Key key(spec);
  EXPECT_EQ(key.deny(0).left, 1001);
  EXPECT_EQ(key.deny(1001).left, 1502);  // 1501.5
  EXPECT_EQ(key.deny(2503).left, 2253);
}

TEST(Block, NeverGrowsBeyondTheNumbersOfThePresentRules) {
  BlockSpec spec = kLogin;
  spec.after = 1;
  Key key(spec);
  key.deny(0);
  const BlockState long_ago{.end = 5, .grown = kMaxPeriod.count(), .forgotten = 100 * kSecond};
  spec.growth = kMaxBlockGrowth;
  EXPECT_EQ(deny(*Block::make(spec), long_ago, 6).answer.left, 35 * kSecond);
  const BlockState short_before{.end = 5, .grown = 1, .forgotten = 100 * kSecond};
  EXPECT_EQ(deny(*Block::make(spec), short_before, 6).answer.left, 10 * kSecond);
}

TEST(Block, CountsDenialsBeforeABlockNoMore) {
  Key key(kLogin);
  block_again(key, 0);
  EXPECT_TRUE(key.state().denials.empty());
  EXPECT_FALSE(key.deny(10 * kSecond).starts);
}

TEST(Block, ByHandReplacesAnotherAndLeavesTheGrowth) {
  Key key(kLogin);
  block_again(key, 0);
  EXPECT_EQ(key.block(kSecond, 100 * kSecond).left, 100 * kSecond);
  EXPECT_EQ(key.left(100 * kSecond), kSecond);
  EXPECT_EQ(key.block(2 * kSecond, kSecond).left, kSecond);
  EXPECT_EQ(key.left(3 * kSecond), 0);
  EXPECT_EQ(block_again(key, 3 * kSecond), 20 * kSecond);
}

TEST(Block, NeverGoesBackInTime) {
  Key key(kLogin);
  key.deny(10 * kSecond);
  key.deny(kSecond);
  EXPECT_EQ(key.state().denials.back(), 10 * kSecond);
  EXPECT_TRUE(key.deny(0).starts);
  EXPECT_EQ(key.left(0), 10 * kSecond);
}

TEST(Block, IsForgottenWhenNothingOfItMatters) {
  Key key(kLogin);
  key.deny(0);
  EXPECT_EQ(key.state().forgotten, 60 * kSecond);
  key.deny(1);
  key.deny(2);
  EXPECT_EQ(key.state().forgotten, 2 + 10 * kSecond + 35 * kSecond);
  EXPECT_EQ(key.state().at(key.state().forgotten).end, 0);
}

TEST(Block, RefusesNumbersOutOfRangeWithWhatWouldBeRight) {
  const auto error = [](auto change) {
    BlockSpec spec = kLogin;
    change(spec);
    return Block::make(spec).error();
  };
  EXPECT_EQ(error([](BlockSpec& s) { s.after = 0; }),
            "after 0 is out of range; it must be 1 to 100");
  EXPECT_EQ(error([](BlockSpec& s) { s.after = 101; }),
            "after 101 is out of range; it must be 1 to 100");
  EXPECT_EQ(error([](BlockSpec& s) { s.within = 0s; }),
            "within 0ms is out of range; it must be 1ms to 366d");
  EXPECT_EQ(error([](BlockSpec& s) { s.time = std::chrono::days{367}; }),
            "for 367d is out of range; it must be 1ms to 366d");
  EXPECT_EQ(error([](BlockSpec& s) { s.growth = 99; }),
            "grow is out of range; it must be 1 to 100");
  EXPECT_EQ(error([](BlockSpec& s) { s.at_most = 9s; }),
            "at_most 9s is out of range; it must be 10s to 366d");
}

TEST(Block, LastsAtMostADayUnlessItSaysOtherwise) {
  BlockSpec spec = kLogin;
  spec.at_most = 0s;
  EXPECT_EQ(Block::make(spec)->at_most(), 24h);
  spec.time = 48h;
  EXPECT_EQ(Block::make(spec)->at_most(), 48h);
}

}  // namespace
}  // namespace sluice::core
