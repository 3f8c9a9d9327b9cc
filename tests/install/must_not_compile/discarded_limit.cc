// gcc: ignoring returned value of type .*Expected<sluice::Limit>
// clang: ignoring return value of function declared with 'nodiscard'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

bool make() {
  const sluice::LimitSpec spec{.limit = 10, .per = 1s};
#ifdef WRONG
  sluice::Limit::make(spec);
  return true;
#else
  return sluice::Limit::make(spec).has_value();
#endif
}
