#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sluice::cli {

// What manual pages and completions say of the commands. They read the parser that --help prints,
// so that none of them describes an option that another one lacks.

// Returns the words that call a command: "sluice rules check".
inline std::string called_as(const CLI::App& command) {
  if (command.get_parent() == nullptr) return command.get_name();
  return called_as(*command.get_parent()) + " " + command.get_name();
}

// Returns a command with all commands below it, each before those below it.
inline std::vector<const CLI::App*> commands_from(const CLI::App& command) {
  std::vector<const CLI::App*> all{&command};
  for (const CLI::App* below : command.get_subcommands({})) {
    const auto more = commands_from(*below);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// Returns the options of a command that start with a dash, or its positional arguments.
inline std::vector<const CLI::Option*> options_of(const CLI::App& command, bool positional) {
  return command.get_options(
      [positional](const CLI::Option* option) { return option->get_positional() == positional; });
}

// Returns whether a value follows the option. A flag has none.
inline bool takes_value(const CLI::Option& option) { return option.get_type_size() > 0; }

// Returns whether the value is a file, which a shell can complete.
inline bool takes_file(const CLI::Option& option) {
  const std::string name = option.get_positional() ? option.get_name(true) : option.get_type_name();
  return name.starts_with("FILE") || name.starts_with("LOG");
}

// Prints a page of section 1, in the macros of man(7), of a command and all commands below it.
std::string manual_page(const CLI::App& command);

}  // namespace sluice::cli
