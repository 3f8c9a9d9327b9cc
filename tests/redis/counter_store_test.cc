#include <atomic>
#include <random>

#include "sluice/memory_store.h"
#include "tests/redis/store_test.h"

// RedisStore without scripts. docs/reference/state-format.md, "Without scripts", specifies the
// stored values.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::Charge;
using sluice::Decision;
using sluice::Limit;
using sluice::Limiter;
using sluice::Reason;
using sluice::RedisOptions;
using sluice::Verb;

constexpr std::int64_t kNow = 1700000100000000;
constexpr auto kYear = std::chrono::days{366};  // windows rarely end while a test runs

RedisOptions without_scripts(const std::string& url) {
  RedisOptions options = patient(url);
  options.scripting = false;
  return options;
}

std::vector<Limit> counted_limits() {
  return {sluice::fixed_window(7).per(60s).aligned_to_clock(),
          sluice::fixed_window(0).per(60s).aligned_to_clock(),
          sluice::sliding_window_counter(7).per(60s).slices(1),
          sluice::sliding_window_counter(20).per(70s).slices(4),
          sluice::sliding_window_counter(9).per(7ms).slices(10),
          sluice::sliding_window_counter(9).per(60s).slices(3).counting_oldest_whole()};
}

Verb random_verb(std::mt19937& random) {
  constexpr Verb kVerbs[] = {Verb::kTake, Verb::kTake,   Verb::kTake, Verb::kTake,
                             Verb::kPeek, Verb::kRefund, Verb::kReset};
  return random() % 3 == 0 ? kVerbs[random() % 7] : Verb::kTake;
}

// Both stores give the same answers to sequential requests whose times do not decrease.
void expect_as_in_memory(const std::string& url) {
  const auto store = open_ready(without_scripts(url));
  std::mt19937 random(20240229);
  std::int64_t now = kNow;
  for (const Limit& limit : counted_limits()) {
    const auto period = static_cast<std::uint64_t>(limit.period().count());
    sluice::MemoryStore memory;
    now += 86'400'000'000;  // the previous limit has no effect any more
    for (int i = 0; i < 400; ++i) {
      now += static_cast<std::int64_t>(random() % 4 == 0 ? random() % (period / 2) : random() % 3);
      if (random() % 50 == 0) now += static_cast<std::int64_t>(period * 2);
      const Verb verb = random_verb(random);
      std::vector<Charge> charges;
      for (std::size_t n = 1 + random() % 3; n-- > 0;) {
        const char* const keys[] = {"a", "b", "", "}%"};
        charges.push_back({keys[random() % 4], limit, random() % 20 == 0 ? 99 : random() % 4});
        if (random() % 4 == 0) charges.back().tag = "tag}";
      }
      std::vector<Decision> got(charges.size());
      std::vector<Decision> wanted(charges.size());
      const Decision all = store->apply(verb, charges, at(now), got);
      const Decision all_wanted = memory.apply(verb, charges, at(now), wanted);
      ASSERT_EQ(got, wanted) << to_string(limit.algorithm()) << ", request " << i;
      ASSERT_EQ(all, all_wanted) << to_string(limit.algorithm()) << ", request " << i;
    }
  }
}

TEST(WithoutScripts, DecidesAsTheMemoryStoreDoes) {
  RedisServer server;
  expect_as_in_memory(server.url());
}

TEST(WithoutScripts, DecidesAsTheMemoryStoreDoesOnACluster) {
  RedisCluster cluster;
  expect_as_in_memory(cluster.url());
}

TEST(WithoutScripts, SettleDownOnly) {
  RedisServer server;
  const auto store = open_ready(without_scripts(server.url()));
  Limiter limiter(*store);
  const Limit limit = sluice::sliding_window_counter(9).per(kYear);
  limiter.apply(Verb::kTake, std::array{Charge{"a", limit, 5}, Charge{"b", limit, 5}});
  std::array charges{Charge{"a", limit, 2}, Charge{"b", limit, 0}};
  charges[0].gives_back = true;
  EXPECT_TRUE(limiter.apply(Verb::kCharge, charges).allowed());
  EXPECT_EQ(limiter.peek("a", limit, 0).remaining, 6u);
  charges[1] = Charge{"b", limit, 1};
  EXPECT_EQ(limiter.apply(Verb::kCharge, charges).reason, Reason::kInvalid);
  EXPECT_EQ(limiter.peek("a", limit, 0).remaining, 6u);
}

TEST(WithoutScripts, RefusesOtherAlgorithms) {
  RedisServer server;
  const auto store = open_ready(without_scripts(server.url()));
  Limiter limiter(*store);
  const std::vector<Limit> others = {
      sluice::fixed_window(5).per(1h),          sluice::sliding_window_log(5).per(1h),
      sluice::sliding_window_hybrid(5).per(1h), sluice::leaky_bucket(5).per(1h),
      sluice::token_bucket(5).per(1h),          sluice::gcra(5).per(1h)};
  const Limit known = sluice::fixed_window(5).per(1h).aligned_to_clock();
  for (const Limit& limit : others) {
    const std::array charges{Charge{"known", known}, Charge{"key", limit}};
    EXPECT_EQ(limiter.check(charges).reason, Reason::kInvalid) << to_string(limit.algorithm());
  }
  EXPECT_EQ(RedisConnection(server).run({"DBSIZE"})->integer, 0);
}

TEST(WithoutScripts, StoresEachSliceUnderItsOwnKey) {
  RedisServer server;
  const auto store = open_ready(without_scripts(server.url()));
  Limiter limiter(*store);
  RedisConnection redis(server);
  const auto get = [&](const char* key) { return RedisConnection::text(redis.run({"GET", key})); };
  const Limit window = sluice::fixed_window(5).per(1h).aligned_to_clock();
  const Limit slices = sluice::sliding_window_counter(5).per(60s).slices(6);
  const std::array charges{Charge{"a", window, 2}, Charge{"a", slices, 3},
                           Charge{"}%", slices, 1, "t}"}, Charge{"", window, 4}};
  ASSERT_TRUE(limiter.check(charges, {}, at(kNow)));
  EXPECT_EQ(get("sluice:F{a}!:3600000000/1:472222"), "2");
  EXPECT_EQ(get("sluice:C{a}!:60000000/6:170000010"), "3");
  EXPECT_EQ(get("sluice:C{t%7D}.}%:60000000/6:170000010"), "1");
  EXPECT_EQ(get("sluice:F{%}!:3600000000/1:472222"), "4");
  EXPECT_EQ(redis.run({"DBSIZE"})->integer, 4);
}

// --- foreign values ---------------------------------------------------------------------------

class WithForeignValues : public ::testing::Test {
 protected:
  static constexpr const char* kKey = "sluice:C{key}!:60000000/6:170000010";
  static constexpr const char* kOlder = "sluice:C{key}!:60000000/6:170000007";

  Decision apply(Verb verb) {
    const std::array charges{Charge{"other", limit_, 2}, Charge{"key", limit_, 2}};
    return limiter_.apply(verb, charges, {}, at(kNow));
  }
  std::string dump(const char* key) { return RedisConnection::text(redis_.run({"DUMP", key})); }

  RedisServer server_;
  RedisConnection redis_{server_};
  std::unique_ptr<sluice::RedisStore> store_ = open_ready(without_scripts(server_.url()));
  Limiter limiter_{*store_};
  const Limit limit_ = sluice::sliding_window_counter(5).per(60s).slices(6);
};

TEST_F(WithForeignValues, RefusesEveryVerbAndChangesNothing) {
  for (const char* const key : {kKey, kOlder}) {
    for (const Verb verb : {Verb::kTake, Verb::kPeek, Verb::kRefund, Verb::kReset}) {
      redis_.run({"SET", key, "mine"});
      const std::string value = dump(key);
      EXPECT_EQ(apply(verb).reason, Reason::kForeignValue) << key << static_cast<int>(verb);
      EXPECT_EQ(dump(key), value);
      EXPECT_EQ(limiter_.peek("other", limit_, 0, at(kNow)).remaining, 5u);
    }
    redis_.run({"DEL", key});
  }
}

TEST_F(WithForeignValues, RefusesAnotherTypeInTheNewestSlice) {
  redis_.run({"LPUSH", kKey, "mine"});
  const std::string value = dump(kKey);
  for (const Verb verb : {Verb::kTake, Verb::kPeek, Verb::kRefund, Verb::kReset}) {
    EXPECT_EQ(apply(verb).reason, Reason::kForeignValue) << static_cast<int>(verb);
    EXPECT_EQ(dump(kKey), value);
  }
}

TEST_F(WithForeignValues, DoesNotChangeAnotherTypeInAnOlderSlice) {
  redis_.run({"LPUSH", kOlder, "mine"});
  const std::string value = dump(kOlder);
  for (const Verb verb : {Verb::kTake, Verb::kRefund, Verb::kTake, Verb::kReset}) {
    EXPECT_EQ(apply(verb).reason, Reason::kOk) << static_cast<int>(verb);
    EXPECT_EQ(dump(kOlder), value);
  }
}

TEST_F(WithForeignValues, RefusesANumberThatCannotBeIncremented) {
  redis_.run({"SET", kKey, "9223372036854775807"});
  EXPECT_EQ(apply(Verb::kTake).reason, Reason::kForeignValue);
  EXPECT_EQ(RedisConnection::text(redis_.run({"GET", kKey})), "9223372036854775807");
}

// --- expiry -----------------------------------------------------------------------------------

TEST(WithoutScripts, EveryKeyExpires) {
  RedisServer server;
  const auto store = open_ready(without_scripts(server.url()));
  Limiter limiter(*store);
  RedisConnection redis(server);
  const Limit small = sluice::sliding_window_counter(5).per(60s).slices(6);
  const Limit full = sluice::fixed_window(1).per(60s).aligned_to_clock();
  const std::array charges{Charge{"a", small, 2}, Charge{"full", full, 1}};
  for (int i = 0; i < 3; ++i) static_cast<void>(limiter.check(charges));
  limiter.refund("a", small, 1);
  const Reply keys = redis.run({"KEYS", "*"});
  EXPECT_GE(keys->count, 2u);
  for (const auto& found : *keys) {
    const std::string_view key(found.text);
    const long long left = redis.run({"PTTL", key})->integer;
    EXPECT_GT(left, 0) << key;
    EXPECT_LE(left, 70'000 + 10'001) << key;
  }
}

// A denied request gives back units of a counter that was reset meanwhile. The key must not stay
// forever.
TEST(WithoutScripts, KeyThatAGiveBackCreatesExpires) {
  RedisServer server;
  const auto store = open_ready(without_scripts(server.url()));
  Limiter limiter(*store);
  const Limit many = sluice::fixed_window(100).per(kYear).aligned_to_clock();
  const Limit full = sluice::fixed_window(1).per(kYear).aligned_to_clock();
  static_cast<void>(limiter.try_acquire("full", full));
  std::atomic<bool> is_over = false;
  std::thread resetter([&] {
    RedisConnection redis(server);
    while (!is_over) redis.run({"FLUSHALL"});
  });
  run_threads(4, [&](int) {
    const std::array charges{Charge{"key", many}, Charge{"full", full}};
    for (int i = 0; i < 200; ++i) static_cast<void>(limiter.check(charges));
  });
  is_over = true;
  resetter.join();
  static_cast<void>(limiter.check(std::array{Charge{"key", many}, Charge{"full", full, 2}}));
  RedisConnection redis(server);
  const Reply keys = redis.run({"KEYS", "*"});
  for (const auto& found : *keys) {
    const std::string_view key(found.text);
    EXPECT_GT(redis.run({"PTTL", key})->integer, 0) << key;
  }
}

// --- many threads -----------------------------------------------------------------------------

TEST(WithoutScriptsThreads, AdmitExactlyTheLimitOfOneKeyWithCostsOfOne) {
  RedisServer server;
  const auto store = open_ready(without_scripts(server.url()));
  Limiter limiter(*store);
  const std::vector<Limit> limits = {sluice::fixed_window(300).per(kYear).aligned_to_clock(),
                                     sluice::sliding_window_counter(300).per(kYear).slices(1)};
  for (const Limit& limit : limits) {
    std::atomic<int> admitted = 0;
    run_threads(8, [&](int) {
      for (int i = 0; i < 100; ++i) admitted += limiter.try_acquire("key", limit).allowed() ? 1 : 0;
    });
    EXPECT_EQ(admitted, 300) << to_string(limit.algorithm());
    EXPECT_EQ(limiter.peek("key", limit, 0).remaining, 0u);
  }
  EXPECT_EQ(store->stats().gave_back, 1000u);
}

template <typename Servers>
void expect_no_more_than_the_limit(Servers& servers) {
  const auto store = open_ready(without_scripts(servers.url()));
  Limiter limiter(*store);
  const Limit limit = sluice::sliding_window_counter(40).per(60s).slices(6);
  std::array<std::atomic<std::uint64_t>, 4> admitted{};
  std::atomic<int> undecided = 0;
  run_threads(8, [&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int i = 0; i < 100; ++i) {
      const std::size_t a = random() % 4;
      const std::size_t b = (a + 1 + random() % 3) % 4;
      const std::uint64_t cost = 1 + random() % 3;
      const std::string keys[] = {std::to_string(a), std::to_string(b)};
      const std::array charges{Charge{keys[0], limit, cost}, Charge{keys[1], limit, cost}};
      const Decision decision = limiter.check(charges, {}, at(kNow));
      if (decision.allowed()) admitted[a] += cost, admitted[b] += cost;
      undecided += decision.reason != Reason::kOk && decision.reason != Reason::kLimited ? 1 : 0;
    }
  });
  EXPECT_EQ(undecided, 0);
  for (std::size_t key = 0; key < admitted.size(); ++key) {
    EXPECT_LE(admitted[key], 40u);
    const Decision left = limiter.peek(std::to_string(key), limit, 0, at(kNow));
    EXPECT_EQ(40u - left.remaining, admitted[key]) << "what is held must be what was admitted";
  }
}

TEST(WithoutScriptsThreads, AdmitNoMoreThanTheLimits) {
  RedisServer server;
  expect_no_more_than_the_limit(server);
}

TEST(WithoutScriptsThreads, AdmitNoMoreThanTheLimitsOnACluster) {
  RedisCluster cluster;
  expect_no_more_than_the_limit(cluster);
}

}  // namespace
}  // namespace sluice_redis
