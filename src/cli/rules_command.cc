#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/file_commands.h"
#include "cli/rules_push.h"
#include "rules/schema.h"
#include "sluice/rules.h"

namespace sluice::cli {
namespace {

Expected<std::string, std::vector<RuleError>> check(std::string_view text,
                                                    const std::string& file) {
  auto rules = RuleSet::parse(text, file);
  if (!rules) return Unexpected{std::move(rules.error())};
  std::size_t limits = 0;
  for (const Rule& rule : rules->rules()) limits += rule.limits.size();
  return std::to_string(rules->rules().size()) + " rules, " + std::to_string(limits) + " limits";
}

}  // namespace

void add_rules(CLI::App& app, int& status) {
  CLI::App& command = *app.add_subcommand("rules", "Checks, explains and publishes files of rules");
  add_push(command, status);
  add_show(command, status);
  add_file_commands(command, status,
                    {.files = "files of rules",
                     .guide_file = "docs/rules.md",
                     .check = check,
                     .schema = rules::schema::json_schema,
                     .guide = rules::schema::guide});
}

}  // namespace sluice::cli
