#include "server/storage/stores.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/net/fiber.h"
#include "server/net/socket_address.h"
#include "sluice/limit.h"

namespace sluice::server {
namespace {

// A port of this machine that nobody listens at.
class ClosedPort {
 public:
  ClosedPort() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    address_.read_name_of(descriptor_);
  }
  ~ClosedPort() { ::close(descriptor_); }
  ClosedPort(const ClosedPort&) = delete;
  ClosedPort& operator=(const ClosedPort&) = delete;

  std::string url() const { return "redis://" + address_.text(); }

 private:
  const int descriptor_;
  net::SocketAddress address_;
};

struct Job : net::FiberJob {
  explicit Job(std::function<void()> what)
      : FiberJob{std::move(what), [this] { is_done = true; }} {}

  bool is_done = false;
};

class RedisStoresTest : public ::testing::Test {
 protected:
  RedisStoresTest() {
    config_.store = port_.url();
    config_.redis.breaker = {.failures = 2, .open_for = std::chrono::hours(1)};
    config_.redis.breaker.longest_open = std::chrono::hours(1);
  }
  void open() { stores_ = RedisStores::open(config_, log_).value(); }

  // Returns the decision of a request on a fiber of the loop.
  Decision ask(Limiter& limiter) {
    Decision decision;
    Job job([&] { decision = limiter.try_acquire("a", limit_); });
    EXPECT_TRUE(fibers_.run(job));
    loop_.restart();
    while (!job.is_done && loop_.run_one_for(std::chrono::seconds(30)) > 0) continue;
    EXPECT_TRUE(job.is_done);
    return decision;
  }

  const Limit limit_ = fixed_window(10).per(std::chrono::minutes(1));
  ClosedPort port_;
  Config config_;
  Log log_{{.level = LogLevel::kOff}};
  boost::asio::io_context loop_{1};
  net::FiberPool fibers_{{}};
  std::unique_ptr<RedisStores> stores_;
};

TEST_F(RedisStoresTest, OpenDoesNotWaitForTheServer) {
  const auto opened = RedisStores::open(config_, log_);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ((*opened)->stats().connected, 0U);
  EXPECT_EQ((*opened)->breaker().state(), CircuitBreaker::State::kClosed);
}

TEST_F(RedisStoresTest, OpenReportsAFileThatItCannotRead) {
  config_.redis.password.file = "/nonexistent/password";
  const auto opened = RedisStores::open(config_, log_);
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().find("/nonexistent/password"), std::string::npos) << opened.error();
}

TEST_F(RedisStoresTest, TheDenyCacheCanBeOff) {
  open();
  EXPECT_NE(stores_->deny_cache(), nullptr);
  config_.redis.deny_cache_enabled = false;
  open();
  EXPECT_EQ(stores_->deny_cache(), nullptr);
}

TEST_F(RedisStoresTest, TheLoopsShareTheBreakerAndTheLocalShare) {
  open();
  const auto one = stores_->make(loop_);
  const auto other = stores_->make(loop_);
  EXPECT_EQ(one->local(), other->local());
  EXPECT_EQ(one->local(), &stores_->local());
  EXPECT_NE(one->shadow(), other->shadow());

  EXPECT_EQ(ask(one->limiter()).reason, Reason::kStoreError);
  EXPECT_EQ(stores_->breaker().state(), CircuitBreaker::State::kClosed);
  EXPECT_EQ(ask(other->limiter()).reason, Reason::kStoreError);
  EXPECT_EQ(stores_->breaker().state(), CircuitBreaker::State::kOpen);
  EXPECT_EQ(stores_->breaker().refused(), 0U);
  EXPECT_EQ(ask(one->limiter()).reason, Reason::kStoreError);
  EXPECT_EQ(stores_->breaker().refused(), 1U);
  one->stop();
  other->stop();
}

TEST_F(RedisStoresTest, TheStatusSaysSinceWhenAndWhyTheStoreFails) {
  open();
  EXPECT_FALSE(stores_->status().failing_since) << "no connection has failed yet";
  const auto stores = stores_->make(loop_);
  ask(stores->limiter());
  ask(stores->limiter());
  const StoreStatus status = stores_->status();
  ASSERT_TRUE(status.failing_since);
  EXPECT_LE(*status.failing_since, SystemClock().now());
  EXPECT_EQ(status.why_failing, "Redis at " + port_.url().substr(8) + " refuses connections");
  stores->stop();
}

TEST_F(RedisStoresTest, StatsKeepTheCountsOfStoppedLoops) {
  open();
  auto one = stores_->make(loop_);
  const auto other = stores_->make(loop_);
  ask(one->limiter());
  ask(other->limiter());
  EXPECT_EQ(stores_->stats().errors, 2U);
  one->stop();
  EXPECT_EQ(stores_->stats().errors, 2U);
  one.reset();
  EXPECT_EQ(stores_->stats().errors, 2U);
  other->stop();
  EXPECT_EQ(stores_->stats().pending, 0U);
}

TEST_F(RedisStoresTest, RequestsFailAtOnceAfterStopAndOutsideOfFibers) {
  open();
  const auto stores = stores_->make(loop_);
  EXPECT_EQ(stores->limiter().try_acquire("a", limit_).reason, Reason::kStoreError);
  EXPECT_EQ(stores_->stats().errors, 0U) << "no command was made";
  stores->stop();
  Decision decision;
  Job job([&] { decision = stores->limiter().try_acquire("a", limit_); });
  EXPECT_TRUE(fibers_.run(job));
  EXPECT_TRUE(job.is_done) << "it did not wait";
  EXPECT_EQ(decision.reason, Reason::kStoreError);
}

}  // namespace
}  // namespace sluice::server
