#pragma once

// Everything for limits in this process. Rules (sluice/rules.h) are a library of their own, as they
// need yaml-cpp and RE2.

#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/expected.h"
#include "sluice/guard.h"
#include "sluice/limit.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/store.h"
