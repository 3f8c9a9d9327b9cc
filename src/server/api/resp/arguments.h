#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/protocol/resp/reply.h"

namespace sluice::server::resp {

// The bounds of a number, and its name in errors.
struct NumberArgument {
  std::string_view name;
  std::int64_t least;
  std::int64_t most;
};
// Returns the number. If it is invalid, writes an error that names the argument and returns
// nothing.
std::optional<std::int64_t> read_number(std::string_view text, const NumberArgument& argument,
                                        Reply& reply);

// Returns an argument as errors show it: in quotes and truncated.
std::string shown(std::string_view argument);

}  // namespace sluice::server::resp
