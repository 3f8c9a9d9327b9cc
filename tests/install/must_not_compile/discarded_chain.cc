// gcc: ignoring returned value of type .*Expected<std::unique_ptr<sluice::RedisChain
// clang: ignoring return value of function declared with 'nodiscard'
#include "sluice/redis_chain.h"

bool open() {
#ifdef WRONG
  sluice::RedisChain::open("redis://127.0.0.1");
  return true;
#else
  return sluice::RedisChain::open("redis://127.0.0.1").has_value();
#endif
}
