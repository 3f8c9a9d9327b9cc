// Limits that all machines share through Redis: the stores, what happens if Redis fails, and which
// counters share a slot of a cluster.
//
//   example_redis [URL]     default redis://127.0.0.1:6379

// [start redis]
#include <sluice/redis_chain.h>
#include <sluice/sluice.h>

#include <cstdio>
#include <string>

using namespace std::chrono_literals;

// [end redis]
#include <array>

namespace {

// [start tags]
// One atomic step even in a cluster: both counters share the slot of the tenant.
sluice::Decision decide(sluice::Limiter& limiter, std::string_view tenant, std::string_view user) {
  constexpr auto kPerTenant = sluice::token_bucket(1000).per(1s);
  constexpr auto kPerUser = sluice::gcra(10).per(1s);
  const std::array charges{
      sluice::Charge{.key = tenant, .limit = kPerTenant, .tag = tenant},
      sluice::Charge{.key = user, .limit = kPerUser, .tag = tenant},
  };
  return limiter.check(charges);
}
// [end tags]

}  // namespace

// [start redis]
int main(int argc, char** argv) {
  sluice::RedisChainOptions options;
  options.redis.url = argc > 1 ? argv[1] : "redis://127.0.0.1:6379";
  options.redis.deadline = 250ms;  // the maximum time that a request waits; default 50 ms
  options.on_store_error = sluice::FailurePolicy::kLocal;
  options.local.nodes = 4;  // each of 4 processes admits a quarter if Redis fails
  const auto redis = sluice::RedisChain::open(options);
  if (!redis) {
    std::puts(redis.error().c_str());  // the URL or an option is wrong
    return 1;
  }
  sluice::Limiter limiter(**redis);

  const auto ready = (*redis)->wait_until_ready(1s);
  if (!ready) std::puts(ready.error().c_str());  // continue: the store connects later

  constexpr auto kPerUser = sluice::token_bucket(100).per(1h).burst(3);
  for (int i = 0; i < 5; ++i) {
    const sluice::Decision decision = limiter.try_acquire("user:42", kPerUser);
    std::printf("%s: %s\n", decision ? "allowed" : "denied",
                std::string(to_string(decision.reason)).c_str());
  }
  // [end redis]
  std::puts(decide(limiter, "shop", "shop/42") ? "tenant and user" : "denied");
  // [start redis]
}
// [end redis]
