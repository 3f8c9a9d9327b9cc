#include "server/api/resp/arguments.h"

#include <chrono>

#include "core/period.h"
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
  constexpr Duration kMost = std::chrono::days(1);
  if (value == "0") return Duration{0};
  const auto wait = core::parse_period(value);
  if (wait && *wait <= kMost) return *wait;
  reply.error("ERR MAXWAIT: " +
              (wait ? shown(value) + " is too long; expected at most 1d" : wait.error()));
  return std::nullopt;
}

}  // namespace sluice::server::resp
