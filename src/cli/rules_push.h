#pragma once

namespace CLI {
class App;
}

namespace sluice::cli {

// Gives `rules` the subcommands push and show: rules out of files into Redis, and what is there.
void add_push(CLI::App& rules, int& status);
void add_show(CLI::App& rules, int& status);

}  // namespace sluice::cli
