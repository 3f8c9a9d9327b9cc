#pragma once

#include "cli/command.h"

namespace sluice::cli {

// Adds the subcommand diff to `rules`: compares rules of files, of Redis and of standard input.
void add_diff(Command rules, int& status);

}  // namespace sluice::cli
