#pragma once

#include <cstddef>
#include <string_view>

#include "server/protocol/resp/reply.h"
#include "sluice/decision.h"

namespace sluice::server::resp {

// The number of pairs that put_decision() writes into a map: see decision_fields().
inline constexpr std::size_t kDecisionPairs = 7;
void put_decision(Reply& reply, const Decision& decision);
void put_decision(Reply& reply, const Decision& decision, bool numbers);

// Writes the pair of `permit`: the text with which the client releases it.
void put_permit(Reply& reply, std::string_view permit);
// Writes the pair of `taken`: the units that were taken from every limit.
void put_taken(Reply& reply, const Decision& decision);

}  // namespace sluice::server::resp
