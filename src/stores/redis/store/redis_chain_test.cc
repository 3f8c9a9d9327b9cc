#include "sluice/redis_chain.h"

#include <gtest/gtest.h>

#include <future>

#include "sluice/sluice.h"

// Without a server: what a chain does if Redis is not there. tests/redis has it with one.
namespace sluice::redis_chain_test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNowhere = "redis+unix:///nonexistent/redis.sock";
constexpr auto kLimit = token_bucket(10).per(1h);

RedisChainOptions nowhere() {
  RedisChainOptions options;
  options.redis.url = kNowhere;
  options.breaker.failures = 1;
  options.breaker.open_for = 1h;
  options.breaker.longest_open = 1h;
  return options;
}

TEST(RedisChain, CannotBeOpenedWithAWrongUrl) {
  const auto chain = RedisChain::open("http://localhost");
  ASSERT_FALSE(chain);
  EXPECT_EQ(chain.error(), RedisStore::open({.url = "http://localhost"}).error());
}

TEST(RedisChain, ReportsAStoreErrorIfRedisDoesNotAnswer) {
  const auto chain = RedisChain::open(kNowhere).value();
  Limiter limiter(*chain);
  const Decision decision = limiter.try_acquire("key", kLimit);
  EXPECT_EQ(decision.outcome, Outcome::kFailed);
  EXPECT_EQ(decision.reason, Reason::kStoreError);
}

TEST(RedisChain, SendsNothingToRedisWhileTheBreakerIsOpen) {
  const auto chain = RedisChain::open(nowhere()).value();
  Limiter limiter(*chain);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(limiter.try_acquire("key", kLimit));
  const RedisChainStatus status = chain->status();
  EXPECT_EQ(status.breaker, CircuitBreaker::State::kOpen);
  EXPECT_EQ(status.refused, 2u);
  EXPECT_EQ(status.redis.errors, 1u);
}

TEST(RedisChain, AnswersByItsFailurePolicy) {
  for (const auto& [policy, outcome] : {std::pair{FailurePolicy::kAllow, Outcome::kAllowed},
                                        std::pair{FailurePolicy::kDeny, Outcome::kDenied}}) {
    RedisChainOptions options = nowhere();
    options.on_store_error = policy;
    const auto chain = RedisChain::open(options).value();
    const Decision decision = Limiter(*chain).try_acquire("key", kLimit);
    EXPECT_EQ(decision.outcome, outcome);
    EXPECT_EQ(decision.reason, Reason::kFallback);
  }
}

TEST(RedisChain, LimitsLocallyToItsShareOfTheLimit) {
  RedisChainOptions options = nowhere();
  options.on_store_error = FailurePolicy::kLocal;
  options.local.nodes = 5;
  const auto chain = RedisChain::open(options).value();
  Limiter limiter(*chain);
  EXPECT_TRUE(limiter.try_acquire("key", kLimit));
  EXPECT_TRUE(limiter.try_acquire("key", kLimit));
  EXPECT_FALSE(limiter.try_acquire("key", kLimit)) << "10 / 5 = 2";
  EXPECT_EQ(chain->status().local.keys, 1u);
}

TEST(RedisChain, DecidesRequestsOfSeveralCharges) {
  RedisChainOptions options = nowhere();
  options.on_store_error = FailurePolicy::kLocal;
  options.deny_cache.longest = Duration{0};
  const auto chain = RedisChain::open(options).value();
  const std::array charges{Charge{"a", kLimit}, Charge{"b", kLimit, 11}};
  std::array<Decision, 2> each;
  const Decision all = chain->apply(Verb::kTake, charges, {}, each);
  EXPECT_EQ(all.outcome, Outcome::kDenied);
  EXPECT_EQ(each[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(chain->status().deny_cache_hits, 0u);
}

// One request for one key.
class Asked final : public AsyncStore::Completion {
 public:
  explicit Asked(AsyncStore& store) { store.async_apply(Verb::kTake, charges_, {}, each_, *this); }
  void done(const Decision& decision) noexcept override { answer_.set_value(decision); }
  Decision decision() { return answer_.get_future().get(); }

 private:
  const std::array<Charge, 1> charges_{{{"key", kLimit}}};
  std::array<Decision, 1> each_;
  std::promise<Decision> answer_;
};

TEST(RedisChain, AnswersByItsFailurePolicyWithoutWaiting) {
  RedisChainOptions options = nowhere();
  options.on_store_error = FailurePolicy::kLocal;
  options.local.nodes = 5;
  const auto chain = RedisChain::open(options).value();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Asked(*chain).decision());
  EXPECT_EQ(Asked(*chain).decision().reason, Reason::kFallback);
  EXPECT_EQ(chain->status().redis.errors, 1u) << "the breaker is open";
}

TEST(RedisChain, EndsTheRequestsUnderWayWhenItIsDestroyed) {
  auto chain = RedisChain::open(kNowhere).value();
  Asked asked(*chain);
  chain.reset();
  EXPECT_EQ(asked.decision().reason, Reason::kStoreError);
}

TEST(RedisChain, ReportsWhyItIsNotReady) {
  RedisChainOptions options = nowhere();
  options.redis.deadline = 10s;  // the request ends when the first attempt to connect has failed
  const auto chain = RedisChain::open(options).value();
  EXPECT_FALSE(Limiter(*chain).try_acquire("key", kLimit));
  const auto ready = chain->wait_until_ready(0ms);
  ASSERT_FALSE(ready);
  EXPECT_NE(ready.error().find("No such file"), std::string::npos) << ready.error();
}

}  // namespace
}  // namespace sluice::redis_chain_test
