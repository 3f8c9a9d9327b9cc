// gcc: sluice: a limit needs a period:
// clang: sluice: a limit needs a period:
#include "sluice/limiter.h"

using namespace std::chrono_literals;

sluice::Decision ask(sluice::Limiter& limiter) {
#ifdef WRONG
  return limiter.try_acquire("key", sluice::token_bucket(10));
#else
  return limiter.try_acquire("key", sluice::token_bucket(10).per(1s));
#endif
}
