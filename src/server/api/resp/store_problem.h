#pragma once

#include "server/protocol/resp/reply.h"
#include "sluice/decision.h"

namespace sluice::server::resp {

// Whether the store could not decide: which is neither yes nor no, where no rule says what it is.
bool is_store_problem(const Decision& decision) noexcept;
// The error that says so.
void answer_store_problem(Reply& reply, const Decision& decision);

}  // namespace sluice::server::resp
