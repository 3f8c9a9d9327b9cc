// gcc: ignoring return value of .*Limiter::check
// clang: ignoring return value of function declared with 'nodiscard'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

bool ask(sluice::Limiter& limiter) {
  const sluice::Charge charge{"key", sluice::token_bucket(10).per(1s)};
#ifdef WRONG
  limiter.check({&charge, 1});
  return true;
#else
  return limiter.check({&charge, 1}).allowed();
#endif
}
