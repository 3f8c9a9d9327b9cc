// gcc: static assertion failed: sluice: the period comes before the burst
// clang: static assertion failed.*the period comes before the burst
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
constexpr sluice::Limit kLimit = sluice::token_bucket(10).burst(20);
#else
constexpr sluice::Limit kLimit = sluice::token_bucket(10).per(1s).burst(20);
#endif
