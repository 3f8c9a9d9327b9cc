#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/protocol/resp/reply.h"

namespace sluice::server::resp {

// The bounds of a number, and what it is called in errors.
struct NumberArgument {
  std::string_view name;
  std::int64_t least;
  std::int64_t most;
};
// The number, or nothing where the reply has become the error that names the argument.
std::optional<std::int64_t> read_number(std::string_view text, const NumberArgument& argument,
                                        Reply& reply);

// An argument as errors show it: in quotes, cut short.
std::string shown(std::string_view argument);

}  // namespace sluice::server::resp
