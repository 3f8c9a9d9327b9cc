#include "server/api/resp/command.h"

namespace sluice::server::resp {
namespace {

const Command* find_in(std::span<const Command> commands, std::string_view name) noexcept {
  for (const Command& command : commands) {
    if (same_word(command.name, name)) return &command;
  }
  return nullptr;
}

// Finds a command like Redis: a container without an argument is a command itself.
Found find(std::string_view name, bool has_part, std::string_view part) noexcept {
  Found found{.command = find_in(all_commands(), name)};
  if (found.command == nullptr || found.command->parts.empty() || !has_part) return found;
  found.part = find_in(found.command->parts, part);
  found.no_such_part = found.part == nullptr;
  return found;
}

}  // namespace

Found find_command(std::span<const std::string_view> arguments) noexcept {
  const bool has_part = arguments.size() > 1;
  return find(arguments[0], has_part, has_part ? arguments[1] : std::string_view());
}

Found find_command(std::string_view name) noexcept {
  const std::size_t bar = name.find('|');
  const bool has_part = bar != name.npos;
  Found found =
      find(name.substr(0, bar), has_part, has_part ? name.substr(bar + 1) : std::string_view());
  if (has_part && found.part == nullptr) found.command = nullptr;
  return found;
}

std::string full_name(const Found& found) {
  std::string name(found.command->name);
  if (found.part != nullptr) name.append("|").append(found.part->name);
  return name;
}

std::int64_t arity(const Command& command) noexcept {
  const auto least = static_cast<std::int64_t>(command.least);
  return command.least == command.most ? least : -least;
}

}  // namespace sluice::server::resp
