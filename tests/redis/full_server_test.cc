#include <string>
#include <vector>

#include "tests/redis/script_test.h"

// A server whose memory is full (`maxmemory`, `noeviction`): counters that exist go on counting,
// and new ones are refused.
namespace sluice_redis {
namespace {

using sluice::Charge;
using sluice::Decision;
using sluice::Limit;
using sluice::Reason;

constexpr sluice::Duration kDay = std::chrono::days{1};

class FullServer : public ScriptTest {
 protected:
  ~FullServer() override { set_full(false); }
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
  for (const Limit& limit : every_kind(5, kDay)) {
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
  const std::vector<Limit> kinds = every_kind(5, kDay);
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
  for (const Limit& limit : {Limit(sluice::sliding_window_log(300).per(kDay)),
                             Limit(sluice::sliding_window_log(90).per(kDay)),
                             Limit(sluice::sliding_window_hybrid(300).per(kDay).slices(4))}) {
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
  const std::vector<Limit> kinds = every_kind(5, kDay);
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
  const Limit limit = sluice::sliding_window_log(300).per(kDay);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(limiter_.try_acquire("key", limit));
  const std::string key = redis_key(kPrefix, limit.algorithm(), "key");
  redis_.run({"PERSIST", key});
  set_full(true);
  EXPECT_EQ(limiter_.try_acquire("key", limit).reason, Reason::kStoreFull) << store_.error();
  EXPECT_EQ(number({"EXISTS", key}), 1);
  set_full(false);
  EXPECT_EQ(limiter_.try_acquire("key", limit).remaining, 199u);
}

}  // namespace
}  // namespace sluice_redis
