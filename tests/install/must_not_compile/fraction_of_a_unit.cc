// gcc: sluice: units are whole numbers:
// clang: sluice: units are whole numbers:
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
constexpr auto kLimit = sluice::token_bucket(0.5).per(1s);
#else
constexpr auto kLimit = sluice::token_bucket(1).per(2s);
#endif
