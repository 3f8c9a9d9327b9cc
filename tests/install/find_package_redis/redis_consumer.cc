// A program that shares its limits through Redis, from an installation; here without a server.

#include <cstdio>

#include "sluice/redis_store.h"
#include "sluice/sluice.h"

int main() {
  const auto wrong = sluice::RedisStore::open({.url = "http://localhost"});
  if (wrong) return 1;
  std::puts(wrong.error().c_str());

  const auto store = sluice::RedisStore::open({.url = "redis+unix:///nonexistent/redis.sock"});
  if (!store) return 2;
  sluice::Limiter limiter(**store);
  const auto decision =
      limiter.try_acquire("user:42", sluice::token_bucket(100).per(std::chrono::seconds(1)));
  const bool could_not_decide = decision.reason == sluice::Reason::kStoreError ||
                                decision.reason == sluice::Reason::kStoreTimeout;
  return could_not_decide ? 0 : 3;
}
