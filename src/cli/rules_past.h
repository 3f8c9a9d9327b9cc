#pragma once

#include "cli/command.h"

namespace sluice::cli {

// Adds the subcommands history and rollback to `rules`: print the last pushes of rules in Redis,
// and push the rules of one of them again.
void add_history(Command rules, int& status);
void add_rollback(Command rules, int& status);

}  // namespace sluice::cli
