// gcc: cannot convert 'sluice::Decision' to 'const int'
// clang: no viable conversion from '(sluice::)?Decision' to 'const int'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

int ask(sluice::Limiter& limiter) {
#ifdef WRONG
  const int allowed = limiter.try_acquire("key", sluice::token_bucket(10).per(1s));
#else
  const bool allowed{limiter.try_acquire("key", sluice::token_bucket(10).per(1s))};
#endif
  return allowed ? 0 : 1;
}
