#include <chrono>

#include "tests/redis/script_test.h"
#include "tests/support/random_cases.h"

// Counters expire soon after their last effect, and never before it.
namespace sluice_redis {
namespace {

using sluice::testing::random_cases;
using sluice_property::Dice;

constexpr std::int64_t kGrid = std::int64_t{1} << 20;

// Returns the time from which a counter is forgotten that is fully replenished at `at`.
std::int64_t forgotten_from(std::int64_t at) { return (at + kGrid - 1) / kGrid * kGrid; }

class Expiry : public ScriptTest {
 protected:
  // Checks the expiry after a decision between two readings of the server's time.
  void expect_kept_until_forgotten(const std::string& key, const sluice::Decision& decision,
                                   std::int64_t before, std::int64_t after,
                                   const std::string& spec) {
    const std::int64_t reset = decision.reset_after.count();
    const std::int64_t least = forgotten_from(before + reset);
    const std::int64_t expires_ms = number({"PEXPIRETIME", key});
    if (expires_ms == -2) {  // already expired
      EXPECT_LE(least, server_time()) << spec;
      return;
    }
    ASSERT_GE(expires_ms, 0) << "kept for ever: " << spec;
    if (least >= sluice_property::kLastTick - 2 * kGrid) return;  // never forgotten
    EXPECT_GE(expires_ms * 1000, least) << spec;
    EXPECT_LE(expires_ms * 1000, forgotten_from(after + reset) + 2000000) << spec;
  }
};

TEST_F(Expiry, IsSetWithEachChangeAndNotBeforeTheCounterIsForgotten) {
  Dice dice(7);
  for (std::size_t i = 0; i < random_cases(200, 600); ++i) {
    const auto spec = random_spec(dice, sluice_property::random_algorithm(dice));
    const sluice::Limit limit = sluice_property::limit_of(spec);
    if (limit.capacity() == 0) continue;
    const std::string name = "key" + std::to_string(i);
    const std::string key = redis_key(kPrefix, limit.algorithm(), name);
    for (int step = 0; step < 3; ++step) {
      const std::string value = dump(key);
      const std::int64_t before = server_time();
      const std::uint64_t cost = 1 + dice.below(limit.capacity());
      const sluice::Decision decision =
          step < 2 ? limiter_.try_acquire(name, limit, cost) : limiter_.refund(name, limit, cost);
      const std::string written = dump(key);
      if (!decision.allowed() || written == value || written.empty()) continue;
      expect_kept_until_forgotten(key, decision, before, server_time(),
                                  sluice_property::to_json(spec));
    }
  }
}

TEST_F(Expiry, AtAnExplicitTimestampIsThatOfTheOptions) {
  for (const sluice::Limit& limit : every_kind(10, std::chrono::seconds{1})) {
    ASSERT_TRUE(limiter_.try_acquire("key", limit, 3, instant(kStart)));
    const std::int64_t ttl = number({"PTTL", redis_key(kPrefix, limit.algorithm(), "key")});
    EXPECT_GT(ttl, 86'400'000 - 60'000);
    EXPECT_LE(ttl, 86'400'000);
    limiter_.reset("key", limit);
  }
}

// The request at the server's time changes little, so that the bucket is forgotten at the same
// time.
TEST_F(Expiry, OfABucketIsSetAgainAfterAnExplicitTimestamp) {
  const sluice::Limit limit = sluice::token_bucket(10).per(std::chrono::seconds{1}).burst(999'990);
  for (const std::uint64_t cost : {std::uint64_t{1}, std::uint64_t{7}}) {
    ASSERT_TRUE(limiter_.try_acquire("key", limit, 990'000, instant(server_time())));
    ASSERT_LE(number({"PTTL", redis_key(kPrefix, limit.algorithm(), "key")}), 86'400'000);
    ASSERT_TRUE(limiter_.try_acquire("key", limit, cost));
    EXPECT_GT(number({"PTTL", redis_key(kPrefix, limit.algorithm(), "key")}), 97'000'000);
    limiter_.reset("key", limit);
  }
}

TEST_F(Expiry, OfEveryKeyIsSetAfterAnyHistory) {
  Dice dice(8);
  const std::size_t histories = random_cases(20, 60);
  for (std::size_t i = 0; i < histories; ++i) {
    const auto told = sluice_property::random_history(dice, 60);
    answers(redis_, std::string(kPrefix) + std::to_string(i) + ":", told.steps);
  }
  const Reply keys = redis_.run({"KEYS", "*"});
  ASSERT_GT(keys->count, histories);
  for (const auto& found : *keys) {
    const std::string key(found.text);
    EXPECT_GT(number({"PTTL", key}), 0) << key;
  }
}

TEST_F(Expiry, AndValueDoNotChangeIfNothingIsTaken) {
  for (const sluice::Limit& limit : every_kind(10, std::chrono::hours{1})) {
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    ASSERT_TRUE(limiter_.try_acquire("key", limit, 4));
    const std::string value = dump(key);
    const std::int64_t expires = number({"PEXPIRETIME", key});
    EXPECT_FALSE(limiter_.try_acquire("key", limit, 9));
    EXPECT_FALSE(limiter_.try_acquire("key", limit, 11));
    EXPECT_TRUE(limiter_.try_acquire("key", limit, 0));
    EXPECT_TRUE(limiter_.peek("key", limit, 1));
    EXPECT_FALSE(limiter_.peek("key", limit, 9));
    limiter_.refund("key", limit, 0);
    EXPECT_EQ(dump(key), value);
    EXPECT_EQ(number({"PEXPIRETIME", key}), expires);
    limiter_.reset("key", limit);
    EXPECT_EQ(number({"EXISTS", key}), 0);
  }
}

TEST_F(Expiry, NoKeyIsCreatedIfNothingIsTaken) {
  for (const sluice::Limit& limit : every_kind(10, std::chrono::hours{1})) {
    EXPECT_FALSE(limiter_.try_acquire("key", limit, 11));
    EXPECT_TRUE(limiter_.try_acquire("key", limit, 0));
    EXPECT_TRUE(limiter_.peek("key", limit, 1));
    EXPECT_TRUE(limiter_.refund("key", limit, 5));
    EXPECT_TRUE(limiter_.reset("key", limit));
  }
  for (const sluice::Limit& limit : every_kind(0, std::chrono::hours{1})) {
    EXPECT_FALSE(limiter_.try_acquire("key", limit, 1));
    EXPECT_TRUE(limiter_.refund("key", limit, 1));
  }
  EXPECT_EQ(number({"DBSIZE"}), 0);
}

TEST_F(Expiry, FollowsTheServersClock) {
  for (const sluice::Limit& limit : every_kind(10, std::chrono::milliseconds{1})) {
    ASSERT_TRUE(limiter_.try_acquire("key", limit, 3));
  }
  sluice::testing::wait_until("all have expired", [&] { return number({"DBSIZE"}) == 0; });
}

}  // namespace
}  // namespace sluice_redis
