#pragma once

namespace CLI {
class App;
}

// The subcommands of the program, one file each. `add_X` describes the subcommand to `app` and
// gives it the callback that does the work and leaves the exit status in `status`, which outlives
// the parse: 0 success, 1 the work failed, 2 usage.
namespace sluice::cli {

void add_commands(CLI::App& app, int& status);
void add_config(CLI::App& app, int& status);
void add_decide(CLI::App& app, int& status);
void add_keys(CLI::App& app, int& status);
void add_replay(CLI::App& app, int& status);
void add_rules(CLI::App& app, int& status);
void add_serve(CLI::App& app, int& status);

// The whole program on these arguments: parses, works, and returns the exit status. Data goes to
// stdout, errors to stderr. Not thread-safe: it uses the standard streams.
int run(int argc, const char* const* argv);

}  // namespace sluice::cli
