// A program that shares its limits through Redis, from an installation; here without a server.

#include <cstdio>

#include "sluice/key_builder.h"
#include "sluice/redis_chain.h"
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
  if (!could_not_decide) return 3;

  sluice::RedisChainOptions options;
  options.redis.url = "redis+unix:///nonexistent/redis.sock";
  options.on_store_error = sluice::FailurePolicy::kDeny;
  const auto chain = sluice::RedisChain::open(options);
  if (!chain) return 4;
  const sluice::KeyBuilder key("user", 42);
  const auto answered = sluice::Limiter(**chain).try_acquire(
      key.view(), sluice::token_bucket(100).per(std::chrono::seconds(1)));
  if (answered.reason != sluice::Reason::kFallback) return 5;

  const auto defaults = sluice::RedisChain::open("redis+unix:///nonexistent/redis.sock");
  return defaults ? 0 : 6;
}
