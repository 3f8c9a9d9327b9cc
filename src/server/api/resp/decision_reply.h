#pragma once

#include <cstddef>

#include "server/protocol/resp/reply.h"
#include "sluice/decision.h"

namespace sluice::server::resp {

// Writes so many pairs of a map: outcome, reason, limit, remaining, reset_after_ms, retry_after_ms,
// delay_ms. Waits are milliseconds, rounded up; what there is not is null.
inline constexpr std::size_t kDecisionPairs = 7;
void put_decision(Reply& reply, const Decision& decision);
// Likewise; without `numbers` limit, remaining and reset_after_ms are null.
void put_decision(Reply& reply, const Decision& decision, bool numbers);

}  // namespace sluice::server::resp
