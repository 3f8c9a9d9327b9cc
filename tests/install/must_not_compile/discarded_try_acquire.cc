// gcc: ignoring return value of .*sluice::try_acquire
// clang: ignoring return value of function declared with 'nodiscard'
#include "sluice/require.h"

using namespace std::chrono_literals;

void send(sluice::Limiter& limiter) {
#ifdef WRONG
  sluice::try_acquire(limiter, sluice::token_bucket(10).per(1s), "alice");
#else
  sluice::require(limiter, sluice::token_bucket(10).per(1s), "alice");  // throws a denial
#endif
}
