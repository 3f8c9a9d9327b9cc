// gcc: cannot convert 'sluice::LimitUnits<.*' to 'const sluice::Limit&'
// clang: no viable conversion from 'LimitUnits<.*' to 'const sluice::Limit'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

sluice::Decision ask(sluice::Limiter& limiter) {
#ifdef WRONG
  return limiter.try_acquire("key", sluice::token_bucket(10));
#else
  return limiter.try_acquire("key", sluice::token_bucket(10).per(1s));
#endif
}
