#include <algorithm>

#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"
#include "stores/redis/script/state_reader.h"
#include "tests/redis/script_test.h"
#include "tests/support/random_cases.h"

// Requests without an explicit timestamp use the server's time.
namespace sluice_redis {
namespace {

using ServerTime = ScriptTest;
using sluice::testing::random_cases;

TEST_F(ServerTime, AdmitsTheLimitAndReturnsTheExactRetryAfter) {
  for (const sluice::Limit& limit : every_kind(5, kLong)) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    for (std::uint32_t left = 5; left-- > 0;) {
      const sluice::Decision decision = limiter_.try_acquire("key", limit);
      ASSERT_TRUE(decision) << store_.error();
      EXPECT_EQ(decision.remaining, left);
      EXPECT_GT(decision.reset_after.count(), 0);
      EXPECT_LE(decision.reset_after, 2 * kLong);
    }
    const sluice::Decision denied = limiter_.try_acquire("key", limit);
    EXPECT_EQ(denied.reason, sluice::Reason::kLimited);
    ASSERT_TRUE(denied.retry_after);
    EXPECT_GT(denied.retry_after->count(), 0);
    EXPECT_LE(*denied.retry_after, 2 * kLong);
    EXPECT_FALSE(limiter_.peek("key", limit));
    EXPECT_EQ(limiter_.refund("key", limit, 2).remaining, 2u);
    EXPECT_EQ(limiter_.peek("key", limit, 0).remaining, 2u);
    EXPECT_EQ(limiter_.reset("key", limit).remaining, 5u);
    EXPECT_EQ(limiter_.peek("key", limit, 0).reset_after.count(), 0);
  }
}

// A request with an explicit timestamp finds the units that were taken at the server's time.
TEST_F(ServerTime, IsTheUnixTimeInMicroseconds) {
  for (const sluice::Limit& limit : every_kind(5, kLong)) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    const std::int64_t before = server_time();
    const sluice::Decision taken = limiter_.try_acquire("key", limit, 5);
    ASSERT_TRUE(taken);
    const std::int64_t after = server_time();
    // The time until the counter is fully replenished counts from the take.
    const sluice::Decision early = limiter_.peek("key", limit, 0, instant(before));
    EXPECT_EQ(early.reset_after, taken.reset_after);
    const sluice::Decision late = limiter_.peek("key", limit, 0, instant(after));
    EXPECT_LE(late.reset_after, taken.reset_after);
    EXPECT_GE(late.reset_after.count(), taken.reset_after.count() - (after - before));
    limiter_.reset("key", limit);
  }
}

sluice::Action random_action(sluice_property::Dice& dice) {
  const sluice::Action actions[] = {sluice::Verb::kTake,
                                    sluice::Verb::kCharge,
                                    sluice::Verb::kTakeAtMost,
                                    {sluice::Verb::kReserve, std::chrono::minutes{1}}};
  return actions[dice.below(std::size(actions))];
}

// One charge at the server's time has its own script. It must admit and store the same as any store
// with the same timestamps, which the test reads from the states.
TEST_F(ServerTime, AnswersLikeTheMemoryStoreAtTheSameInstants) {
  sluice_property::Dice dice(21);
  std::size_t compared = 0;
  const std::size_t limits = random_cases(120, 400);
  for (std::size_t i = 0; i < limits; ++i) {
    const auto spec = random_spec(dice, sluice_property::random_algorithm(dice));
    const sluice::Limit limit = sluice_property::limit_of(spec);
    const std::string name = "key" + std::to_string(i);
    const std::string key = redis_key(kPrefix, limit.algorithm(), name);
    sluice::MemoryStore memory({.max_keys = 64, .shards = 1});
    sluice::Limiter expected(memory);
    for (int step = 0; step < 12 && limit.capacity() > 0; ++step) {
      const std::uint64_t cost = 1 + dice.below(std::min<std::uint64_t>(limit.capacity(), 6));
      const sluice::Charge charge{name, limit, cost};
      const sluice::Action action = random_action(dice);
      const sluice::Decision decision = limiter_.apply(action, {&charge, 1});
      ASSERT_EQ(store_.error(), "") << sluice_property::to_json(spec);
      if (!decision.allowed()) continue;
      const auto state =
          sluice::redis::read_counter_state(limit.algorithm(), redis_.text({"GET", key}));
      if (!state) break;  // it has expired in the meantime
      EXPECT_EQ(decision, expected.apply(action, {&charge, 1}, {}, state->changed))
          << sluice_property::to_json(spec);
      const sluice::Instant later = state->changed + limit.period() / 7;
      const sluice::Decision peeked = limiter_.peek(name, limit, cost, later);
      if (number({"EXISTS", key}) == 0) break;  // it may have expired before the peek
      EXPECT_EQ(peeked, expected.peek(name, limit, cost, later)) << sluice_property::to_json(spec);
      ++compared;
    }
  }
  EXPECT_GT(compared, 5 * limits / 2);
}

// Whatever the client's clock says, the window is that of the server's time.
TEST_F(ServerTime, DecidesTheWindowOfACalendar) {
  const sluice::Limit limit = sluice::fixed_window(3).per(sluice::calendar_day("Asia/Kathmandu"));
  for (const int days : {-20000, -2, -1, 0, 1, 30000}) {
    redis_.run({"FLUSHALL"});
    const sluice::testing::ManualClock clock(instant(server_time()) + std::chrono::days{days});
    sluice::redis::Plan plan;
    const std::vector<sluice::Charge> charges{{"key", limit, 2}, {"other", limit, 1}};
    sluice_redis::PlainCommand command;
    ASSERT_TRUE(plan.begin({.prefix = std::string(kPrefix), .clock = &clock}, sluice::Verb::kTake,
                           charges, {}));
    auto read = sluice::redis::Plan::Read::kRepeat;
    int calls = 0;
    for (; read == sluice::redis::Plan::Read::kRepeat && calls < 9; ++calls) {
      plan.write(0, command);
      redis_.send(command);
      read = plan.read(0, *redis_.next());
    }
    ASSERT_EQ(read, sluice::redis::Plan::Read::kAllowed) << days;
    EXPECT_EQ(calls, days == 0 || days == -1 ? 1 : 2) << days;
    std::vector<sluice::Decision> each(2);
    sluice::Decision all;
    plan.answer(each, all);
    const auto state = sluice::redis::read_counter_state(
        limit.algorithm(), redis_.text({"GET", redis_key(kPrefix, limit.algorithm(), "key")}));
    ASSERT_TRUE(state);
    const sluice::Instant end = limit.calendar()->window_at(state->changed).end;
    EXPECT_EQ(each[0].remaining, 1u);
    EXPECT_EQ(each[0].reset_after, end - state->changed);
  }
}

// A counter whose last change is in a window after that of the server needs windows of its own.
TEST_F(ServerTime, DecidesAFutureWindowOfACalendar) {
  const sluice::Limit limit = sluice::fixed_window(3).per(sluice::calendar_day("Asia/Kathmandu"));
  const sluice::Instant later = instant(server_time()) + std::chrono::days{9};
  ASSERT_TRUE(limiter_.try_acquire("future", limit, 2, later));
  const std::vector<sluice::Charge> charges{{"key", limit}, {"future", limit}, {"last", limit}};
  std::vector<sluice::Decision> each(3);
  EXPECT_TRUE(limiter_.check(charges, each)) << store_.error();
  EXPECT_EQ(each[0].remaining, 2u);
  EXPECT_EQ(each[1].remaining, 0u);
  EXPECT_EQ(each[1].reset_after, limit.calendar()->window_at(later).end - later);
  EXPECT_FALSE(limiter_.check(charges, each));
}

TEST_F(ServerTime, AnswersTakesOfALongLogLikeTheMemoryStore) {
  const sluice::Limit limit = sluice::sliding_window_log(300).per(std::chrono::milliseconds{50});
  const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
  sluice::MemoryStore memory({.max_keys = 64, .shards = 1});
  sluice::Limiter expected(memory);
  for (std::size_t i = 0; i < random_cases(1000, 3000); ++i) {
    const sluice::Decision decision = limiter_.try_acquire("key", limit);
    ASSERT_EQ(store_.error(), "");
    if (!decision.allowed()) continue;
    const auto state =
        sluice::redis::read_counter_state(limit.algorithm(), redis_.text({"GET", key}));
    if (!state) continue;  // it has expired in the meantime, with all units
    ASSERT_EQ(decision, expected.try_acquire("key", limit, 1, state->changed)) << i;
  }
}

TEST_F(ServerTime, DecidesARequestWithLimitsOfEveryKindAsOne) {
  const std::vector<sluice::Limit> kinds = every_kind(5, kLong);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kinds.size(); ++i) keys.push_back("key" + std::to_string(i));
  std::vector<sluice::Charge> charges;
  for (std::size_t i = 0; i < kinds.size(); ++i) charges.push_back({keys[i], kinds[i], 2});
  std::vector<sluice::Decision> each(charges.size());
  EXPECT_TRUE(limiter_.check(charges, each)) << store_.error();
  for (const sluice::Decision& d : each) EXPECT_EQ(d.remaining, 3u);
  charges[4].cost = 4;
  const sluice::Decision denied = limiter_.check(charges, each);
  EXPECT_EQ(denied.reason, sluice::Reason::kLimited);
  for (std::size_t i = 0; i < each.size(); ++i) {
    EXPECT_EQ(each[i].allowed(), i != 4);
    EXPECT_EQ(each[i].remaining, 3u);
  }
}

TEST_F(ServerTime, DecidesTheLargestRequestAsOne) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < sluice::kMaxCharges; ++i) keys.push_back(std::to_string(i));
  const std::vector<sluice::Limit> kinds = every_kind(5, kLong);
  std::vector<sluice::Charge> charges;
  for (const std::string& key : keys) {
    charges.push_back({key, kinds[charges.size() % kinds.size()]});
  }
  std::vector<sluice::Decision> each(charges.size());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(limiter_.check(charges, each)) << store_.error();
  EXPECT_FALSE(limiter_.check(charges, each));
  EXPECT_EQ(number({"DBSIZE"}), std::int64_t{sluice::kMaxCharges});
}

}  // namespace
}  // namespace sluice_redis
