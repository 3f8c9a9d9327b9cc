#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace CLI {
class App;
}

namespace sluice::cli {

// A kind of file that the program can check and document.
struct FileKind {
  std::string files;       // "rules files"
  std::string guide_file;  // "docs/rules.md"
  // Returns a summary of a valid file ("1 rules, 1 limits"; may be empty), or all errors.
  Expected<std::string, std::vector<RuleError>> (*check)(std::string_view text,
                                                         const std::string& file);
  std::string (*schema)();
  std::string (*guide)();
};

// Adds the subcommands check, schema and docs for this kind to `command`.
void add_file_commands(CLI::App& command, int& status, const FileKind& kind);

}  // namespace sluice::cli
