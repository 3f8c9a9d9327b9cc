#include "sluice/client_throttle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "sluice/limit_builder.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"
#include "stores/policy/test_store.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Limit kThree = fixed_window(3).per(1min);

// Two programs with one store.
class ClientThrottleTest : public ::testing::Test {
 protected:
  ClientThrottle make(const Limit& limit = kThree, const ClientThrottle::Options& options = {}) {
    return {store_, "maps", limit, options, clock_};
  }

  testing::ManualClock clock_{Instant{1'000'000s}};
  MemoryStore store_{{}, clock_};
};

TEST_F(ClientThrottleTest, SharesALimit) {
  ClientThrottle one = make(), other = make();
  EXPECT_TRUE(one.try_send());
  EXPECT_TRUE(other.try_send(2));
  EXPECT_EQ(one.try_send().retry_after, Duration(1min));
  clock_.advance(1min);
  EXPECT_TRUE(one.try_send());
}

TEST_F(ClientThrottleTest, StopsForRetryAfterInAllPrograms) {
  ClientThrottle one = make(), other = make();
  for (const int status : {429, 503}) {
    one.record({.status = status, .retry_after = "7"});
    EXPECT_EQ(one.stopped_for(), 7s);
    EXPECT_EQ(one.try_send().retry_after, Duration(7s));
    EXPECT_EQ(other.stopped_for(), 0s);
    EXPECT_EQ(other.try_send().retry_after, Duration(7s));
    EXPECT_EQ(other.stopped_for(), 7s);
    clock_.advance(7s - 1us);
    EXPECT_FALSE(one.try_send());
    EXPECT_FALSE(make().try_send());
    clock_.advance(1us);
    EXPECT_TRUE(one.try_send());
    clock_.advance(1min);
  }
  EXPECT_TRUE(other.try_send(3)) << "a request that was stopped took nothing";
}

TEST_F(ClientThrottleTest, DoesNotStopForRetryAfterOfOtherStatuses) {
  ClientThrottle one = make();
  for (const int status : {200, 301, 404, 500}) one.record({status, "7"});
  one.record({429});
  one.record({429, "soon"});
  EXPECT_EQ(one.stopped_for(), 0s);
  EXPECT_TRUE(one.try_send());
}

TEST_F(ClientThrottleTest, StopsUntilAPolicyWithoutUnitsIsReset) {
  ClientThrottle one = make();
  one.record({.rate_limit = R"("day";r=1;t=9000)"});
  EXPECT_EQ(one.stopped_for(), 0s);
  one.record({.rate_limit = R"("minute";r=0;t=12, "day";r=1;t=9000)"});
  EXPECT_EQ(one.stopped_for(), 12s);
}

TEST_F(ClientThrottleTest, StopsAsRetryAfterSaysIfAnAnswerHasRateLimitToo) {
  ClientThrottle one = make();
  one.record({429, "2", R"("minute";r=0;t=12)"});
  EXPECT_EQ(one.stopped_for(), 2s);
  one.record({429, "soon", R"("minute";r=0;t=12)"});
  EXPECT_EQ(one.stopped_for(), 12s);
}

TEST_F(ClientThrottleTest, TheLongestOfSeveralStopsHolds) {
  ClientThrottle one = make(), other = make();
  one.record({429, "10"});
  other.record({429, "4"});
  other.record({429, "10"});
  EXPECT_EQ(make().try_send().retry_after, Duration(10s));
  clock_.advance(8s);
  other.record({429, "5"});
  EXPECT_EQ(make().try_send().retry_after, Duration(5s));
  EXPECT_EQ(one.try_send().retry_after, Duration(2s));
  clock_.advance(2s);
  EXPECT_EQ(one.try_send().retry_after, Duration(3s));
}

TEST_F(ClientThrottleTest, StopsAtMostForTheConfiguredTime) {
  ClientThrottle one = make(kThree, {.longest_stop = 30s});
  one.record({429, "86400"});
  EXPECT_EQ(one.stopped_for(), 30s);
  ClientThrottle other = make(kThree, {.longest_stop = 24h * 365});
  other.record({429, "999999999999"});
  EXPECT_EQ(other.stopped_for(), std::chrono::milliseconds(kMaxUnits));
  EXPECT_EQ(make(kThree, {.longest_stop = -1s}).stopped_for(), 0s);
}

TEST_F(ClientThrottleTest, StopsWithoutAStore) {
  TestStore broken;
  broken.fail(Reason::kStoreError);
  ClientThrottle one(broken, "maps", kThree, {}, clock_);
  EXPECT_EQ(one.try_send().outcome, Outcome::kFailed);
  one.record({503, "5"});
  EXPECT_EQ(one.try_send().retry_after, Duration(5s));
}

TEST_F(ClientThrottleTest, ReportsACostThatNeverFits) {
  ClientThrottle one = make();
  EXPECT_EQ(one.try_send(4).reason, Reason::kNever);
  EXPECT_EQ(one.wait_to_send(1h, 4).reason, Reason::kNever);
}

TEST_F(ClientThrottleTest, GivesNothingBackThatAFailurePolicyAdmitted) {
  TestStore store;
  store.answer = {.reason = Reason::kFallback, .delay = 1h};
  ClientThrottle one(store, "maps", kThree, {}, clock_);
  EXPECT_FALSE(one.wait_to_send(1s));
  EXPECT_EQ(store.last_verb, Verb::kTake);
}

TEST(ClientThrottleWaits, HoweverLongItTakes) {
  MemoryStore store;
  ClientThrottle throttle(store, "maps", leaky_bucket(1000).per(1s).burst(2).queueing());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(throttle.wait_to_send(Duration::max()));
}

TEST(ClientThrottleWaits, UntilTheRequestMayBeSent) {
  MemoryStore store;
  ClientThrottle throttle(store, "maps", leaky_bucket(100).per(1s).burst(50).queueing());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 11; ++i) ASSERT_TRUE(throttle.wait_to_send(1min));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 99ms);

  const auto stopped = std::chrono::steady_clock::now();
  throttle.record({429, "1"});
  ASSERT_TRUE(throttle.wait_to_send(1min));
  EXPECT_GE(std::chrono::steady_clock::now() - stopped, 999ms);
}

TEST(ClientThrottleWaits, NoLongerThanTheCallerAllows) {
  MemoryStore store;
  ClientThrottle throttle(store, "maps", leaky_bucket(1).per(1h).burst(3).queueing());
  EXPECT_TRUE(throttle.wait_to_send(1s));
  EXPECT_EQ(throttle.wait_to_send(1s).outcome, Outcome::kDenied) << "its turn is in an hour";
  EXPECT_TRUE(throttle.try_send(2)) << "the one that gave up took nothing";
  throttle.record({429, "60"});
  const Decision denied = throttle.wait_to_send(1s);
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_GT(denied.retry_after, Duration(1s));
}

// Threads that record and send at the same time never exceed the limit, nor the longest stop.
TEST(ClientThrottleThreads, AgreeOnTheLongestStop) {
  testing::ManualClock clock{Instant{1'000'000s}};
  MemoryStore store({}, clock);
  constexpr Limit kMany = fixed_window(1000).per(1h);
  std::atomic<int> sent{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ClientThrottle own(store, "maps", kMany, {}, clock);
      for (int i = 0; i < 300; ++i) sent += own.try_send().allowed() ? 1 : 0;
      for (int i = 1; i <= 50; ++i) own.record({429, std::to_string(i * (t + 1))});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(sent, 1000);
  // The threads may have used up the limit, so what this request waits for is not always the stop.
  ClientThrottle late(store, "maps", kMany, {}, clock);
  EXPECT_FALSE(late.try_send().allowed());
  EXPECT_EQ(late.stopped_for(), Duration(200s));
}

}  // namespace
}  // namespace sluice
