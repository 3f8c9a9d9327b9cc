// gcc: ignoring return value of .*Limiter::try_acquire
// clang: ignoring return value of function declared with 'nodiscard'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

void ask(sluice::Limiter& limiter) {
#ifdef WRONG
  limiter.try_acquire("key", sluice::token_bucket(10).per(1s));
#else
  const sluice::Decision decision = limiter.try_acquire("key", sluice::token_bucket(10).per(1s));
  if (!decision) return;
#endif
}
