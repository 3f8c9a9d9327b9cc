#include <CLI/CLI.hpp>
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "rules/schema.h"
#include "rules/yaml_tree.h"
#include "sluice/rules.h"

namespace sluice::cli {
namespace {

Expected<RuleSet, std::vector<RuleError>> read(const std::string& file) {
  if (file != "-") return RuleSet::load(file);
  // One byte more than is allowed, so that it shows.
  std::string text(rules::kMaxFileBytes + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  return RuleSet::parse(text, "-");
}

// Whether the file is right; says so, or what is wrong with it.
bool check(const std::string& file) {
  const auto rules = read(file);
  if (!rules) {
    for (const RuleError& error : rules.error()) std::cerr << error.to_string() << '\n';
    return false;
  }
  std::size_t limits = 0;
  for (const Rule& rule : rules->rules()) limits += rule.limits.size();
  std::cout << file << ": ok, " << rules->rules().size() << " rules, " << limits << " limits\n";
  return true;
}

void add_check(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("check", "Says whether files of rules are right, or all that is wrong");
  auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("FILE", *files, "Files of rules; - is the standard input")->required();
  command->callback([files, &status] {
    status = 0;
    for (const std::string& file : *files) {
      if (!check(file)) status = 1;
    }
  });
}

void add_print(CLI::App& app, int& status, const std::string& name, const std::string& help,
               std::string (*text)()) {
  app.add_subcommand(name, help)->callback([text, &status] {
    std::cout << text() << std::flush;
    status = std::cout ? 0 : 1;
  });
}

}  // namespace

void add_rules(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("rules", "Checks and explains files of rules");
  command->require_subcommand(1);
  add_check(*command, status);
  add_print(*command, status, "schema", "Prints the JSON Schema of files of rules, for editors",
            rules::schema::json_schema);
  add_print(*command, status, "docs", "Prints the manual of rules, docs/rules.md",
            rules::schema::guide);
}

}  // namespace sluice::cli
