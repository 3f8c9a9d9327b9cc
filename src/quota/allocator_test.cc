#include "quota/allocator.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace sluice::quota::allocator_test {

using namespace std::chrono_literals;

std::vector<std::uint64_t> divided(const std::vector<Claim>& claims, std::uint64_t total) {
  std::vector<std::uint64_t> parts(claims.size());
  divide(claims, total, parts);
  return parts;
}

TEST(Divide, GivesNobodyMoreThanItAsksForAndTheRestToThoseWhoAskForMore) {
  EXPECT_EQ(divided({{10, 1, 0}, {80, 1, 0}, {500, 1, 0}}, 100),
            (std::vector<std::uint64_t>{10, 45, 45}));
}

TEST(Divide, SharesByWeight) {
  EXPECT_EQ(divided({{500, 1, 0}, {500, 3, 0}}, 100), (std::vector<std::uint64_t>{25, 75}));
}

TEST(Divide, GivesASmallPartToThoseWhoAskForNothing) {
  EXPECT_EQ(divided({{0, 1, 10}, {500, 1, 10}}, 100), (std::vector<std::uint64_t>{10, 90}));
}

TEST(Divide, KeepsASmallPartAboveTheOthers) {
  EXPECT_EQ(divided({{500, 1, 40}, {500, 9, 0}}, 100), (std::vector<std::uint64_t>{40, 60}));
}

TEST(Divide, ScalesSmallPartsDownThatAreMoreThanTheTotal) {
  EXPECT_EQ(divided({{0, 1, 80}, {0, 1, 80}}, 100), (std::vector<std::uint64_t>{50, 50}));
}

TEST(Divide, GivesWhatOthersLeaveToAClaimWithALargeSmallPart) {
  EXPECT_EQ(divided({{500, 1, 40}, {10, 1, 0}, {10, 1, 0}}, 100),
            (std::vector<std::uint64_t>{80, 10, 10}));
}

class AllocatorTest : public ::testing::Test {
 protected:
  void report(Allocator::Id id, std::uint64_t asked) {
    parts_.report(id, {.asked = asked, .at_least = 0}, now_);
  }
  // Sends what is planned, to all of these.
  void send(std::initializer_list<Allocator::Id> ids) {
    static_cast<void>(parts_.plan(kWhole, now_));
    for (const auto id : ids) parts_.sent(id, parts_.planned(id), 10s, now_);
  }

  Instant now_{std::chrono::hours{1}};
  Allocator parts_{std::chrono::seconds{1}};
};

TEST_F(AllocatorTest, LowersAPartBeforeItRaisesAnother) {
  report(1, kWhole);
  send({1});
  EXPECT_EQ(parts_.assigned(1), kWhole);
  report(2, kWhole);
  send({1, 2});
  EXPECT_EQ(parts_.assigned(1), kWhole / 2);
  EXPECT_EQ(parts_.assigned(2), 0);  // the other may still use the whole
  now_ += 5s;
  report(1, kWhole);  // confirms
  send({1, 2});
  EXPECT_EQ(parts_.assigned(2), kWhole / 2);
}

TEST_F(AllocatorTest, AReportThatCameTooEarlyConfirmsNothing) {
  report(1, kWhole);
  send({1});
  report(2, kWhole);
  send({1, 2});
  now_ += 999ms;
  report(1, kWhole);
  EXPECT_EQ(parts_.held(1), kWhole);
}

TEST_F(AllocatorTest, AnExpiredPartIsFree) {
  report(1, kWhole);
  send({1});
  parts_.remove(1);
  report(2, kWhole);
  now_ += 10s;
  send({2});
  EXPECT_EQ(parts_.assigned(2), 0);
  now_ += 1s;
  send({2});
  EXPECT_EQ(parts_.assigned(2), kWhole);
}

TEST_F(AllocatorTest, LeavesLessThanATwentiethUnused) {
  report(1, kWhole);
  parts_.plan(kWhole / 1000 * 945, now_);
  parts_.sent(1, parts_.planned(1), 10s, now_);
  send({1});
  EXPECT_GE(parts_.assigned(1), kWhole / 100 * 95);
}

TEST_F(AllocatorTest, DemandFallsToHalfOfThePart) {
  report(1, 5 * kWhole);
  send({1});
  report(1, 0);
  EXPECT_EQ(parts_.asked(1), kWhole / 2);
  send({1});
  report(1, 0);
  EXPECT_EQ(parts_.asked(1), kWhole / 4);
}

TEST_F(AllocatorTest, ManyWhoAskForLittleDoNotKeepTheLimitFromOneWhoNeedsIt) {
  for (Allocator::Id id = 1; id <= 100; ++id) {
    const std::uint64_t asked = id == 1 ? kWhole : kWhole / 1000;
    parts_.report(id, {.asked = asked, .at_least = kWhole / 100}, now_);
  }
  static_cast<void>(parts_.plan(kWhole, now_));
  EXPECT_GE(parts_.planned(1), kWhole / 100 * 89);  // they ask for 9.9 %, and get 1 % more
  EXPECT_GT(parts_.planned(2), kWhole / 1000);
}

TEST_F(AllocatorTest, GivesALittleToWhoAsksForThatIfLeastPartsDoNotFit) {
  for (Allocator::Id id = 1; id <= 20; ++id) {
    const std::uint64_t asked = id == 1 ? kWhole / 100 : kWhole;
    parts_.report(id, {.asked = asked, .at_least = kWhole / 10}, now_);
  }
  static_cast<void>(parts_.plan(kWhole, now_));
  EXPECT_GE(parts_.planned(1), kWhole / 100);
}

TEST_F(AllocatorTest, LeastPartsThatHardlyFitDoNotComeAndGo) {
  for (Allocator::Id id = 1; id <= 10; ++id) {
    parts_.report(id, {.asked = kWhole, .weight = id, .at_least = kWhole / 10}, now_);
  }
  static_cast<void>(parts_.plan(kWhole / 100 * 99, now_));
  EXPECT_LT(parts_.planned(1), kWhole / 50);  // they do not fit: by weight
  static_cast<void>(parts_.plan(kWhole, now_));
  EXPECT_LT(parts_.planned(1), kWhole / 50);
}

TEST_F(AllocatorTest, AShorterTimeOfTheSamePartDoesNotEndItEarlier) {
  report(1, kWhole);
  send({1});
  parts_.sent(1, kWhole, 1s, now_);  // its message may be lost
  EXPECT_EQ(parts_.last_use(), now_ + 11s);
}

TEST_F(AllocatorTest, SaysWhatASubscriberWouldGetIfItAskedForAll) {
  const auto percent = [&](Allocator::Id id) {
    return static_cast<double>(parts_.available(id)) * 100 / static_cast<double>(kWhole);
  };
  EXPECT_GT(percent(1), 100);  // there was no plan
  report(1, kWhole / 10);
  report(2, kWhole / 10 * 4);
  send({1, 2});
  EXPECT_NEAR(percent(1), 60, 0.01);
  report(2, kWhole);
  report(3, 2 * kWhole);
  now_ += 5s;
  send({1, 2, 3});
  EXPECT_NEAR(percent(1), 45, 0.01);
  EXPECT_NEAR(percent(3), 45, 0.01);
  // A third more than the total would be there for those who ask for it.
  static_cast<void>(parts_.plan(kWhole * 3 / 4, now_, kWhole / 4));
  EXPECT_NEAR(percent(3), (75 - 10) / 2. * 4 / 3, 0.1);
  for (const Allocator::Id id : {2, 3}) report(id, kWhole / 10);
  now_ += 5s;
  static_cast<void>(parts_.plan(kWhole * 3 / 4, now_, kWhole / 4));
  EXPECT_GT(percent(1), 45);
}

TEST_F(AllocatorTest, NobodyIsLoweredForOneWhoComesBack) {
  report(1, kWhole / 2);
  report(2, kWhole / 2);
  send({1, 2});
  parts_.remove(1);
  for (int i = 0; i < 4; ++i) {  // 8 s
    report(3, kWhole / 2);
    parts_.come_back(3);
    report(2, kWhole / 2);
    send({2});
    EXPECT_TRUE(parts_.has_gone());
    EXPECT_EQ(parts_.assigned(2), kWhole / 2);
    EXPECT_EQ(parts_.planned(3), 0);
    now_ += 2s;
  }
  now_ += 3s;  // the old part has expired
  report(2, kWhole / 2);
  send({2, 3});
  EXPECT_FALSE(parts_.has_gone());
  EXPECT_EQ(parts_.assigned(3), kWhole / 2);
}

TEST_F(AllocatorTest, WhoAsksWithoutAReportConfirmsNothing) {
  report(1, kWhole);
  send({1});
  report(2, kWhole);
  send({1, 2});
  now_ += 5s;
  parts_.ask(1, {.asked = kWhole});
  EXPECT_EQ(parts_.held(1), kWhole);
}

TEST_F(AllocatorTest, NeverHoldsMoreThanTheTotal) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const Allocator::Id id = random() % 20;
    now_ += std::chrono::milliseconds{random() % 2000};
    if (random() % 10 == 0) parts_.remove(id);
    parts_.report(id, {.asked = random() % (2 * kWhole), .weight = 1 + random() % 3}, now_);
    static_cast<void>(parts_.plan(kWhole, now_));
    for (Allocator::Id other = 0; other < 20; ++other) {
      if (random() % 3 > 0) parts_.sent(other, parts_.planned(other), 5s, now_);
    }
    ASSERT_LE(parts_.held(now_), kWhole) << i;
  }
}

}  // namespace sluice::quota::allocator_test
