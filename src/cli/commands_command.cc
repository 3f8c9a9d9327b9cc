#include <iostream>

#include "cli/commands.h"
#include "server/api/resp/command.h"

namespace sluice::cli {

void add_commands(Command app, int& status) {
  const Command command = app.add_subcommand(
      "commands", "Print the commands for Redis clients, as in docs/commands.md");
  command.run(status, {}, [] {
    std::cout << server::resp::commands_reference() << std::flush;
    return std::cout ? 0 : kFailed;
  });
}

}  // namespace sluice::cli
