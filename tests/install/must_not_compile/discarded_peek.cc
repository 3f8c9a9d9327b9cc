// gcc: ignoring return value of .*Limiter::peek
// clang: ignoring return value of function declared with 'nodiscard'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

bool ask(sluice::Limiter& limiter) {
#ifdef WRONG
  limiter.peek("key", sluice::token_bucket(10).per(1s));
  return true;
#else
  return limiter.peek("key", sluice::token_bucket(10).per(1s)).allowed();
#endif
}
