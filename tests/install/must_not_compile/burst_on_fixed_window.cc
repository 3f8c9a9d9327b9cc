// gcc: no matching function for call to .*kFixedWindow>::burst
// clang: reference to function 'burst': constraints not satisfied
#include "sluice/limiter.h"

using namespace std::chrono_literals;

constexpr auto kLimit =
#ifdef WRONG
    sluice::fixed_window(1).per(1s).burst(2);
#else
    sluice::token_bucket(1).per(1s).burst(2);
#endif
