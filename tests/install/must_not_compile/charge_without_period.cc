// gcc: sluice: a limit needs a period:
// clang: sluice: a limit needs a period:
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
const sluice::Charge kCharge{"key", sluice::token_bucket(10)};
#else
const sluice::Charge kCharge{"key", sluice::token_bucket(10).per(1s)};
#endif
