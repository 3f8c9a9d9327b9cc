#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <future>
#include <mutex>
#include <optional>

#include "sluice/asio.h"
#include "sluice/async_redis_store.h"
#include "sluice/testing/store_conformance.h"
#include "tests/redis/store_test.h"

// The asynchronous stores with real servers.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::Action;
using sluice::AsyncLimiter;
using sluice::AsyncRedisStore;
using sluice::AsyncStore;
using sluice::Charge;
using sluice::Decision;
using sluice::Instant;
using sluice::Verb;
using sluice::testing::wait_until;

constexpr auto kLimit = sluice::token_bucket(100).per(1h);

void run_until_ready(boost::asio::io_context& loop, const AsyncRedisStore& store) {
  wait_until("the store is ready", [&] { return store.ready(); }, [&] { loop.run_one_for(10ms); });
}

// A store on its own loop, which runs while a request waits.
class LoopedStore final : public sluice::Store {
 public:
  explicit LoopedStore(const sluice::RedisOptions& options)
      : store_(AsyncRedisStore::open(loop_, options).value()) {
    run_until_ready(loop_, *store_);
  }

  // NOLINTNEXTLINE(bugprone-exception-escape): ends the test
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    struct Done final : AsyncStore::Completion {
      void done(const Decision& decision) noexcept override { answer = decision; }
      std::optional<Decision> answer;
    };
    const std::lock_guard lock(mutex_);
    Done done;
    store_->async_apply(action, charges, now, each, done);
    wait_until(
        "the request is answered", [&] { return done.answer.has_value(); },
        [&] { loop_.run_one_for(10ms); });
    return *done.answer;
  }

 private:
  std::mutex mutex_;
  boost::asio::io_context loop_;
  std::unique_ptr<AsyncRedisStore> store_;
};

template <typename Servers>
void expect_the_semantics_of_all_stores(Servers& servers) {
  const auto make = [&](const sluice::Clock&) -> std::unique_ptr<sluice::Store> {
    flush(servers);
    return std::make_unique<LoopedStore>(patient(servers.url()));
  };
  const sluice::testing::StoreConformance conformance{.make = make,
                                                      .follows_clock = false,
                                                      .permits = true,
                                                      .budgets = true,
                                                      .threads = 2,
                                                      .requests_per_thread = 100};
  for (const auto& failure : sluice::testing::check_store(conformance)) {
    ADD_FAILURE() << failure;
  }
}

TEST(AsyncRedisStoreConformance, OnOneServer) {
  RedisServer server;
  expect_the_semantics_of_all_stores(server);
}

TEST(AsyncRedisStoreConformance, OnACluster) {
  RedisCluster cluster;
  expect_the_semantics_of_all_stores(cluster);
}

// A request whose completion asks again until `left` is 0.
class Chained final : public AsyncStore::Completion {
 public:
  Chained(AsyncStore& store, int requests) : left_(requests), store_(store) {}

  void ask() { store_.async_apply(Verb::kTake, charges_, {}, each_, *this); }
  void done(const Decision& decision) noexcept override {
    admitted += decision.allowed() ? 1 : 0;
    is_same &= decision == each_[0];
    if (--left_ > 0) return ask();
    ended_.set_value();
  }
  void wait() { ended_.get_future().wait(); }

  int admitted = 0;
  bool is_same = true;

 private:
  int left_;
  AsyncStore& store_;
  const std::vector<Charge> charges_{{"key", kLimit}};
  std::vector<Decision> each_{1};
  std::promise<void> ended_;
};

TEST(AsyncRedisStore, SharesItsCountersWithRedisStore) {
  RedisServer server;
  const auto blocking = open_ready(patient(server.url()));
  LoopedStore looped(patient(server.url()));
  EXPECT_TRUE(sluice::Limiter(*blocking).try_acquire("key", kLimit, 60));
  EXPECT_EQ(sluice::Limiter(looped).peek("key", kLimit, 0).remaining, 40u);
}

TEST(RedisStoreAsync, AdmitsExactlyTheLimitWhileThreadsAlsoBlock) {
  RedisServer server;
  const auto store = open_ready(patient(server.url()));
  std::deque<Chained> chains;
  for (int i = 0; i < 50; ++i) chains.emplace_back(*store, 4).ask();
  std::atomic<int> admitted = 0;
  run_threads(4, [&](int) {
    for (int i = 0; i < 25; ++i) {
      admitted += sluice::Limiter(*store).try_acquire("key", kLimit).allowed() ? 1 : 0;
    }
  });
  for (Chained& chain : chains) {
    chain.wait();
    admitted += chain.admitted;
    EXPECT_TRUE(chain.is_same);
  }
  EXPECT_EQ(admitted, 100);
  EXPECT_EQ(store->stats().requests, 300u);
  EXPECT_EQ(store->stats().pending, 0u);
}

// --- sluice/asio.h ------------------------------------------------------------------------------

// Lets `count` callers wait at the same time. Returns how many were admitted.
int acquire_all(boost::asio::io_context& loop, AsyncLimiter& limiter, const sluice::Limit& limit,
                int count) {
  int admitted = 0;
  for (int i = 0; i < count; ++i) {
    limiter.async_acquire("key", limit, 1, std::chrono::steady_clock::now() + 1min,
                          [&](boost::system::error_code error, const Decision& decision) {
                            admitted += !error && decision ? 1 : 0;
                          });
  }
  loop.restart();
  while (admitted < count && loop.run_one_for(sluice::testing::kPatience) > 0) {
  }
  return admitted;
}

constexpr auto kBucket = sluice::token_bucket(1000).per(1s).burst(5);
constexpr auto kWindow = sluice::fixed_window(20).per(50ms);

TEST(AsyncLimiter, ReservesBucketsInOneRoundTripEach) {
  RedisServer server;
  boost::asio::io_context loop;
  const auto store = AsyncRedisStore::open(loop, patient(server.url())).value();
  run_until_ready(loop, *store);
  AsyncLimiter limiter(loop, *store);
  EXPECT_EQ(acquire_all(loop, limiter, kBucket, 100), 100);
  EXPECT_EQ(store->stats().requests, 100u);
}

TEST(AsyncLimiter, AsksOnceForManyWaitersOfAWindow) {
  RedisServer server;
  const auto store = open_ready(patient(server.url()));
  boost::asio::io_context loop;
  AsyncLimiter limiter(loop, *store);
  EXPECT_EQ(acquire_all(loop, limiter, kWindow, 200), 200);
  EXPECT_LE(store->stats().requests, 50u) << "about two for each window of 20";
}

TEST(AsyncLimiter, GivesBackWhatACancelledCallerHasReserved) {
  RedisServer server;
  const auto store = open_ready(patient(server.url()));
  boost::asio::io_context loop;
  AsyncLimiter limiter(loop, *store);
  const sluice::Limit slow = sluice::token_bucket(1).per(1h);
  EXPECT_EQ(acquire_all(loop, limiter, slow, 1), 1);
  boost::asio::cancellation_signal signal;
  bool is_cancelled = false;
  limiter.async_acquire(
      "key", slow, 1, std::chrono::steady_clock::now() + 24h,
      boost::asio::bind_cancellation_slot(
          signal.slot(), [&](const boost::system::error_code& error, const Decision&) {
            is_cancelled = error == boost::asio::error::operation_aborted;
          }));
  const auto are_answered = [&](std::uint64_t requests) {
    const auto stats = store->stats();
    return stats.requests >= requests && stats.pending == 0;
  };
  wait_until("the reservation is made", [&] { return are_answered(2); });
  signal.emit(boost::asio::cancellation_type::terminal);
  loop.restart();
  loop.run();
  EXPECT_TRUE(is_cancelled);
  wait_until("it is given back", [&] { return are_answered(3); });
  const auto retry_after = sluice::Limiter(*store).try_acquire("key", slow).retry_after;
  EXPECT_LE(retry_after, 1h) << "the cancelled reservation is gone";
}

}  // namespace
}  // namespace sluice_redis
