#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/calendar.h"
#include "sluice/memory_store.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/stored.h"
#include "tests/property/generate.h"
#include "tests/redis/script_test.h"

// Budgets in Redis beyond what a history shows: foreign values, expiry, and slots of a cluster.
namespace sluice_redis {
namespace {

namespace format = sluice::redis::format;
using namespace std::chrono_literals;
using sluice::Decision;
using sluice::PermitId;
using sluice::Reason;
using sluice::Verb;

class Budgets : public ScriptTest {
 protected:
  Decision hold(std::uint64_t cost) { return ask(store_, {Verb::kHold, 1min}, "k", cost); }
  Decision settle(std::uint64_t actual) { return ask(store_, Verb::kSettle, "k", actual); }
  Decision ask(PlanStore& store, sluice::Action action, std::string_view key, std::uint64_t cost,
               std::optional<sluice::Instant> now = {}) {
    const sluice::Charge charge{.key = key, .limit = limit_, .cost = cost, .permit = &id_};
    return store.apply_one(action, charge, now);
  }

  const sluice::Limit limit_ = sluice::budget(10).per(1h);
  const PermitId id_ = PermitId::named("call");
  const std::string key_ = redis_key(kPrefix, limit_.algorithm(), "k");
};

TEST_F(Budgets, RefuseForeignValuesAndLeaveThem) {
  const std::string damaged = "\xC1\x18" + std::string(57, 'z');
  const auto expect_refused = [&](std::initializer_list<std::string_view> command) {
    redis_.run({"DEL", key_});
    redis_.run(command);
    const std::string before = dump(key_);
    EXPECT_EQ(hold(1).reason, Reason::kForeignValue) << *command.begin() << " " << store_.error();
    EXPECT_EQ(settle(1).reason, Reason::kForeignValue) << *command.begin();
    EXPECT_EQ(ask(store_, Verb::kPeek, "k", 1).reason, Reason::kForeignValue) << *command.begin();
    EXPECT_EQ(dump(key_), before) << *command.begin();
  };
  expect_refused({"SET", key_, "text"});
  expect_refused({"RPUSH", key_, "a"});
  expect_refused({"HSET", key_, "another", "field"});
  expect_refused({"HSET", key_, "h", "short"});
  expect_refused({"HSET", key_, "h", damaged});
}

TEST_F(Budgets, RefuseADamagedListOfIds) {
  ASSERT_TRUE(hold(1));
  redis_.run({"HSET", key_, "o0", "not a whole record"});
  const std::string before = dump(key_);
  EXPECT_EQ(settle(1).reason, Reason::kForeignValue) << store_.error();
  EXPECT_EQ(dump(key_), before);
}

TEST_F(Budgets, ExpireWhenNoIdIsKnownAndNothingIsSpent) {
  ASSERT_TRUE(hold(1));
  const std::int64_t left = number({"PTTL", key_});
  EXPECT_GT(left, 59'000);
  EXPECT_LE(left, 2 * 3'600'000 + 60'000 + 2'000);
  ASSERT_TRUE(settle(0));
  EXPECT_GT(number({"PTTL", key_}), 0);
  store_.apply_one(Verb::kReset, {.key = "k", .limit = limit_, .cost = 0}, std::nullopt);
  EXPECT_EQ(number({"EXISTS", key_}), 0);
}

TEST_F(Budgets, AForgottenBudgetBeginsWithoutItsIds) {
  const auto at = [&](std::int64_t us) { return instant(kStart + us); };
  ASSERT_TRUE(ask(store_, {Verb::kHold, 1min}, "k", 4, at(0)));
  ASSERT_TRUE(ask(store_, Verb::kTake, "k", 4, at(1)));  // settles it
  const Decision again = ask(store_, {Verb::kHold, 1min}, "k", 5, at(10'000'000'000));
  EXPECT_TRUE(again.allowed() && !again.repeated);
  EXPECT_EQ(again.remaining, 5u);
  EXPECT_EQ(number({"HLEN", key_}), 2);
}

TEST_F(Budgets, SeveralTakeAtMostAllThatThereIs) {
  constexpr sluice::Limit kAll = sluice::budget(sluice::kMaxAmount).never();
  const sluice::Charge charges[] = {{.key = "a", .limit = kAll, .cost = sluice::kMaxAmount},
                                    {.key = "a", .limit = kAll, .cost = sluice::kMaxAmount},
                                    {.key = "b", .limit = kAll, .cost = sluice::kMaxAmount}};
  sluice::MemoryStore memory;
  for (sluice::Store* const store :
       {static_cast<sluice::Store*>(&memory), static_cast<sluice::Store*>(&store_)}) {
    std::array<Decision, 3> each;
    const Decision said = store->apply(Verb::kTakeAtMost, charges, instant(kStart), each);
    EXPECT_EQ(said.taken, sluice::kMaxAmount / 2) << store_.error();
    EXPECT_EQ(each[0].remaining, 1u);
    EXPECT_EQ(each[2].remaining, sluice::kMaxAmount / 2 + 1);
    EXPECT_EQ(store->apply(Verb::kTakeAtMost, charges, instant(kStart), each).reason,
              Reason::kNever);
    const Decision rest = store->apply(Verb::kTakeAtMost, std::span(charges).last(2),
                                       instant(kStart), std::span(each).last(2));
    EXPECT_EQ(rest.taken, 1u) << store_.error();
  }
}

// Budgets with a ledger.
class Ledgers : public Budgets {
 protected:
  // "KIND SPENT = SPENT_AFTER, HELD = HELD_AFTER" of each entry.
  std::vector<std::string> entries(std::string_view stream) {
    std::vector<std::string> all;
    const Reply reply = redis_.run({"XRANGE", stream, "-", "+"});
    for (const sluice::redis::Reply& one : *reply) {
      const auto entry = sluice::redis::read_ledger_entry(one[1]);
      if (!entry) return {"malformed"};
      all.push_back(std::string(one[1].field("kind")) + " " + std::to_string(entry->spent) + " = " +
                    std::to_string(entry->spent_after) + ", " + std::to_string(entry->held) +
                    " = " + std::to_string(entry->held_after));
    }
    return all;
  }
  using Entries = std::vector<std::string>;

  PlanStore ledger_{redis_, std::string(kPrefix), false, 100};
  const std::string stream_ = std::string(kPrefix) + "eu{}k";
};

TEST_F(Ledgers, AddEachChangeAtTheTimeOfTheServer) {
  ASSERT_TRUE(ask(ledger_, {Verb::kHold, 1min}, "k", 3));
  ASSERT_TRUE(ask(ledger_, {Verb::kHold, 1min}, "k", 3).repeated);
  ASSERT_TRUE(ask(ledger_, {Verb::kExtend, 2min}, "k", 0));
  ASSERT_TRUE(ask(ledger_, Verb::kSettle, "k", 2));
  ASSERT_FALSE(ask(ledger_, Verb::kSettle, "k", 4));  // a conflict
  ASSERT_TRUE(
      ledger_.apply_one(Verb::kCharge, {.key = "k", .limit = limit_, .cost = 4}, std::nullopt));
  ASSERT_FALSE(
      ledger_.apply_one(Verb::kTake, {.key = "k", .limit = limit_, .cost = 9}, std::nullopt));
  ASSERT_TRUE(
      ledger_.apply_one(Verb::kRefund, {.key = "k", .limit = limit_, .cost = 1}, std::nullopt));
  const Charge all{.key = "k", .limit = limit_, .cost = 0};
  ledger_.apply_one(Verb::kReset, all, std::nullopt);
  ledger_.apply_one(Verb::kReset, all, std::nullopt);
  EXPECT_EQ(entries(stream_),
            (Entries{"hold 0 = 0, 3 = 3", "extend 0 = 0, 0 = 3", "settle 2 = 2, -3 = 0",
                     "charge 4 = 6, 0 = 0", "refund -1 = 5, 0 = 0", "reset -5 = 0, 0 = 0"}));
}

TEST_F(Ledgers, NameTheCall) {
  const sluice::Charge charge{
      .key = "k", .limit = limit_, .cost = 3, .permit = &id_, .id_text = "call"};
  ASSERT_TRUE(ledger_.apply_one({Verb::kHold, 1min}, charge, instant(kStart)));
  const Reply reply = redis_.run({"XRANGE", stream_, "-", "+"});
  ASSERT_TRUE(reply->is_array_of(1));
  const auto entry = sluice::redis::read_ledger_entry((*reply)[0][1]);
  ASSERT_TRUE(entry && entry->hash);
  const PermitId::Bytes name = id_.bytes();
  EXPECT_TRUE(std::equal(entry->hash->begin(), entry->hash->end(), name.begin()));
  EXPECT_EQ(entry->id, "call");
  EXPECT_EQ(entry->at, instant(kStart));
  EXPECT_EQ(entry->ends, instant(kStart) + 1min);
  EXPECT_EQ(entry->limit, 10u);
  EXPECT_EQ(entry->window, std::chrono::floor<std::chrono::hours>(instant(kStart)));
}

// The script does not know when the window began in which the hold has ended, and asks for it.
TEST_F(Ledgers, EndAHoldInTheWindowOfItsEnd) {
  const sluice::Limit daily = sluice::budget(10).per(sluice::calendar_day("UTC"));
  const sluice::Instant day = std::chrono::floor<std::chrono::days>(instant(kStart));
  const PermitId longer = PermitId::named("longer");
  const auto hold = [&](const PermitId& id, std::uint64_t cost, sluice::Duration ttl) {
    return ledger_.apply_one({Verb::kHold, ttl},
                             {.key = "k", .limit = daily, .cost = cost, .permit = &id}, day + 23h);
  };
  ASSERT_TRUE(hold(id_, 3, 30min));
  ASSERT_TRUE(hold(longer, 2, 24h));
  ASSERT_TRUE(ledger_.apply_one(Verb::kTake, {.key = "k", .limit = daily, .cost = 1}, day + 34h));
  EXPECT_EQ(entries(stream_), (Entries{"hold 0 = 0, 3 = 3", "hold 0 = 0, 2 = 5",
                                       "charged 3 = 3, -3 = 2", "take 1 = 1, 0 = 2"}));
  const Reply reply = redis_.run({"XRANGE", stream_, "-", "+"});
  const auto charged = sluice::redis::read_ledger_entry((*reply)[2][1]);
  EXPECT_EQ(charged->at, day + 23h + 30min);
  EXPECT_EQ(charged->window, day);
}

TEST_F(Ledgers, AreBoundedAndOutliveTheirCounters) {
  for (int i = 0; i < 400; ++i) {
    ledger_.apply_one(Verb::kCharge, {.key = "k", .limit = limit_, .cost = 1}, std::nullopt);
  }
  const std::int64_t length = number({"XLEN", stream_});
  EXPECT_GE(length, 100);
  EXPECT_LE(length, 300);
  EXPECT_GE(number({"PTTL", stream_}), number({"PTTL", key_}) + 62LL * 86'400'000 - 60'000);
}

TEST_F(Ledgers, ThatAreForeignChangeNothing) {
  redis_.run({"SET", stream_, "text"});
  EXPECT_EQ(ask(ledger_, {Verb::kHold, 1min}, "k", 3).reason, Reason::kForeignValue);
  EXPECT_EQ(ledger_.error(), "FOREIGNVALUE test:eu{}k holds another type than a ledger");
  EXPECT_EQ(number({"EXISTS", key_}), 0);
}

// The slots of a cluster decide one after the other.
TEST_F(Ledgers, SayWhatIsTakenBack) {
  PlanStore store(redis_, std::string(kPrefix), /*by_slot=*/true, 100);
  ASSERT_TRUE(ask(store, Verb::kTake, "full", 10, instant(kStart)));
  const PermitId other = PermitId::named("other");
  const sluice::Charge both[] = {{.key = "k", .limit = limit_, .cost = 3, .permit = &other},
                                 {.key = "full", .limit = limit_, .cost = 1, .permit = &other}};
  std::array<Decision, 2> each;
  ASSERT_FALSE(store.apply({Verb::kHold, 1min}, both, instant(kStart), each));
  const Reply keys = redis_.run({"KEYS", std::string(kPrefix) + "e{*}u{}k"});
  ASSERT_TRUE(keys->is_array_of(1));
  EXPECT_EQ(entries((*keys)[0].string()), (Entries{"hold 0 = 0, 3 = 3", "undo 0 = 0, -3 = 0"}));
}

// A budget that has this many open holds, made without its calls.
class ManyHolds : public Budgets {
 protected:
  static constexpr std::int64_t kEnd = kStart + 60'000'000;  // of all holds

  void make_holds(std::uint64_t count) {
    const std::uint64_t cells = (count + format::kCellRecords - 1) / format::kCellRecords;
    std::vector<std::string> texts(cells);
    for (std::uint64_t i = 0; i < count; ++i) {
      const PermitId::Bytes id = named(i).bytes();
      const std::string name(reinterpret_cast<const char*>(id.data()), format::kHoldIdSize);
      std::uint32_t hash = 0;
      std::memcpy(&hash, name.data(), sizeof(hash));
      std::uint64_t cell = hash % std::bit_ceil(cells);
      if (cell >= cells) cell -= std::bit_ceil(cells) / 2;
      texts[cell] += name;
      format::kIdNumbers.append(
          {.amount = 2, .high = std::uint64_t{1} << 5, .rest = static_cast<std::uint64_t>(kEnd)},
          texts[cell]);
    }
    std::string head;
    format::kBudgetHead.append({.kind = format::kBudgetKind,
                                .changed = static_cast<std::uint64_t>(kStart),
                                .spent = 0,
                                .held = 2 * count,
                                .latest = static_cast<std::uint64_t>(kEnd),
                                .first = static_cast<std::uint64_t>(kEnd),
                                .known = 0,
                                .forgotten = format::kNeverForgotten,
                                .open = count,
                                .past = 0,
                                .ended = 0,
                                .open_cells = cells,
                                .ended_cells = 1},
                               head);
    redis_.run({"HSET", key_, "h", head});
    for (std::uint64_t i = 0; i < cells; ++i) {
      redis_.run({"HSET", key_, "o" + std::to_string(i), texts[i]});
    }
  }
  static PermitId named(std::uint64_t number) {
    return PermitId::named("call " + std::to_string(number));
  }
  Decision ask(sluice::Action action, std::uint64_t number, std::uint64_t cost, std::int64_t at) {
    const PermitId id = named(number);
    const sluice::Charge charge{.key = "k", .limit = kLarge, .cost = cost, .permit = &id};
    return store_.apply_one(action, charge, instant(at));
  }
  format::BudgetHead head() { return format::kBudgetHead.read(redis_.text({"HGET", key_, "h"})); }

  static constexpr sluice::Limit kLarge = sluice::budget(1'000'000).per(366 * 24h).holds(65'535);
};

TEST_F(ManyHolds, ExpireTogether) {
  constexpr std::uint64_t kAll = 65'535;
  make_holds(kAll);
  // Nothing fits: the call reads all holds and changes nothing.
  const Decision denied = ask({Verb::kHold, 1min}, kAll, 1, kStart + 1);
  EXPECT_EQ(denied.reason, Reason::kTooManyHolds) << store_.error();
  EXPECT_EQ(denied.retry_after, sluice::Duration{kEnd - kStart - 1});
  const Decision held = ask({Verb::kHold, 1min}, kAll, 5, kEnd);
  EXPECT_TRUE(held.allowed()) << store_.error();
  EXPECT_EQ(held.remaining, 1'000'000 - 2 * kAll - 5);
  // The work of one call is bounded.
  EXPECT_EQ(head().open, 1u);
  EXPECT_EQ(head().past, kAll - format::kMostMoved);
  EXPECT_EQ(head().ended, format::kMostMoved);
  // Each id has expired, wherever its record is.
  std::uint64_t left = held.remaining;
  for (std::uint64_t i = 0; i < kAll; i += 1021) {
    EXPECT_EQ(ask({Verb::kExtend, 1min}, i, 0, kEnd + 1).reason, Reason::kGone) << i;
    const Decision said = ask(Verb::kSettle, i, 1, kEnd + 1);
    EXPECT_TRUE(said.allowed() && said.late) << i << " " << store_.error();
    EXPECT_EQ(said.remaining, ++left) << i;
    EXPECT_TRUE(ask(Verb::kSettle, i, 1, kEnd + 1).repeated) << i;
  }
  // The next holds that end take more records with them.
  const std::uint64_t past = head().past;
  EXPECT_EQ(ask(Verb::kTake, kAll + 1, 1, kEnd + 60'000'000).remaining, left - 1);
  EXPECT_EQ(head().open, 0u);
  EXPECT_EQ(head().past, past + 1 - format::kMostMoved);
}

TEST_F(ManyHolds, AreTheSameAsInMemory) {
  sluice::MemoryStore memory;
  sluice_property::Dice dice(1);
  std::int64_t at = kStart;
  std::uint64_t made = 0;
  const auto expect_same = [&](sluice::Action action, std::uint64_t number, std::uint64_t cost) {
    const PermitId id = named(number);
    const sluice::Charge charge{.key = "k", .limit = kLarge, .cost = cost, .permit = &id};
    const Decision expected = memory.apply_one(action, charge, instant(at));
    const Decision said = store_.apply_one(action, charge, instant(at));
    ASSERT_EQ(said.reason, expected.reason) << store_.error() << " of " << number;
    ASSERT_EQ(said.remaining, expected.remaining) << number;
    ASSERT_EQ(said.repeated, expected.repeated) << number;
    ASSERT_EQ(said.late, expected.late) << number;
  };
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1500; ++i) {
      expect_same({Verb::kHold, sluice::Duration{1'000'000 + dice.below(100) * 10'000}}, made++, 1);
    }
    at += 1'900'000;  // 90 % have ended
    for (int i = 0; i < 300; ++i) {
      const sluice::Action action = dice.any_of<sluice::Action>(
          {Verb::kSettle, Verb::kCancel, Verb::kTake, {Verb::kHold, 1s}, {Verb::kExtend, 1s}});
      expect_same(action, dice.below(made), dice.below(3));
      at += dice.chance(10) ? 10'000 : 0;
    }
  }
}

// The records of most holds that have ended move only in later calls, which may have another
// on_expiry than the one that counted their units.
TEST_F(ManyHolds, StayCountedAsTheyWereWhenTheyEnded) {
  for (const bool releases_first : {false, true}) {
    sluice::MemoryStore memory;
    redis_.run({"FLUSHALL"});
    const auto expect_same = [&](bool releases, sluice::Action action, std::uint64_t number,
                                 std::int64_t seconds) {
      const auto limit = sluice::budget(10'000'000).never().holds(60'000);
      const PermitId id = named(number);
      const sluice::Charge charge{
          .key = "k",
          .limit = releases ? sluice::Limit(limit.releasing_unsettled()) : sluice::Limit(limit),
          .cost = 10,
          .permit = &id};
      const sluice::Instant at = instant(kStart + seconds * 1'000'000);
      const Decision expected = memory.apply_one(action, charge, at);
      const Decision said = store_.apply_one(action, charge, at);
      ASSERT_EQ(said, expected) << store_.error() << " of " << number;
    };
    constexpr std::uint64_t kFirst = 1000;
    constexpr std::uint64_t kAll = 1100;
    for (std::uint64_t i = 0; i < kFirst; ++i) {
      expect_same(releases_first, {Verb::kHold, 10s}, i, 0);
    }
    expect_same(releases_first, Verb::kTake, kAll, 20);
    ASSERT_EQ(head().past, kFirst - format::kMostMoved);
    for (std::uint64_t i = kFirst; i < kAll; ++i) {
      expect_same(!releases_first, {Verb::kHold, 5s}, i, 21);
    }
    expect_same(!releases_first, Verb::kTake, kAll + 1, 30);
    ASSERT_GT(head().past, 0u);
    for (std::uint64_t i = 0; i < kAll; ++i) expect_same(releases_first, Verb::kSettle, i, 31);
    ASSERT_EQ(head().past, 0u);
  }
}

TEST_F(ManyHolds, AreNewWhenTheirIdsAreForgotten) {
  constexpr sluice::Limit kShort =
      sluice::budget(1'000'000).per(366 * 24h).holds(65'535).remember(1s);
  constexpr std::uint64_t kAll = format::kMostMoved + 50;
  const auto hold = [&](std::uint64_t number, std::int64_t at) {
    const PermitId id = named(number);
    const sluice::Charge charge{.key = "k", .limit = kShort, .permit = &id};
    return store_.apply_one({Verb::kHold, 1s}, charge, instant(at));
  };
  for (std::uint64_t i = 0; i < kAll; ++i) ASSERT_TRUE(hold(i, kStart)) << store_.error();
  ASSERT_TRUE(hold(kAll, kStart + 1'000'000));
  EXPECT_EQ(head().past, 50u) << "some records are still in the cells of open ids";
  for (std::uint64_t i = 0; i < kAll; ++i) {
    const Decision said = hold(i, kStart + 10'000'000);
    ASSERT_TRUE(said.allowed() && !said.repeated) << i << " " << store_.error();
  }
  EXPECT_EQ(head().open, kAll);
}

// "a" and "b" are in two slots.
class BudgetsInSlots : public Budgets {
 protected:
  Decision both(sluice::Action action, std::uint64_t of_a, std::uint64_t of_b) {
    const std::array<sluice::Charge, 2> charges{
        sluice::Charge{.key = "a", .limit = limit_, .cost = of_a, .permit = &id_},
        sluice::Charge{.key = "b", .limit = limit_, .cost = of_b, .permit = &id_}};
    std::array<Decision, 2> each;
    return slots_.apply(action, charges, instant(kStart), each);
  }
  std::uint64_t left(std::string_view key) {
    const sluice::Charge charge{.key = key, .limit = limit_, .cost = 0};
    return slots_.apply_one(Verb::kPeek, charge, instant(kStart)).remaining;
  }

  PlanStore slots_{redis_, "slots:", true};
};

TEST_F(BudgetsInSlots, AHoldThatOneDeniesIsUndoneInTheOther) {
  ASSERT_TRUE(ask(slots_, Verb::kCharge, "b", 8, instant(kStart)));
  const PermitId other = PermitId::named("another call");
  const std::array<sluice::Charge, 2> charges{
      sluice::Charge{.key = "a", .limit = limit_, .cost = 3, .permit = &other},
      sluice::Charge{.key = "b", .limit = limit_, .cost = 3, .permit = &other}};
  std::array<Decision, 2> each;
  EXPECT_EQ(slots_.apply({Verb::kHold, 1min}, charges, instant(kStart), each).reason,
            Reason::kLimited);
  EXPECT_EQ(left("a"), 10u);
  EXPECT_EQ(left("b"), 2u);
  // The id is unknown again.
  const Decision one = slots_.apply_one({Verb::kHold, 1min}, charges[0], instant(kStart));
  EXPECT_TRUE(one.allowed() && !one.repeated);
}

TEST_F(BudgetsInSlots, ASettlementThatOneRefusesIsUndoneInTheOther) {
  ASSERT_TRUE(both({Verb::kHold, 1min}, 3, 4));
  ASSERT_TRUE(ask(slots_, Verb::kSettle, "b", 4, instant(kStart)));
  EXPECT_EQ(both(Verb::kSettle, 9, 9).reason, Reason::kConflict);
  EXPECT_EQ(left("a"), 7u);  // still held
  EXPECT_FALSE(ask(slots_, Verb::kSettle, "a", 1, instant(kStart)).late);
  EXPECT_EQ(left("a"), 9u);
}

// The first and the second charge are in a row. `tag` is theirs; "b" is in another slot.
TEST_F(BudgetsInSlots, ARowIsInOneSlotAndIsUndoneWhereItWasCharged) {
  const auto apply = [&](std::string_view tag, std::uint64_t of_b) {
    const std::array<sluice::Charge, 3> charges{
        sluice::Charge{.key = "a", .limit = limit_, .cost = 4, .tag = tag, .permit = &id_},
        sluice::Charge{.key = "c",
                       .limit = limit_,
                       .cost = 4,
                       .tag = tag,
                       .permit = &id_,
                       .alternative = true},
        sluice::Charge{.key = "b", .limit = limit_, .cost = of_b, .permit = &id_}};
    std::array<Decision, 3> each;
    return slots_.apply({Verb::kHold, 1min}, charges, instant(kStart), each);
  };
  const auto left_of = [&](std::string_view key) {
    const sluice::Charge charge{.key = key, .limit = limit_, .cost = 0, .tag = "t"};
    return slots_.apply_one(Verb::kPeek, charge, instant(kStart)).remaining;
  };
  EXPECT_EQ(apply("", 1).reason, Reason::kInvalid);
  const sluice::Charge used{.key = "a", .limit = limit_, .cost = 9, .tag = "t"};
  ASSERT_TRUE(slots_.apply_one(Verb::kCharge, used, instant(kStart)));
  EXPECT_EQ(apply("t", 11).reason, Reason::kNever);
  EXPECT_EQ(left_of("a"), 1u);
  EXPECT_EQ(left_of("c"), 10u);
  EXPECT_TRUE(apply("t", 1));
  EXPECT_EQ(left_of("a"), 1u);
  EXPECT_EQ(left_of("c"), 6u);
}

}  // namespace
}  // namespace sluice_redis
