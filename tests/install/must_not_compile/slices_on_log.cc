// gcc: no matching function for call to .*kSlidingWindowLog>::slices
// clang: reference to function 'slices': constraints not satisfied
#include "sluice/limiter.h"

using namespace std::chrono_literals;

constexpr auto kLimit =
#ifdef WRONG
    sluice::sliding_window_log(10).per(1min).slices(3);
#else
    sluice::sliding_window_counter(10).per(1min).slices(3);
#endif
