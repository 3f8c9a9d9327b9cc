#include <array>
#include <initializer_list>
#include <optional>
#include <string>

#include "tests/redis/script_test.h"

// Budgets in Redis beyond what a history shows: foreign values, expiry, and slots of a cluster.
namespace sluice_redis {
namespace {

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
  ask(store_, Verb::kReset, "k", 0);
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

}  // namespace
}  // namespace sluice_redis
