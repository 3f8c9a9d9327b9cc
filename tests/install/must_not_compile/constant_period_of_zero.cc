// gcc: call to non-'constexpr' function .*a_period_of_1_ms_to_366_days
// clang: constant expression.*function 'a_period_of_1_ms_to_366_days'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
constexpr auto kLimit = sluice::token_bucket(10).per(0s);
#else
constexpr auto kLimit = sluice::token_bucket(10).per(1s);
#endif
