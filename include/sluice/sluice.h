#pragma once

// Everything for limits in this process, and the stores that answer if a remote one fails. Two
// parts are libraries of their own because of what they need: rules (sluice/rule_decider.h,
// sluice/rule_guard.h; yaml-cpp and RE2) and the store on Redis (sluice/redis_store.h; Boost and
// OpenSSL).

#include "sluice/block.h"
#include "sluice/client_throttle.h"
#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/deny_cache.h"
#include "sluice/expected.h"
#include "sluice/failure_policy.h"
#include "sluice/guard.h"
#include "sluice/guard_parts.h"
#include "sluice/hold.h"
#include "sluice/http_fields.h"
#include "sluice/key_builder.h"
#include "sluice/ledger.h"
#include "sluice/limit.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit.h"
#include "sluice/require.h"
#include "sluice/reservation.h"
#include "sluice/store.h"
