#include "limiter/waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/block.h"
#include "sluice/guard.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit.h"
#include "sluice/testing/manual_clock.h"
#include "tests/support/wait_until.h"

namespace sluice::waits_test {
namespace {

using namespace std::chrono_literals;
using detail::WaitingCall;
using detail::Waits;

constexpr Instant kStart{std::chrono::seconds{1'700'000'000}};
constexpr Limit kBucket = token_bucket(10).per(1s).burst(1);
constexpr Limit kQueue = leaky_bucket(10).per(1s).burst(3).queueing();
constexpr Limit kWindow = fixed_window(2).per(1s);
constexpr Limit kLog = sliding_window_log(1).per(3s);
constexpr Limit kFlight = concurrency(1).lease(1h);

// A request whose waits end as soon as the clock has advanced by them.
class Call final : public WaitingCall {
 public:
  Call(testing::ManualClock& clock, Store& store, std::vector<Charge> charges)
      : clock_(clock), store_(store), charges_(std::move(charges)), each_(charges_.size()) {}

  Decision ask(Action action) noexcept override {
    ++questions;
    const Decision said = store_.apply(action, charges_, {}, each_);
    if (on_answer) std::exchange(on_answer, nullptr)();
    return said;
  }
  void give_back() noexcept override {
    for (const Charge& charge : charges_) {
      const bool is_permit = holds_permits(charge.limit.algorithm());
      store_.apply_one(is_permit ? Verb::kRelease : Verb::kRefund, charge, {});
    }
  }
  std::span<const Charge> charges() noexcept override { return charges_; }
  std::span<Decision> each() noexcept override { return each_; }
  bool park(Instant until) noexcept override {
    if (gives_up) return false;
    if (on_park) return on_park(), true;
    if (until != Instant::max()) clock_.set(std::max(clock_.now(), until));
    return true;
  }
  bool has_left() noexcept override { return leaves; }
  void wake() noexcept override {}

  int questions = 0;
  bool gives_up = false;
  bool leaves = false;  // after park()
  std::function<void()> on_park;
  std::function<void()> on_answer;  // once, before the request joins a queue

 private:
  testing::ManualClock& clock_;
  Store& store_;
  std::vector<Charge> charges_;
  std::vector<Decision> each_;
};

class WaitsTest : public ::testing::Test {
 protected:
  Decision acquire(Call& call, Duration at_most = 1h) {
    return waits.acquire(call, clock.now() + at_most);
  }
  Decision acquire(std::vector<Charge> charges, Duration at_most = 1h) {
    Call call(clock, store, std::move(charges));
    return acquire(call, at_most);
  }

  testing::ManualClock clock{kStart};
  MemoryStore store{{}, clock};
  Limiter limiter{store};
  Waits waits{4, clock};
};

TEST_F(WaitsTest, WaitsForABucketInOneQuestion) {
  for (int i = 0; i < 3; ++i) {
    Call call(clock, store, {{"key", kBucket}});
    const Decision decision = acquire(call);
    EXPECT_TRUE(decision.allowed());
    EXPECT_FALSE(decision.delay);
    EXPECT_EQ(clock.now(), kStart + 100ms * i);
    EXPECT_EQ(call.questions, 1);
  }
}

TEST_F(WaitsTest, WaitsForAWindow) {
  for (int i = 0; i < 6; ++i) {
    Call call(clock, store, {{"key", kWindow}});
    EXPECT_TRUE(acquire(call).allowed());
    EXPECT_EQ(clock.now(), kStart + 1s * (i / 2));
    EXPECT_LE(call.questions, 2);
  }
  EXPECT_EQ(waits.waiting(), 0u);
}

TEST_F(WaitsTest, DeniesAtOnceWhatCannotBeInTime) {
  acquire({{"key", kBucket}});
  EXPECT_EQ(acquire({{"key", kBucket}}, 100ms - 1us).retry_after, 1us);
  acquire({{"key", kWindow, 2}});
  EXPECT_EQ(acquire({{"key", kWindow}}, 999ms).retry_after, 1s);
  EXPECT_EQ(acquire({{"key", kWindow, 3}}).reason, Reason::kNever);
  EXPECT_EQ(acquire({{"key", kBucket, 2}}).reason, Reason::kNever);
  EXPECT_EQ(clock.now(), kStart);
  EXPECT_TRUE(acquire({{"key", kBucket}}, 100ms).allowed());
}

TEST_F(WaitsTest, WaitsForTheEndOfABlockAndThenForABucket) {
  const Block block = Block::make({.after = 1, .within = 1min, .time = 2s}).value();
  const auto blocked = [&](const Limit& limit) {
    return Charge{.key = "key", .limit = limit, .block = &block};
  };
  for (const Limit& limit : std::vector<Limit>{kBucket, gcra(10).per(1s).burst(0), kWindow}) {
    const Instant begin = clock.now();
    EXPECT_TRUE(limiter.try_acquire("key", limit, limit.capacity()));
    EXPECT_EQ(store.apply_one(Verb::kTake, blocked(limit), {}).reason, Reason::kBlocked);
    const Decision late = acquire({blocked(limit)}, 2s - 1us);
    EXPECT_EQ(late.reason, limit == kWindow ? Reason::kLimited : Reason::kBlocked);
    EXPECT_EQ(late.retry_after, 2s);
    EXPECT_EQ(clock.now(), begin);
    Call first(clock, store, {blocked(limit)});
    first.on_park = [&] {
      EXPECT_EQ(acquire({blocked(limit)}, 2s - 1us).reason, Reason::kLimited);
      clock.set(begin + 2s);
    };
    EXPECT_TRUE(acquire(first, 2s).allowed()) << to_string(limit.algorithm());
    EXPECT_EQ(clock.now(), begin + 2s);
  }
  EXPECT_TRUE(limiter.try_acquire("key", kBucket));
  Call second(clock, store, {blocked(kBucket)});
  EXPECT_TRUE(acquire(second, 100ms).allowed());
  EXPECT_EQ(second.questions, 1) << "of a bucket that is not blocked";
}

TEST_F(WaitsTest, WaitsForTheDelayOfAQueue) {
  acquire({{"key", kQueue}});
  EXPECT_TRUE(acquire({{"key", kQueue}}).allowed());
  EXPECT_EQ(clock.now(), kStart + 100ms);
  const Decision late = acquire({{"key", kQueue}}, 99ms);
  EXPECT_EQ(late.reason, Reason::kLimited);
  EXPECT_EQ(late.retry_after, 1ms);
  EXPECT_TRUE(acquire({{"key", kQueue}}, 100ms).allowed()) << "the one before took nothing";
}

TEST_F(WaitsTest, WaitsForAllLimitsOfARequest) {
  const std::vector<Charge> charges{{"b", kBucket}, {"w", kWindow}, {"l", kLog}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(acquire(charges).allowed());
    EXPECT_EQ(clock.now(), kStart + 3s * i) << "the log is the slowest";
  }
  EXPECT_EQ(acquire(charges, 1s).retry_after, 3s);
  EXPECT_EQ(limiter.peek("b", kBucket, 0, clock.now() + 1s).remaining, 1u);
  EXPECT_EQ(limiter.peek("w", kWindow, 0).remaining, 1u) << "the denied one took nothing";
}

TEST_F(WaitsTest, ACostOfZeroDoesNotWaitForOthers) {
  acquire({{"key", kWindow, 2}});
  Call other(clock, store, {{"key", kWindow}});
  other.on_park = [&] {
    EXPECT_EQ(waits.waiting(), 1u);
    EXPECT_TRUE(acquire({{"key", kWindow, 0}}, 0s).allowed());
    EXPECT_TRUE(acquire({{"b", kBucket}, {"key", kWindow, 0}}, 0s).allowed());
    other.gives_up = true;
  };
  EXPECT_FALSE(acquire(other).allowed());
}

TEST_F(WaitsTest, ADenialOfTheQueueIsOnTheChargeThatWaits) {
  acquire({{"key", kWindow, 2}});
  Call other(clock, store, {{"key", kWindow}});
  other.on_park = [&] {
    Call late(clock, store, {{"b", kBucket}, {"key", kWindow, 2}});
    EXPECT_EQ(acquire(late, 1s).retry_after, 2s);
    EXPECT_EQ(late.questions, 0);
    EXPECT_TRUE(late.each()[0].allowed());
    EXPECT_EQ(late.each()[0].capacity, 1u);
    EXPECT_EQ(late.each()[1].retry_after, 2s);
    other.gives_up = true;
  };
  EXPECT_FALSE(acquire(other).allowed());
}

TEST_F(WaitsTest, ADenialOfAReservationIsOnTheChargeThatComesLast) {
  const Limit slow = leaky_bucket(1).per(1h).burst(5).queueing();
  acquire({{"slow", slow}});
  Call late(clock, store, {{"key", kWindow}, {"slow", slow}});
  const Decision denied = acquire(late, 1s);
  EXPECT_EQ(denied.retry_after, Duration(1h - 1s));
  EXPECT_TRUE(late.each()[0].allowed());
  EXPECT_EQ(late.each()[1].reason, Reason::kLimited);
  EXPECT_EQ(late.each()[1].retry_after, denied.retry_after);
  Waits full(0, clock);
  Call many(clock, store, {{"key", kWindow}, {"slow", slow}});
  EXPECT_EQ(full.acquire(many, clock.now() + 2h).reason, Reason::kTooManyWaiters);
  EXPECT_EQ(many.each()[1].reason, Reason::kTooManyWaiters);
}

TEST_F(WaitsTest, DeniesAtOnceWhatCannotBeInTimeInAWindowOfTheCalendar) {
  MemoryStore dated;
  Waits steady;
  const Limit yearly = fixed_window(1).per(calendar_year());
  const auto in = [&](Duration wait) { return SteadyClock::instance().now() + wait; };
  EXPECT_TRUE(Limiter(dated).try_acquire("key", yearly));
  Call other(clock, dated, {{"key", yearly}});
  other.on_park = [&] {
    const Instant now = SystemClock::instance().now();
    const Instant next = yearly.calendar()->window_at(now).end;
    const Duration least = yearly.calendar()->window_at(next).end - now;
    Call late(clock, dated, {{"key", yearly}});
    late.gives_up = true;  // if it waits
    const Decision denied = steady.acquire(late, in(least - 1h));
    EXPECT_EQ(late.questions, 0);
    EXPECT_GT(denied.retry_after, least - 1h);
    EXPECT_LE(denied.retry_after, least + 1s) << "clocks tick between two readings";
    Call in_time(clock, dated, {{"key", yearly}});
    in_time.gives_up = true;
    EXPECT_FALSE(steady.acquire(in_time, in(least + 1h)).allowed());
    EXPECT_FALSE(late.is_cancelled);
    EXPECT_TRUE(in_time.is_cancelled) << "it waits, and gives up";
    other.gives_up = true;
  };
  EXPECT_FALSE(steady.acquire(other, in(24h * 1000)).allowed());
}

class RowWaitsTest : public WaitsTest {
 protected:
  static constexpr Limit kTeam = budget(10).per(1h);
  static constexpr Limit kCredits = budget(30).per(2h);
  static std::vector<Charge> row(std::uint64_t cost) {
    return {{.key = "team", .limit = kTeam, .cost = cost},
            {.key = "credits", .limit = kCredits, .cost = cost, .alternative = true}};
  }
};

TEST_F(RowWaitsTest, WaitsForTheBudgetThatFits) {
  EXPECT_TRUE(limiter.try_acquire("team", kTeam, 10));
  EXPECT_TRUE(limiter.try_acquire("credits", kCredits, 28));
  const Decision now = limiter.check(row(20));
  EXPECT_EQ(now.reason, Reason::kLimited);
  EXPECT_EQ(acquire(row(20), *now.retry_after - 1us).reason, Reason::kLimited);
  EXPECT_EQ(acquire(row(31), 24h).reason, Reason::kNever);
  EXPECT_EQ(clock.now(), kStart);
  EXPECT_TRUE(acquire(row(20), 2h).allowed());
  EXPECT_EQ(clock.now(), kStart + *now.retry_after);
}

TEST_F(RowWaitsTest, TakesWhatIsThereWhileOthersWaitForOneOfTheBudgets) {
  EXPECT_TRUE(limiter.try_acquire("team", kTeam, 10));
  Call other(clock, store, {{.key = "team", .limit = kTeam}});
  other.on_park = [&] {
    EXPECT_EQ(waits.waiting(), 1u);
    EXPECT_TRUE(acquire(row(5), 0s).allowed());
    EXPECT_TRUE(acquire(row(20), 0s).allowed());
    const Decision late = acquire(row(20), 0s);
    EXPECT_EQ(late.reason, Reason::kLimited);
    EXPECT_EQ(late.retry_after, limiter.check(row(20)).retry_after);
    other.gives_up = true;
  };
  EXPECT_FALSE(acquire(other).allowed());
  EXPECT_EQ(clock.now(), kStart);
}

// While the first one waits for the window, the log's unit is taken.
TEST_F(WaitsTest, MovesToTheQueueOfAnotherCounter) {
  class Thief final : public Store {
   public:
    explicit Thief(Store& of) : store(of) {}
    Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each) noexcept override {
      if (++questions == 2) (void)store.apply_one(Verb::kTake, {"l", kLog}, now);
      return store.apply(action, charges, now, each);
    }
    Store& store;
    int questions = 0;
  } thief(store);
  acquire({{"w", kWindow, 2}});
  Call call(clock, thief, {{"w", kWindow}, {"l", kLog}});
  EXPECT_TRUE(acquire(call).allowed());
  EXPECT_EQ(clock.now(), kStart + 4s)
      << "the window opens at 1 s, then the log has its unit at 4 s";
  EXPECT_EQ(waits.waiting(), 0u);
}

TEST_F(WaitsTest, ACallerWhoGivesUpIsDeniedByTheLimitForWhichItWaits) {
  acquire({{"key", kBucket}});
  acquire({{"slow", kLog}});
  Call sleeps(clock, store, {{"other", kBucket}, {"key", kBucket}});
  Call queued(clock, store, {{"other", kBucket}, {"slow", kLog}});
  for (Call* const call : {&sleeps, &queued}) {
    call->gives_up = true;
    const Decision denied = acquire(*call);
    EXPECT_EQ(denied.retry_after, call == &sleeps ? Duration(100ms) : Duration(3s));
    EXPECT_TRUE(call->each()[0].allowed());
    EXPECT_EQ(call->each()[1].reason, Reason::kLimited);
    EXPECT_EQ(call->each()[1].retry_after, denied.retry_after);
    EXPECT_FALSE(call->each()[1].delay);
  }
}

TEST_F(WaitsTest, GivesBackWhatACallerWhoGivesUpHasReserved) {
  acquire({{"key", kBucket}});
  Call call(clock, store, {{"key", kBucket}});
  call.gives_up = true;
  EXPECT_EQ(acquire(call).retry_after, Duration(100ms));
  EXPECT_TRUE(limiter.try_acquire("key", kBucket, 1, kStart + 100ms).allowed());
  acquire({{"key", kWindow, 2}});
  Call queued(clock, store, {{"key", kWindow}});
  queued.gives_up = true;
  EXPECT_EQ(acquire(queued).retry_after, Duration(1s));
  EXPECT_EQ(waits.waiting(), 0u);
}

TEST_F(WaitsTest, GivesBackWhatACallerGetsWhoHasLeft) {
  acquire({{"key", kWindow, 2}});
  Call call(clock, store, {{"key", kWindow, 2}});
  call.leaves = true;
  EXPECT_FALSE(acquire(call).allowed());
  EXPECT_EQ(clock.now(), kStart + 1s);
  EXPECT_TRUE(limiter.try_acquire("key", kWindow, 2).allowed());
  EXPECT_EQ(waits.waiting(), 0u);
}

// docs/http.md states this share. The requests of the others end just before their turn.
TEST_F(WaitsTest, OneOfNRequestsThatWaitGetsItsShareWhateverTheOthersLeave) {
  constexpr int kOthers = 5, kUnits = 200;
  std::map<Instant, int> turns;  // when a request ends: 0 is ours, it gets its unit
  int ours = 0;
  const auto ask = [&](int who) {
    const Charge charge{"key", kBucket};
    const Decision said = store.apply_one({Verb::kReserve, 1h}, charge, {});
    const Instant turn = clock.now() + said.delay.value_or(Duration{0});
    Instant end = who == 0 ? turn : std::max(turn - 1ms, clock.now() + 1us);
    while (turns.contains(end)) end += 1us;
    turns[end] = who;
  };
  for (int who = 0; who <= kOthers; ++who) ask(who);
  while (clock.now() < kStart + 100ms * kUnits) {
    const auto [end, who] = *turns.begin();
    turns.erase(turns.begin());
    clock.set(end);
    if (who == 0) ++ours;
    if (who != 0) store.apply_one(Verb::kRefund, {"key", kBucket}, {});
    ask(who);
  }
  EXPECT_GE(ours, kUnits / (kOthers + 1));
}

TEST_F(WaitsTest, AnswersAFailedStoreAtOnce) {
  class Broken final : public Store {
   public:
    Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                   std::span<Decision> each) noexcept override {
      return each[0] = Decision::refused(Reason::kStoreTimeout);
    }
  } broken;
  Call call(clock, broken, {{"key", kWindow}});
  EXPECT_EQ(acquire(call).reason, Reason::kStoreTimeout);
}

class PermitWaitsTest : public WaitsTest {
 protected:
  Decision hold(const PermitId& permit) { return store.apply_one(Verb::kTake, of(permit), {}); }
  void release(const PermitId& permit) {
    const Charge charge = of(permit);
    EXPECT_TRUE(store.apply_one(Verb::kRelease, charge, {}).allowed());
    waits.released({&charge, 1});
  }
  static Charge of(const PermitId& permit) {
    return {.key = "flight", .limit = kFlight, .permit = &permit};
  }

  const PermitId held = PermitId::random();
  const PermitId asked = PermitId::random();
};

TEST_F(PermitWaitsTest, AReleaseCallsTheFirst) {
  EXPECT_TRUE(hold(held).allowed());
  Call call(clock, store, {of(asked)});
  call.on_park = [&] { release(held); };
  EXPECT_TRUE(acquire(call).allowed());
  EXPECT_EQ(clock.now(), kStart);
  EXPECT_FALSE(hold(held).allowed());
}

TEST_F(PermitWaitsTest, AReleaseByAnotherProcessIsSeen) {
  EXPECT_TRUE(hold(held).allowed());
  Call call(clock, store, {of(asked)});
  call.on_park = [&] {
    store.apply_one(Verb::kRelease, of(held), {});
    clock.advance(detail::WaitQueue::kReleaseCheck);
  };
  EXPECT_TRUE(acquire(call).allowed());
}

TEST_F(PermitWaitsTest, AReleaseBetweenTheDenialAndTheQueueIsSeenAtOnce) {
  EXPECT_TRUE(hold(held).allowed());
  Call call(clock, store, {of(asked)});
  call.on_answer = [&] { release(held); };
  EXPECT_TRUE(acquire(call).allowed());
  EXPECT_EQ(clock.now(), kStart);
  EXPECT_EQ(call.questions, 2);
}

TEST_F(PermitWaitsTest, EndsAtItsDeadline) {
  EXPECT_TRUE(hold(held).allowed());
  Call call(clock, store, {of(asked)});
  const Decision late = acquire(call, 1s);
  EXPECT_EQ(late.reason, Reason::kLimited);
  EXPECT_EQ(late.retry_after, Duration{1h - 1s});
  EXPECT_EQ(call.each()[0].retry_after, late.retry_after);
  EXPECT_EQ(clock.now(), kStart + 1s);
  EXPECT_EQ(waits.waiting(), 0u);
  EXPECT_TRUE(acquire({of(asked)}, 2h).allowed()) << "at the end of the lease";
  EXPECT_EQ(clock.now(), kStart + 1h);
}

// The first one asks again, in the queue.
TEST_F(PermitWaitsTest, EndsAtItsDeadlineWhileTheFirstOneAsks) {
  EXPECT_TRUE(hold(held).allowed());
  const PermitId second = PermitId::random();
  Call first(clock, store, {of(asked)});
  first.on_answer = [&] {
    first.on_answer = [&] {
      EXPECT_EQ(waits.waiting(), 1u);
      EXPECT_EQ(acquire({of(second)}, 1s).retry_after, Duration{1h - 1s});
      first.gives_up = true;
    };
  };
  EXPECT_FALSE(acquire(first).allowed());
  EXPECT_EQ(first.questions, 2);
}

TEST_F(PermitWaitsTest, ACallerWhoGivesUpReleasesItsPermit) {
  acquire({{"key", kBucket}});
  Call call(clock, store, {{"key", kBucket}, of(asked)});
  call.gives_up = true;
  EXPECT_FALSE(acquire(call).allowed());
  EXPECT_TRUE(hold(held).allowed());
  Call queued(clock, store, {of(asked)});
  queued.gives_up = true;
  EXPECT_FALSE(acquire(queued).allowed());
  EXPECT_EQ(waits.waiting(), 0u);
  EXPECT_TRUE(store.apply_one(Verb::kRelease, of(held), {}).allowed());
}

TEST_F(PermitWaitsTest, ACallerWhoLeavesWhileTheStoreAdmitsItReleasesItsPermit) {
  EXPECT_TRUE(hold(held).allowed());
  Call call(clock, store, {of(asked)});
  call.on_park = [&] {
    release(held);
    call.on_answer = [&] { call.leaves = true; };
  };
  EXPECT_FALSE(acquire(call).allowed());
  EXPECT_EQ(call.questions, 3);
  EXPECT_TRUE(hold(held).allowed());
  EXPECT_EQ(waits.waiting(), 0u);
}

TEST_F(PermitWaitsTest, ACallerIsDeniedIfTheLeaseOfItsPermitWouldEndBeforeItsTurn) {
  const Limit slow = token_bucket(1).per(1h).burst(1);
  acquire({{"slow", slow}});
  const Decision denied = acquire({{"slow", slow}, of(asked)}, 2h);
  EXPECT_EQ(denied.reason, Reason::kLimited);
  EXPECT_EQ(denied.retry_after, Duration{1h});
  EXPECT_EQ(clock.now(), kStart);
  EXPECT_TRUE(hold(held).allowed()) << "the permit was given back";
}

// --- threads ----------------------------------------------------------------------------------

using Steady = std::chrono::steady_clock;

Steady::time_point in(Duration wait) { return Steady::now() + wait; }

TEST(Deadline, IsAnInstantOrATimeFromNowOn) {
  const Steady::time_point begin = Steady::now();
  EXPECT_EQ(Deadline(begin).at().time_since_epoch(),
            std::chrono::floor<Duration>(begin.time_since_epoch()));
  const Instant before = SteadyClock::instance().now();
  const Instant at = Deadline(5s).at();
  EXPECT_GE(at, before + 5s);
  EXPECT_LE(at, SteadyClock::instance().now() + 5s);
  EXPECT_GE(Deadline(std::chrono::nanoseconds{1}).at(), before + 1us) << "is rounded up";
}

TEST(Deadline, OfAnEndlessWaitIsTheLastInstantOfTheClock) {
  const Instant last = Deadline(Steady::time_point::max()).at();
  EXPECT_EQ(Deadline(std::chrono::hours::max()).at(), last);
  EXPECT_EQ(Deadline(Duration::max()).at(), last);
  EXPECT_EQ(Deadline(std::chrono::duration<std::uint64_t, std::micro>::max()).at(), last);
  const Instant first = Deadline(std::chrono::hours::min()).at();
  EXPECT_LE(first, SteadyClock::instance().now());
  EXPECT_LE(Deadline(Duration::min()).at() - first, 1min);
  MemoryStore store;
  Limiter limiter(store);
  EXPECT_TRUE(limiter.try_acquire("key", kBucket));
  const Decision late = limiter.acquire("key", kBucket, 1, Deadline(Duration::min()));
  EXPECT_EQ(late.reason, Reason::kLimited);
  EXPECT_GT(late.retry_after, 0s);
}

TEST(AcquireThreads, BlocksUntilTheUnitsAreThere) {
  MemoryStore store;
  Limiter limiter(store);
  constexpr Limit kFast = token_bucket(1).per(20ms);
  const auto begin = Steady::now();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(limiter.acquire("key", kFast, 1, in(1h)).allowed());
  EXPECT_GE(Steady::now() - begin, 79ms);
  constexpr Limit kSlow = token_bucket(1).per(1h);
  EXPECT_TRUE(limiter.acquire("slow", kSlow, 1, 0s).allowed());
  EXPECT_EQ(limiter.acquire("slow", kSlow, 1, Steady::now()).reason, Reason::kLimited);
  std::vector<Charge> charges{{"key", kFast}, {"window", fixed_window(1).per(20ms)}};
  std::vector<Decision> each(2);
  EXPECT_TRUE(limiter.acquire(charges, each, in(1h)).allowed());
  EXPECT_TRUE(limiter.acquire(charges, each, in(1h)).allowed());
  EXPECT_TRUE(limiter.acquire(charges, {}, 1h).allowed());
  EXPECT_EQ(limiter.acquire(charges, {each.data(), 1}, in(1h)).reason, Reason::kInvalid);
  EXPECT_EQ(limiter.acquire({}, {}, in(1h)).reason, Reason::kInvalid);
}

// Numbers of threads, from any thread.
struct Noted {
  std::mutex mutex;
  std::vector<int> numbers;
};

// A thread's request for one unit, which notes its number when the store admits it.
class Numbered final : public detail::WaitingThread {
 public:
  Numbered(int number, Store& store, const Limit& limit, Noted& admitted)
      : number_(number), store_(store), charge_{"key", limit}, admitted_(admitted) {}

  Decision ask(Action action) noexcept override {
    decision_ = store_.apply_one(action, charge_, {});
    if (decision_.allowed()) {
      const std::lock_guard lock(admitted_.mutex);
      admitted_.numbers.push_back(number_);  // only the first of a queue asks
      has_arrived = true;
    }
    return decision_;
  }
  void give_back() noexcept override { store_.apply_one(Verb::kRefund, charge_, {}); }
  std::span<const Charge> charges() noexcept override { return {&charge_, 1}; }
  std::span<Decision> each() noexcept override { return {&decision_, 1}; }
  bool park(Instant until) noexcept override {
    has_arrived = true;
    return WaitingThread::park(until);
  }

  std::atomic<bool> has_arrived = false;

 private:
  const int number_;
  Store& store_;
  const Charge charge_;
  Noted& admitted_;
  Decision decision_;
};

TEST(AcquireThreads, AreServedInOrderOfArrival) {
  constexpr int kThreads = 64;
  const Limit limits[] = {token_bucket(1).per(10ms), fixed_window(8).per(100ms),
                          sliding_window_log(8).per(100ms), sliding_window_counter(8).per(100ms)};
  for (const Limit& limit : limits) {
    MemoryStore store;
    Waits waits;
    (void)Limiter(store).try_acquire("key", limit, limit.capacity());
    Noted admitted;
    std::vector<int> expected;
    std::deque<Numbered> calls;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      expected.push_back(i);
      Numbered& call = calls.emplace_back(i, store, limit, admitted);
      threads.emplace_back([&waits, &call] {
        EXPECT_TRUE(waits.acquire(call, SteadyClock::instance().now() + 1h).allowed());
      });
      testing::wait_until("the thread waits", [&] { return call.has_arrived.load(); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(admitted.numbers, expected) << to_string(limit.algorithm());
  }
}

TEST(AcquireThreads, WaitForPermitsThatOthersRelease) {
  MemoryStore store;
  Limiter limiter(store);
  std::atomic<int> inside = 0;
  int calls = 0;
  const auto call = guarded(limiter, "call", kFlight).holding().waiting(1h).returning([&] {
    EXPECT_EQ(++inside, 1);
    ++calls;
    return --inside;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) EXPECT_TRUE(call());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, 200);
  Permit held = limiter.hold("key", kFlight, 1, in(1h));
  EXPECT_TRUE(held);
  EXPECT_EQ(limiter.hold("key", kFlight, 1, 0s).decision().reason, Reason::kLimited);
  std::thread waits([&] { EXPECT_TRUE(limiter.hold("key", kFlight, 1, in(1h))); });
  EXPECT_TRUE(held.release());
  waits.join();
}

TEST(AcquireThreads, AGuardWaits) {
  MemoryStore store;
  Limiter limiter(store);
  int calls = 0;
  const auto call = guarded(limiter, "call", fixed_window(1).per(30ms)).waiting(1h).returning([&] {
    return ++calls;
  });
  const auto begin = Steady::now();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(call());
  EXPECT_GE(Steady::now() - begin, 60ms);
  const auto two = guarded(limiter, "two", global(fixed_window(1).per(20ms)),
                           global(token_bucket(1).per(20ms)).named("b"))
                       .waiting(1h)
                       .returning([&] { return ++calls; });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(two());
  const auto never = guarded(limiter, "never", fixed_window(1).per(1h)).waiting(1s).returning([&] {
    return ++calls;
  });
  EXPECT_TRUE(never());
  EXPECT_FALSE(never());
}

}  // namespace
}  // namespace sluice::waits_test
