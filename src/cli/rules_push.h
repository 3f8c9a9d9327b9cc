#pragma once

namespace CLI {
class App;
}

namespace sluice::cli {

// Adds the subcommands push and show to `rules`: publish rules files in Redis, and print them.
void add_push(CLI::App& rules, int& status);
void add_show(CLI::App& rules, int& status);

}  // namespace sluice::cli
