#include "server/api/resp/arguments.h"

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

}  // namespace sluice::server::resp
