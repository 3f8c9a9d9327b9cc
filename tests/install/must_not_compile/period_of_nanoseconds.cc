// gcc: cannot convert 'duration<.*1000000000>>' to 'duration<.*1000000>>'
// clang: no viable conversion from 'duration<.*1000000000>>' to 'duration<.*1000000>>'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
constexpr auto kLimit = sluice::token_bucket(10).per(1000000ns);
#else
constexpr auto kLimit = sluice::token_bucket(10).per(1ms);
#endif
