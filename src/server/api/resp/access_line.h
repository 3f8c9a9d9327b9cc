#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "server/logging/log.h"
#include "server/protocol/resp/client.h"
#include "sluice/decision.h"

namespace sluice::server::resp {

// A request that was answered, for the access log.
struct Answered {
  std::span<const std::string_view> request;  // not empty
  std::string_view reply;
  std::optional<Outcome> outcome;  // of the decision, if one was made
  const Client& client;
  std::chrono::nanoseconds took;
};

// A line "request": command (of one that has parts with the part; of one that there is not, what
// the client called it); status, which is "ok" or the first word of the error; outcome, where there
// is a decision; peer, unless it is a Unix socket; user; duration_us; front_end. Arguments are not
// told: they may be passwords, and keys are told by the denial log alone.
void log_access(Log& log, const Answered& answered) noexcept;

}  // namespace sluice::server::resp
