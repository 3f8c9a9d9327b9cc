// gcc: sluice: permits need a lease:
// clang: sluice: permits need a lease:
#include "sluice/limiter.h"

using namespace std::chrono_literals;

#ifdef WRONG
const sluice::Limit kLimit = sluice::concurrency(10);
#else
const sluice::Limit kLimit = sluice::concurrency(10).lease(30s);
#endif
