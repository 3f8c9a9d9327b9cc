// gcc: could not convert '.*LimitUnits<.*' to 'sluice::Limit'
// clang: no viable conversion from 'LimitUnits<.*' to 'sluice::Limit'
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
const sluice::Charge kCharge{"key", sluice::token_bucket(10)};
#else
const sluice::Charge kCharge{"key", sluice::token_bucket(10).per(1s)};
#endif
