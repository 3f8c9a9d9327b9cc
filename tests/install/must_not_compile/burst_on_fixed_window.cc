// gcc: static assertion failed: sluice: burst applies to token_bucket, leaky_bucket and gcra only
// clang: static assertion failed.*burst applies to token_bucket, leaky_bucket and gcra only
#include "sluice/limiter.h"

using namespace std::chrono_literals;

constexpr auto kLimit =
#ifdef WRONG
    sluice::fixed_window(1).per(1s).burst(2);
#else
    sluice::token_bucket(1).per(1s).burst(2);
#endif
