#include "server/api/resp/command.h"

#include "base/quoted.h"
#include "limiter/answer.h"
#include "limiter/limit_arguments.h"

namespace sluice::server::resp {

std::string shown(std::string_view argument) { return base::in_quotes(argument); }

std::optional<std::int64_t> read_number(std::string_view text, const NumberArgument& argument,
                                        Reply& reply) {
  const auto number = parse_number(text, argument);
  if (number) return *number;
  reply.error("ERR " + number.error());
  return std::nullopt;
}

void put_decision(Reply& reply, const Limit& limit, const Decision& decision) {
  put_decision(reply, decision, has_numbers(decision), is_ever_full(limit, decision));
}

void put_decision(Reply& reply, const Decision& decision, bool numbers, bool is_ever_full) {
  for (const DecisionField& field : decision_fields(decision, numbers, is_ever_full)) {
    reply.bulk(field.name);
    if (field.number) {
      reply.integer(*field.number);
    } else if (field.text.empty()) {
      reply.null();
    } else {
      reply.bulk(field.text);
    }
  }
}

namespace {

// Removes the text up to the next blank outside of brackets and returns it.
std::string_view take_group(std::string_view& rest) {
  std::size_t end = 0;
  int depth = 0;
  for (; end < rest.size() && (depth > 0 || rest[end] != ' '); ++end) {
    if (rest[end] == '[') ++depth;
    if (rest[end] == ']') --depth;
  }
  const std::string_view group = rest.substr(0, end);
  rest.remove_prefix(end < rest.size() ? end + 1 : end);
  return group;
}

}  // namespace

std::vector<SynopsisPart> read_synopsis(std::string_view synopsis) {
  std::vector<SynopsisPart> parts;
  while (!synopsis.empty()) {
    std::string_view group = take_group(synopsis);
    SynopsisPart part;
    if (group.ends_with("...")) {
      part.multiple = true;
      group.remove_suffix(3);
    }
    if (group.starts_with('[') && group.ends_with(']')) {
      part.optional = true;
      group = group.substr(1, group.size() - 2);
    }
    const std::size_t blank = group.rfind(' ');
    const bool has_token = blank != group.npos;
    part.name = has_token ? group.substr(blank + 1) : group;
    // "[attribute value]..." is two arguments that are repeated together; the first is not a token.
    const std::string_view before = has_token ? group.substr(0, blank) : std::string_view();
    if (!before.empty() && base::is_upper(before.front())) {
      part.token = before;
    } else if (!before.empty()) {
      parts.push_back({before, {}, part.optional, part.multiple});
    }
    parts.push_back(part);
  }
  return parts;
}

namespace {

const Command* find_in(std::span<const Command> commands, std::string_view name) noexcept {
  for (const Command& command : commands) {
    if (same_word(command.name, name)) return &command;
  }
  return nullptr;
}

}  // namespace

// A container without an argument is a command itself, as in Redis.
const Command* find_command(std::span<const std::string_view> arguments) noexcept {
  const Command* const found = find_in(all_commands(), arguments[0]);
  if (found == nullptr || found->parts.empty() || arguments.size() == 1) return found;
  const Command* const part = find_in(found->parts, arguments[1]);
  return part != nullptr ? part : found;
}

const Command* find_command(std::string_view name) noexcept {
  const std::size_t bar = name.find('|');
  if (bar == name.npos) return find_in(all_commands(), name);
  const std::string_view words[] = {name.substr(0, bar), name.substr(bar + 1)};
  const Command* const found = find_command(words);
  return found != nullptr && found->is_part ? found : nullptr;
}

std::string full_name(const Command& command) {
  for (const Command& whole : all_commands()) {
    for (const Command& part : whole.parts) {
      if (&part == &command) return std::string(whole.name) + "|" + std::string(part.name);
    }
  }
  return std::string(command.name);
}

std::int64_t arity(const Command& command) noexcept {
  const auto least = static_cast<std::int64_t>(command.least);
  return command.least == command.most ? least : -least;
}

}  // namespace sluice::server::resp
