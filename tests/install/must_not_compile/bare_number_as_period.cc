// gcc: cannot convert 'int' to 'sluice::Duration'
// clang: no viable conversion from 'int' to '(sluice::)?Duration'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
constexpr auto kLimit = sluice::token_bucket(10).per(1);
#else
constexpr auto kLimit = sluice::token_bucket(10).per(1s);
#endif
