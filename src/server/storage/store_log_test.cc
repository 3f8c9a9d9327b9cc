#include "server/storage/stores.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "server/logging/test_pipe.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
using enum StoreEventKind;

class StoreLogTest : public ::testing::Test {
 protected:
  // Returns the lines without their time, after `report` has reported events.
  template <class Report>
  std::vector<std::string> lines(Report report, LogLevel level = LogLevel::kDebug) {
    TestingPipe pipe;
    {
      Log log({.level = level}, pipe.writing());
      StoreLog events(log, clock_, clock_);
      report(events);
    }
    auto found = pipe.lines();
    for (std::string& line : found) line.erase(0, line.find(' ') + 1);
    return found;
  }

  testing::ManualClock clock_;
};

TEST_F(StoreLogTest, WritesEventEndpointAndReason) {
  EXPECT_EQ(lines([&](StoreLog& events) {
              events.on({kConnectionLost, "10.0.0.5:6379", "end of file"});
              events.on({kBreakerOpened, "", "5 failures in a row"});
              clock_.advance(2500ms);
              events.on({kBreakerClosed, "", ""});
            }),
            (std::vector<std::string>{
                "warning a connection to the store was lost event=connection_lost "
                "endpoint=10.0.0.5:6379 why=\"end of file\"",
                "error the circuit breaker has opened; policies decide without the store "
                "event=breaker_opened why=\"5 failures in a row\" "
                "cause=\"the connection to Redis at 10.0.0.5:6379 broke: end of file\"",
                "info the circuit breaker has closed; the store decides again event=breaker_closed "
                "lasted_ms=2500"}));
}

TEST_F(StoreLogTest, ABreakerThatOpensNamesTheCauseAndTheAddress) {
  const auto found = lines([](StoreLog& events) {
    events.on({kConnectFailed, "10.0.0.5:6379", "Connection refused"});
    events.on({kBreakerOpened, "", "5 failures in a row, the last store_error"});
  });
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1],
            "error the circuit breaker has opened; policies decide without the store "
            "event=breaker_opened why=\"5 failures in a row, the last store_error\" "
            "cause=\"Redis at 10.0.0.5:6379 refuses connections\"");
}

class StoreOutage : public ::testing::Test {
 protected:
  StoreOutage() { clock_.set(Instant{std::chrono::seconds{1'700'000'000}}); }
  std::string why() const {
    const auto failing = events_.failing();
    return failing ? failing->why : "works";
  }

  testing::ManualClock clock_;
  Log log_{{.level = LogLevel::kOff}};
  StoreLog events_{log_, clock_, clock_, "Redis at a:1 does not answer within 50 ms"};
};

TEST_F(StoreOutage, BeginsWithTheFirstFailureAndSaysTheLastCause) {
  const Instant start = clock_.now();
  EXPECT_EQ(why(), "works");
  events_.on({kConnectionLost, "a:1", "End of file"});
  EXPECT_EQ(why(), "the connection to Redis at a:1 broke: End of file");
  clock_.advance(3s);
  events_.on({kConnectFailed, "a:1", "Connection refused"});
  events_.on({kBreakerOpened, "", "5 failures in a row, the last store_error"});
  EXPECT_EQ(why(), "Redis at a:1 refuses connections");
  EXPECT_EQ(events_.failing()->since, start);
}

TEST_F(StoreOutage, EndsWithAConnectionOrOnceTheBreakerIsClosed) {
  events_.on({kConnectFailed, "a:1", "Connection refused"});
  events_.on({kConnected, "a:1", ""});
  EXPECT_EQ(why(), "works") << "the breaker has not opened";
  const Instant start = clock_.now();
  events_.on({kBreakerOpened, "", "5 failures in a row, the last store_timeout"});
  for (int i = 0; i < 3; ++i) {  // a server that takes connections, and refuses the probes
    clock_.advance(3s);
    events_.on({kConnected, "a:1", ""});
    events_.on({kBreakerProbing, "", ""});
    events_.on({kRequestFailed, "a:1", "READONLY"});
    events_.on({kBreakerOpened, "", "the probe failed: store_error"});
  }
  EXPECT_EQ(why(), "Redis at a:1 answers with an error: READONLY");
  EXPECT_EQ(events_.failing()->since, start);
  EXPECT_FALSE(events_.last_outage()) << "it goes on";
  events_.on({kBreakerClosed, "", ""});
  EXPECT_EQ(why(), "works");
  ASSERT_TRUE(events_.last_outage());
  EXPECT_EQ(events_.last_outage()->from, start);
  EXPECT_EQ(events_.last_outage()->to, start + 9s);
  EXPECT_EQ(events_.last_outage()->why, "Redis at a:1 answers with an error: READONLY");
  events_.on({kConnectionLost, "a:1", "End of file"});
  events_.on({kConnected, "a:1", ""});
  EXPECT_EQ(why(), "works");
  EXPECT_EQ(events_.last_outage()->from, start) << "a connection is soon back";
  clock_.advance(10s);
  events_.on({kConnectionLost, "a:1", "End of file"});
  EXPECT_EQ(events_.failing()->since, start + 19s);
  events_.on({kConnected, "a:1", ""});
  EXPECT_EQ(events_.last_outage()->from, start) << "a connection is soon back";
  events_.on({kConnectionLost, "a:1", "End of file"});
  clock_.advance(1s);
  events_.on({kConnected, "a:1", ""});
  EXPECT_EQ(events_.last_outage()->from, start + 19s) << "nobody has asked";
}

TEST_F(StoreOutage, GoesOnIfTheStoreFailsAgainSoon) {
  const Instant start = clock_.now();
  events_.on({kConnectionLost, "a:1", "End of file"});
  events_.on({kBreakerOpened, "", "5 failures in a row, the last store_error"});
  clock_.advance(3s);
  events_.on({kBreakerClosed, "", ""});  // by one connection, while another is not back
  events_.on({kConnectFailed, "a:1", "Connection refused"});
  events_.on({kBreakerOpened, "", "5 failures in a row, the last store_error"});
  EXPECT_EQ(events_.failing()->since, start);
  clock_.advance(1s);
  events_.on({kBreakerClosed, "", ""});
  EXPECT_EQ(events_.last_outage()->from, start);
  EXPECT_EQ(events_.last_outage()->to, start + 4s);
}

TEST_F(StoreOutage, BeginsWithTheFirstFailureThatOpenedTheBreaker) {
  const Instant start = clock_.now();
  clock_.advance(1500ms);
  events_.on({kBreakerOpened, "", "5 failures in a row, the last store_timeout", 1500ms});
  EXPECT_EQ(events_.failing()->since, start);
  clock_.advance(1s);
  events_.on({kBreakerOpened, "", "the probe failed: store_timeout"});
  events_.on({kBreakerClosed, "", ""});
  EXPECT_EQ(events_.last_outage()->from, start);
}

TEST_F(StoreOutage, BeginsWithAnEarlierQuestionOfTheServer) {
  const Instant start = clock_.now();
  events_.owe(start);
  EXPECT_EQ(why(), "works") << "an answer takes a moment";
  clock_.advance(3s);
  EXPECT_EQ(why(), "Redis at a:1 does not answer within 50 ms");
  EXPECT_TRUE(events_.failing()->is_silent);
  EXPECT_EQ(events_.failing()->since, start);
  events_.on({kBreakerOpened, "", "5 failures in a row, the last store_timeout", 200ms});
  EXPECT_EQ(events_.failing()->since, start);
  events_.owe(start - 1s);
  events_.on({kBreakerClosed, "", ""});
  EXPECT_EQ(events_.last_outage()->from, start - 1s) << "as it was shown";
}

TEST_F(StoreOutage, OfAServerThatNobodyAsksEndsWithTheAnswer) {
  const Instant start = clock_.now();
  events_.owe(start);
  clock_.advance(1s);
  events_.owe({});
  EXPECT_FALSE(events_.last_outage()) << "that is late, but no outage";
  events_.owe(start + 1s);
  clock_.advance(3s);
  events_.owe({});
  EXPECT_EQ(why(), "works");
  ASSERT_TRUE(events_.last_outage());
  EXPECT_EQ(events_.last_outage()->from, start + 1s);
  EXPECT_EQ(events_.last_outage()->to, start + 4s);
  EXPECT_EQ(events_.last_outage()->why, "Redis at a:1 does not answer within 50 ms");
}

TEST_F(StoreOutage, IsNoneIfConnectionsThatDecideAreAnswered) {
  const Instant start = clock_.now();
  events_.owe(start);
  EXPECT_FALSE(events_.owes()) << "an answer takes a moment";
  for (int i = 0; i < 3; ++i) {
    clock_.advance(400ms);
    EXPECT_FALSE(events_.owes()) << "not half a second yet";
    clock_.advance(1100ms);
    EXPECT_TRUE(events_.owes());
    events_.answered();
    events_.owe(start);
    EXPECT_FALSE(events_.owes());
  }
  EXPECT_EQ(why(), "works");
  clock_.advance(3s);
  EXPECT_EQ(why(), "Redis at a:1 does not answer within 50 ms");
  EXPECT_EQ(events_.failing()->since, start + 4500ms);
  EXPECT_FALSE(events_.last_outage());
  events_.answered();
  EXPECT_EQ(why(), "works");
  EXPECT_EQ(events_.last_outage()->to, start + 7500ms);
}

TEST_F(StoreOutage, OfAClusterEndsWithTheLastOfItsMasters) {
  StoreLog events{log_, clock_, clock_, "silent", true};
  const Instant start = clock_.now();
  events.on({kConnectFailed, "a:1", "Connection refused"});
  clock_.advance(1s);
  events.on({kConnectFailed, "a:2", "Connection refused"});
  events.on({kConnected, "a:3", ""});
  events.on({kConnected, "a:2", ""});
  ASSERT_TRUE(events.failing()) << "a:1 is not back";
  EXPECT_TRUE(events.failing()->is_partial);
  EXPECT_EQ(events.failing()->since, start);
  events.on({kBreakerOpened, "", "5 failures in a row, the last store_error"});
  events.on({kBreakerClosed, "", ""});
  EXPECT_TRUE(events.failing()) << "by a request for another master";
  events.on({kConnected, "a:1", ""});
  EXPECT_FALSE(events.failing());
  EXPECT_EQ(events.last_outage()->from, start);
  clock_.advance(1h);
  events.on({kConnectFailed, "a:1", "Connection refused"});
  clock_.advance(1s);
  events.on({kTopologyChanged, "a:2", ""});
  EXPECT_FALSE(events.failing()) << "a replica has taken its place";
  EXPECT_EQ(events.last_outage()->to, clock_.now());
}

TEST_F(StoreOutage, OfAMasterThatRefusesGoesOnWhileTheBreakerIsClosed) {
  StoreLog events{log_, clock_, clock_, "silent", true};
  const Instant start = clock_.now();
  const std::string error = "NOREPLICAS Not enough good replicas to write.";
  events.on({kRequestFailed, "a:1", "STOREFULL 1: the memory of Redis is full"});
  events.on({kRequestFailed, "a:1", error});
  EXPECT_FALSE(events.failing()) << "one answer";
  clock_.advance(1s);
  events.on({kRequestFailed, "a:1", error});
  ASSERT_TRUE(events.failing());
  EXPECT_TRUE(events.failing()->is_partial);
  EXPECT_EQ(events.failing()->since, start);
  EXPECT_EQ(events.failing()->why, "Redis at a:1 answers with an error: " + error);
  events.on({kBreakerOpened, "", "5 failures in a row, the last store_error"});
  EXPECT_EQ(events.failing()->since, start);
  clock_.advance(1s);
  events.on({kBreakerClosed, "", ""});
  events.on({kRequestFailed, "a:1", error});
  ASSERT_TRUE(events.failing()) << "another master has answered the probe";
  EXPECT_EQ(events.failing()->since, start);
  events.on({kRequestFailed, "a:2", "STOREFULL 1: the memory of Redis is full"});
  EXPECT_EQ(events.failing()->why, "Redis at a:1 answers with an error: " + error);
  clock_.advance(11s);
  EXPECT_FALSE(events.failing());
  EXPECT_EQ(events.last_outage()->from, start);
  EXPECT_EQ(events.last_outage()->to, start + 2s);
}

TEST_F(StoreOutage, KeepsItsCauseIfTheAnswerComesAfterItsEnd) {
  const Instant start = clock_.now();
  events_.owe(start);
  events_.on({kConnectFailed, "a:1", "Connection refused"});
  clock_.advance(3s);
  events_.on({kConnected, "a:1", ""});
  clock_.advance(1s);
  events_.owe({});
  EXPECT_EQ(events_.last_outage()->from, start);
  EXPECT_EQ(events_.last_outage()->to, start + 4s);
  EXPECT_EQ(events_.last_outage()->why, "Redis at a:1 refuses connections");
}

TEST_F(StoreOutage, SaysForAMinuteThatTheStoreIsFull) {
  EXPECT_EQ(events_.full_since(), std::nullopt);
  const Instant start = clock_.now();
  events_.on({kRequestFailed, "a:1", "STOREFULL 1: the memory of Redis is full"});
  for (int i = 0; i < 3; ++i) {
    clock_.advance(50s);
    EXPECT_EQ(events_.full_since(), start);
    events_.on({kRequestFailed, "a:1", "OOM command not allowed"});
  }
  EXPECT_EQ(why(), "works") << "it decides about the counters that it has";
  clock_.advance(61s);
  EXPECT_EQ(events_.full_since(), std::nullopt);
  events_.on({kRequestFailed, "a:1", "OOM command not allowed"});
  EXPECT_EQ(events_.full_since(), clock_.now());
}

TEST_F(StoreOutage, OfAServerThatIsSilentNamesTheDeadline) {
  events_.on({kRequestFailed, "a:1", "OOM"});
  EXPECT_EQ(why(), "works") << "one answer";
  events_.on({kBreakerOpened, "", "5 failures in a row, the last store_timeout"});
  EXPECT_EQ(why(), "Redis at a:1 does not answer within 50 ms");
}

TEST_F(StoreOutage, OfAServerThatAnswersWithErrorsNamesTheError) {
  events_.on({kRequestFailed, "a:1", "READONLY You can't write"});
  events_.on({kBreakerOpened, "", "5 failures in a row, the last store_error"});
  EXPECT_EQ(why(), "Redis at a:1 answers with an error: READONLY You can't write");
}

TEST_F(StoreLogTest, LimitsTheLinesOfEachKindSeparately) {
  const auto found = lines([](StoreLog& events) {
    for (std::size_t i = 0; i < kStoreEventKinds; ++i) {
      events.on({static_cast<StoreEventKind>(i), "", ""});
    }
  });
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()).size(), kStoreEventKinds);
  for (const std::string& line : found) EXPECT_EQ(line.find("something"), line.npos) << line;
}

TEST_F(StoreLogTest, WritesAFewLinesOfAKindAndThenHowManyWereSuppressed) {
  const auto found = lines([&](StoreLog& events) {
    for (int i = 0; i < 100; ++i) events.on({kRequestFailed, "", "OOM"});
    events.on({kConnected, "", ""});
    EXPECT_EQ(events.count(kRequestFailed), 100u);
    EXPECT_EQ(events.count(kConnected), 1u);
    clock_.advance(StoreLog::kEvery);
    for (int i = 0; i < 2; ++i) events.on({kRequestFailed, "", "OOM"});
  });
  ASSERT_EQ(found.size(), StoreLog::kLines + 3);
  EXPECT_EQ(found[StoreLog::kLines], "info connected to the store event=connected");
  EXPECT_EQ(found[StoreLog::kLines + 1],
            "warning the store answered with an error event=request_failed why=OOM suppressed=95");
  EXPECT_EQ(found[StoreLog::kLines + 2],
            "warning the store answered with an error event=request_failed why=OOM");
}

TEST_F(StoreLogTest, CountsEventsBelowTheLogLevel) {
  const auto found = lines(
      [](StoreLog& events) {
        events.on({kConnected, "", ""});
        events.on({kConnectFailed, "", ""});
        EXPECT_EQ(events.count(kConnected), 1u);
      },
      LogLevel::kWarning);
  EXPECT_EQ(found.size(), 1u);
}

TEST_F(StoreLogTest, ThreadsLoseNoEvent) {
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  std::uint64_t told = 0;
  const auto found = lines([&](StoreLog& events) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < kEach; ++n) events.on({kRequestFailed, "", ""});
      });
    }
    for (std::thread& thread : threads) thread.join();
    told = events.count(kRequestFailed);
  });
  EXPECT_EQ(told, std::uint64_t{kThreads * kEach});
  EXPECT_EQ(found.size(), StoreLog::kLines);
}

}  // namespace
}  // namespace sluice::server
