// gcc: call to non-'constexpr' function .*a_burst_of_1_to_4294967295_units
// clang: constant expression.*function 'a_burst_of_1_to_4294967295_units'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
constexpr auto kLimit = sluice::token_bucket(10).per(1s).burst(sluice::kMaxUnits + 1);
#else
constexpr auto kLimit = sluice::token_bucket(10).per(1s).burst(sluice::kMaxUnits);
#endif
