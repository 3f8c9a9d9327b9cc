#include "sluice/detail/async_waits.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "limiter/wait_queue.h"
#include "limiter/waits.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"
#include "sluice/testing/manual_clock.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using detail::AsyncWaits;
using detail::WaitingRequest;
using detail::WakeHeap;

constexpr Instant kStart{std::chrono::seconds{1'700'000'000}};
constexpr Limit kBucket = token_bucket(10).per(1s).burst(1);
constexpr Limit kWindow = fixed_window(2).per(1s);

TEST(WakeHeap, WakesInOrderAfterAnyRemovals) {
  std::mt19937 random(1);
  struct Sleeper : detail::Waiter {
    Sleeper() : Waiter{.limit = kBucket} {}
    Instant at;
  };
  std::deque<Sleeper> sleepers(500);
  WakeHeap heap;
  ASSERT_TRUE(heap.reserve(sleepers.size()));
  for (Sleeper& sleeper : sleepers) {
    sleeper.at = kStart + Duration{random() % 200};
    heap.add(sleeper, sleeper.at);
    if (random() % 3 == 0) heap.remove(sleepers[random() % sleepers.size()]);
  }
  Instant last = kStart;
  for (; !heap.empty(); heap.remove(heap.first())) {
    EXPECT_EQ(heap.at(), static_cast<Sleeper&>(heap.first()).at);
    EXPECT_GE(heap.at(), last);
    last = heap.at();
  }
  for (const Sleeper& sleeper : sleepers) EXPECT_EQ(sleeper.place, 0u);
}

// A memory store that answers when the test says so.
class LaterStore final : public AsyncStore {
 public:
  explicit LaterStore(const Clock& clock) : store({}, clock) {}

  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override {
    ++questions;
    if (on_question) std::exchange(on_question, nullptr)();
    if (fails) {
      std::fill(each.begin(), each.end(), Decision::refused(Reason::kStoreError));
      return completion.done(Decision::refused(Reason::kStoreError));
    }
    const Decision said = store.apply(action, charges, now, each);
    if (at_once) return completion.done(said);
    answers.emplace_back(&completion, said);
  }
  void answer() {
    const auto [completion, said] = answers.front();
    answers.pop_front();
    completion->done(said);
  }

  MemoryStore store;
  std::deque<std::pair<Completion*, Decision>> answers;
  bool at_once = false;
  bool fails = false;
  int questions = 0;
  std::function<void()> on_question;  // once
};

class Request final : public WaitingRequest {
 public:
  Request(const Limit& of, std::uint64_t units, Instant until, const Clock& of_clock)
      : Request({.key = "key", .limit = of, .cost = units}, until, of_clock) {}
  Request(const Charge& of, Instant until, const Clock& of_clock)
      : WaitingRequest(of, until), clock_(of_clock) {}
  void ended() noexcept override {
    ++times_ended;
    place = ++places_;
    at = clock_.now();
  }
  bool is_admitted() const { return times_ended == 1 && !is_cancelled && decision.allowed(); }

  int times_ended = 0;
  int place = 0;  // among all that have ended
  Instant at = {};

 private:
  inline static int places_ = 0;

  const Clock& clock_;
};

// Waits, the stores in front of which they are, and the test's time. `kLater`: the store answers
// later.
class AsyncWaitsTest : public ::testing::TestWithParam<bool> {
 protected:
  void open(std::size_t most = 1000) {
    waits = AsyncWaits::make(
        GetParam() ? nullptr : &later.store, GetParam() ? &later : nullptr, most,
        [this](Instant at) { alarm = at; }, clock);
  }

  Request& acquire(const Limit& limit, Duration at_most = 1h, std::uint64_t cost = 1) {
    return acquire(Charge{.key = "key", .limit = limit, .cost = cost}, at_most);
  }
  Request& acquire(const Charge& charge, Duration at_most = 1h) {
    Request& request = requests.emplace_back(charge, clock.now() + at_most, clock);
    std::optional<Decision> said;
    if (!GetParam() && waits->decide(request.charge(), request.deadline, said)) {
      request.decision = *said;
      request.ended();
      return request;
    }
    waits->start(request, said);
    if (GetParam()) answer();
    return request;
  }
  void answer() {
    while (!later.answers.empty()) later.answer();
  }
  // Runs until nobody waits, or until the instant.
  void run(Instant until = Instant::max()) {
    while (waits->waiting() > 0 && alarm <= until && alarm != Instant::max()) {
      clock.set(std::max(clock.now(), std::exchange(alarm, Instant::max())));
      waits->on_time();
      answer();
    }
    if (until != Instant::max()) clock.set(until);
  }
  std::uint64_t left(const Limit& limit) {
    return Limiter(later.store).peek("key", limit, 0).remaining;
  }

  testing::ManualClock clock{kStart};
  LaterStore later{clock};
  std::shared_ptr<AsyncWaits> waits;
  Instant alarm = Instant::max();
  std::deque<Request> requests;
};

TEST_P(AsyncWaitsTest, AdmitsAtOnceWhatFits) {
  open();
  EXPECT_TRUE(acquire(kBucket).is_admitted());
  EXPECT_TRUE(acquire(kWindow).is_admitted());
  EXPECT_EQ(waits->waiting(), 0u);
}

TEST_P(AsyncWaitsTest, SleepsUntilItsReservationIsDue) {
  open();
  for (int i = 0; i < 5; ++i) acquire(kBucket);
  EXPECT_EQ(waits->waiting(), 4u);
  run();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(requests[static_cast<std::size_t>(i)].is_admitted());
    EXPECT_EQ(requests[static_cast<std::size_t>(i)].at, kStart + 100ms * i);
  }
  EXPECT_EQ(later.questions, GetParam() ? 5 : 0) << "one for each";
}

TEST_P(AsyncWaitsTest, EndsWhoSleepsBeforeALaterRequestThatIsAdmittedAtOnce) {
  open();
  acquire(kBucket);
  const Request& first = acquire(kBucket);
  clock.advance(250ms);  // the alarm is late
  const Request& second = acquire(kBucket);
  run();
  ASSERT_TRUE(first.is_admitted() && second.is_admitted());
  EXPECT_LT(first.place, second.place);
  EXPECT_EQ(second.at, kStart + 250ms);
}

TEST_P(AsyncWaitsTest, EndsARequestBeforeOthersIfItsDeadlineWouldPass) {
  open();
  acquire(kBucket);
  const Request& first = acquire(kBucket);
  EXPECT_TRUE(Limiter(later.store).reset("key", kBucket));
  EXPECT_EQ(acquire(kBucket, 50ms).times_ended, 1);
  EXPECT_EQ(first.times_ended, 0);
}

TEST_P(AsyncWaitsTest, QueuesForAWindow) {
  open();
  for (int i = 0; i < 7; ++i) acquire(kWindow);
  EXPECT_EQ(waits->waiting(), 5u);
  run();
  for (int i = 0; i < 7; ++i) {
    EXPECT_TRUE(requests[static_cast<std::size_t>(i)].is_admitted());
    EXPECT_EQ(requests[static_cast<std::size_t>(i)].at, kStart + 1s * (i / 2));
  }
}

TEST_P(AsyncWaitsTest, RefusesAtOnceADeadlineThatCannotBeMet) {
  open();
  acquire(kBucket);
  const Request& late = acquire(kBucket, 100ms - 1us);
  EXPECT_EQ(late.times_ended, 1);
  EXPECT_EQ(late.decision.reason, Reason::kLimited);
  EXPECT_EQ(late.decision.retry_after, 1us);
  acquire(kWindow, 1h, 2);
  EXPECT_EQ(acquire(kWindow, 999ms).decision.retry_after, 1s);
  EXPECT_EQ(waits->waiting(), 0u);
}

TEST_P(AsyncWaitsTest, RefusesMoreThanItsBound) {
  open(2);
  for (const Limit& limit : {kBucket, kWindow}) {
    acquire(limit, 1h, limit.capacity());
    acquire(limit);
    acquire(limit);
    const Request& more = acquire(limit);
    EXPECT_EQ(more.times_ended, 1);
    EXPECT_EQ(more.decision.reason, Reason::kTooManyWaiters);
    run();
  }
}

TEST_P(AsyncWaitsTest, RefusesMoreThanItsBoundBehindOthersWhenUnitsCameBack) {
  open(2);
  for (int i = 0; i < 3; ++i) acquire(kBucket);
  EXPECT_TRUE(Limiter(later.store).reset("key", kBucket));
  const Request& more = acquire(kBucket);
  EXPECT_EQ(more.times_ended, 1);
  EXPECT_EQ(more.decision.reason, Reason::kTooManyWaiters);
  EXPECT_EQ(waits->waiting(), 2u);
  EXPECT_EQ(left(kBucket), 1u) << "it took nothing";
}

TEST_P(AsyncWaitsTest, ACostOfZeroDoesNotWaitForOthers) {
  open(2);
  for (const Limit& limit : {kBucket, kWindow}) {
    for (int i = 0; i < 3; ++i) acquire(limit, 1h, limit.capacity());
    EXPECT_EQ(waits->waiting(), 2u);
    EXPECT_TRUE(acquire(limit, 0s, 0).is_admitted());
    run();
  }
}

TEST_P(AsyncWaitsTest, GivesBackAReservationThatIsCancelled) {
  open();
  acquire(kBucket);
  Request& first = acquire(kBucket);
  Request& second = acquire(kBucket);
  waits->cancel(first);
  answer();
  EXPECT_EQ(first.times_ended, 1);
  EXPECT_TRUE(first.is_cancelled);
  waits->cancel(first);
  run();
  EXPECT_EQ(first.times_ended, 1);
  EXPECT_EQ(second.at, kStart + 200ms) << "a promise once made is not moved";
  clock.set(kStart + 200ms);
  EXPECT_EQ(left(kBucket), 1u) << "what was given back goes to those who ask next";
}

TEST_P(AsyncWaitsTest, LeavesTheQueueWhenItIsCancelled) {
  open();
  acquire(kWindow, 1h, 2);
  Request& first = acquire(kWindow);
  Request& second = acquire(kWindow);
  waits->cancel(first);
  EXPECT_EQ(first.times_ended, 1);
  run();
  EXPECT_TRUE(second.is_admitted());
  EXPECT_EQ(left(kWindow), 1u) << "the cancelled one has taken nothing";
}

TEST_P(AsyncWaitsTest, WaitsForPermitsThatAreReleased) {
  constexpr Limit kFlight = concurrency(1).lease(2h);
  open();
  std::deque<PermitId> permits;
  const auto hold = [&](Duration at_most) -> Request& {
    const PermitId& permit = permits.emplace_back(PermitId::random());
    return acquire(Charge{.key = "key", .limit = kFlight, .tag = "tag", .permit = &permit},
                   at_most);
  };
  const Charge first = hold(1h).charge();
  const Request& late = hold(100ms);
  Request& cancelled = hold(1h);
  const Request& second = hold(1h);
  run(kStart + 100ms);
  EXPECT_EQ(late.at, kStart + 100ms) << "its deadline";
  EXPECT_EQ(late.decision.retry_after, 2h - 100ms);
  EXPECT_EQ(second.times_ended, 0);
  EXPECT_TRUE(later.store.apply_one(Verb::kRelease, first, {}));
  waits->released({&first, 1});
  if (GetParam()) {
    waits->cancel(cancelled);  // the store decides it
    answer();
    EXPECT_TRUE(cancelled.is_cancelled);
  } else {
    EXPECT_TRUE(cancelled.is_admitted());
    const Charge held = cancelled.charge();
    EXPECT_TRUE(later.store.apply_one(Verb::kRelease, held, {}));
    waits->released({&held, 1});
  }
  answer();
  EXPECT_TRUE(second.is_admitted()) << "without waiting";
  EXPECT_EQ(second.at, kStart + 100ms);
}

TEST_P(AsyncWaitsTest, SeesAPermitAtOnceThatIsReleasedBeforeItQueues) {
  constexpr Limit kFlight = concurrency(1).lease(2h);
  open();
  const PermitId held = PermitId::random();
  const PermitId asked = PermitId::random();
  const Charge first{.key = "key", .limit = kFlight, .permit = &held};
  EXPECT_TRUE(later.store.apply_one(Verb::kTake, first, {}));
  Request request({.key = "key", .limit = kFlight, .permit = &asked}, kStart + 1h, clock);
  std::optional<Decision> said;
  const auto release = [&] {
    EXPECT_TRUE(later.store.apply_one(Verb::kRelease, first, {}));
    waits->released({&first, 1});
  };
  if (GetParam()) {
    waits->start(request, said);
    release();
    answer();
  } else {
    EXPECT_FALSE(waits->decide(request.charge(), request.deadline, said));
    release();
    waits->start(request, said);
  }
  EXPECT_TRUE(request.is_admitted());
  EXPECT_EQ(request.at, kStart);
}

TEST_P(AsyncWaitsTest, CancelsEverythingWhenItIsClosed) {
  open();
  acquire(kBucket);
  acquire(kWindow, 1h, 2);
  Request& sleeping = acquire(kBucket);
  Request& queued = acquire(kWindow);
  waits->close();
  answer();
  for (const Request* request : {&sleeping, &queued}) {
    EXPECT_EQ(request->times_ended, 1);
    EXPECT_TRUE(request->is_cancelled);
  }
  EXPECT_TRUE(acquire(kBucket).is_cancelled);
  EXPECT_EQ(waits->waiting(), 0u);
  clock.advance(100ms);
  EXPECT_EQ(left(kBucket), 1u);
}

TEST_P(AsyncWaitsTest, EndsEachRequestOnceOnRandomHistories) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    open(20);
    requests.clear();
    for (int i = 0; i < 200; ++i) {
      acquire(random() % 2 == 0 ? kBucket : kWindow, Duration{1000 * (random() % 5000)});
      if (random() % 3 == 0) waits->cancel(requests[random() % requests.size()]);
      answer();
      run(clock.now() + Duration{random() % 300'000});
    }
    run();
    EXPECT_EQ(waits->waiting(), 0u);
    for (const Request& request : requests) {
      EXPECT_EQ(request.times_ended, 1) << "seed " << seed;
      EXPECT_TRUE(!request.is_admitted() || request.at <= request.deadline) << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, AsyncWaitsTest, ::testing::Bool(),
                         [](const auto& row) { return row.param ? "Later" : "AtOnce"; });

// A memory store behind something that answers takes without it.
class FrontedStore final : public Store {
 public:
  explicit FrontedStore(const Clock& clock) : store({}, clock) {}
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    if (action.verb != Verb::kTake) return store.apply(action, charges, now, each);
    std::fill(each.begin(), each.end(), denial);
    return denial;
  }

  MemoryStore store;
  Decision denial;
};

TEST(AsyncWaits, ReservesAfterTheDenialOfACacheOrAFallback) {
  for (const Reason reason : {Reason::kDenyCache, Reason::kFallback}) {
    testing::ManualClock clock{kStart};
    FrontedStore store(clock);
    const auto waits = AsyncWaits::make(&store, nullptr, 10, [](Instant) {}, clock);
    EXPECT_TRUE(Limiter(store.store).try_acquire("key", kBucket));
    store.denial = Decision::refused(reason);
    store.denial.retry_after = 100ms;
    Request request(kBucket, 1, kStart + 1s, clock);
    std::optional<Decision> said;
    EXPECT_FALSE(waits->decide(request.charge(), request.deadline, said));
    waits->start(request, said);
    clock.advance(100ms);
    waits->on_time();
    EXPECT_TRUE(request.is_admitted());
  }
}

TEST(AsyncWaits, AReleaseCallsTheThreadsThatWaitForTheStore) {
  constexpr Limit kFlight = concurrency(1).lease(2h);
  MemoryStore store;
  const auto waits = AsyncWaits::make(&store, nullptr, 10, [](Instant) {});
  const PermitId held = PermitId::random(), asked = PermitId::random();
  const Charge first{.key = "key", .limit = kFlight, .permit = &held};
  EXPECT_TRUE(store.apply_one(Verb::kTake, first, {}));
  struct Call final : detail::WaitingThread {
    Decision ask(Action action) noexcept override {
      return store->apply({action}, {&charge, 1}, {}, {&answer, 1});
    }
    void give_back() noexcept override {}
    std::span<const Charge> charges() noexcept override { return {&charge, 1}; }
    std::span<Decision> each() noexcept override { return {&answer, 1}; }
    bool park(Instant) noexcept override {
      release();
      return is_called;
    }
    void wake() noexcept override { is_called = true; }

    Store* store = nullptr;
    Charge charge{.key = "key", .limit = kBucket};
    Decision answer;
    std::function<void()> release;
    bool is_called = false;
  } call;
  call.store = &store;
  call.charge = {.key = "key", .limit = kFlight, .permit = &asked};
  call.release = [&] {
    EXPECT_TRUE(store.apply_one(Verb::kRelease, first, {}));
    waits->released({&first, 1});
  };
  EXPECT_TRUE(detail::acquire(store, call, SteadyClock::instance().now() + 1h));
  EXPECT_TRUE(call.is_called);
}

// --- a store that answers later
// -------------------------------------------------------------------

class LaterTest : public AsyncWaitsTest {
 protected:
  Request& start(const Limit& limit) {
    Request& request = requests.emplace_back(limit, 1, clock.now() + 1h, clock);
    waits->start(request, {});
    return request;
  }
};

TEST_P(LaterTest, GivesBackWhatItHasTakenIfItWasCancelledMeanwhile) {
  open();
  for (const Limit& limit : {kBucket, kWindow}) {
    Request& request = start(limit);
    waits->cancel(request);
    EXPECT_EQ(request.times_ended, 0) << "the store decides";
    answer();
    EXPECT_EQ(request.times_ended, 1);
    EXPECT_TRUE(request.is_cancelled);
    EXPECT_EQ(left(limit), limit.capacity());
  }
}

TEST_P(LaterTest, EndsACancelledWaiterThatIsNotAdmitted) {
  open();
  EXPECT_TRUE(Limiter(later.store).try_acquire("key", kWindow, 2));
  Request& first = start(kWindow);
  Request& second = start(kWindow);
  waits->cancel(first);
  answer();
  EXPECT_EQ(first.times_ended, 1);
  EXPECT_EQ(second.times_ended, 0);
  run();
  EXPECT_TRUE(second.is_admitted());
  EXPECT_EQ(left(kWindow), 1u);
}

TEST_P(LaterTest, EndsReservationsInOrderEvenIfAnAnswerIsLate) {
  open();
  start(kBucket);
  answer();
  const Request& first = start(kBucket);
  clock.advance(150ms);  // the answer, "in 100 ms", is on its way
  const Request& second = start(kBucket);
  answer();
  run();
  ASSERT_TRUE(first.is_admitted() && second.is_admitted());
  EXPECT_LT(first.place, second.place);
  EXPECT_EQ(second.at, kStart + 250ms);
}

TEST_P(LaterTest, EndsReservationsInOrderOnRandomHistories) {
  constexpr Limit kFast = token_bucket(100).per(1s).burst(3);
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    open();
    requests.clear();
    for (int i = 0; i < 300; ++i) {
      start(kFast);
      if (random() % 4 == 0) waits->cancel(requests[random() % requests.size()]);
      clock.advance(Duration{random() % 20'000});
      for (auto n = random() % 4; n > 0 && !later.answers.empty(); --n) later.answer();
      if (random() % 4 == 0) waits->on_time();
    }
    answer();
    run();
    const Request* last = nullptr;
    for (const Request& request : requests) {
      EXPECT_EQ(request.times_ended, 1) << "seed " << seed;
      if (request.is_cancelled) continue;
      EXPECT_TRUE(last == nullptr || last->place < request.place) << "seed " << seed;
      last = &request;
    }
    later.store.apply_one(Verb::kReset, {"key", kFast}, {});
  }
}

TEST_P(LaterTest, LetsNoFallbackWaitForAReservation) {
  open();
  start(kBucket);
  const Request& first = start(kBucket);
  answer();
  const Request& second = start(kBucket);
  later.answers.front().second = {.reason = Reason::kFallback};
  answer();
  EXPECT_TRUE(second.is_admitted());
  EXPECT_EQ(first.times_ended, 0);
}

TEST_P(LaterTest, AsksOnceForAllThatArriveMeanwhile) {
  open();
  const Limit limit = fixed_window(100).per(1s);
  for (int i = 0; i < 100; ++i) start(limit);
  EXPECT_EQ(later.questions, 1);
  answer();
  EXPECT_EQ(later.questions, 2);
  for (const Request& request : requests) EXPECT_TRUE(request.is_admitted());
}

TEST_P(LaterTest, FailsAllWaitersIfTheStoreFails) {
  open();
  Request& first = start(kWindow);
  Request& second = start(kWindow);
  later.answers.front().second = Decision::refused(Reason::kStoreTimeout);
  answer();
  EXPECT_EQ(first.decision.reason, Reason::kStoreTimeout);
  EXPECT_EQ(second.decision.reason, Reason::kStoreError);
}

TEST_P(LaterTest, NeedsNoStackForALongQueueOfAnswersAtOnce) {
  open(200'000);
  const Limit limit = fixed_window(1).per(1ms);
  start(limit);
  for (int i = 0; i < 100'000; ++i) start(limit);
  later.fails = true;
  answer();
  later.at_once = true;
  run();
  EXPECT_EQ(waits->waiting(), 0u);
  EXPECT_EQ(requests.back().times_ended, 1);
}

TEST_P(LaterTest, EndsWhatTheStoreDecidesWhenItIsClosed) {
  constexpr Limit kFlight = concurrency(1).lease(2h);
  const PermitId permit = PermitId::random();
  open();
  start(kBucket);
  start(kWindow);
  start(kWindow);
  const Charge flight{.key = "key", .limit = kFlight, .tag = "tag", .permit = &permit};
  waits->start(requests.emplace_back(flight, clock.now() + 1h, clock), {});
  waits->cancel(start(kBucket));
  waits->close();
  waits.reset();
  for (const Request& request : requests) {
    EXPECT_EQ(request.times_ended, 1);
    EXPECT_TRUE(request.is_cancelled);
    EXPECT_FALSE(request.gives_back) << "the store has not answered";
  }
  requests.clear();
  answer();  // the answers outlive the requests
  EXPECT_EQ(left(kBucket), 1u);
  EXPECT_EQ(left(kWindow), 2u);
  EXPECT_TRUE(later.store.apply_one(Verb::kPeek, flight, {}));
}

TEST_P(LaterTest, EndsWhatTheStoreDecidesAsItAnswers) {
  open();
  Request& request = requests.emplace_back(kWindow, 1, clock.now() + 1h, clock);
  later.at_once = true;
  later.on_question = [&] {
    waits->close();
    requests.clear();
  };
  waits->start(request, {});
  EXPECT_EQ(left(kWindow), 2u);
}

INSTANTIATE_TEST_SUITE_P(Later, LaterTest, ::testing::Values(true));

}  // namespace
}  // namespace sluice
