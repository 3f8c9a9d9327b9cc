// Limits that all machines share, through Redis: who is asked, what happens when it is gone.
//
//   example_redis [URL]     default redis://127.0.0.1:6379

// [start redis]
#include <sluice/redis_store.h>
#include <sluice/sluice.h>

#include <cstdio>

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  const auto redis = sluice::RedisStore::open({
      .url = argc > 1 ? argv[1] : "redis://127.0.0.1:6379",
      .deadline = 50ms,
  });
  if (!redis) {
    std::puts(redis.error().c_str());
    return 1;
  }
  sluice::CircuitBreaker breaker;
  sluice::FailurePolicyStore store(
      **redis, breaker, {.fallback = sluice::FailurePolicy::kLocal, .nodes = 4});
  sluice::DenyCache cache;
  sluice::DenyCacheStore cached(store, cache);
  sluice::Limiter limiter(cached);

  constexpr auto kPerUser = sluice::token_bucket(100).per(1h).burst(3);
  for (int i = 0; i < 4; ++i) {
    const sluice::Decision decision = limiter.try_acquire("user:42", kPerUser);
    std::printf("%s: %s\n", decision ? "allowed" : "denied",
                std::string(to_string(decision.reason)).c_str());
  }
}
// [end redis]
