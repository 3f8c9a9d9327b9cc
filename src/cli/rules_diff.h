#pragma once

namespace CLI {
class App;
}

namespace sluice::cli {

// Adds the subcommand diff to `rules`: compares rules of files, of Redis and of standard input.
void add_diff(CLI::App& rules, int& status);

}  // namespace sluice::cli
