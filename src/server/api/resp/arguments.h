#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "limiter/throttle_arguments.h"
#include "server/protocol/resp/reply.h"
#include "sluice/clock.h"
#include "sluice/verb.h"

namespace sluice::server::resp {

// Returns the number. If it is invalid, writes an error that names the argument and returns
// nothing.
std::optional<std::int64_t> read_number(std::string_view text, const NumberArgument& argument,
                                        Reply& reply);

// What a command does to the counters that its other arguments name.
struct CounterVerb {
  Verb verb = Verb::kTake;
  bool settles =
      false;  // charges or gives back the difference to the ACTUAL cost; `verb` is kCharge
  bool reports = false;  // charges what the response costs; `verb` is kCharge

  constexpr std::string_view cost_word() const noexcept {
    return verb == Verb::kTakeAtMost ? "ATMOST" : "COST";
  }
  // The option that it requires; empty if none.
  constexpr std::string_view required() const noexcept {
    if (settles) return "ACTUAL";
    return verb == Verb::kTakeAtMost ? "ATMOST" : verb == Verb::kReserve ? "MAXWAIT" : "";
  }
};

// Reads the value of MAXWAIT, such as "500ms": at most a day. If it is invalid, writes an error.
std::optional<Duration> read_max_wait(std::string_view value, Reply& reply);

// Returns an argument as errors show it: in quotes and truncated.
std::string shown(std::string_view argument);

}  // namespace sluice::server::resp
