#include "sluice/redis_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/redis_chain.h"
#include "sluice/sluice.h"
#include "tests/support/wait_until.h"

// Without a server, or with one that never answers. tests/redis tests the store with real servers.
namespace sluice::redis_store_test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNowhere = "redis+unix:///nonexistent/redis.sock";
constexpr auto kWindow = fixed_window(10).per(1h).aligned_to_clock();

// A server that accepts connections into the queue of the system and never answers.
class SilentServer {
 public:
  SilentServer() {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp: " + folder_);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(socket_, 16) != 0) {
      throw std::runtime_error("cannot listen on " + path());
    }
  }
  ~SilentServer() {
    ::close(socket_);
    std::filesystem::remove_all(folder_);
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;

  std::string path() const { return folder_ + "/redis.sock"; }
  // Options with which only the test ends a request.
  RedisOptions options() const {
    return {.url = "redis+unix://" + path(), .deadline = 1h, .connect_timeout = 1h};
  }

 private:
  std::string folder_ = "/tmp/sluice-silent-XXXXXX";
  const int socket_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
};

// Threads that each make one request.
class Callers {
 public:
  Callers(RedisStore& store, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      threads_.emplace_back([this, &store] {
        const Decision decision = Limiter(store).try_acquire("key", kWindow);
        const std::lock_guard lock(mutex_);
        reasons_.push_back(decision.reason);
      });
    }
  }
  ~Callers() { reasons(); }

  std::vector<Reason> reasons() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return reasons_;
  }

 private:
  std::mutex mutex_;
  std::vector<Reason> reasons_;
  std::vector<std::thread> threads_;
};

void wait_until_pending(const RedisStore& store, std::size_t commands) {
  testing::wait_until("the commands are pending",
                      [&] { return store.stats().pending == commands; });
}

TEST(RedisStore, OpensOnlyWithOptionsThatAreRight) {
  const auto error_of = [](const RedisOptions& options) {
    const auto store = RedisStore::open(options);
    return store ? std::string() : store.error();
  };
  EXPECT_TRUE(error_of({.url = "http://127.0.0.1"}).starts_with("the URL has an unknown scheme"));
  EXPECT_TRUE(error_of({.url = "rediss://127.0.0.1", .tls_ca_file = "/nowhere/ca.pem"})
                  .starts_with("cannot use the authorities in '/nowhere/ca.pem'"));
  EXPECT_EQ(error_of({.protocol = 4}), "protocol is 4; 2, 3, or 0 for either");
  EXPECT_EQ(error_of({.url = kNowhere}), "") << "the server may start later";
}

// Applies the charges and checks that each of them has the same reason.
Reason reason_of(Store& store, std::span<const Charge> charges, std::optional<Instant> now = {}) {
  std::vector<Decision> each(charges.size());
  const Decision all = store.apply(Verb::kTake, charges, now, each);
  for (const Decision& one : each) EXPECT_EQ(one, all);
  return all.reason;
}

TEST(RedisStore, RefusesAnInvalidRequestWithoutAskingTheServer) {
  for (const bool scripting : {true, false}) {
    const auto store = RedisStore::open({.url = kNowhere, .scripting = scripting}).value();
    const std::vector<Charge> good = {{"a", kWindow}, {"b", kWindow}};
    const Charge other_numbers{"a", fixed_window(11).per(1h).aligned_to_clock()};
    EXPECT_EQ(reason_of(*store, {}), Reason::kInvalid);
    EXPECT_EQ(reason_of(*store, std::vector<Charge>(kMaxCharges + 1, good[0])), Reason::kInvalid);
    EXPECT_EQ(reason_of(*store, std::vector<Charge>{good[0], other_numbers}), Reason::kInvalid);
    EXPECT_EQ(reason_of(*store, good, kFirstInstant - Duration{1}), Reason::kInvalid);
    EXPECT_EQ(reason_of(*store, good, kLastInstant + Duration{1}), Reason::kInvalid);
    std::array<Decision, 1> too_few;
    EXPECT_EQ(store->apply(Verb::kTake, good, {}, too_few).reason, Reason::kInvalid);
    EXPECT_EQ(store->stats().errors, 0u);
  }
}

TEST(RedisStore, RefusesALimitThatNeedsScriptsWithoutThem) {
  const auto store = RedisStore::open({.url = kNowhere, .scripting = false}).value();
  EXPECT_EQ(reason_of(*store, std::vector<Charge>{{"a", token_bucket(1).per(1s)}}),
            Reason::kInvalid);
}

TEST(RedisStore, FailsEveryChargeIfTheServerCannotBeReached) {
  for (const bool scripting : {true, false}) {
    const auto store = RedisStore::open({.url = kNowhere, .scripting = scripting}).value();
    const std::vector<Charge> charges = {{"a", kWindow}, {"b", kWindow}, {"a", kWindow}};
    EXPECT_EQ(reason_of(*store, charges), Reason::kStoreError);
    EXPECT_GT(store->stats().errors, 0u);
    EXPECT_EQ(store->stats().pending, 0u);
  }
}

TEST(RedisStore, AnswersEachOfManyThreads) {
  constexpr int kThreads = 8;
  constexpr int kRequests = 200;
  const auto store = RedisStore::open({.url = kNowhere}).value();
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Limiter limiter(*store);
      for (int n = 0; n < kRequests; ++n) {
        failed += limiter.try_acquire("key", kWindow).reason == Reason::kStoreError ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, kThreads * kRequests);
  EXPECT_EQ(store->stats().errors, static_cast<std::uint64_t>(kThreads * kRequests));
}

TEST(RedisStore, ReportsWhyItIsNotReady) {
  const auto store = RedisStore::open({.url = kNowhere, .deadline = 1h}).value();
  (void)Limiter(*store).try_acquire("key", kWindow);  // the attempt to connect has failed after it
  const auto ready = store->wait_until_ready(0ms);
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error(), "/nonexistent/redis.sock: No such file or directory");
}

TEST(RedisStore, ReportsThatItCannotConnect) {
  struct Observer final : StoreObserver {
    void on(const StoreEvent& event) noexcept override {
      if (event.kind == StoreEventKind::kConnectFailed)
        endpoint.set_value(std::string(event.endpoint));
    }
    std::promise<std::string> endpoint;
  };
  Observer observer;
  const auto store =
      RedisStore::open(
          {.url = kNowhere, .deadline = 1h, .first_backoff = 1h, .longest_backoff = 1h}, &observer)
          .value();
  (void)Limiter(*store).try_acquire("key", kWindow);
  EXPECT_EQ(observer.endpoint.get_future().get(), "/nonexistent/redis.sock");
}

TEST(RedisStore, EndsTheRequestsUnderWayWhenItIsDestroyed) {
  const SilentServer server;
  for (const bool scripting : {true, false}) {
    RedisOptions options = server.options();
    options.scripting = scripting;
    auto store = RedisStore::open(options).value();
    Callers callers(*store, 4);
    wait_until_pending(*store, scripting ? 4 : 8);  // without scripts SET and INCRBY
    store.reset();
    EXPECT_EQ(callers.reasons(), std::vector<Reason>(4, Reason::kStoreError)) << "nothing was sent";
  }
}

TEST(RedisStore, RefusesRequestsAtOnceIfTooManyAreUnderWay) {
  const SilentServer server;
  RedisOptions options = server.options();
  options.max_pending = 2;
  auto store = RedisStore::open(options).value();
  Callers callers(*store, 2);
  wait_until_pending(*store, 2);
  EXPECT_EQ(Limiter(*store).try_acquire("key", kWindow).reason, Reason::kStoreError);
  EXPECT_EQ(store->stats().errors, 1u);
  EXPECT_EQ(store->stats().pending, 2u);
  store.reset();
}

TEST(RedisStore, EndsItsRequestsAtTheDeadline) {
  const SilentServer server;
  RedisOptions options = server.options();
  options.deadline = 1ms;
  const auto store = RedisStore::open(options).value();
  EXPECT_EQ(Limiter(*store).try_acquire("key", kWindow).reason, Reason::kStoreError)
      << "nothing was sent, so nothing can have been counted";
}

// Returns the number of the first check that fails, or 0, in a process that was forked off.
int check_after_fork(std::unique_ptr<RedisStore> store, std::unique_ptr<RedisChain> chain) {
  struct Done final : AsyncStore::Completion {
    void done(const Decision& decision) noexcept override { reason = decision.reason; }
    Reason reason = Reason::kOk;
  };
  const std::array<Charge, 1> charges = {Charge{"a", kWindow}};
  std::array<Decision, 1> each;
  if (store->apply(Verb::kTake, charges, {}, each).reason != Reason::kStoreError) return 1;
  if (each.front().reason != Reason::kStoreError) return 2;
  Done done;
  store->async_apply(Verb::kTake, charges, {}, each, done);
  if (done.reason != Reason::kStoreError) return 3;
  const Status ready = store->wait_until_ready(1h);
  if (ready || ready.error() != "the store was opened before fork()") return 4;
  const Limit leased = token_bucket(100).per(1h).leased(1s);
  if (Limiter(*chain).try_acquire("a", leased).reason != Reason::kFallback) return 5;
  chain->async_apply(Verb::kTake, charges, {}, each, done);
  if (done.reason != Reason::kFallback) return 6;
  store.reset();
  chain.reset();
  return 0;
}

TEST(RedisStore, RefusesTheRequestsOfAProcessThatWasForkedOff) {
  auto store = RedisStore::open({.url = kNowhere, .deadline = 1h}).value();
  RedisChainOptions options{.on_store_error = FailurePolicy::kLocal};
  options.redis = {.url = kNowhere, .deadline = 1h};
  auto chain = RedisChain::open(options).value();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);  // a request that waits for the threads of the parent never ends
    ::_exit(check_after_fork(std::move(store), std::move(chain)));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(reason_of(*store, std::vector<Charge>{{"a", kWindow}}), Reason::kStoreError);
}

}  // namespace
}  // namespace sluice::redis_store_test
