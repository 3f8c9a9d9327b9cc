#include "server/api/resp/arguments.h"

#include <chrono>

#include "core/period.h"
#include "core/quoted.h"
#include "server/protocol/resp/number.h"

namespace sluice::server::resp {

std::string shown(std::string_view argument) { return core::in_quotes(argument); }

std::optional<std::int64_t> read_number(std::string_view text, const NumberArgument& argument,
                                        Reply& reply) {
  const auto number = whole_number(text);
  if (number && *number >= argument.least && *number <= argument.most) return number;
  // A number that needs more than 64 bits is still a number.
  const std::string_view unsigned_text = text.substr(text.starts_with('-') ? 1 : 0);
  const bool digits = !unsigned_text.empty() && unsigned_text.front() != '0' &&
                      unsigned_text.find_first_not_of("0123456789") == std::string_view::npos;
  std::string error = "ERR ";
  error.append(argument.name)
      .append(number || digits ? " is out of range: " : " is not an integer: ");
  error.append(shown(text)).append("; expected a whole number from ");
  error.append(std::to_string(argument.least)).append(" to ");
  error.append(std::to_string(argument.most));
  reply.error(error);
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
