#include "cli/file_commands.h"

#include <iostream>
#include <memory>

#include "rules/yaml_tree.h"

namespace sluice::cli {
namespace {

using Errors = std::vector<RuleError>;

Expected<std::string, Errors> read(const std::string& file) {
  if (file != "-") return rules::read_file(file);
  // Reads one byte more than the maximum, so that the check reports a file that is too long.
  std::string text(rules::kMaxFileBytes + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  return text;
}

// Prints that the file is valid, and its warnings, or its errors. Returns whether it is valid.
bool check_file(const std::string& file, const FileKind& kind) {
  const auto text = read(file);
  const auto checked = text ? kind.check(*text, file) : Unexpected{text.error()};
  const std::vector<RuleError>& found = checked ? checked->warnings : checked.error();
  for (const RuleError& error : found) std::cerr << error.to_string() << '\n';
  if (!checked) return false;
  const std::string& summary = checked->summary;
  std::cout << file << ": ok" << (summary.empty() ? "" : ", ") << summary << '\n';
  return true;
}

void add_check(Command app, int& status, const FileKind& kind) {
  const Command command =
      app.add_subcommand("check", "Check " + kind.files + " and print every error");
  auto files = std::make_shared<std::vector<std::string>>();
  command.add_option("FILE", *files, "The files; - is standard input").required();
  if (kind.add_check_options) kind.add_check_options(command);
  command.footer("Exit status: 0 no errors; 1 errors, or a file cannot be read; 2 wrong usage.");
  command.callback([files, kind, &status] {
    status = 0;
    for (const std::string& file : *files) {
      if (!check_file(file, kind)) status = 1;
    }
  });
}

void add_print(Command app, int& status, const std::string& name, const std::string& help,
               std::string (*text)()) {
  app.add_subcommand(name, help).callback([text, &status] {
    std::cout << text() << std::flush;
    status = std::cout ? 0 : 1;
  });
}

}  // namespace

void add_file_commands(Command command, int& status, const FileKind& kind) {
  command.require_subcommand();
  add_check(command, status, kind);
  add_print(command, status, "schema", "Print a JSON Schema of " + kind.files + " for editors",
            kind.schema);
  add_print(command, status, "docs", "Print the manual of " + kind.files + ", " + kind.guide_file,
            kind.guide);
}

}  // namespace sluice::cli
