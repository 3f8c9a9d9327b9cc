#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::cli {

// A valid file.
struct CheckedFile {
  std::string summary;  // "1 rules, 1 limits"; may be empty
  std::vector<RuleError> warnings = {};
};

// A kind of file that the program can check and document.
struct FileKind {
  std::string files;       // "rules files"
  std::string guide_file;  // "docs/rules.md"
  // Checks a file. Errors: all errors of the file.
  std::function<Expected<CheckedFile, std::vector<RuleError>>(std::string_view text,
                                                              const std::string& file)>
      check;
  std::string (*schema)();
  std::string (*guide)();
  // Adds options to the subcommand `check`; may be empty.
  std::function<void(Command)> add_check_options = {};
};

// Adds the subcommands check, schema and docs for this kind to `command`.
void add_file_commands(Command command, int& status, const FileKind& kind);

}  // namespace sluice::cli
