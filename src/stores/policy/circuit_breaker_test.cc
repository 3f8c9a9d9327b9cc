#include "sluice/failure_policy.h"

#include <gtest/gtest.h>

#include "sluice/testing/manual_clock.h"
#include "stores/policy/chain.h"
#include "stores/policy/test_store.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using State = CircuitBreaker::State;
using enum StoreEventKind;

class CircuitBreakerTest : public ::testing::Test {
 protected:
  // One request that ends so, if it may be asked.
  bool ask(Reason reason) {
    const auto pass = breaker_.try_pass();
    breaker_.record(pass, reason);
    return static_cast<bool>(pass);
  }
  void ask_times(int times, Reason reason) {
    for (int i = 0; i < times; ++i) EXPECT_TRUE(ask(reason)) << i;
  }
  void open() {
    ask_times(5, Reason::kStoreTimeout);
    ASSERT_EQ(breaker_.state(), State::kOpen);
  }

  testing::ManualClock clock_;
  TestObserver observer_;
  CircuitBreaker breaker_{{}, &observer_, clock_};
};

TEST_F(CircuitBreakerTest, OpensAfterFiveFailuresInARow) {
  ask_times(4, Reason::kStoreTimeout);
  EXPECT_EQ(breaker_.state(), State::kClosed);
  ask_times(1, Reason::kStoreError);
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_FALSE(ask(Reason::kOk));
  EXPECT_EQ(breaker_.refused(), 1u);
  EXPECT_EQ(observer_.kinds(), std::vector{kBreakerOpened});
  EXPECT_EQ(observer_.last_why(), "5 failures in a row, the last store_error");
}

TEST_F(CircuitBreakerTest, CountsConsecutiveFailuresAtAnyDistance) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(ask(Reason::kStoreTimeout));
    clock_.advance(1min);
  }
  EXPECT_NE(breaker_.state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, SaysHowLongTheStoreHasFailedWhenItOpens) {
  ask_times(3, Reason::kStoreTimeout);
  ask_times(1, Reason::kOk);
  clock_.advance(100ms);
  for (int i = 0; i < 5; ++i) {
    clock_.advance(50ms);
    ask_times(1, Reason::kStoreTimeout);
  }
  EXPECT_EQ(observer_.kinds(), std::vector{kBreakerOpened});
  EXPECT_EQ(observer_.last_lasted(), 200ms) << "since the first of the row";
  clock_.advance(1s);
  ask_times(1, Reason::kStoreTimeout);
  EXPECT_EQ(observer_.last_lasted(), 0s) << "a probe is one failure";
}

TEST_F(CircuitBreakerTest, AFailureLongBeforeTheRowIsNotOfTheOutage) {
  ask_times(1, Reason::kStoreTimeout);
  clock_.advance(11s);
  for (int i = 0; i < 4; ++i) {
    ask_times(1, Reason::kStoreTimeout);
    clock_.advance(9s);
  }
  EXPECT_EQ(observer_.kinds(), std::vector{kBreakerOpened});
  EXPECT_EQ(observer_.last_lasted(), 27s);
}

TEST_F(CircuitBreakerTest, ResetsTheCountOfFailuresAfterAnAnswer) {
  for (const Reason answer :
       {Reason::kOk, Reason::kLimited, Reason::kForeignValue, Reason::kStoreFull}) {
    ask_times(4, Reason::kStoreTimeout);
    ask_times(1, answer);
    ask_times(4, Reason::kStoreTimeout);
    EXPECT_EQ(breaker_.state(), State::kClosed) << to_string(answer);
    ask_times(1, Reason::kOk);
    clock_.advance(2s);
  }
}

TEST_F(CircuitBreakerTest, IgnoresInvalidRequests) {
  ask_times(4, Reason::kStoreTimeout);
  ask_times(1, Reason::kInvalid);
  ask_times(1, Reason::kStoreTimeout);
  EXPECT_EQ(breaker_.state(), State::kOpen);
}

TEST_F(CircuitBreakerTest, OpensIfHalfOfTwentyRequestsFail) {
  for (int i = 0; i < 9; ++i) {
    ask_times(1, Reason::kStoreTimeout);
    ask_times(1, Reason::kOk);
  }
  ask_times(1, Reason::kOk);
  EXPECT_EQ(breaker_.state(), State::kClosed);
  ask_times(1, Reason::kStoreTimeout);
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_EQ(observer_.last_why(), "10 of 20 requests failed, the last store_timeout");
}

TEST_F(CircuitBreakerTest, StaysClosedIfFewerThanHalfFail) {
  for (int i = 0; i < 1000; ++i) {
    ask_times(1, Reason::kStoreTimeout);
    ask_times(2, Reason::kOk);
  }
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, ForgetsTheShareOfFailuresAfterItsWindow) {
  for (int i = 0; i < 9; ++i) {
    ask_times(1, Reason::kStoreTimeout);
    ask_times(1, Reason::kOk);
  }
  clock_.advance(1s + 1us);
  for (int i = 0; i < 9; ++i) {
    ask_times(1, Reason::kStoreTimeout);
    ask_times(1, Reason::kOk);
  }
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, CountsOnlyConsecutiveFailuresIfNoShareIsSet) {
  CircuitBreaker breaker({.failed_percent = 0}, nullptr, clock_);
  for (int i = 0; i < 1000; ++i) {
    for (const Reason reason : {Reason::kStoreError, Reason::kStoreError, Reason::kOk}) {
      breaker.record(breaker.try_pass(), reason);
    }
  }
  EXPECT_EQ(breaker.state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, IsStillOpenBeforeHalfOfItsTime) {
  open();
  clock_.advance(500ms - 1us);
  EXPECT_FALSE(ask(Reason::kOk));
  EXPECT_EQ(breaker_.state(), State::kOpen);
}

TEST_F(CircuitBreakerTest, LetsOneProbePassAfterItsTime) {
  open();
  clock_.advance(1s);
  const auto probe = breaker_.try_pass();
  EXPECT_TRUE(probe);
  EXPECT_EQ(breaker_.state(), State::kProbing);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(breaker_.try_pass());
  EXPECT_EQ(observer_.kinds(), (std::vector{kBreakerOpened, kBreakerProbing}));
  breaker_.record(probe, Reason::kLimited);
  EXPECT_EQ(breaker_.state(), State::kClosed);
  EXPECT_EQ(observer_.kinds(), (std::vector{kBreakerOpened, kBreakerProbing, kBreakerClosed}));
  EXPECT_TRUE(ask(Reason::kOk));
}

TEST_F(CircuitBreakerTest, SaysWhenAProbeIsDue) {
  EXPECT_FALSE(breaker_.probe_is_due());
  open();
  EXPECT_FALSE(breaker_.probe_is_due());
  clock_.advance(1s);
  EXPECT_TRUE(breaker_.probe_is_due());
  const auto probe = breaker_.try_pass();
  EXPECT_FALSE(breaker_.probe_is_due()) << "one is under way";
  breaker_.record(probe, Reason::kOk);
  clock_.advance(1h);
  EXPECT_FALSE(breaker_.probe_is_due());
  EXPECT_EQ(breaker_.refused(), 0u);
}

TEST_F(CircuitBreakerTest, OpensAgainIfTheProbeFails) {
  open();
  clock_.advance(1s);
  EXPECT_TRUE(ask(Reason::kStoreTimeout));
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_EQ(observer_.last_why(), "the probe failed: store_timeout");
  clock_.advance(1s - 1us);
  EXPECT_FALSE(ask(Reason::kOk)) << "the second time is 1 s to 2 s";
  clock_.advance(1s + 1us);
  EXPECT_TRUE(ask(Reason::kOk));
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, WaitsAtMostTenSecondsAfterManyFailedProbes) {
  open();
  for (int i = 0; i < 100; ++i) {
    clock_.advance(10s);
    EXPECT_TRUE(ask(Reason::kStoreError)) << i;
  }
  clock_.advance(5s - 1us);
  EXPECT_FALSE(ask(Reason::kOk));
}

TEST_F(CircuitBreakerTest, ProbesWithTheNextRequestOnceTheStoreMayWorkAgain) {
  breaker_.probe_soon();
  EXPECT_EQ(breaker_.state(), State::kClosed);
  open();
  EXPECT_FALSE(ask(Reason::kOk));
  breaker_.probe_soon();
  EXPECT_EQ(breaker_.state(), State::kOpen) << "only a probe closes it";
  EXPECT_TRUE(ask(Reason::kOk));
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, ProbesAgainAtOnceIfTheStoreCameBackDuringAProbeThatFailed) {
  open();
  clock_.advance(1s);
  const auto probe = breaker_.try_pass();
  ASSERT_TRUE(probe);
  breaker_.probe_soon();
  EXPECT_FALSE(ask(Reason::kOk)) << "one probe at a time";
  breaker_.record(probe, Reason::kStoreTimeout);
  EXPECT_TRUE(ask(Reason::kStoreTimeout)) << "the probe went to the server before";
  EXPECT_FALSE(ask(Reason::kOk)) << "once";
}

TEST_F(CircuitBreakerTest, ProbesAtOnceWhenTheClientIsConnectedAgain) {
  for (const StoreEventKind kind : {kConnected, kTopologyChanged}) {
    policy::Shared shared({.failures = 1}, {.longest = Duration{0}}, {}, &observer_, clock_);
    shared.breaker.record(shared.breaker.try_pass(), Reason::kStoreError);
    shared.on({kConnectFailed, "", ""});
    EXPECT_FALSE(shared.breaker.try_pass());
    shared.on({kind, "", ""});
    EXPECT_TRUE(shared.breaker.try_pass());
    EXPECT_EQ(observer_.kinds()[observer_.kinds().size() - 2], kind) << "events are passed on";
  }
}

TEST_F(CircuitBreakerTest, OpensForTheShortestTimeAfterItWasClosed) {
  open();
  for (int i = 0; i < 10; ++i) {
    clock_.advance(10s);
    EXPECT_TRUE(ask(Reason::kStoreError));
  }
  clock_.advance(10s);
  EXPECT_TRUE(ask(Reason::kOk));
  open();
  clock_.advance(1s);
  EXPECT_TRUE(ask(Reason::kOk));
}

TEST_F(CircuitBreakerTest, OpensForARandomTime) {
  std::vector<Duration> times;
  for (int i = 0; i < 20; ++i) {
    open();
    Duration waited{0};
    for (; !ask(Reason::kOk); waited += 1ms) clock_.advance(1ms);
    EXPECT_GE(waited, 500ms);
    EXPECT_LE(waited, 1s);
    times.push_back(waited);
  }
  EXPECT_NE(*std::min_element(times.begin(), times.end()),
            *std::max_element(times.begin(), times.end()));
}

TEST_F(CircuitBreakerTest, DoesNotCountAnswersFromBeforeItOpened) {
  const auto early = breaker_.try_pass();
  open();
  breaker_.record(early, Reason::kOk);
  EXPECT_EQ(breaker_.state(), State::kOpen);
  clock_.advance(1s);
  const auto probe = breaker_.try_pass();
  breaker_.record(early, Reason::kOk);
  EXPECT_EQ(breaker_.state(), State::kProbing);
  breaker_.record(probe, Reason::kOk);
  for (int i = 0; i < 10; ++i) breaker_.record(early, Reason::kStoreTimeout);
  EXPECT_EQ(breaker_.state(), State::kClosed) << "these failed in an earlier time";
}

TEST_F(CircuitBreakerTest, LetsAnotherProbePassIfOneNeverEnds) {
  open();
  clock_.advance(1s);
  const auto lost = breaker_.try_pass();
  EXPECT_TRUE(lost);
  clock_.advance(1s - 1us);
  EXPECT_FALSE(breaker_.try_pass());
  clock_.advance(1us);
  const auto next = breaker_.try_pass();
  EXPECT_TRUE(next);
  breaker_.record(lost, Reason::kStoreTimeout);
  EXPECT_EQ(breaker_.state(), State::kProbing) << "only the newest probe counts";
  breaker_.record(next, Reason::kOk);
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, ProbesWithTheNextRequestIfTheProbeWasInvalid) {
  open();
  clock_.advance(1s);
  EXPECT_TRUE(ask(Reason::kInvalid));
  EXPECT_EQ(breaker_.state(), State::kOpen);
  EXPECT_TRUE(ask(Reason::kOk));
  EXPECT_EQ(breaker_.state(), State::kClosed);
}

TEST_F(CircuitBreakerTest, WorksWithoutAnObserver) {
  CircuitBreaker breaker({.failures = 0}, nullptr, clock_);
  breaker.record(breaker.try_pass(), Reason::kStoreError);
  EXPECT_EQ(breaker.state(), State::kOpen) << "0 failures count as 1";
}

}  // namespace
}  // namespace sluice
