#include "server/api/resp/arguments.h"

#include "core/quoted.h"

namespace sluice::server::resp {

std::string shown(std::string_view argument) { return core::in_quotes(argument); }

std::optional<std::int64_t> read_number(std::string_view text, const NumberArgument& argument,
                                        Reply& reply) {
  const auto number = parse_number(text, argument);
  if (number) return *number;
  reply.error("ERR " + number.error());
  return std::nullopt;
}

std::optional<Duration> read_max_wait(std::string_view value, Reply& reply) {
  const auto wait = parse_max_wait(value);
  if (wait) return *wait;
  reply.error("ERR " + wait.error());
  return std::nullopt;
}

}  // namespace sluice::server::resp
