#include <string>
#include <vector>

#include "limiter/new_key_limit.h"
#include "tests/redis/script_test.h"

// A server whose memory is full (`maxmemory`, `noeviction`): counters that exist go on counting,
// and new ones are refused.
namespace sluice_redis {
namespace {

using sluice::Charge;
using sluice::Decision;
using sluice::Limit;
using sluice::Reason;

class FullServer : public ScriptTest {
 protected:
  ~FullServer() override { set_full(false); }  // NOLINT(bugprone-exception-escape): ends the test
  void set_full(bool full) { redis_.run({"CONFIG", "SET", "maxmemory", full ? "1" : "0"}); }
  // Takes one unit after the other; returns how many were admitted until the first denial.
  std::uint32_t take_all(const Limit& limit) {
    for (std::uint32_t admitted = 0;; ++admitted) {
      const Decision decision = limiter_.try_acquire("key", limit);
      if (decision) continue;
      EXPECT_EQ(decision.reason, Reason::kLimited) << store_.error();
      return admitted;
    }
  }
};

TEST_F(FullServer, CountsOnExistingCountersOfEveryAlgorithm) {
  for (const Limit& limit : every_kind(5, kLong)) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    ASSERT_TRUE(limiter_.try_acquire("key", limit, 2));
    set_full(true);
    EXPECT_EQ(limiter_.try_acquire("key", limit).remaining, 2u) << store_.error();
    EXPECT_EQ(take_all(limit), 2u);
    EXPECT_EQ(limiter_.refund("key", limit, 2).remaining, 2u) << store_.error();
    EXPECT_EQ(take_all(limit), 2u);
    const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
    EXPECT_GT(number({"PTTL", key}), 0);
    EXPECT_EQ(limiter_.reset("key", limit).remaining, 5u);
    EXPECT_EQ(number({"EXISTS", key}), 0);
    set_full(false);
  }
}

TEST_F(FullServer, RefusesNewCountersOfEveryAlgorithm) {
  const std::vector<Limit> kinds = every_kind(5, kLong);
  set_full(true);
  for (const Limit& limit : kinds) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    EXPECT_EQ(limiter_.try_acquire("key", limit).reason, Reason::kStoreFull) << store_.error();
    EXPECT_EQ(limiter_.peek("key", limit).remaining, 4u) << "a peek makes no counter";
  }
  EXPECT_EQ(number({"DBSIZE"}), 0);
}

// Long logs write parts of their values, and grow.
TEST_F(FullServer, AdmitsTheExactNumberOnLongLogs) {
  const Limit limits[] = {sluice::sliding_window_log(300).per(kLong),
                          sluice::sliding_window_log(90).per(kLong),
                          sluice::sliding_window_hybrid(300).per(kLong).slices(4)};
  for (const Limit& limit : limits) {
    for (const std::uint32_t before : {1u, 20u, 85u}) {
      SCOPED_TRACE(std::string(to_string(limit.algorithm())) + std::to_string(before));
      limiter_.reset("key", limit);
      for (std::uint32_t i = 0; i < before; ++i) ASSERT_TRUE(limiter_.try_acquire("key", limit));
      set_full(true);
      EXPECT_EQ(before + take_all(limit), limit.limit());
      set_full(false);
      EXPECT_EQ(take_all(limit), 0u);
      EXPECT_GT(number({"PTTL", redis_key(kPrefix, limit.algorithm(), "key")}), 80'000'000);
    }
  }
}

TEST_F(FullServer, TakesNothingIfOneCounterOfSeveralIsNew) {
  const std::vector<Limit> kinds = every_kind(5, kLong);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kinds.size(); ++i) keys.push_back("key" + std::to_string(i));
  std::vector<Charge> charges;
  for (std::size_t i = 0; i < kinds.size(); ++i) charges.push_back({keys[i], kinds[i]});
  std::vector<Decision> each(charges.size());
  ASSERT_TRUE(
      limiter_.check(std::span<const Charge>(charges).subspan(2), std::span(each).subspan(2)));
  set_full(true);
  const Decision refused = limiter_.check(charges, each);
  EXPECT_EQ(refused, Decision::refused(Reason::kStoreFull));
  for (std::size_t i = 0; i < each.size(); ++i) {
    EXPECT_EQ(each[i].reason, i < 2 ? Reason::kStoreFull : Reason::kOk)
        << i << " " << store_.error();
  }
  charges.erase(charges.begin(), charges.begin() + 2);
  each.resize(charges.size());
  EXPECT_EQ(limiter_.check(charges, each).remaining, 3u) << "nothing was taken before";
  charges.insert(charges.begin(), {"another", kinds[0], 0});
  each.resize(charges.size());
  EXPECT_TRUE(limiter_.check(charges, each)) << "a cost of 0 needs no counter";
  charges[1].cost = 5;
  EXPECT_EQ(limiter_.check(charges, each).reason, Reason::kLimited);
}

// Redis executes the writes of a call whose first write needs no memory. Without an expiry to set
// again there is no such write.
TEST_F(FullServer, RefusesALogWithoutAnExpiry) {
  const Limit limit = sluice::sliding_window_log(300).per(kLong);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(limiter_.try_acquire("key", limit));
  const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
  redis_.run({"PERSIST", key});
  set_full(true);
  EXPECT_EQ(limiter_.try_acquire("key", limit).reason, Reason::kStoreFull) << store_.error();
  EXPECT_EQ(number({"EXISTS", key}), 1);
  set_full(false);
  EXPECT_EQ(limiter_.try_acquire("key", limit).remaining, 199u);
}

// Takes that must not create more than a number of counters in a second.
class NewKeys : public ScriptTest {
 protected:
  static constexpr std::int64_t kSecond = 1'000'000;
  Charge charge(std::string_view key, const Limit& limit) {
    return {.key = key, .limit = limit, .rule = {.new_keys = &new_keys_}};
  }
  Reason take(std::string_view key, const Limit& limit, std::int64_t at) {
    return store_.apply_one(sluice::Verb::kTake, charge(key, limit), instant(at)).reason;
  }
  // Returns what `ask` returns when it has asked within one second of the server. Each try begins
  // with an empty server.
  template <typename Ask>
  auto in_one_second(const Ask& ask) {
    for (;;) {
      redis_.run({"FLUSHALL"});
      const std::int64_t begin = server_time();
      auto said = ask(instant(begin));
      const std::int64_t second = server_time() / kSecond;
      if (second == begin / kSecond) return said;
      while (server_time() / kSecond == second) {  // something may be counted in it
      }
    }
  }

  sluice::NewKeyLimit new_keys_{2};
};

TEST_F(NewKeys, CreatesOnlyTheCountersThatNewKeyLimitAllows) {
  std::int64_t now = kStart - kStart % kSecond;
  for (const Limit& limit : every_kind(5, kLong)) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    redis_.run({"FLUSHALL"});
    now += 10 * kSecond;
    EXPECT_EQ(take("a", limit, now), Reason::kOk) << store_.error();
    EXPECT_EQ(take("b", limit, now), Reason::kOk);
    EXPECT_EQ(take("c", limit, now), Reason::kStoreFull) << store_.error();
    EXPECT_EQ(take("a", limit, now), Reason::kOk) << "it exists";
    EXPECT_EQ(limiter_.peek("c", limit, 1, instant(now)).reason, Reason::kOk);
    const std::vector<Charge> several{charge("b", limit), charge("c", limit), {"other", limit}};
    std::vector<Decision> each(several.size());
    const Decision refused = limiter_.apply(sluice::Verb::kTake, several, each, instant(now));
    EXPECT_EQ(refused, Decision::refused(Reason::kStoreFull));
    EXPECT_EQ(each[0].reason, Reason::kOk);
    EXPECT_EQ(each[1].reason, Reason::kStoreFull);
    EXPECT_EQ(each[2].reason, Reason::kOk) << "another rule's";
    EXPECT_EQ(number({"DBSIZE"}), 2) << "nothing was taken";
    for (int i = 0; i < 4; ++i) EXPECT_EQ(take("b", limit, now), Reason::kOk);
    EXPECT_EQ(take("b", limit, now), Reason::kLimited);
    EXPECT_EQ(take("c", limit, now + kSecond), Reason::kOk) << "in the next second";
    EXPECT_EQ(number({"DBSIZE"}), 3);
  }
}

TEST_F(NewKeys, ChargesOfWorkCreateOnlyTheCountersThatNewKeyLimitAllows) {
  for (const Limit& limit : every_kind(5, kLong)) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    redis_.run({"FLUSHALL"});
    sluice::NewKeyLimit ten(10);
    const auto charge = [&](int number, std::optional<sluice::Instant> at) {
      const std::string key = std::to_string(number);
      const Charge one{.key = key, .limit = limit, .rule = {.new_keys = &ten}};
      return store_.apply_one(sluice::Verb::kCharge, one, at).reason;
    };
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(charge(i, instant(kStart)), i < 10 ? Reason::kOk : Reason::kStoreFull);
    }
    EXPECT_EQ(charge(0, instant(kStart)), Reason::kOk) << "it exists";
    const auto said = in_one_second([&](sluice::Instant now) {
      for (int i = 0; i < 9; ++i) ten.count(now);
      return std::vector{charge(100, {}), charge(101, {}), charge(100, {})};
    });
    EXPECT_EQ(said, (std::vector{Reason::kOk, Reason::kStoreFull, Reason::kOk})) << store_.error();
    EXPECT_EQ(number({"DBSIZE"}), 1);
  }
}

TEST_F(NewKeys, CountsAtTheServersTimeToo) {
  for (const Limit& limit : every_kind(5, kLong)) {
    SCOPED_TRACE(to_string(limit.algorithm()));
    sluice::NewKeyLimit two(2);
    const auto take_now = [&](std::string_view key) {
      const Charge one{.key = key, .limit = limit, .rule = {.new_keys = &two}};
      return store_.apply_one(sluice::Verb::kTake, one, {}).reason;
    };
    const auto said = in_one_second([&](sluice::Instant now) {
      two.count(now);
      return std::vector{take_now("a"), take_now("b"), take_now("a")};
    });
    EXPECT_EQ(said, (std::vector{Reason::kOk, Reason::kStoreFull, Reason::kOk})) << store_.error();
    EXPECT_EQ(number({"DBSIZE"}), 1);
  }
}

}  // namespace
}  // namespace sluice_redis
