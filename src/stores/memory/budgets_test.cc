#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

PermitId named(int number) { return PermitId::named("call " + std::to_string(number)); }

class MemoryBudgets : public ::testing::Test {
 protected:
  Decision one(Action action, std::uint64_t cost, const PermitId* id, Duration at = 0s) {
    return store_.apply_one(action, {.key = "k", .limit = kTen, .cost = cost, .permit = id},
                            Instant{at});
  }
  // Asks two budgets under one id.
  Decision both(Action action, std::uint64_t cost, const PermitId& id, Duration at = 0s) {
    const std::array<Charge, 2> charges{
        Charge{.key = "k", .limit = kTen, .cost = cost, .permit = &id},
        Charge{.key = "other", .limit = kFive, .cost = cost, .permit = &id}};
    return store_.apply(action, charges, Instant{at}, each_);
  }
  std::uint64_t left(std::string_view key, const Limit& limit, Duration at = 0s) {
    return store_.apply_one(Verb::kPeek, {key, limit, 0}, Instant{at}).remaining;
  }

  static constexpr Limit kTen = budget(10).per(1min);
  static constexpr Limit kFive = budget(5).per(1min);
  const PermitId first_ = named(1);
  const PermitId second_ = named(2);
  MemoryStore store_;
  std::array<Decision, 2> each_;
};

TEST_F(MemoryBudgets, HoldUnitsAndSettleThemOnce) {
  const Decision held = one({Verb::kHold, 10s}, 6, &first_);
  EXPECT_EQ(held.remaining, 4u);
  EXPECT_EQ(held.ends_after, Duration{10s});
  EXPECT_TRUE(one({Verb::kHold, 10s}, 6, &first_, 1s).repeated);
  EXPECT_EQ(one({Verb::kHold, 10s}, 7, &first_, 1s).reason, Reason::kConflict);
  EXPECT_EQ(one(Verb::kSettle, 9, &first_, 1s).remaining, 1u);
  EXPECT_TRUE(one(Verb::kSettle, 9, &first_, 2s).repeated);
  EXPECT_EQ(one(Verb::kSettle, 8, &first_, 2s).reason, Reason::kConflict);
  EXPECT_EQ(one({Verb::kExtend, 10s}, 1, &first_, 2s).reason, Reason::kGone);
  EXPECT_EQ(left("k", kTen, 2s), 1u);
}

TEST_F(MemoryBudgets, AreInvalidWithoutWhatTheyNeed) {
  const auto is_invalid = [&](Action action, const PermitId* id) {
    return one(action, 1, id).reason == Reason::kInvalid;
  };
  EXPECT_TRUE(is_invalid({Verb::kHold, 10s}, nullptr));
  EXPECT_TRUE(is_invalid(Verb::kSettle, nullptr));
  EXPECT_TRUE(is_invalid({Verb::kExtend, 10s}, nullptr));
  EXPECT_TRUE(is_invalid({Verb::kHold, 999ms}, &first_));
  EXPECT_TRUE(is_invalid({Verb::kHold, 24h + 1us}, &first_));
  EXPECT_TRUE(is_invalid({Verb::kExtend, 0s}, &first_));
  EXPECT_TRUE(is_invalid(Verb::kRelease, &first_));
  EXPECT_TRUE(is_invalid(Verb::kTakeAtMost, &first_));
  EXPECT_TRUE(is_invalid(Verb::kReserve, &first_));
  const Charge bucket{.key = "k", .limit = token_bucket(1).per(1s), .permit = &first_};
  EXPECT_EQ(store_.apply_one(Verb::kSettle, bucket, Instant{}).reason, Reason::kInvalid);
  EXPECT_TRUE(store_.apply_one({Verb::kHold, 1s}, bucket, Instant{}));
  EXPECT_EQ(left("k", kTen), 10u);
}

TEST_F(MemoryBudgets, OfOneIdAreAllOrNothing) {
  EXPECT_TRUE(both({Verb::kHold, 10s}, 3, first_));
  EXPECT_EQ(both({Verb::kHold, 10s}, 3, second_).reason, Reason::kLimited);
  EXPECT_EQ(left("k", kTen), 7u);
  EXPECT_TRUE(both({Verb::kHold, 10s}, 3, first_).repeated);
  one(Verb::kSettle, 1, &first_);
  EXPECT_EQ(both(Verb::kSettle, 2, first_).reason, Reason::kConflict);
  EXPECT_EQ(left("other", kFive), 2u) << "a conflict changes nothing";
  EXPECT_EQ(both({Verb::kExtend, 10s}, 1, first_).reason, Reason::kGone);
  EXPECT_TRUE(both(Verb::kSettle, 1, first_).repeated);
  EXPECT_EQ(left("other", kFive), 4u);
  EXPECT_EQ(left("k", kTen), 9u);
}

TEST_F(MemoryBudgets, HaveNumbersOf64Bits) {
  constexpr Limit kMost = budget(kMaxAmount).never();
  Limiter limiter(store_);
  const Decision said = limiter.try_acquire("k", kMost, kMaxAmount - 1);
  EXPECT_EQ(said.capacity, kMaxAmount);
  EXPECT_EQ(said.remaining, 1u);
  EXPECT_EQ(limiter.try_acquire("k", kMost, 2).reason, Reason::kNever);
  EXPECT_EQ(limiter.take_at_most("k", kMost, kMaxAmount).taken, 1u);
  EXPECT_EQ(limiter.try_acquire("bucket", token_bucket(5).per(1s), kMaxAmount).reason,
            Reason::kNever);
}

TEST_F(MemoryBudgets, AreOtherCountersThanThoseOfOtherAlgorithms) {
  one(Verb::kTake, 10, nullptr);
  for (const Limit& limit : {Limit(fixed_window(1).per(1min)), Limit(sliding_window_log(1).per(1s)),
                             Limit(token_bucket(1).per(1s))}) {
    EXPECT_EQ(left("k", limit), 1u);
  }
}

TEST_F(MemoryBudgets, KeepThousandsOfHoldsAndIds) {
  constexpr Limit kLarge = budget(1'000'000).per(1h).holds(65'535).remember(1s);
  const auto ask = [&](Action action, std::uint64_t cost, int number, Duration at) {
    const PermitId id = named(number);
    return store_.apply_one(action, {.key = "k", .limit = kLarge, .cost = cost, .permit = &id},
                            Instant{at});
  };
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(ask({Verb::kHold, 60s}, 10, i, 0s)) << i;
  EXPECT_EQ(left("k", kLarge), 950'000u);
  for (int i = 0; i < 5000; i += 2) ASSERT_FALSE(ask(Verb::kSettle, 5, i, 1s).late) << i;
  EXPECT_EQ(left("k", kLarge, 1s), 1'000'000u - 2500 * 5 - 2500 * 10);
  EXPECT_EQ(left("k", kLarge, 60s), 1'000'000u - 2500 * 5 - 2500 * 10);
  // All are known no more, and their places are used again.
  const std::size_t bytes = store_.stats().log_bytes;
  for (int i = 0; i < 4000; ++i) ASSERT_TRUE(ask({Verb::kHold, 60s}, 1, i, 100s)) << i;
  EXPECT_LE(store_.stats().log_bytes, bytes + bytes / 2);
  EXPECT_EQ(left("k", kLarge, 100s), 1'000'000u - 2500 * 5 - 2500 * 10 - 4000);
}

TEST_F(MemoryBudgets, TakeFewBytes) {
  constexpr Limit kLarge = budget(1'000'000).per(1h).holds(65'535);
  for (int i = 0; i < 60'000; ++i) {
    const PermitId id = named(i);
    const Charge charge{.key = "k", .limit = kLarge, .permit = &id};
    ASSERT_TRUE(store_.apply_one({Verb::kHold, 60s}, charge, Instant{}));
  }
  // 40 bytes each, in a piece that has grown by half at most, of which a seventh is free.
  EXPECT_LE(store_.stats().log_bytes, 60'000u * 48 * 3 / 2);
}

TEST_F(MemoryBudgets, AreInASnapshot) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("sluice-budgets-" + std::to_string(::getpid())))
          .string();
  one({Verb::kHold, 10s}, 6, &first_);
  one({Verb::kHold, 30s}, 2, &second_);
  one(Verb::kSettle, 1, &first_, 1s);
  const PermitId cancelled = PermitId::named("cancelled");
  const PermitId charged = PermitId::named("charged");
  const PermitId released = PermitId::named("released");
  one(Verb::kCancel, 0, &cancelled, 1s);
  const auto expire = [&](std::string_view key, const Limit& limit, const PermitId& id) {
    const Charge charge{.key = key, .limit = limit, .cost = 1, .permit = &id};
    store_.apply_one({Verb::kHold, 1s}, charge, Instant{0s});
    store_.apply_one(Verb::kTake, {key, limit, 1}, Instant{1s});
  };
  expire("charged", budget(5).never(), charged);
  expire("released", budget(5).never().releasing_unsettled(), released);
  constexpr Limit kBalance = budget(7).never();
  store_.apply_one(Verb::kTake, {"balance", kBalance, 3}, Instant{1s});
  ASSERT_TRUE(store_.save(path, Instant{1s}));
  MemoryStore restored;
  ASSERT_TRUE(restored.load(path, Instant{1s}));
  std::filesystem::remove(path);
  const auto ask = [&](Action action, std::uint64_t cost, const PermitId& id, Duration at) {
    return restored.apply_one(action, {.key = "k", .limit = kTen, .cost = cost, .permit = &id},
                              Instant{at});
  };
  EXPECT_TRUE(ask(Verb::kSettle, 1, first_, 2s).repeated);
  EXPECT_TRUE(ask(Verb::kCancel, 0, cancelled, 2s).repeated);
  const Charge ended[] = {
      {.key = "charged", .limit = budget(5).never(), .cost = 2, .permit = &charged},
      {.key = "released", .limit = budget(5).never(), .cost = 2, .permit = &released}};
  for (const Charge& charge : ended) {
    const Decision settled = restored.apply_one(Verb::kSettle, charge, Instant{1s});
    EXPECT_TRUE(settled.late) << charge.key;
    EXPECT_EQ(settled.remaining, 2u) << "1 was taken, and 2 for the call: " << charge.key;
  }
  const Decision held = ask({Verb::kHold, 30s}, 2, second_, 2s);
  EXPECT_TRUE(held.repeated);
  EXPECT_EQ(held.ends_after, Duration{28s});
  EXPECT_EQ(held.remaining, 7u);
  EXPECT_EQ(ask(Verb::kSettle, 0, second_, 31s).remaining, 9u);
  EXPECT_EQ(restored.apply_one(Verb::kPeek, {"balance", kBalance, 0}, Instant{2s}).remaining, 4u);
}

}  // namespace
}  // namespace sluice
