#pragma once

namespace CLI {
class App;
}

namespace sluice::cli {

// Add the subcommands of `sluice overrides` that read and write files.
void add_overrides_import(CLI::App& overrides, int& status);
void add_overrides_export(CLI::App& overrides, int& status);

}  // namespace sluice::cli
