#include "sluice/asio.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sluice/guard.h"
#include "sluice/ledger.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"

// Boost 1.81 counts the references to an executor with a fence, which ThreadSanitizer does not see.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:boost::asio::execution::detail::any_executor_base::destroy_shared";
}

namespace sluice {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using Error = boost::system::error_code;
using Time = std::chrono::steady_clock;

static_assert(detail::Awaitable<asio::awaitable<void>>);

constexpr Limit kBucket = token_bucket(100).per(1s).burst(1);
constexpr Limit kSlow = token_bucket(1).per(1h).burst(1);
constexpr Limit kWindow = fixed_window(1).per(20ms);
constexpr Limit kLongWindow = fixed_window(1).per(1h);

// A memory store that answers in another thread, in order.
class ThreadStore final : public AsyncStore {
 public:
  explicit ThreadStore(const MemoryStoreOptions& options = {}) : store(options) {}
  ~ThreadStore() override { pool_.join(); }
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override {
    asio::post(pool_, [=, this, &completion] {
      if (hold) hold->get_future().wait();
      completion.done(store.apply(action, charges, now, each));
    });
  }

  MemoryStore store;
  std::promise<void>* hold = nullptr;  // answers when it is set

 private:
  asio::thread_pool pool_{1};
};

class AsyncLimiterTest : public ::testing::Test {
 protected:
  std::uint64_t left(const Limit& limit) { return Limiter(store).peek("key", limit, 0).remaining; }

  asio::io_context loop;
  MemoryStore store;
  AsyncLimiter limiter{loop, store};
};

TEST_F(AsyncLimiterTest, CallsAHandlerOnceAndNotAtOnce) {
  int calls = 0;
  limiter.async_try_acquire("key", kSlow, 1, [&](Error error, const Decision& decision) {
    EXPECT_FALSE(error);
    EXPECT_TRUE(decision);
    ++calls;
  });
  limiter.async_acquire("key", kSlow, 1, Time::now(), [&](Error error, const Decision& decision) {
    EXPECT_FALSE(error);
    EXPECT_EQ(decision.reason, Reason::kLimited);
    EXPECT_TRUE(decision.retry_after.has_value());
    ++calls;
  });
  EXPECT_EQ(calls, 0);
  loop.run();
  EXPECT_EQ(calls, 2);
}

TEST_F(AsyncLimiterTest, WaitsInCoroutines) {
  std::vector<int> order;
  const auto begin = Time::now();
  for (int i = 0; i < 6; ++i) {
    const auto job = [&, i]() -> asio::awaitable<void> {
      const Decision decision =
          co_await limiter.async_acquire(std::string("key"), i < 3 ? kBucket : kWindow, 1,
                                         Time::now() + 1min, asio::use_awaitable);
      EXPECT_TRUE(decision);
      order.push_back(i);
    };
    asio::co_spawn(loop, job, asio::detached);
  }
  loop.run_for(100us);
  loop.restart();
  loop.run();
  EXPECT_EQ(order.size(), 6u);
  const auto place = [&](int i) { return std::find(order.begin(), order.end(), i); };
  EXPECT_TRUE(place(0) < place(1) && place(1) < place(2));
  EXPECT_TRUE(place(3) < place(4) && place(4) < place(5));
  EXPECT_GE(Time::now() - begin, 20ms);
}

TEST_F(AsyncLimiterTest, ReturnsDecisionsOnAllCharges) {
  bool called = false;
  const auto job = [&]() -> asio::awaitable<void> {
    const std::vector<Charge> charges = {{"a", kSlow}, {"b", kSlow, 2}};
    const auto [all, each] =
        co_await limiter.async_apply(Verb::kTake, charges, {}, asio::use_awaitable);
    EXPECT_EQ(all.reason, Reason::kNever);
    EXPECT_EQ(each.size(), 2u);
    called = true;
  };
  asio::co_spawn(loop, job(), asio::detached);
  loop.run();
  EXPECT_TRUE(called);
}

TEST_F(AsyncLimiterTest, WaitsForNoBudgetThatHasAnId) {
  constexpr Limit kAmount = budget(10).per(1h);
  const PermitId id = PermitId::random();
  Decision said;
  limiter.async_acquire(Charge{.key = "key", .limit = kAmount, .permit = &id}, 1h,
                        [&](Error, const Decision& decision) { said = decision; });
  loop.run();
  EXPECT_EQ(said.reason, Reason::kInvalid) << "as acquire() answers";
  EXPECT_EQ(left(kAmount), 10u);
}

TEST_F(AsyncLimiterTest, GivesBackAReservationThatIsCancelled) {
  EXPECT_TRUE(Limiter(store).try_acquire("key", kSlow));
  asio::cancellation_signal signal;
  Error error;
  limiter.async_acquire(
      "key", kSlow, 1, Time::now() + 24h,
      asio::bind_cancellation_slot(signal.slot(), [&](Error e, const Decision&) { error = e; }));
  EXPECT_EQ(limiter.waiting(), 1u);
  loop.poll();
  signal.emit(asio::cancellation_type::terminal);
  loop.restart();
  loop.run();
  EXPECT_EQ(error, asio::error::operation_aborted);
  EXPECT_EQ(limiter.waiting(), 0u);
  const auto next =
      Limiter(store).apply(Action(Verb::kReserve, 24h), std::vector<Charge>{{"key", kSlow}});
  EXPECT_LE(next.delay, 1h) << "the cancelled reservation would have been ahead of it";
}

TEST_F(AsyncLimiterTest, LeavesTheQueueWhenItIsCancelled) {
  EXPECT_TRUE(Limiter(store).try_acquire("key", kLongWindow));
  asio::cancellation_signal signal;
  Error error;
  limiter.async_acquire(
      "key", kLongWindow, 1, Time::now() + 24h,
      asio::bind_cancellation_slot(signal.slot(), [&](Error e, const Decision&) { error = e; }));
  signal.emit(asio::cancellation_type::total);
  loop.run();
  EXPECT_EQ(error, asio::error::operation_aborted);
}

TEST_F(AsyncLimiterTest, CancelsWhatWaitsWhenItIsDestroyed) {
  auto own = std::make_unique<AsyncLimiter>(loop, store);
  EXPECT_TRUE(Limiter(store).try_acquire("key", kSlow));
  Error error;
  own->async_acquire("key", kSlow, 1, Time::now() + 24h,
                     [&](Error e, const Decision&) { error = e; });
  own.reset();
  loop.run();
  EXPECT_EQ(error, asio::error::operation_aborted);
}

TEST_F(AsyncLimiterTest, FreesAHandlerThatIsNeverCalled) {
  const auto alive = std::make_shared<int>();
  {
    asio::io_context other;
    AsyncLimiter own(other, store);
    own.async_acquire("a", kSlow, 1, Time::now() + 24h, [alive](Error, const Decision&) {});
    own.async_acquire("a", kSlow, 1, Time::now() + 24h, [alive](Error, const Decision&) {});
    EXPECT_GT(alive.use_count(), 1);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST_F(AsyncLimiterTest, CallsTheHandlerOnItsExecutor) {
  asio::thread_pool pool(1);
  std::promise<std::thread::id> ran;
  limiter.async_acquire("key", kSlow, 1, Time::now(),
                        asio::bind_executor(pool, [&](Error, const Decision&) {
                          ran.set_value(std::this_thread::get_id());
                        }));
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
  pool.join();
}

TEST_F(AsyncLimiterTest, RefusesMoreWaitersThanItsBound) {
  std::vector<Reason> reasons;
  AsyncLimiter small(loop, store, 1);
  for (int i = 0; i < 3; ++i) {
    small.async_acquire("key", kSlow, 1, Time::now() + 24h, [&](Error, const Decision& decision) {
      reasons.push_back(decision.reason);
    });
  }
  loop.poll();
  EXPECT_EQ(reasons, (std::vector<Reason>{Reason::kOk, Reason::kTooManyWaiters}));
  EXPECT_EQ(small.waiting(), 1u);
}

TEST(AsyncLimiter, ReturnsFutures) {
  asio::thread_pool pool(2);
  MemoryStore store;
  AsyncLimiter limiter(pool, store);
  auto first = limiter.async_acquire("key", kBucket, 1, Time::now() + 1min, asio::use_future);
  auto second = limiter.async_acquire("key", kBucket, 1, 1min, asio::use_future);
  auto third = limiter.async_try_acquire("other", kSlow, 1, asio::use_future);
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
  EXPECT_TRUE(third.get());
  pool.join();
}

TEST(AsyncLimiter, AsksAStoreThatAnswersLater) {
  asio::io_context loop;
  ThreadStore store;
  AsyncLimiter limiter(loop, store);
  int admitted = 0;
  const auto count = [&](Error error, const Decision& decision) {
    admitted += !error && decision ? 1 : 0;
  };
  for (const Limit& limit : {kBucket, kWindow}) {
    for (int i = 0; i < 4; ++i) limiter.async_acquire("key", limit, 1, Time::now() + 1min, count);
  }
  limiter.async_try_acquire("other", kSlow, 1, count);
  limiter.async_apply(Verb::kPeek, std::vector<Charge>{{"other", kSlow}}, {},
                      [&](Error, const Decision& decision, const std::vector<Decision>& each) {
                        EXPECT_FALSE(decision);
                        EXPECT_EQ(each.size(), 1u);
                      });
  loop.run();
  EXPECT_EQ(admitted, 9);
}

template <typename S>
void expect_waits_for_a_permit(S& store) {
  asio::io_context loop;
  AsyncLimiter limiter(loop, store);
  const Limit flight = concurrency(1).lease(1h);
  const PermitId first = PermitId::random();
  const PermitId second = PermitId::random();
  const auto job = [&]() -> asio::awaitable<void> {
    const auto acquire = [&](const PermitId& permit, Duration at_most, auto token) {
      return limiter.async_acquire(Charge{.key = "key", .limit = flight, .permit = &permit},
                                   at_most, token);
    };
    EXPECT_TRUE(co_await acquire(first, 1min, asio::use_awaitable));
    const Decision late = co_await acquire(second, 0s, asio::use_awaitable);
    EXPECT_EQ(late.reason, Reason::kLimited);
    EXPECT_TRUE(late.retry_after);
    std::optional<Decision> waited;
    acquire(second, 1min, [&](Error, const Decision& decision) { waited = decision; });
    const std::vector<Charge> held{{.key = "key", .limit = flight, .permit = &first}};
    const auto [said, each] =
        co_await limiter.async_apply(Verb::kRelease, held, {}, asio::use_awaitable);
    EXPECT_TRUE(said);
    while (!waited) co_await asio::post(loop, asio::use_awaitable);
    EXPECT_TRUE(*waited);
  };
  asio::co_spawn(loop, job(), asio::detached);
  loop.run();
  EXPECT_EQ(limiter.waiting(), 0u);
}

TEST(AsyncLimiter, WaitsForAPermitThatIsReleased) {
  MemoryStore store;
  expect_waits_for_a_permit(store);
  ThreadStore later;
  expect_waits_for_a_permit(later);
}

TEST_F(AsyncLimiterTest, DeniesADelayBeyondTheDeadline) {
  const Limit queue = leaky_bucket(1).per(1h).burst(3).queueing();
  std::vector<Decision> said;
  for (int i = 0; i < 2; ++i) {
    limiter.async_acquire("key", queue, 1, 1min,
                          [&](Error, const Decision& decision) { said.push_back(decision); });
    loop.restart();
    loop.run();
  }
  ASSERT_EQ(said.size(), 2u);
  EXPECT_TRUE(said[0]);
  EXPECT_EQ(said[1].reason, Reason::kLimited);
  EXPECT_EQ(left(queue), 2u) << "it took nothing";
}

// A program may forget the permit of a request that it has started.
TEST(AsyncLimiter, CopiesThePermitsOfARequest) {
  asio::io_context loop;
  std::promise<void> hold;
  ThreadStore store;
  store.hold = &hold;
  AsyncLimiter limiter(loop, store);
  const Limit flight = concurrency(1).lease(1h);
  const PermitId id = PermitId::random();
  auto permit = std::make_unique<PermitId>(id);
  const Charge charge{.key = "key", .limit = flight, .permit = permit.get()};
  std::optional<Decision> taken;
  limiter.async_apply(
      Verb::kTake, {&charge, 1}, {},
      [&](Error, const Decision& said, const std::vector<Decision>&) { taken = said; });
  *permit = PermitId::random();
  permit.reset();
  hold.set_value();
  loop.run();
  ASSERT_TRUE(taken && *taken);
  const Charge held{.key = "key", .limit = flight, .permit = &id};
  EXPECT_TRUE(store.store.apply_one(Verb::kRelease, held, {})) << "the permit of the request";
}

struct KeptIds final : Ledger {
  void add(const LedgerEntry& entry) noexcept override { ids.emplace_back(entry.id); }
  std::vector<std::string> ids;
};

// The same with an id, which a ledger gets.
TEST(AsyncLimiter, CopiesTheIdsOfARequest) {
  asio::io_context loop;
  std::promise<void> hold;
  KeptIds ledger;
  ThreadStore store({.ledger = &ledger});
  store.hold = &hold;
  AsyncLimiter limiter(loop, store);
  const std::string id = "the order of a customer, number 17";
  auto text = std::make_unique<std::string>(id);
  const PermitId name = PermitId::named(id);
  const Charge charge{
      .key = "key", .limit = budget(10).per(1h), .cost = 2, .permit = &name, .id_text = *text};
  bool is_held = false;
  limiter.async_apply(
      {Verb::kHold, 1min}, {&charge, 1}, {},
      [&](Error, const Decision& said, const std::vector<Decision>&) { is_held = said.allowed(); });
  text->assign(id.size(), 'x');
  text.reset();
  hold.set_value();
  loop.run();
  EXPECT_TRUE(is_held);
  EXPECT_EQ(ledger.ids, std::vector{id});
}

// A thread of the store that still used a loop would end the work of the next one, which has the
// same address, or a sanitizer would report it.
TEST(AsyncLimiter, LetsTheLoopEndAfterTheLastHandler) {
  ThreadStore store;
  for (int i = 0; i < 1000; ++i) {
    asio::io_context loop;
    AsyncLimiter limiter(loop, store);
    bool is_called = false;
    limiter.async_acquire(std::to_string(i), kBucket, 1, Time::now() + 1min,
                          asio::bind_executor(asio::any_io_executor(asio::make_strand(loop)),
                                              [&](Error, const Decision&) { is_called = true; }));
    ASSERT_EQ(loop.run_one_for(30s), 1u);
    ASSERT_TRUE(is_called);
  }
}

TEST(AsyncLimiter, EndsACancelledRequestBeforeTheStoreAnswers) {
  asio::io_context loop;
  std::promise<void> hold;
  ThreadStore store;
  store.hold = &hold;
  AsyncLimiter limiter(loop, store);
  asio::cancellation_signal signal;
  Error error;
  limiter.async_try_acquire(
      std::string("key"), kSlow, 1,
      asio::bind_cancellation_slot(signal.slot(), [&](Error e, const Decision&) { error = e; }));
  signal.emit(asio::cancellation_type::terminal);
  loop.run();
  EXPECT_EQ(error, asio::error::operation_aborted);
  hold.set_value();
}

// Answers when the test says so.
class HeldStore final : public AsyncStore {
 public:
  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override {
    questions.emplace_back(
        [=, this, &completion] { completion.done(store.apply(action, charges, now, each)); });
  }

  MemoryStore store;
  std::deque<std::function<void()>> questions;
};

// Whether the loop runs before it ends; a sanitizer finds a later use.
void expect_ends_all(bool runs) {
  HeldStore store;
  auto loop = std::make_unique<asio::io_context>();
  int ended = 0;
  const auto end = [&](Error error, const Decision&, const auto&...) {
    EXPECT_EQ(error, asio::error::operation_aborted);
    ++ended;
  };
  const std::string key = "a key that is longer than a short string is";
  {
    AsyncLimiter limiter(*loop, store);
    for (const Limit& limit : {kSlow, kLongWindow}) {
      for (int i = 0; i < 2; ++i) limiter.async_acquire(key, limit, 1, 1h, end);
    }
    limiter.async_try_acquire(key + "1", kSlow, 1, end);
    limiter.async_apply(Verb::kTake, std::vector<Charge>{{key, kSlow}}, {}, end);
    asio::co_spawn(*loop, limiter.async_acquire(key, kSlow, 1, 1h, asio::use_awaitable),
                   [&](const std::exception_ptr& error, const Decision&) {
                     EXPECT_TRUE(error);
                     ++ended;
                   });
    loop->poll();
    loop->restart();
  }
  if (runs) loop->run();
  EXPECT_EQ(ended, runs ? 7 : 0);
  loop.reset();
  for (; !store.questions.empty(); store.questions.pop_front()) store.questions.front()();
  EXPECT_EQ(Limiter(store.store).peek(key, kLongWindow, 0).remaining, 1u);
}

TEST(AsyncLimiter, EndsWhatTheStoreDecidesWhenItIsDestroyed) {
  expect_ends_all(true);
  expect_ends_all(false);
}

// Waits in its third question until the test lets it answer.
class SlowStore final : public Store {
 public:
  SlowStore(std::promise<void>& asks, std::promise<void>& may_answer, std::atomic<bool>& is_over)
      : asks_(asks), may_answer_(may_answer), is_over_(is_over) {}
  ~SlowStore() override { is_over_ = true; }
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    if (++questions_ == 3) {
      std::atomic<bool>& is_over = is_over_;
      asks_.set_value();
      may_answer_.get_future().wait();
      EXPECT_FALSE(is_over) << "the limiter has ended, and its store";
    }
    return store_.apply(action, charges, now, each);
  }

 private:
  MemoryStore store_;
  int questions_ = 0;
  std::promise<void>& asks_;
  std::promise<void>& may_answer_;
  std::atomic<bool>& is_over_;
};

TEST(AsyncLimiter, WaitsForTheThreadOfItsTimer) {
  std::promise<void> asks;
  std::promise<void> may_answer;
  std::atomic<bool> is_over = false;
  asio::thread_pool pool(2);
  auto store = std::make_unique<SlowStore>(asks, may_answer, is_over);
  auto limiter = std::make_unique<AsyncLimiter>(pool, *store);
  EXPECT_TRUE(limiter->async_acquire("key", kWindow, 1, 1min, asio::use_future).get());
  bool is_called = false;
  limiter->async_acquire("key", kWindow, 1, 1min,
                         [&](Error, const Decision&) { is_called = true; });
  asks.get_future().wait();  // in the thread of the timer
  limiter->async_acquire("key", kWindow, 1, 1min, [&](Error error, const Decision&) {
    EXPECT_EQ(error, asio::error::operation_aborted);
    may_answer.set_value();  // the limiter ends
  });
  limiter.reset();
  store.reset();
  pool.join();
  EXPECT_TRUE(is_called);
}

// Threads, cancellations, and both kinds of waiting; for ThreadSanitizer.
template <typename S>
void run_concurrently(S& store, Store& counters) {
  asio::thread_pool pool(3);
  std::atomic<int> admitted = 0;
  std::atomic<int> ended = 0;
  AsyncLimiter limiter(pool, store);
  constexpr int kJobs = 300;
  const Limit window = fixed_window(50).per(50ms);
  const Limit bucket = token_bucket(1000).per(1s).burst(50);
  for (int i = 0; i < kJobs; ++i) {
    const auto job = [&, i]() -> asio::awaitable<void> {
      const Limit& limit = i % 2 == 0 ? window : bucket;
      const auto [error, decision] = co_await limiter.async_acquire(
          "key", limit, 1, Time::now() + 1min, asio::as_tuple(asio::use_awaitable));
      admitted += !error && decision ? 1 : 0;
    };
    auto signal = std::make_shared<asio::cancellation_signal>();
    auto strand = asio::make_strand(pool);
    const auto end = [&, signal](const std::exception_ptr&) { ++ended; };
    asio::co_spawn(strand, job, asio::bind_cancellation_slot(signal->slot(), end));
    if (i % 5 != 0) continue;
    asio::post(strand, [signal] { signal->emit(asio::cancellation_type::terminal); });
  }
  pool.join();
  EXPECT_EQ(ended, kJobs);
  EXPECT_GE(admitted, kJobs * 4 / 5);
  EXPECT_EQ(limiter.waiting(), 0u);
  EXPECT_LE(Limiter(counters).peek("key", window, 0).remaining, 50u);
}

TEST(AsyncLimiter, EndsEachRequestOnceInManyThreads) {
  MemoryStore store;
  run_concurrently(store, store);
  ThreadStore later;
  run_concurrently(later, later.store);
}

}  // namespace
}  // namespace sluice
