#pragma once

#include "cli/command.h"

namespace sluice::cli {

// The subcommands of the program, one file each. `add_X` adds the subcommand to `app`. Its work
// stores the exit status in `status`, which must outlive the parser.
void add_blocks(Command app, int& status);
void add_commands(Command app, int& status);
void add_config(Command app, int& status);
void add_decide(Command app, int& status);
void add_keys(Command app, int& status);
void add_overrides(Command app, int& status);
void add_replay(Command app, int& status);
void add_rules(Command app, int& status);
void add_serve(Command app, int& status);
void add_suggest(Command app, int& status);
void add_top(Command app, int& status);

// Runs the program with these arguments and returns the exit status. Data goes to stdout, errors to
// stderr. Not thread-safe, because it uses the standard streams.
int run(int argc, const char* const* argv);

}  // namespace sluice::cli
