#pragma once

#include "cli/command.h"

namespace sluice::cli {

// Adds the subcommands push and show to `rules`: publish rules files in Redis, and print them.
void add_push(Command rules, int& status);
void add_show(Command rules, int& status);

}  // namespace sluice::cli
