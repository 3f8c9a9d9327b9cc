#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "limiter/limit_arguments.h"
#include "server/protocol/resp/reply.h"
#include "sluice/clock.h"

namespace sluice::server::resp {

// Returns the number. If it is invalid, writes an error that names the argument and returns
// nothing.
std::optional<std::int64_t> read_number(std::string_view text, const NumberArgument& argument,
                                        Reply& reply);

// Reads the value of MAXWAIT, such as "500ms": at most a day. If it is invalid, writes an error.
std::optional<Duration> read_max_wait(std::string_view value, Reply& reply);

// Returns an argument as errors show it: in quotes and truncated.
std::string shown(std::string_view argument);

}  // namespace sluice::server::resp
