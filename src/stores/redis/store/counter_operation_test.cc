#include "stores/redis/store/loop_store.h"

#include <gtest/gtest.h>

#include "sluice/testing/manual_clock.h"
#include "stores/redis/store/test_client.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

const Limit kWindow = fixed_window(10).per(1min).aligned_to_clock();
const Limit kSlices = sliding_window_counter(10).per(1min).slices(2);
constexpr Instant kMinute100{100min};

class CounterOperationTest : public ::testing::Test {
 protected:
  TestRequest& ask(std::vector<Charge> charges, Verb verb = Verb::kTake,
                   std::optional<Instant> now = {}) {
    request = std::make_unique<TestRequest>(operation, std::move(charges), verb, now);
    if (request->is_prepared) request->start(client);
    return *request;
  }
  // The next command, which gets this answer.
  std::string next(std::string_view answer) {
    const std::string command = client.next();
    client.answer(answer);
    return command;
  }

  sluice::testing::ManualClock clock{kMinute100};
  std::atomic<std::uint64_t> gave_back{0};
  RequestOptions options{
      .prefix = "p:", .scripting = false, .explicit_expiry_ms = 5000, .clock = &clock};
  CounterOperation operation{options, gave_back};
  AnsweredClient client;
  std::unique_ptr<TestRequest> request;
};

TEST_F(CounterOperationTest, CreatesTheSliceWithItsExpiryAndThenCounts) {
  const TestRequest& take = ask({{"k", kWindow, 3}});
  EXPECT_EQ(client.waiting(), 2u) << "in one write";
  EXPECT_EQ(next("+OK\r\n"), "SET p:F{k}!:60000000/1:100 0 PX 70001 NX");
  EXPECT_EQ(take.times_finished, 0);
  EXPECT_EQ(next(":3\r\n"), "INCRBY p:F{k}!:60000000/1:100 3");
  EXPECT_EQ(take.times_finished, 1);
  EXPECT_EQ(take.decision(), (Decision{.capacity = 10, .remaining = 7, .reset_after = 1min}));
  EXPECT_EQ(take.each[0], take.decision());
}

TEST_F(CounterOperationTest, GivesBackTheUnitsOfADeniedRequest) {
  const TestRequest& take = ask({{"k", kWindow, 3}});
  client.answer("+OK\r\n");
  client.answer(":11\r\n");
  EXPECT_EQ(take.decision().reason, Reason::kLimited);
  EXPECT_EQ(take.decision().remaining, 2u);
  EXPECT_EQ(take.decision().retry_after, 1min);
  EXPECT_EQ(next("$-1\r\n"), "SET p:F{k}!:60000000/1:100 0 PX 70001 NX");
  EXPECT_EQ(next(":8\r\n"), "DECRBY p:F{k}!:60000000/1:100 3");
  EXPECT_EQ(gave_back, 1u);
}

TEST_F(CounterOperationTest, GivesBackTheUnitsOfOneLimitIfAnotherDenies) {
  const TestRequest& take = ask({{"a", kWindow}, {"b", kWindow}});
  for (const char* answer : {"+OK\r\n", ":1\r\n", "+OK\r\n", ":11\r\n"}) client.answer(answer);
  EXPECT_EQ(take.decision().outcome, Outcome::kDenied);
  EXPECT_EQ(take.each[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(take.each[0].remaining, 10u) << "as if it had not been taken";
  EXPECT_EQ(next("$-1\r\n"), "SET p:F{a}!:60000000/1:100 0 PX 70001 NX");
  EXPECT_EQ(next(":0\r\n"), "DECRBY p:F{a}!:60000000/1:100 1");
  EXPECT_EQ(next("$-1\r\n"), "SET p:F{b}!:60000000/1:100 0 PX 70001 NX");
  EXPECT_EQ(next(":10\r\n"), "DECRBY p:F{b}!:60000000/1:100 1");
  EXPECT_EQ(client.waiting(), 0u);
  EXPECT_EQ(gave_back, 1u);
}

TEST_F(CounterOperationTest, ReadsTheOlderSlicesOfASlidingWindow) {
  const TestRequest& take = ask({{"k", kSlices}});
  client.answer("+OK\r\n");
  EXPECT_EQ(next(":1\r\n"), "INCRBY p:C{k}!:60000000/2:200 1");
  EXPECT_EQ(next("*2\r\n$1\r\n4\r\n$1\r\n5\r\n"),
            "MGET p:C{k}!:60000000/2:199 p:C{k}!:60000000/2:198");
  EXPECT_EQ(take.decision().outcome, Outcome::kAllowed) << "4 + 5 before it";
  EXPECT_EQ(take.decision().remaining, 0u);
}

TEST_F(CounterOperationTest, OnlyReadsForAPeek) {
  const TestRequest& peek = ask({{"k", kWindow}}, Verb::kPeek);
  EXPECT_EQ(next("$1\r\n4\r\n"), "GET p:F{k}!:60000000/1:100");
  EXPECT_EQ(peek.times_finished, 1);
  EXPECT_EQ(peek.decision().remaining, 5u) << "as the take would answer";
  EXPECT_EQ(client.waiting(), 0u);
}

TEST_F(CounterOperationTest, DoesNotCountACostThatNeverFits) {
  const TestRequest& take = ask({{"k", kWindow, 11}});
  EXPECT_EQ(next("$-1\r\n"), "GET p:F{k}!:60000000/1:100");
  EXPECT_EQ(take.decision().reason, Reason::kNever);
  EXPECT_EQ(client.waiting(), 0u);
}

TEST_F(CounterOperationTest, SumsChargesOnOneCounter) {
  ask({{"k", kWindow, 2}, {"k", kWindow, 3}});
  client.answer("+OK\r\n");
  EXPECT_EQ(next(":5\r\n"), "INCRBY p:F{k}!:60000000/1:100 5");
  EXPECT_EQ(request->decision().remaining, 5u);
}

TEST_F(CounterOperationTest, RefundsTheNewestUnitsFirst) {
  const TestRequest& refund = ask({{"k", kSlices, 3}}, Verb::kRefund);
  client.answer("$1\r\n1\r\n");
  client.answer("*2\r\n$1\r\n4\r\n$-1\r\n");
  EXPECT_EQ(client.waiting(), 4u);
  client.answer("$-1\r\n");
  EXPECT_EQ(next(":0\r\n"), "DECRBY p:C{k}!:60000000/2:200 1");
  client.answer("$-1\r\n");
  EXPECT_EQ(next(":2\r\n"), "DECRBY p:C{k}!:60000000/2:199 2");
  EXPECT_EQ(refund.times_finished, 1);
  EXPECT_EQ(refund.decision().remaining, 8u);
}

TEST_F(CounterOperationTest, RefundsNothingOfAnUntouchedCounter) {
  const TestRequest& refund = ask({{"k", kWindow, 3}}, Verb::kRefund);
  client.answer("$-1\r\n");
  EXPECT_EQ(refund.times_finished, 1);
  EXPECT_EQ(client.waiting(), 0u);
}

TEST_F(CounterOperationTest, ResetsTheSlicesThatExist) {
  const TestRequest& reset = ask({{"k", kSlices}}, Verb::kReset);
  client.answer("$1\r\n1\r\n");
  client.answer("*2\r\n$-1\r\n$1\r\n4\r\n");
  EXPECT_EQ(next(":2\r\n"), "DEL p:C{k}!:60000000/2:200 p:C{k}!:60000000/2:198");
  EXPECT_EQ(reset.decision(), (Decision{.capacity = 10, .remaining = 10}));
}

TEST_F(CounterOperationTest, FailsWithATimeoutAndGivesBackOnlyAcknowledgedUnits) {
  const TestRequest& take = ask({{"a", kWindow}, {"b", kWindow}});
  client.answer("+OK\r\n");
  client.answer(":1\r\n");
  client.answer("+OK\r\n");
  client.fail(Failure::kTimeout);
  EXPECT_EQ(take.decision(), Decision::refused(Reason::kStoreTimeout));
  EXPECT_EQ(client.waiting(), 2u);
  client.answer("$-1\r\n");
  EXPECT_EQ(next(":0\r\n"), "DECRBY p:F{a}!:60000000/1:100 1");
}

TEST_F(CounterOperationTest, AsksAFullServerWhetherALimitDeniesAnyway) {
  const auto ask_full = [&](std::string_view count) {
    ask({{"k", kWindow}});
    client.answer("-OOM command not allowed\r\n");
    client.answer("-OOM command not allowed\r\n");
    EXPECT_EQ(next(count), "GET p:F{k}!:60000000/1:100");
    EXPECT_EQ(request->times_finished, 1);
    EXPECT_EQ(client.waiting(), 0u);
    return request->decision().reason;
  };
  EXPECT_EQ(ask_full("$2\r\n10\r\n"), Reason::kLimited);
  EXPECT_EQ(ask_full("$1\r\n9\r\n"), Reason::kStoreFull) << "it cannot count the request";
  EXPECT_EQ(ask_full("$-1\r\n"), Reason::kStoreFull);
}

TEST_F(CounterOperationTest, GivesBackWhatAnotherServerCountedIfOneIsFull) {
  ask({{"a", kWindow}, {"b", kWindow}});
  for (const char* answer : {"+OK\r\n", ":1\r\n", "-OOM no\r\n", "-OOM no\r\n"}) {
    client.answer(answer);
  }
  EXPECT_EQ(next("$1\r\n0\r\n"), "GET p:F{b}!:60000000/1:100");
  EXPECT_EQ(request->decision(), Decision::refused(Reason::kStoreFull));
  EXPECT_EQ(gave_back, 1u);
  EXPECT_EQ(next("$-1\r\n"), "SET p:F{a}!:60000000/1:100 0 PX 70001 NX");
  EXPECT_EQ(next(":0\r\n"), "DECRBY p:F{a}!:60000000/1:100 1");
}

TEST_F(CounterOperationTest, DistinguishesTheKindsOfFailures) {
  for (const auto& [failure, reason] : {std::pair{Failure::kTimeout, Reason::kStoreTimeout},
                                        {Failure::kLost, Reason::kStoreTimeout},
                                        {Failure::kUnavailable, Reason::kStoreError}}) {
    const TestRequest& peek = ask({{"k", kWindow}}, Verb::kPeek);
    client.fail(failure);
    EXPECT_EQ(peek.decision(), Decision::refused(reason));
  }
}

TEST_F(CounterOperationTest, DoesNotChangeAForeignValue) {
  for (const char* answer :
       {"-WRONGTYPE Operation against a key\r\n", "-ERR value is not an integer\r\n",
        "-ERR increment or decrement would overflow\r\n", "$3\r\nabc\r\n", "*0\r\n"}) {
    const TestRequest& peek = ask({{"k", kWindow}}, Verb::kPeek);
    client.answer(answer);
    EXPECT_EQ(peek.decision(), Decision::refused(Reason::kForeignValue)) << answer;
    EXPECT_EQ(client.waiting(), 0u);
  }
}

TEST_F(CounterOperationTest, RefusesLimitsThatNeedScripts) {
  const TestRequest& take = ask({{"a", kWindow}, {"b", token_bucket(10).per(1min)}});
  EXPECT_FALSE(take.is_prepared);
  EXPECT_EQ(take.decision().reason, Reason::kInvalid);
  EXPECT_EQ(client.waiting(), 0u);
}

TEST_F(CounterOperationTest, RefusesVerbsThatNeedScripts) {
  for (const Verb verb : {Verb::kCharge, Verb::kTakeAtMost, Verb::kReserve}) {
    const TestRequest& asked = ask({{"a", kWindow}}, verb);
    EXPECT_FALSE(asked.is_prepared);
    EXPECT_EQ(asked.decision().reason, Reason::kInvalid);
  }
  EXPECT_EQ(client.waiting(), 0u);
}

TEST_F(CounterOperationTest, RefusesOneCounterUnderTwoLimits) {
  const Limit other = fixed_window(11).per(1min).aligned_to_clock();
  EXPECT_FALSE(ask({{"k", kWindow}, {"k", other}}).is_prepared);
  EXPECT_FALSE(ask({}).is_prepared);
}

TEST_F(CounterOperationTest, UsesTheTimeOfItsClockOrOfTheCaller) {
  clock.advance(30s);
  ask({{"k", kWindow}}, Verb::kTake);
  EXPECT_EQ(client.next(), "SET p:F{k}!:60000000/1:100 0 PX 40001 NX");
  client.answer("+OK\r\n");
  client.answer(":1\r\n");
  EXPECT_EQ(request->decision().reset_after, 30s);
  ask({{"k", kWindow}}, Verb::kTake, Instant{200min});
  EXPECT_EQ(client.next(), "SET p:F{k}!:60000000/1:200 0 PX 5000 NX");
  client.answer("+OK\r\n");
  client.answer(":1\r\n");
}

TEST_F(CounterOperationTest, EncodesTagsAndKeysInItsNames) {
  ask({{"a}b%c", kWindow}}, Verb::kPeek);
  EXPECT_EQ(next("$-1\r\n"), "GET p:F{a%7Db%25c}!:60000000/1:100");
  ask({{"k", kWindow, 1, "t"}}, Verb::kPeek);
  EXPECT_EQ(next("$-1\r\n"), "GET p:F{t}.k:60000000/1:100");
  ask({{"", kWindow}}, Verb::kPeek);
  EXPECT_EQ(next("$-1\r\n"), "GET p:F{%}!:60000000/1:100");
}

}  // namespace
}  // namespace sluice::redis
