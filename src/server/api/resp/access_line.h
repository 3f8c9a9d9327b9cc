#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "server/logging/log.h"
#include "server/protocol/resp/client.h"
#include "sluice/decision.h"

namespace sluice::server::resp {

// An answered request, for the access log.
struct Answered {
  std::span<const std::string_view> request;  // not empty
  std::string_view reply;
  std::optional<Outcome> outcome;  // of the decision, if there was one
  const Client& client;
  std::chrono::nanoseconds took;
};

// Writes a line "request" with these fields: command (with its part, if it has parts; for an
// unknown command, the client's word); status, which is "ok" or the first word of the error;
// outcome, if there was a decision; peer, unless it is a Unix socket; user; duration_us; front_end.
// Does not write arguments, which may be passwords. Only the denial log has keys.
void log_access(Log& log, const Answered& answered) noexcept;

}  // namespace sluice::server::resp
