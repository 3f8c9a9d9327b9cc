// gcc: no matching function for call to .*kTokenBucket>::queueing
// clang: reference to function 'queueing': constraints not satisfied
#include "sluice/limiter.h"

using namespace std::chrono_literals;

constexpr auto kLimit =
#ifdef WRONG
    sluice::token_bucket(10).per(1s).queueing();
#else
    sluice::leaky_bucket(10).per(1s).queueing();
#endif
