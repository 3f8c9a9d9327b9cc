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

// A kind of file that the program can check and explain.
struct FileKind {
  std::string files;       // "files of rules"
  std::string guide_file;  // "docs/rules.md"
  // What there is in a right file ("1 rules, 1 limits"; may be empty), or all that is wrong.
  Expected<std::string, std::vector<RuleError>> (*check)(std::string_view text,
                                                         const std::string& file);
  std::string (*schema)();
  std::string (*guide)();
};

// Gives `command` the subcommands check, schema and docs of that kind.
void add_file_commands(CLI::App& command, int& status, const FileKind& kind);

}  // namespace sluice::cli
