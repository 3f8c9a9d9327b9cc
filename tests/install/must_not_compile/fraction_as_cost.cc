// gcc: sluice: units are whole numbers:
// clang: sluice: units are whole numbers:
#include "sluice/guard.h"

using namespace std::chrono_literals;

int call(sluice::Limiter& limiter) {
  constexpr auto kLimit = sluice::token_bucket(1).per(1s);
  const auto guard = sluice::guarded(limiter, "call", kLimit);
#ifdef WRONG
  return guard.costing(0.5).throwing([] { return 1; })();
#else
  return guard.costing(2).throwing([] { return 1; })();
#endif
}
