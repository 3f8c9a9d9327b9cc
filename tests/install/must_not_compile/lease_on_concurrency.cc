// gcc: no matching function for call to .*kConcurrency>::leased
// clang: reference to function 'leased': constraints not satisfied
#include "sluice/limiter.h"

using namespace std::chrono_literals;

constexpr auto kLimit =
#ifdef WRONG
    sluice::concurrency(10).lease(1min).leased(100ms);
#else
    sluice::token_bucket(10).per(1min).leased(100ms);
#endif
