// gcc: call to non-'constexpr' function .*throw_limit_error
// clang: constant expression.*function 'throw_limit_error'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
constexpr auto kLimit = sluice::token_bucket(10).per(1s).burst(sluice::kMaxUnits + 1);
#else
constexpr auto kLimit = sluice::token_bucket(10).per(1s).burst(sluice::kMaxUnits);
#endif
