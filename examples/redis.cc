// Limits that all machines share through Redis: the stores, what happens if Redis fails, and which
// counters share a slot of a cluster.
//
//   example_redis [URL]     default redis://127.0.0.1:6379

// [start redis]
#include <sluice/redis_store.h>
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
  const auto redis = sluice::RedisStore::open({
      .url = argc > 1 ? argv[1] : "redis://127.0.0.1:6379",
      .deadline = 250ms,  // the maximum time that a request waits; default 50 ms
  });
  if (!redis) {
    std::puts(redis.error().c_str());  // the URL or an option is wrong
    return 1;
  }
  sluice::CircuitBreaker breaker;  // one per Redis, shared by all its stores
  sluice::FailurePolicyStore store(**redis, breaker,
                                   {.fallback = sluice::FailurePolicy::kLocal, .nodes = 4});
  sluice::DenyCache cache;
  sluice::DenyCacheStore cached(store, cache);
  sluice::Limiter limiter(cached);

  const auto ready = (*redis)->wait_until_ready(1s);
  if (!ready) std::puts(ready.error().c_str());  // go on: the store connects when it can

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
