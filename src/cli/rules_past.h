#pragma once

namespace CLI {
class App;
}

namespace sluice::cli {

// Adds the subcommands history and rollback to `rules`: print the last pushes of rules in Redis,
// and push the rules of one of them again.
void add_history(CLI::App& rules, int& status);
void add_rollback(CLI::App& rules, int& status);

}  // namespace sluice::cli
