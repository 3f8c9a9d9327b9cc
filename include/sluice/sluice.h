#pragma once

// Everything for limits in this process, and what stands before a store outside of it. Rules
// (sluice/rule_decider.h) are a library of their own, as they need yaml-cpp and RE2; so is the
// store on Redis (sluice/redis_store.h).

#include "sluice/circuit_breaker.h"
#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/deny_cache.h"
#include "sluice/expected.h"
#include "sluice/failure_policy.h"
#include "sluice/guard.h"
#include "sluice/limit.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/store.h"
