#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/block.h"
#include "sluice/hold.h"
#include "sluice/ledger.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"
#include "sluice/reservation.h"

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

// Two budgets in a row.
class MemoryBudgetsInARow : public MemoryBudgets {
 protected:
  static std::array<Charge, 2> row(std::uint64_t cost) {
    return {Charge{.key = "k", .limit = kTen, .cost = cost},
            Charge{.key = "other", .limit = kFive, .cost = cost, .alternative = true}};
  }
  Decision ask(Action action, std::span<const Charge> charges) {
    return store_.apply(action, charges, Instant{0s}, each_);
  }

  Limiter limiter_{store_};
};

TEST_F(MemoryBudgetsInARow, AHoldIsOfTheFirstWithRoomAndIsSettledThere) {
  Hold first = limiter_.hold("a", row(8), 10s, Instant{0s});
  EXPECT_FALSE(first.each()[0].passed_over);
  EXPECT_TRUE(first.each()[1].passed_over);
  Hold second = limiter_.hold("b", row(4), 10s, Instant{0s});
  EXPECT_TRUE(second && second.each()[0].passed_over);
  EXPECT_EQ(second.decision().remaining, 1u);
  EXPECT_EQ(second.each()[0].remaining, 2u);
  first.cancel(Instant{1s});
  EXPECT_TRUE(limiter_.hold("b", row(4), 10s, Instant{1s}).decision().repeated);
  second.settle(3, Instant{2s});
  EXPECT_EQ(left("k", kTen), 10u);
  EXPECT_EQ(left("other", kFive), 2u);
}

TEST_F(MemoryBudgetsInARow, ADenialIsOfTheFirstAndWaitsForTheSoonest) {
  ASSERT_TRUE(one({Verb::kHold, 10s}, 10, &first_));
  ASSERT_TRUE(store_.apply_one(Verb::kTake, {"other", kFive, 5}, Instant{0s}));
  const Decision denied = ask(Verb::kTake, row(1));
  EXPECT_EQ(denied.reason, Reason::kLimited);
  EXPECT_EQ(denied.capacity, 10u);
  EXPECT_EQ(denied.retry_after, Duration{1min});  // holds that end are charged
  EXPECT_FALSE(each_[0].allowed());
  EXPECT_TRUE(each_[1].allowed() && each_[1].passed_over);
  EXPECT_EQ(ask(Verb::kTake, row(11)).reason, Reason::kNever);
}

TEST_F(MemoryBudgetsInARow, AReservationIsGivenBackWhereItWasTaken) {
  ask(Verb::kTake, row(9));
  Reservation reserved = limiter_.reserve(row(4), 0s, Instant{0s});
  ASSERT_TRUE(reserved && reserved.each()[0].passed_over);
  reserved.settle(1, Instant{0s});
  EXPECT_EQ(left("k", kTen), 1u);
  EXPECT_EQ(left("other", kFive), 4u);
}

TEST_F(MemoryBudgetsInARow, AskedTwiceAreAskedForTheSum) {
  const auto [first, second] = row(3);
  const std::array twice{first, second, first, second};
  std::array<Decision, 4> each;
  const auto ask_twice = [&](Verb verb) { return store_.apply(verb, twice, Instant{0s}, each); };
  EXPECT_TRUE(ask_twice(Verb::kTake));
  EXPECT_EQ(left("k", kTen), 4u);
  ask(Verb::kTake, row(1));
  const Decision denied = ask_twice(Verb::kTake);  // 3 are left of one and 5 of the other
  EXPECT_FALSE(denied.allowed());
  EXPECT_EQ(left("k", kTen), 3u);
  EXPECT_EQ(left("other", kFive), 5u);
  const auto [a, b] = row(2);
  const std::array fits{a, b, a, b};
  EXPECT_TRUE(store_.apply(Verb::kTake, fits, Instant{0s}, each));
  for (const std::size_t i : {0, 2}) {
    EXPECT_TRUE(each[i].passed_over);
    EXPECT_FALSE(each[i + 1].passed_over);
    EXPECT_EQ(each[i + 1].remaining, 1u);
  }
  Charge other = {.key = "third", .limit = kFive, .alternative = true};
  for (const auto& wrong : {std::array{a, b, a, other}, std::array{a, b, b, a}}) {
    EXPECT_EQ(store_.apply(Verb::kTake, wrong, Instant{0s}, each).reason, Reason::kInvalid);
  }
  const std::array shorter{a, b, a};
  EXPECT_EQ(store_.apply(Verb::kTake, shorter, Instant{0s}, std::span(each).first(3)).reason,
            Reason::kInvalid);
  const std::array longer{a, b, a, b, other};
  std::array<Decision, 5> each_of_five;
  EXPECT_EQ(store_.apply(Verb::kTake, longer, Instant{0s}, each_of_five).reason, Reason::kInvalid);
}

TEST_F(MemoryBudgetsInARow, AreInvalidWithOtherLimitsAndCounters) {
  const auto reason = [&](Charge first, Charge second, Verb verb = Verb::kTake) {
    second.alternative = true;
    return ask(verb, std::array{first, second}).reason;
  };
  const auto block = Block::make({.after = 1, .within = 1s, .time = 1s});
  const Charge good{"k", kTen, 1};
  const Charge other{"other", kFive, 1};
  Charge blocks = good;
  blocks.block = &*block;
  EXPECT_EQ(reason(good, other), Reason::kOk);
  EXPECT_EQ(reason(good, other, Verb::kTakeAtMost), Reason::kInvalid);
  EXPECT_EQ(reason(good, good), Reason::kInvalid);
  EXPECT_EQ(reason({"g", gcra(1).per(1s)}, other), Reason::kInvalid);
  EXPECT_EQ(reason(good, {"g", gcra(1).per(1s)}), Reason::kInvalid);
  EXPECT_EQ(reason(blocks, other), Reason::kInvalid);
  Charge alternative = other;
  alternative.alternative = true;
  std::array<Decision, 3> each;
  for (const auto& three :
       {std::array{good, alternative, good}, std::array{good, good, alternative},
        std::array{other, good, alternative}}) {
    EXPECT_EQ(store_.apply(Verb::kTake, three, Instant{0s}, each).reason, Reason::kInvalid);
  }
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
  for (const Verb gives_back : {Verb::kRefund, Verb::kReset}) {
    EXPECT_TRUE(is_invalid(gives_back, &first_));
    EXPECT_FALSE(is_invalid(gives_back, nullptr));
  }
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

TEST_F(MemoryBudgets, ForgetSomeIdsAndKeepTheOthers) {
  constexpr Limit kLarge = budget(1'000'000).never().holds(65'535).remember(1s);
  const auto ask = [&](Action action, int number, Duration at) {
    const PermitId id = named(number);
    return store_.apply_one(action, {.key = "k", .limit = kLarge, .permit = &id}, Instant{at});
  };
  // Of ten ids, one stays open, one is known for long, and eight are forgotten after some seconds.
  constexpr int kIds = 5000;
  for (int i = 0; i < kIds; ++i) {
    const Duration at = 1ms * i;
    if (i % 10 == 0) ASSERT_TRUE(ask({Verb::kHold, 24h}, i, at));
    if (i % 10 == 1) ASSERT_TRUE(ask({Verb::kHold, 24h}, i, at) && ask(Verb::kSettle, i, at));
    if (i % 10 > 1) ASSERT_TRUE(ask(Verb::kSettle, i, at).late) << i;
  }
  for (int i = 0; i < kIds; i += 10) {
    const Duration at = 5s + 1ms * i;
    ASSERT_TRUE(ask({Verb::kHold, 24h}, i, at).repeated) << i;
    ASSERT_TRUE(ask(Verb::kSettle, i + 1, at).repeated) << i;
    ASSERT_FALSE(ask(Verb::kSettle, i, at).late) << i;
  }
  EXPECT_EQ(left("k", kLarge, 10s), 1'000'000u - kIds);
}

// Returns the most bytes that a budget takes for each of its ids, from 1,000 to 30,000 of them.
double most_bytes_for_each(Action action) {
  constexpr Limit kLarge = budget(1'000'000).per(1h).holds(65'535);
  MemoryStore store;
  double most = 0;
  for (int i = 1; i <= 30'000; ++i) {
    const PermitId id = named(i);
    const Charge charge{.key = "k", .limit = kLarge, .permit = &id};
    EXPECT_TRUE(store.apply_one(action, charge, Instant{}));
    const auto bytes = static_cast<double>(store.stats().log_bytes);
    if (i >= 1000) most = std::max(most, bytes / i);
  }
  return most;
}

TEST(BudgetBytes, AreFewForAHoldAndForAnIdThatIsKnown) {
  // 40 and 24, of places that are filled to seven eighths, and a tenth more after each growth.
  EXPECT_LE(most_bytes_for_each({Verb::kHold, 60s}), 48);
  EXPECT_LE(most_bytes_for_each(Verb::kSettle), 30.5);
}

class FullStore : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = std::size_t{256} << 10;
  static constexpr Limit kBalance = budget(1'000'000).never().remember(1s);

  // Spends a unit for each of these ids.
  std::uint64_t spend(const std::string& key, int from, int to, Duration at = 0s) {
    std::uint64_t spent = 0;
    for (int i = from; i < to; ++i) {
      const PermitId id = named(i);
      const Charge charge{.key = key, .limit = kBalance, .permit = &id};
      const Decision said = store_.apply_one(Verb::kSettle, charge, Instant{at});
      EXPECT_TRUE(said.reason == Reason::kOk || said.reason == Reason::kStoreError);
      spent += said.reason == Reason::kOk ? 1 : 0;
    }
    return spent;
  }
  std::uint64_t spent(const std::string& key, Duration at = 0s) {
    return 1'000'000 - store_.apply_one(Verb::kPeek, {key, kBalance, 0}, Instant{at}).remaining;
  }
  void fill_with_logs(int keys) {
    for (int i = 0; i < keys; ++i) {
      const std::string key = "log" + std::to_string(i);
      store_.apply_one(Verb::kTake, {key, sliding_window_log(10).per(24h), 1}, Instant{});
    }
  }

  MemoryStore store_{{.max_keys = 65'536, .max_log_bytes = kBytes, .shards = 1}};
};

TEST_F(FullStore, LosesNoSpentUnitByTheIdsOfAnotherBudget) {
  store_.apply_one(Verb::kTake, {"victim", kBalance, 5}, Instant{});
  const std::uint64_t counted = spend("flood", 0, 20'000);
  EXPECT_LT(counted, 20'000u);
  EXPECT_EQ(spent("flood"), counted);
  EXPECT_EQ(spent("victim"), 5u);
  EXPECT_LE(store_.stats().log_bytes, kBytes / 4 + 64) << "one key has a quarter";
  EXPECT_EQ(spend("other", 0, 1000), 1000u);
  // The places of ids that are forgotten are used again.
  EXPECT_EQ(spend("flood", 20'000, 21'000, 3s), 1000u);
  EXPECT_EQ(spent("flood", 3s), counted + 1000);
}

TEST_F(FullStore, KeepsBudgetsWhereLogsMakeRoom) {
  fill_with_logs(5000);
  std::array<std::uint64_t, 20> counted{};
  for (int i = 0; i < 20; ++i) counted[i] = spend("flood" + std::to_string(i), 0, 1000);
  EXPECT_GT(store_.stats().evictions, 0u);
  EXPECT_LT(counted[19], 1000u);
  fill_with_logs(5000);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(spent("flood" + std::to_string(i)), counted[i]) << i;
  EXPECT_LE(store_.stats().log_bytes, kBytes);
  // A full budget goes on with the places of its own ids, though nobody else gives it any.
  EXPECT_EQ(spend("flood0", 1000, 1500, 3s), 500u);
}

TEST_F(FullStore, DropsBudgetsThatAreForgotten) {
  constexpr Limit kSecond = budget(100).per(1s).remember(1s);
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "short" + std::to_string(i);
    ASSERT_TRUE(store_.apply_one(Verb::kTake, {key, kSecond, 1}, Instant{3s * (i / 3000)})) << i;
  }
  EXPECT_EQ(store_.stats().evictions, 0u);
}

TEST_F(FullStore, HasRoomForASnapshotOfItself) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("sluice-budgets-" + std::to_string(::getpid())))
          .string();
  // A full budget with few open holds, and one of open holds alone.
  const auto hold = [&](const std::string& key, int number) {
    const PermitId id = named(number);
    const Charge charge{.key = key, .limit = kBalance, .permit = &id};
    return store_.apply_one({Verb::kHold, 60s}, charge, Instant{}).reason;
  };
  for (int i = 0; i < 10; ++i) ASSERT_EQ(hold("settled", i), Reason::kOk);
  const std::uint64_t counted = 10 + spend("settled", 10, 20'000);
  ASSERT_LT(counted, 19'000u);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(hold("open", i), Reason::kOk);
  const auto left = [](MemoryStore& store, const std::string& key) {
    return store.apply_one(Verb::kPeek, {key, kBalance, 0}, Instant{}).remaining;
  };
  ASSERT_EQ(left(store_, "settled"), 1'000'000 - counted);
  ASSERT_TRUE(store_.save(path, Instant{}));
  MemoryStore restored{{.max_keys = 65'536, .max_log_bytes = kBytes, .shards = 1}};
  const auto loaded = restored.load(path, Instant{});
  std::filesystem::remove(path);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->dropped, 0u);
  EXPECT_EQ(left(restored, "settled"), 1'000'000 - counted);
  EXPECT_EQ(left(restored, "open"), 1'000'000u - 100);
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

// Keeps the entries as text.
class Lines final : public Ledger {
 public:
  void add(const LedgerEntry& entry) noexcept override {
    const auto seconds = [](Instant at) {
      return std::to_string(
          std::chrono::floor<std::chrono::seconds>(at.time_since_epoch()).count());
    };
    text += seconds(entry.at) + " " + std::string(kLedgerKinds[static_cast<int>(entry.kind)]) +
            " " + std::string(entry.key) + " spent " + std::to_string(entry.spent) + " = " +
            std::to_string(entry.spent_after) + ", held " + std::to_string(entry.held) + " = " +
            std::to_string(entry.held_after) + " in " + seconds(entry.window) + "\n";
  }
  std::string take() { return std::exchange(text, {}); }

  std::string text;
};

class BudgetsWithLedger : public ::testing::Test {
 protected:
  Decision one(Action action, std::uint64_t cost, const PermitId* id, Duration at,
               const Limit& limit = budget(10).per(1min)) {
    return store_.apply_one(action, {.key = "k", .limit = limit, .cost = cost, .permit = id},
                            Instant{at});
  }

  const PermitId first_ = named(1);
  const PermitId second_ = named(2);
  Lines lines_;
  MemoryStore store_{{.ledger = &lines_}};
};

TEST_F(BudgetsWithLedger, ReportEveryChange) {
  one(Verb::kTake, 2, nullptr, 0s);
  one({Verb::kHold, 10s}, 3, &first_, 1s);
  one({Verb::kExtend, 20s}, 0, &first_, 2s);
  one(Verb::kSettle, 1, &first_, 3s);
  one({Verb::kHold, 10s}, 4, &second_, 4s);
  one(Verb::kCancel, 0, &second_, 5s);
  one(Verb::kSettle, 2, &second_, 6s);
  one(Verb::kCharge, 9, nullptr, 7s);
  one(Verb::kRefund, 4, nullptr, 8s);
  one(Verb::kReset, 0, nullptr, 9s);
  EXPECT_EQ(lines_.take(),
            "0 take k spent 2 = 2, held 0 = 0 in 0\n"
            "1 hold k spent 0 = 2, held 3 = 3 in 0\n"
            "2 extend k spent 0 = 2, held 0 = 3 in 0\n"
            "3 settle k spent 1 = 3, held -3 = 0 in 0\n"
            "4 hold k spent 0 = 3, held 4 = 4 in 0\n"
            "5 cancel k spent 0 = 3, held -4 = 0 in 0\n"
            "6 late k spent 2 = 5, held 0 = 0 in 0\n"
            "7 charge k spent 9 = 14, held 0 = 0 in 0\n"
            "8 refund k spent -4 = 10, held 0 = 0 in 0\n"
            "9 reset k spent -10 = 0, held 0 = 0 in 0\n");
}

TEST_F(BudgetsWithLedger, ReportNothingThatChangesNothing) {
  one({Verb::kHold, 10s}, 3, &first_, 0s);
  static_cast<void>(lines_.take());
  one({Verb::kHold, 10s}, 3, &first_, 1s);  // repeated
  one({Verb::kHold, 10s}, 4, &first_, 1s);  // conflict
  one(Verb::kTake, 8, nullptr, 1s);         // denied
  one(Verb::kTake, 11, nullptr, 1s);        // never
  one(Verb::kPeek, 1, nullptr, 1s);
  one(Verb::kTake, 0, nullptr, 1s);
  one({Verb::kExtend, 10s}, 0, &second_, 1s);  // gone
  const Charge both[] = {{.key = "k", .limit = budget(10).per(1min), .cost = 1},
                         {.key = "other", .limit = budget(5).per(1min), .cost = 6}};
  std::array<Decision, 2> each;
  store_.apply(Verb::kTake, both, Instant{1s}, each);  // one of them denies
  EXPECT_EQ(lines_.take(), "");
  one(Verb::kReset, 0, nullptr, 2s);
  one(Verb::kReset, 0, nullptr, 2s);
  EXPECT_EQ(lines_.take(), "2 reset k spent 0 = 0, held -3 = 0 in 0\n");
}

// A hold that has ended with its time is spent in the window of its end, whenever that is noticed.
TEST_F(BudgetsWithLedger, ReportHoldsThatHaveEndedInTheirOrder) {
  one(Verb::kTake, 1, nullptr, 50s);
  one({Verb::kHold, 20s}, 3, &first_, 50s);
  one({Verb::kHold, 5s}, 2, &second_, 50s);
  static_cast<void>(lines_.take());
  one(Verb::kTake, 1, nullptr, 71s);
  one(Verb::kSettle, 1, &first_, 72s);
  one(Verb::kSettle, 1, &second_, 73s);
  EXPECT_EQ(lines_.take(),
            "55 charged k spent 2 = 3, held -2 = 3 in 0\n"
            "70 charged k spent 3 = 3, held -3 = 0 in 60\n"
            "71 take k spent 1 = 4, held 0 = 0 in 60\n"
            "72 late k spent -2 = 2, held 0 = 0 in 60\n"
            "73 late k spent 0 = 2, held 0 = 0 in 60\n");
}

TEST_F(BudgetsWithLedger, ReportHoldsThatAreReleased) {
  constexpr Limit kBalance = budget(5).never().releasing_unsettled();
  one({Verb::kHold, 10s}, 3, &first_, 1s, kBalance);
  static_cast<void>(lines_.take());
  one(Verb::kTake, 5, nullptr, 11s, kBalance);
  EXPECT_EQ(lines_.take(),
            "11 released k spent 0 = 0, held -3 = 0 in 0\n"
            "11 take k spent 5 = 5, held 0 = 0 in 0\n");
}

TEST_F(BudgetsWithLedger, NameTheCall) {
  struct Last final : Ledger {
    void add(const LedgerEntry& entry) noexcept override { last = entry; }
    LedgerEntry last;
  } ledger;
  MemoryStore store({.ledger = &ledger});
  const Charge charge{.key = "k",
                      .limit = budget(10).never(),
                      .cost = 3,
                      .tag = "t",
                      .permit = &first_,
                      .id_text = "call 1"};
  store.apply_one({Verb::kHold, 10s}, charge, Instant{1s});
  EXPECT_EQ(ledger.last.key, "k");
  EXPECT_EQ(ledger.last.tag, "t");
  EXPECT_EQ(ledger.last.id, "call 1");
  EXPECT_EQ(ledger.last.limit, 10u);
  EXPECT_EQ(ledger.last.ends, Instant{11s});
  EXPECT_EQ(ledger.last.window, kFirstInstant);
  ASSERT_TRUE(ledger.last.hash);
  const auto hash = *ledger.last.hash;
  EXPECT_TRUE(std::equal(hash.begin(), hash.end(), first_.bytes().begin()));
  store.apply_one(Verb::kTake, {.key = "k", .limit = budget(10).never(), .cost = 1}, Instant{2s});
  EXPECT_FALSE(ledger.last.hash);
}

}  // namespace
}  // namespace sluice
