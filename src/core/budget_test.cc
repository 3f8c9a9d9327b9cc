#include "core/budget.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "core/test_counters.h"

namespace sluice::budget_test {
namespace {

using core::Answer;
using core::BudgetCounter;
using core::delayed;
using core::gone;
using core::ok;
using core::refused;
using core::taken;
using core::Ticks;
using core::wait;
using namespace std::chrono_literals;

constexpr Ticks kSecond = 1'000'000;
constexpr Ticks kMinute = 60 * kSecond;
constexpr Ticks kForever = kNeverEnds.count();
constexpr Limit kTen = budget(10).per(1min);
constexpr Limit kReleasing = budget(10).per(1min).releasing_unsettled();
constexpr Limit kBalance = budget(10).never();

Answer held(std::uint64_t remaining, Ticks reset_after, Ticks ends_after) {
  Answer answer = ok(remaining, reset_after);
  answer.ends_after = ends_after;
  return answer;
}
Answer repeated(Answer answer) {
  answer.repeated = true;
  return answer;
}
Answer late(Answer answer) {
  answer.late = true;
  return answer;
}
Answer conflict(std::uint64_t remaining, Ticks reset_after) {
  Answer answer{{}, {remaining, reset_after}};
  answer.conflict = true;
  return answer;
}

TEST(Budget, SpendsAtMostTheLimitInEachWindowOfTheClock) {
  BudgetCounter counter(kTen);
  EXPECT_EQ(counter.take(50 * kSecond, 7), ok(3, 10 * kSecond));
  EXPECT_EQ(counter.take(51 * kSecond, 4), wait(9 * kSecond, 3, 9 * kSecond));
  core::expect_exact_wait(counter, 51 * kSecond, 4);
  EXPECT_EQ(counter.take(51 * kSecond, 11), refused(3, 9 * kSecond));
  EXPECT_EQ(counter.take(kMinute, 10), ok(0, kMinute));
  EXPECT_EQ(counter.take(50 * kSecond, 1), wait(kMinute, 0, kMinute));  // at 60 s
}

TEST(Budget, HoldsAndSettlesWithWhatWasUsed) {
  BudgetCounter counter(kTen);
  EXPECT_EQ(counter.hold(0, 1, 6, 10 * kSecond), held(4, kMinute, 10 * kSecond));
  EXPECT_EQ(counter.take(kSecond, 5), wait(59 * kSecond, 4, 59 * kSecond));
  EXPECT_EQ(counter.settle(2 * kSecond, 1, 2), ok(8, 58 * kSecond));
  EXPECT_EQ(counter.open(), 0u);
  counter.hold(2 * kSecond, 2, 8, 10 * kSecond);
  EXPECT_EQ(counter.settle(2 * kSecond, 2, 9), core::over(58 * kSecond));
  EXPECT_EQ(counter.take(2 * kSecond, 1), wait(58 * kSecond, 0, 58 * kSecond));
}

TEST(Budget, AnswersARepeatedSettlementAsTheFirst) {
  BudgetCounter counter(kTen);
  counter.hold(0, 1, 6, 10 * kSecond);
  EXPECT_TRUE(counter.settle(0, 1, 15).over);
  counter.refund(0, 12);  // from now on within the limit
  const Answer again = counter.settle(kSecond, 1, 15);
  EXPECT_TRUE(again.admitted && again.repeated && again.over);
  EXPECT_EQ(again.remaining, 7u);
  EXPECT_TRUE(counter.settle(kSecond, 2, 6).late);
  EXPECT_TRUE(counter.settle(kSecond, 3, 2).over);
  EXPECT_FALSE(counter.settle(kSecond, 2, 6).over) << "it was within the limit";
  EXPECT_TRUE(counter.settle(kSecond, 3, 2).late) << "it never had a hold";
  EXPECT_EQ(counter.settle(kSecond, 1, 14).conflict, true);
  EXPECT_TRUE(counter.hold(kSecond, 1, 6, 10 * kSecond).repeated)
      << "the cost of its hold is known";
}

TEST(Budget, SaysWhatIsSpentAndHeldAlsoBeyondTheLimit) {
  BudgetCounter counter(kTen);
  counter.take(0, 2);
  counter.hold(0, 1, 6, 10 * kSecond);
  EXPECT_EQ(std::pair(counter.look(0).spent, counter.look(0).held), std::pair(2ul, 6ul));
  counter.hold(0, 2, 1, 10 * kSecond);
  counter.settle(kSecond, 1, 30);
  const Answer after = counter.look(kSecond);
  EXPECT_EQ(std::tuple(after.remaining, after.spent, after.held), std::tuple(0ul, 32ul, 1ul));
  EXPECT_EQ(counter.look(10 * kSecond).spent, 33u);  // nobody has settled the second
  EXPECT_EQ(counter.look(kMinute).spent, 0u);
}

// Else each call looks at all open holds once the first of them was settled.
TEST(Budget, LooksAtItsHoldsOnlyIfOneMayHaveEnded) {
  BudgetCounter counter(kTen);
  counter.hold(0, 1, 1, 10 * kSecond);
  counter.hold(0, 2, 1, 30 * kSecond);
  counter.hold(0, 3, 1, 20 * kSecond);
  counter.settle(kSecond, 1, 1);
  EXPECT_EQ(counter.first(), 10 * kSecond);
  counter.take(10 * kSecond, 1);
  EXPECT_EQ(counter.first(), 20 * kSecond);
}

TEST(Budget, CountsAnIdOnceWhateverIsRepeated) {
  BudgetCounter counter(kTen);
  counter.hold(0, 1, 6, 10 * kSecond);
  EXPECT_EQ(counter.hold(kSecond, 1, 6, 10 * kSecond),
            repeated(held(4, 59 * kSecond, 9 * kSecond)));
  EXPECT_EQ(counter.hold(kSecond, 1, 5, 10 * kSecond), conflict(4, 59 * kSecond));
  counter.settle(kSecond, 1, 2);
  EXPECT_EQ(counter.settle(kSecond, 1, 2), repeated(ok(8, 59 * kSecond)));
  EXPECT_EQ(counter.settle(kSecond, 1, 3), conflict(8, 59 * kSecond));
  EXPECT_EQ(counter.hold(kSecond, 1, 6, kSecond), repeated(ok(8, 59 * kSecond)));
  EXPECT_EQ(counter.hold(kSecond, 1, 7, kSecond), conflict(8, 59 * kSecond));
  EXPECT_EQ(counter.cancel(kSecond, 1), conflict(8, 59 * kSecond));
  EXPECT_EQ(counter.take(kSecond, 1, 2), conflict(8, 59 * kSecond));
}

TEST(Budget, TakesWithAnIdOnce) {
  BudgetCounter counter(kTen);
  EXPECT_EQ(counter.take(0, 1, 4), ok(6, kMinute));
  EXPECT_EQ(counter.take(0, 1, 4), repeated(ok(6, kMinute)));
  EXPECT_EQ(counter.take(0, 1, 5), conflict(6, kMinute));
  EXPECT_EQ(counter.settle(0, 1, 4), repeated(ok(6, kMinute)));
  EXPECT_EQ(counter.take(0, 2, 7), wait(kMinute, 6, kMinute));
  EXPECT_EQ(counter.take(kMinute, 2, 7), ok(3, kMinute));  // a denied one is not known
  counter.hold(kMinute, 3, 2, 5 * kSecond);
  EXPECT_EQ(counter.take(kMinute, 3, 2), ok(1, kMinute));  // and settles its hold
  EXPECT_EQ(counter.charge(kMinute, 4, 4), core::over(kMinute));
  EXPECT_EQ(counter.charge(kMinute, 4, 4), repeated(core::over(kMinute)));
}

TEST(Budget, CancelsWithoutSpendingEvenBeforeTheHold) {
  BudgetCounter counter(kTen);
  counter.hold(0, 1, 6, 10 * kSecond);
  EXPECT_EQ(counter.cancel(0, 1), ok(10, 0));
  EXPECT_EQ(counter.cancel(0, 1), repeated(ok(10, 0)));
  EXPECT_EQ(counter.cancel(0, 2), late(ok(10, 0)));
  EXPECT_EQ(counter.hold(0, 2, 6, 10 * kSecond), conflict(10, 0));
  EXPECT_EQ(counter.hold(0, 1, 6, 10 * kSecond), repeated(ok(10, 0)));
}

TEST(Budget, AnIdThatWasSettledWithoutAHoldHoldsNothing) {
  BudgetCounter counter(kTen);
  EXPECT_EQ(counter.settle(0, 1, 4), late(ok(6, kMinute)));
  EXPECT_EQ(counter.hold(0, 1, 4, kSecond), conflict(6, kMinute));
  EXPECT_EQ(counter.take(0, 1, 4), repeated(ok(6, kMinute)));
  counter.cancel(0, 2);
  counter.settle(0, 2, 1);
  EXPECT_EQ(counter.hold(0, 2, 1, kSecond), conflict(5, kMinute));
  counter.charge(0, 1, 3);
  EXPECT_EQ(counter.hold(0, 3, 1, kSecond), conflict(4, kMinute));
  counter.take(0, 4, 1);
  EXPECT_EQ(counter.hold(0, 4, 1, kSecond), repeated(ok(3, kMinute)));
}

TEST(Budget, SettlesACancelledCallThatWasMadeAfterAll) {
  BudgetCounter counter(kTen);
  counter.hold(0, 1, 4, 60 * kSecond);
  EXPECT_TRUE(counter.cancel(0, 1).admitted);
  const Answer settled = counter.settle(kSecond, 1, 3);
  EXPECT_TRUE(settled.admitted && settled.late);
  EXPECT_EQ(settled.remaining, 7u);
  EXPECT_TRUE(counter.cancel(kSecond, 1).conflict);
  EXPECT_TRUE(counter.settle(kSecond, 1, 4).conflict);
  EXPECT_TRUE(counter.hold(kSecond, 1, 4, kSecond).repeated);
}

TEST(Budget, SpendsWhatNobodySettles) {
  BudgetCounter counter(kTen);
  counter.hold(0, 1, 6, 10 * kSecond);
  EXPECT_EQ(counter.peek(10 * kSecond - 1), ok(4, 50 * kSecond + 1));
  EXPECT_EQ(counter.peek(10 * kSecond), ok(4, 50 * kSecond));
  EXPECT_EQ(counter.extend(10 * kSecond, 1, kSecond), gone(4, 50 * kSecond));
  EXPECT_EQ(counter.hold(10 * kSecond, 1, 6, kSecond), repeated(ok(4, 50 * kSecond)));
  EXPECT_EQ(counter.hold(10 * kSecond, 1, 5, kSecond), conflict(4, 50 * kSecond));
  EXPECT_EQ(counter.settle(11 * kSecond, 1, 1), late(ok(9, 49 * kSecond)));  // counted once
  EXPECT_EQ(counter.settle(11 * kSecond, 1, 1), repeated(ok(9, 49 * kSecond)));
}

TEST(Budget, SpendsTheLargerAmountIfTheWindowOfTheHoldIsOver) {
  BudgetCounter counter(kTen);
  counter.hold(0, 1, 6, 10 * kSecond);
  counter.hold(0, 2, 3, 10 * kSecond);
  EXPECT_EQ(counter.settle(kMinute, 1, 8), late(ok(8, kMinute)));
  EXPECT_EQ(counter.settle(kMinute, 2, 1), late(ok(8, kMinute)));
}

TEST(Budget, ReleasesWhatNobodySettlesIfItSaysSo) {
  BudgetCounter counter(kReleasing);
  EXPECT_EQ(counter.hold(0, 1, 6, 10 * kSecond), held(4, 10 * kSecond, 10 * kSecond));
  EXPECT_EQ(counter.take(0, 5), wait(10 * kSecond, 4, 10 * kSecond));
  core::expect_exact_wait(counter, 0, 5);
  EXPECT_EQ(counter.peek(10 * kSecond), ok(10, 0));
  EXPECT_EQ(counter.settle(10 * kSecond, 1, 3), late(ok(7, 50 * kSecond)));
}

TEST(Budget, KeepsOpenHoldsInTheNextWindow) {
  BudgetCounter counter(kTen);
  counter.take(50 * kSecond, 3);
  counter.hold(50 * kSecond, 1, 6, 30 * kSecond);
  EXPECT_EQ(counter.peek(kMinute), ok(4, kMinute));
  EXPECT_EQ(counter.peek(50 * kSecond, 8), wait(70 * kSecond, 1, 70 * kSecond));
  core::expect_exact_wait(counter, 50 * kSecond, 8);
  EXPECT_EQ(counter.peek(80 * kSecond), ok(4, 40 * kSecond));  // spent in this window
  EXPECT_EQ(counter.peek(2 * kMinute), ok(10, 0));
}

TEST(Budget, WaitsForTheHoldsThatMustEnd) {
  for (const Limit& limit : {kTen, kReleasing}) {
    BudgetCounter counter(limit);
    counter.take(55 * kSecond, 1);
    counter.hold(55 * kSecond, 1, 2, 2 * kSecond);
    counter.hold(55 * kSecond, 2, 3, 20 * kSecond);
    counter.hold(55 * kSecond, 3, 4, 100 * kSecond);
    for (std::uint64_t cost = 1; cost <= 10; ++cost) {
      core::expect_exact_wait(counter, 55 * kSecond, cost);
    }
  }
}

TEST(Budget, DeniesForEverWhatABalanceDoesNotHave) {
  BudgetCounter counter(kBalance);
  EXPECT_EQ(counter.take(0, 6), ok(4, kForever));
  EXPECT_EQ(counter.take(kSecond, 5), refused(4, kForever - kSecond));
  EXPECT_EQ(counter.forgotten().multiple(), core::Forgotten::kNever);
  counter.become(budget(20).never());
  EXPECT_EQ(counter.take(kSecond, 5), ok(9, kForever - kSecond));
}

TEST(Budget, BoundsTheOpenHolds) {
  BudgetCounter counter(budget(10).per(1min).holds(2));
  counter.hold(0, 1, 1, 5 * kSecond);
  counter.hold(0, 2, 1, 9 * kSecond);
  Answer many = wait(5 * kSecond, 8, kMinute);
  many.too_many = true;
  EXPECT_EQ(counter.hold(0, 3, 1, kSecond), many);
  EXPECT_EQ(counter.hold(0, 3, 9, kSecond), wait(kMinute, 8, kMinute));
  EXPECT_EQ(counter.take(0, 3, 1), ok(7, kMinute));  // not a hold
  counter.settle(0, 1, 1);
  EXPECT_TRUE(counter.hold(0, 4, 1, kSecond).admitted);
}

TEST(Budget, ExtendsAHold) {
  BudgetCounter counter(kTen);
  counter.hold(0, 1, 6, 10 * kSecond);
  EXPECT_EQ(counter.extend(5 * kSecond, 1, 10 * kSecond), held(4, 55 * kSecond, 10 * kSecond));
  EXPECT_TRUE(counter.extend(14 * kSecond, 1, 10 * kSecond).admitted);
  EXPECT_EQ(counter.extend(24 * kSecond, 1, 10 * kSecond), gone(4, 36 * kSecond));
  EXPECT_EQ(counter.extend(24 * kSecond, 2, 10 * kSecond), gone(4, 36 * kSecond));
}

TEST(Budget, KnowsAnIdForAsLongAsItRemembers) {
  BudgetCounter counter(budget(10).per(24h).remember(2s));
  counter.hold(0, 1, 1, 10 * kSecond);
  counter.settle(0, 1, 1);
  const Ticks until = core::Forgotten::after(12 * kSecond).from();
  EXPECT_TRUE(counter.settle(until - 1, 1, 1).repeated);
  EXPECT_TRUE(counter.settle(until, 1, 1).late);
}

TEST(Budget, IsNotForgottenWhileItKnowsAnId) {
  BudgetCounter counter(budget(10).per(1s).remember(1h));
  counter.hold(0, 1, 1, 10 * kSecond);
  EXPECT_GE(counter.forgotten().from(), 3610 * kSecond);
  counter.settle(0, 1, 0);
  EXPECT_GE(counter.forgotten().from(), 3610 * kSecond);
}

TEST(Budget, TakesAtMostWhatIsLeftAndGivesBackWhatWasSpent) {
  BudgetCounter counter(kTen);
  EXPECT_EQ(counter.take_at_most(0, 7), taken(7, 3, kMinute));
  EXPECT_EQ(counter.take_at_most(0, 7), taken(3, 0, kMinute));
  EXPECT_EQ(counter.take_at_most(0, 7), wait(kMinute, 0, kMinute));
  EXPECT_EQ(counter.refund(0, 4), ok(4, kMinute));
  EXPECT_EQ(counter.reserve(0, 4), delayed(0, 0, kMinute));
  EXPECT_EQ(counter.refund(0, 40), ok(10, 0));
}

TEST(Budget, CountsWorkBeyondTheLimit) {
  BudgetCounter counter(kTen);
  EXPECT_EQ(counter.charge(0, 12), core::over(kMinute));
  EXPECT_EQ(counter.refund(0, 2), ok(0, kMinute));
  EXPECT_EQ(counter.settle(0, 1, kMaxAmount), late(core::over(kMinute)));
  EXPECT_EQ(counter.charge(0, kMaxAmount), core::over(kMinute));  // not beyond the largest amount
  EXPECT_EQ(counter.charge(30 * kSecond, 1), core::over(30 * kSecond));
  EXPECT_EQ(counter.peek(10 * kSecond).reset_after, 50 * kSecond);  // it has changed nothing
}

TEST(Budget, HoldsTheExtremes) {
  constexpr Ticks kLast = kLastInstant.time_since_epoch().count();
  BudgetCounter counter(budget(kMaxAmount).never().holds(65'535));
  EXPECT_EQ(counter.hold(0, 1, kMaxAmount, kSecond), held(0, kForever, kSecond));
  EXPECT_EQ(counter.settle(0, 1, kMaxAmount - 1), ok(1, kForever));
  EXPECT_EQ(counter.take(0, 2), refused(1, kForever));
  EXPECT_EQ(counter.hold(kLast, 2, 1, 86'400 * kSecond).ends_after, 86'400 * kSecond);
}

TEST(Budget, KnowsManyIdsAtOnce) {
  BudgetCounter counter(budget(1'000'000).per(1h).holds(1000));
  for (int id = 1; id <= 200; ++id) {
    ASSERT_TRUE(counter.hold(id, static_cast<std::uint8_t>(id), 5, id * kSecond).admitted);
  }
  for (int id = 1; id <= 200; id += 2) {
    ASSERT_FALSE(counter.settle(201, static_cast<std::uint8_t>(id), 3).late);
  }
  EXPECT_EQ(counter.open(), 100u);
  EXPECT_EQ(counter.peek(201).remaining, 1'000'000u - 800);
  EXPECT_EQ(counter.peek(100 * kSecond + 100).remaining, 1'000'000u - 800);
  for (int id = 1; id <= 200; ++id) {
    const auto name = static_cast<std::uint8_t>(id);
    ASSERT_TRUE(counter.hold(100 * kSecond + 100, name, 5, kSecond).repeated) << id;
  }
  counter.take(100 * kSecond + 100, 1);  // the first fifty of them leave
  EXPECT_EQ(counter.open(), 50u);
  for (int id = 2; id <= 200; id += 2) {
    const Answer said = counter.settle(101 * kSecond, static_cast<std::uint8_t>(id), 5);
    ASSERT_EQ(said.late, id <= 100) << id;
  }
  EXPECT_EQ(counter.peek(101 * kSecond).remaining, 1'000'000u - 801);
}

TEST(Budget, FollowsTheCalendar) {
  using std::chrono::sys_days;
  const Limit limit = budget(10).per(calendar_month("UTC"));
  const auto at = [](int month, int day) {
    return (Instant{sys_days{std::chrono::year{2026} / month / day}}).time_since_epoch().count();
  };
  BudgetCounter counter(limit);
  EXPECT_EQ(counter.take(at(2, 27), 10), ok(0, 2 * 86'400 * kSecond));
  EXPECT_EQ(counter.take(at(2, 28), 1), wait(86'400 * kSecond, 0, 86'400 * kSecond));
  EXPECT_EQ(counter.take(at(3, 1), 1), ok(9, Ticks{31} * 86'400 * kSecond));
}

// As where a process has read a part of the counter, and another one knows the calendar.
TEST(Budget, IsDecidedAlikeByAPartOfItsHoldsAndTheBoundsOfItsWindows) {
  const Limit limit = budget(10).per(calendar_day("UTC"));
  constexpr Ticks kDay = 86'400 * kSecond;
  const std::vector<Ticks> bounds = {kDay, 2 * kDay, 3 * kDay, 4 * kDay};
  const PermitId own = PermitId(PermitId::Bytes{1});
  const std::vector<core::IdRecord> ids = {
      {core::HoldName(own), core::IdKind::kOpen, 2, 0},
      {core::HoldName(PermitId(PermitId::Bytes{2})), core::IdKind::kOpen, 3, 1}};
  const std::vector<core::OpenHold> holds = {{2 * kDay - kSecond, 0}, {2 * kDay + kSecond, 1}};
  const core::Budget whole{.last = kDay + 5,
                           .spent = 4,
                           .held = 5,
                           .first = 2 * kDay - kSecond,
                           .latest = 2 * kDay + kSecond,
                           .holds = holds,
                           .records = ids.data(),
                           .asked = &own,
                           .found = ids.data()};
  core::Budget part = whole;
  part.holds = part.holds.first(1);
  part.unread = 1;
  part.bounds = bounds;
  const core::Forgotten never(core::Forgotten::kNever);
  for (const Action action : {Action(Verb::kPeek), Action(Verb::kSettle), Action(Verb::kCancel),
                              Action(Verb::kExtend, 1min), Action(Verb::kHold, 1min)}) {
    const auto expected = core::budget::step(action, limit, {whole, never}, kDay + 9, 1);
    const auto step = core::budget::step(action, limit, {part, never}, kDay + 9, 1);
    EXPECT_EQ(step.answer, expected.answer);
    EXPECT_EQ(step.next.latest, expected.next.latest);
    EXPECT_EQ(step.next.forgotten.multiple(), expected.next.forgotten.multiple());
  }
  const auto next_day = core::budget::step(Verb::kPeek, limit, {whole, never}, 2 * kDay, 1);
  part.holds = holds;
  part.unread = 0;
  EXPECT_EQ(core::budget::step(Verb::kPeek, limit, {part, never}, 2 * kDay, 1).answer,
            next_day.answer);
}

}  // namespace
}  // namespace sluice::budget_test
