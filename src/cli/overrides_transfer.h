#pragma once

#include "cli/command.h"

namespace sluice::cli {

// Add the subcommands of `sluice overrides` that read and write files.
void add_overrides_import(Command overrides, int& status);
void add_overrides_export(Command overrides, int& status);

}  // namespace sluice::cli
