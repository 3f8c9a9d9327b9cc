#include "limiter/wait_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::wait_queue_test {
namespace {

using namespace std::chrono_literals;
using detail::WaitQueue;
using Next = WaitQueue::Next;

constexpr Instant kStart{std::chrono::seconds{1'700'000'000}};
constexpr Limit kWindow = fixed_window(5).per(1s);
constexpr Limit kLog = sliding_window_log(5).per(1s);

constexpr Limit kFlight = concurrency(1).lease(10s);

// A queue in front of a memory store, with time in the hands of the test.
class Simulation {
 public:
  struct Caller : detail::Waiter {
    Caller(const Limit& of, std::uint64_t units, Instant until, std::string name)
        : Waiter{.limit = of, .cost = units, .deadline = until}, key(std::move(name)) {}
    std::string key;
    Instant finished_at = {};
    int times_finished = 0;
  };

  explicit Simulation(std::size_t most = 100'000) : queue(most) {}

  Caller& join(const Limit& limit, std::uint64_t cost = 1, Duration at_most = 1h,
               const std::string& key = "key") {
    Caller& caller = callers.emplace_back(limit, cost, clock.now() + at_most, key);
    switch (queue.join(caller, Charge{caller.key, limit}, clock.now())) {
      case Next::kEnded: finish(caller); break;
      case Next::kWaits: break;
      case Next::kAsks: ask(caller); break;
    }
    return caller;
  }
  void leave(Caller& caller) {
    if (caller.line == nullptr) return;
    timers.erase(&caller);
    detail::Waiter* next = nullptr;
    EXPECT_TRUE(queue.leave(caller, clock.now(), next)) << "the store answers at once";
    if (Caller* const first = schedule(next)) ask(*first);
  }
  // Runs until nobody waits, or until the instant.
  void run(Instant until = Instant::max()) {
    for (;;) {
      const auto timer =
          std::min_element(timers.begin(), timers.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      if (timer == timers.end() || timer->second > until) break;
      clock.set(std::max(clock.now(), timer->second));
      Caller& caller = *timer->first;
      timers.erase(timer);
      ask(caller);
    }
    if (until != Instant::max()) clock.set(until);
  }
  std::vector<Duration> waits() const {
    std::vector<Duration> out;
    for (const Caller& caller : callers) out.push_back(caller.finished_at - kStart);
    return out;
  }

  testing::ManualClock clock{kStart};
  MemoryStore store{{}, clock};
  WaitQueue queue;
  std::deque<Caller> callers;
  std::map<Caller*, Instant> timers;
  std::vector<Caller*> order;  // of those that were admitted
  int questions = 0;

 private:
  void ask(Caller& caller) {
    Caller* first = &caller;
    while (first != nullptr) {
      ++questions;
      const Charge question = queue.ask(*first);
      const Decision said = store.apply_one(Verb::kTake, question, {});
      detail::Waiter* finished = nullptr;
      detail::Waiter* const next = queue.answer(*first, said, clock.now(), finished);
      while (finished != nullptr) {
        Caller& done = static_cast<Caller&>(*finished);
        finished = finished->next;
        finish(done);
      }
      first = schedule(next);
    }
  }
  // Returns who is to ask at once.
  Caller* schedule(detail::Waiter* next) {
    if (next == nullptr) return nullptr;
    auto* const first = static_cast<Caller*>(next);
    if (first->turn <= clock.now()) return first;
    timers[first] = first->turn;
    return nullptr;
  }
  void finish(Caller& caller) {
    timers.erase(&caller);
    caller.finished_at = clock.now();
    ++caller.times_finished;
    if (caller.decision.allowed()) order.push_back(&caller);
  }
};

TEST(WaitQueue, AdmitsAtOnceWhatFits) {
  Simulation sim;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(sim.join(kWindow).decision.allowed());
  EXPECT_EQ(sim.questions, 5);
  EXPECT_EQ(sim.queue.size(), 0u);
}

TEST(WaitQueue, AdmitsInOrderOfArrivalAtTheFirstInstantThatFits) {
  Simulation sim;
  for (int i = 0; i < 12; ++i) sim.join(kWindow);
  EXPECT_EQ(sim.queue.size(), 7u);
  EXPECT_TRUE(sim.queue.has_waiters(Charge{"key", kWindow}));
  sim.run();
  const std::vector<Duration> expected = {0s, 0s, 0s, 0s, 0s, 1s, 1s, 1s, 1s, 1s, 2s, 2s};
  EXPECT_EQ(sim.waits(), expected);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(sim.order[i], &sim.callers[i]);
  EXPECT_FALSE(sim.queue.has_waiters(Charge{"key", kWindow}));
}

TEST(WaitQueue, AsksForAsManyAsTheLastAnswerLeft) {
  Simulation sim;
  for (int i = 0; i < 1005; ++i) sim.join(kWindow);
  const int before = sim.questions;
  EXPECT_EQ(before, 6) << "five that fit, and one that waits";
  sim.run();
  EXPECT_EQ(sim.questions - before, 400) << "one, then the other four, in each of 200 windows";
}

TEST(WaitQueue, AsksOnceForEachGrantIfOneFits) {
  for (const Limit& limit :
       {Limit(fixed_window(1).per(1s)), Limit(sliding_window_log(1).per(1s))}) {
    Simulation sim;
    for (int i = 0; i < 100; ++i) sim.join(limit);
    const int before = sim.questions;
    sim.run();
    EXPECT_EQ(sim.questions - before, 99);
    EXPECT_EQ(sim.callers.back().finished_at, kStart + 99s);
  }
}

TEST(WaitQueue, LetsNobodyOvertakeALargeCost) {
  Simulation sim;
  sim.join(kWindow, 3);
  Simulation::Caller& large = sim.join(kWindow, 4);
  Simulation::Caller& small = sim.join(kWindow, 1);
  EXPECT_EQ(sim.queue.size(), 2u) << "one unit is left, and the small one does not take it";
  sim.run();
  EXPECT_EQ(large.finished_at, kStart + 1s);
  EXPECT_EQ(small.finished_at, kStart + 1s);
}

TEST(WaitQueue, RefusesACostThatNeverFits) {
  Simulation sim;
  const Simulation::Caller& caller = sim.join(kWindow, 6);
  EXPECT_EQ(caller.decision.reason, Reason::kNever);
  EXPECT_EQ(sim.questions, 0);
}

TEST(WaitQueue, RefusesAtOnceADeadlineThatCannotBeMet) {
  for (const Limit& limit : {kWindow, kLog}) {
    Simulation sim;
    for (int i = 0; i < 5; ++i) sim.join(limit);
    const Simulation::Caller& first = sim.join(limit, 1, 1s - 1us);
    EXPECT_EQ(first.decision.reason, Reason::kLimited);
    EXPECT_EQ(first.decision.retry_after, 1s);
    for (int i = 0; i < 5; ++i) sim.join(limit, 1, 1s);
    EXPECT_EQ(sim.queue.size(), 5u);
    const int before = sim.questions;
    const Simulation::Caller& late = sim.join(limit, 1, 2s - 1us);
    EXPECT_EQ(late.decision.retry_after, 2s) << "five are ahead of it";
    EXPECT_EQ(sim.questions, before);
    EXPECT_FALSE(late.decision.allowed());
    Simulation::Caller& last = sim.join(limit, 1, 2s);
    sim.run();
    EXPECT_EQ(last.finished_at, kStart + 2s);
    EXPECT_EQ(sim.order.size(), 11u);
  }
}

TEST(WaitQueue, AdmitsAfterABlockWhatABucketHoldsAndRefills) {
  constexpr Limit kFive = token_bucket(5).per(1s).burst(10);
  WaitQueue queue;
  detail::Waiter first{.limit = kFive, .cost = 10, .deadline = kStart + 1h};
  detail::Waiter* finished = nullptr;
  EXPECT_EQ(queue.join(first, {"key", kFive}, kStart), Next::kAsks);
  static_cast<void>(queue.ask(first));
  queue.answer(first, {.outcome = Outcome::kDenied, .reason = Reason::kBlocked, .retry_after = 1s},
               kStart, finished);
  detail::Waiter in_time{.limit = kFive, .cost = 5, .deadline = kStart + 2s};
  EXPECT_EQ(queue.join(in_time, {"key", kFive}, kStart), Next::kWaits);
  detail::Waiter late{.limit = kFive, .cost = 5, .deadline = kStart + 3s - 1us};
  EXPECT_EQ(queue.join(late, {"key", kFive}, kStart), Next::kEnded);
  EXPECT_EQ(late.decision.retry_after, 3s);
  detail::Waiter* next = nullptr;
  EXPECT_TRUE(queue.leave(in_time, kStart, next));
  EXPECT_TRUE(queue.leave(first, kStart, next));
}

// The end of a block begins no window: one that is open then has room.
TEST(WaitQueue, AdmitsAfterABlockWhatTheOpenWindowHolds) {
  WaitQueue queue;
  const Limit limit = fixed_window(1).per(10s);
  const Charge charge{.key = "key", .limit = limit};
  detail::Waiter first{.limit = limit, .deadline = kStart + 20s};
  detail::Waiter second{.limit = limit, .deadline = kStart + 6s};
  EXPECT_EQ(queue.join(first, charge, kStart), Next::kAsks);
  (void)queue.ask(first);
  detail::Waiter* finished = nullptr;
  queue.answer(first, {.outcome = Outcome::kDenied, .reason = Reason::kBlocked, .retry_after = 1s},
               kStart, finished);
  ASSERT_EQ(queue.join(second, charge, kStart), Next::kWaits);
  detail::Waiter late{.limit = limit, .deadline = kStart + 6s};
  EXPECT_EQ(queue.join(late, charge, kStart), Next::kEnded) << "a window lasts 10 s";
  EXPECT_EQ(late.decision.retry_after, 11s);
  detail::Waiter* next = nullptr;
  EXPECT_TRUE(queue.leave(second, kStart, next));
  EXPECT_TRUE(queue.leave(first, kStart, next));
}

TEST(WaitQueue, RefusesTheRestWhenOthersHaveTakenTheUnits) {
  Simulation sim;
  for (int i = 0; i < 5; ++i) sim.join(kWindow);
  Simulation::Caller& patient = sim.join(kWindow, 1, 5s);
  Simulation::Caller& hasty = sim.join(kWindow, 1, 1500ms);
  sim.clock.advance(1s);
  EXPECT_TRUE(Limiter(sim.store).try_acquire("key", kWindow, 5)) << "another program";
  sim.run();
  EXPECT_EQ(hasty.decision.reason, Reason::kLimited);
  EXPECT_EQ(hasty.finished_at, kStart + 1s) << "it is told at once, and not at its deadline";
  EXPECT_EQ(hasty.decision.retry_after, 1s);
  EXPECT_EQ(patient.finished_at, kStart + 2s);
}

TEST(WaitQueue, AsksForTheFirstAloneIfOthersTookWhatWasLeft) {
  Simulation sim;
  for (int i = 0; i < 5; ++i) sim.join(kWindow);
  for (int i = 0; i < 5; ++i) sim.join(kWindow);
  sim.clock.advance(1s);
  detail::Waiter& first = sim.callers[5];
  Charge question = sim.queue.ask(first);
  EXPECT_EQ(question.cost, 1u);
  detail::Waiter* finished = nullptr;
  const Decision one_left{.capacity = 5, .remaining = 4, .reset_after = 1s};
  detail::Waiter* const next = sim.queue.answer(first, one_left, sim.clock.now(), finished);
  ASSERT_EQ(next, &sim.callers[6]);
  EXPECT_EQ(sim.queue.ask(*next).cost, 4u);
  const Decision denied{.outcome = Outcome::kDenied,
                        .reason = Reason::kLimited,
                        .capacity = 5,
                        .remaining = 1,
                        .retry_after = 1s};
  detail::Waiter* const alone = sim.queue.answer(*next, denied, sim.clock.now(), finished);
  EXPECT_EQ(finished, nullptr);
  ASSERT_EQ(alone, &sim.callers[6]);
  EXPECT_EQ(alone->turn, sim.clock.now());
  EXPECT_EQ(sim.queue.ask(*alone).cost, 1u);
  EXPECT_EQ(sim.queue.answer(*alone, denied, sim.clock.now(), finished)->turn,
            sim.clock.now() + 1s);
}

TEST(WaitQueue, RefusesMoreWaitersThanItsBound) {
  Simulation sim(2);
  for (int i = 0; i < 7; ++i) sim.join(kWindow);
  const Simulation::Caller& more = sim.join(kWindow);
  EXPECT_EQ(more.decision.reason, Reason::kTooManyWaiters);
  EXPECT_EQ(more.decision.outcome, Outcome::kDenied);
  EXPECT_EQ(more.decision.retry_after, std::nullopt);
  sim.run();
  EXPECT_TRUE(sim.join(kWindow).decision.allowed()) << "they are gone";
}

TEST(WaitQueue, KeepsItsInstantWhenTheFirstLeaves) {
  Simulation sim;
  for (int i = 0; i < 8; ++i) sim.join(kWindow);
  const int before = sim.questions;
  sim.leave(sim.callers[5]);
  sim.leave(sim.callers[7]);
  EXPECT_EQ(sim.questions, before);
  sim.run();
  EXPECT_EQ(sim.callers[5].times_finished, 0);
  EXPECT_EQ(sim.callers[6].finished_at, kStart + 1s);
  EXPECT_EQ(sim.questions, before + 1);
  EXPECT_EQ(sim.queue.size(), 0u);
}

TEST(WaitQueue, LetsACheaperOneAskWhenTheFirstLeaves) {
  Simulation sim;
  sim.join(kWindow, 3);
  Simulation::Caller& large = sim.join(kWindow, 4);
  Simulation::Caller& small = sim.join(kWindow, 2);
  sim.timers.erase(&large);
  detail::Waiter* next = nullptr;
  EXPECT_TRUE(sim.queue.leave(large, sim.clock.now(), next));
  EXPECT_EQ(next, &small);
  EXPECT_EQ(next->turn, sim.clock.now());
}

TEST(WaitQueue, SaysWhenTheCounterIsFullAsOfTheEndOfAWait) {
  WaitQueue queue;
  detail::Waiter one{.limit = kWindow, .deadline = kStart + 1h};
  const Decision said{.outcome = Outcome::kDenied,
                      .reason = Reason::kLimited,
                      .reset_after = 5s,
                      .retry_after = 4s};
  EXPECT_EQ(queue.join(one, Charge{"key", kWindow}, kStart, {}, &said), Next::kAsks);
  (void)queue.ask(one);
  detail::Waiter* finished = nullptr;
  EXPECT_EQ(queue.answer(one, said, kStart, finished), &one);
  detail::Waiter* next = nullptr;
  EXPECT_TRUE(queue.leave(one, kStart + 3s, next));
  EXPECT_EQ(one.decision.retry_after, Duration(1s));
  EXPECT_EQ(one.decision.reset_after, Duration(2s));
}

TEST(WaitQueue, KeepsAWaiterWhoseQuestionIsUnderWay) {
  WaitQueue queue;
  detail::Waiter one{.limit = kWindow, .deadline = Instant::max()};
  detail::Waiter two = one;
  EXPECT_EQ(queue.join(one, Charge{"key", kWindow}, kStart), Next::kAsks);
  (void)queue.ask(one);
  EXPECT_EQ(queue.join(two, Charge{"key", kWindow}, kStart), Next::kWaits);
  detail::Waiter* next = nullptr;
  EXPECT_FALSE(queue.leave(one, kStart, next));
  EXPECT_TRUE(queue.leave(two, kStart, next));
  EXPECT_EQ(next, nullptr) << "the question of the first is under way";
}

TEST(WaitQueue, AnswersEverybodyWhenTheStoreFails) {
  WaitQueue queue;
  detail::Waiter one{.limit = kWindow, .deadline = Instant::max()};
  detail::Waiter two = one;
  queue.join(one, Charge{"key", kWindow}, kStart);
  (void)queue.ask(one);
  queue.join(two, Charge{"key", kWindow}, kStart);
  detail::Waiter* finished = nullptr;
  const Decision failed = Decision::refused(Reason::kStoreTimeout);
  EXPECT_EQ(queue.answer(one, failed, kStart, finished), nullptr);
  ASSERT_EQ(finished, &one);
  ASSERT_EQ(finished->next, &two);
  EXPECT_EQ(one.decision.reason, Reason::kStoreTimeout);
  EXPECT_EQ(two.decision.reason, Reason::kStoreError) << "nothing was counted for it";
}

TEST(WaitQueue, LetsTheNextOneAskWhenAPolicyAnswers) {
  for (const Outcome outcome : {Outcome::kAllowed, Outcome::kDenied}) {
    WaitQueue queue;
    detail::Waiter one{.limit = kWindow, .deadline = Instant::max()};
    detail::Waiter two = one;
    queue.join(one, Charge{"key", kWindow}, kStart);
    (void)queue.ask(one);
    queue.join(two, Charge{"key", kWindow}, kStart);
    detail::Waiter* finished = nullptr;
    const Decision by_policy{.outcome = outcome, .reason = Reason::kFallback, .capacity = 5};
    detail::Waiter* const next = queue.answer(one, by_policy, kStart, finished);
    EXPECT_EQ(finished, &one);
    EXPECT_EQ(one.next, nullptr);
    EXPECT_EQ(next, &two);
    EXPECT_EQ(next->turn, kStart);
  }
}

TEST(WaitQueue, SeparatesCounters) {
  WaitQueue queue;
  std::deque<detail::Waiter> waiters;
  const auto join = [&](const Charge& charge) {
    waiters.push_back({.limit = charge.limit, .deadline = Instant::max()});
    return queue.join(waiters.back(), charge, kStart);
  };
  EXPECT_EQ(join({.key = "a", .limit = kWindow}), Next::kAsks);
  EXPECT_EQ(join({.key = "b", .limit = kWindow}), Next::kAsks);
  EXPECT_EQ(join({.key = "a", .limit = kLog}), Next::kAsks);
  EXPECT_EQ(join({.key = "a", .limit = kWindow, .tag = "t"}), Next::kAsks);
  EXPECT_EQ(join({.key = "a", .limit = kWindow, .rule = {Keyspace::kRules}}), Next::kAsks);
  EXPECT_EQ(join({.key = "a", .limit = fixed_window(7).per(1s)}), Next::kWaits)
      << "the numbers do not name the counter";
}

TEST(WaitQueue, AsksForOneLimitAtATime) {
  WaitQueue queue;
  const Limit other = fixed_window(7).per(1s);
  std::deque<detail::Waiter> waiters;
  for (const Limit& limit : {kWindow, kWindow, other, kWindow}) {
    waiters.push_back({.limit = limit, .deadline = Instant::max()});
    queue.join(waiters.back(), Charge{"key", limit}, kStart);
  }
  (void)queue.ask(waiters[0]);
  detail::Waiter* finished = nullptr;
  const Decision allowed{.capacity = 5, .remaining = 4, .reset_after = 1s};
  EXPECT_EQ(queue.answer(waiters[0], allowed, kStart, finished), &waiters[1]);
  EXPECT_EQ(queue.ask(waiters[1]).cost, 1u);
  EXPECT_EQ(queue.answer(waiters[1], allowed, kStart, finished), &waiters[2]);
  EXPECT_EQ(queue.ask(waiters[2]).limit, other);
}

TEST(WaitQueue, FinishesEachOnceInOrderAndInTimeOnRandomHistories) {
  const std::vector<Limit> limits = {
      kWindow, kLog, Limit(fixed_window(3).per(700ms).aligned_to_clock()),
      Limit(sliding_window_counter(6).per(1s).slices(3)), Limit(sliding_window_hybrid(6).per(1s))};
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const Limit limit = limits[seed % limits.size()];
    Simulation sim;
    std::vector<Simulation::Caller*> left;
    for (int i = 0; i < 60; ++i) {
      sim.join(limit, 1 + random() % 3, Duration{1'000 * (random() % 20'000)});
      Simulation::Caller& any = sim.callers[random() % sim.callers.size()];
      if (random() % 4 == 0 && any.line != nullptr) {
        sim.leave(any);
        left.push_back(&any);
      }
      sim.run(sim.clock.now() + Duration{random() % 200'000});
      if (random() % 4 == 0) (void)Limiter(sim.store).try_acquire("key", limit);
    }
    sim.run();
    EXPECT_EQ(sim.queue.size(), 0u);
    Simulation::Caller* before = nullptr;
    for (Simulation::Caller& caller : sim.callers) {
      const bool has_left = std::find(left.begin(), left.end(), &caller) != left.end();
      EXPECT_TRUE(has_left || caller.times_finished == 1) << "seed " << seed;
      if (!caller.decision.allowed() || caller.times_finished == 0) continue;
      EXPECT_LE(caller.finished_at, caller.deadline) << "seed " << seed;
      EXPECT_TRUE(before == nullptr || before->finished_at <= caller.finished_at)
          << "seed " << seed;
      before = &caller;
    }
  }
}

// --- permits ----------------------------------------------------------------------------------

class PermitQueueTest : public ::testing::Test {
 protected:
  // Answers the question of the first waiter, whose permit comes back after `wait` at the latest.
  detail::Waiter* deny(detail::Waiter& first, Duration wait, Instant now) {
    detail::Waiter* finished = nullptr;
    detail::Waiter* const next = queue.answer(first,
                                              {.outcome = Outcome::kDenied,
                                               .reason = Reason::kLimited,
                                               .capacity = 1,
                                               .retry_after = wait},
                                              now, finished);
    EXPECT_EQ(finished, nullptr);
    return next;
  }

  WaitQueue queue{65'536, false};
  const Charge counter{"key", kFlight};
  detail::Waiter one{.limit = kFlight, .deadline = kStart + 5s};
  detail::Waiter two{.limit = kFlight, .deadline = kStart + 5s};
};

TEST_F(PermitQueueTest, TheFirstAsksWhenAPermitIsReleased) {
  EXPECT_EQ(queue.released(counter, kStart), nullptr);
  EXPECT_EQ(queue.join(one, counter, kStart), Next::kAsks);
  queue.ask(one);
  EXPECT_EQ(deny(one, 10s, kStart)->turn, kStart + WaitQueue::kReleaseCheck);
  EXPECT_EQ(queue.join(two, counter, kStart), Next::kWaits) << "before the lease ends";
  detail::Waiter* const next = queue.released(counter, kStart + 10ms);
  EXPECT_EQ(next, &one);
  EXPECT_EQ(next->turn, kStart + 10ms);
  queue.ask(one);
  EXPECT_EQ(queue.released(counter, kStart + 11ms), nullptr) << "a question is under way";
  EXPECT_EQ(deny(one, 9s, kStart + 12ms)->turn, kStart + 12ms) << "it asks again for that";
}

TEST_F(PermitQueueTest, AWaitEndsAtItsDeadline) {
  queue.join(one, counter, kStart);
  queue.join(two, counter, kStart);
  queue.ask(one);
  deny(one, 10s, kStart);
  detail::Waiter* next = nullptr;
  EXPECT_TRUE(queue.leave(two, kStart + 5s, next));
  EXPECT_EQ(next, &one);
  EXPECT_EQ(two.decision.reason, Reason::kLimited);
  EXPECT_EQ(two.decision.retry_after, Duration{5s});
  queue.ask(one);
  EXPECT_FALSE(queue.leave(one, kStart + 5s, next)) << "a question is under way";
  deny(one, 5s, kStart + 5s);
  EXPECT_TRUE(queue.leave(one, kStart + 5s, next));
  EXPECT_EQ(next, nullptr);
  EXPECT_EQ(queue.size(), 0u);
}

}  // namespace
}  // namespace sluice::wait_queue_test
