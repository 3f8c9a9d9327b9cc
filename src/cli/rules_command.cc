#include <cstddef>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/file_commands.h"
#include "cli/rules_diff.h"
#include "cli/rules_past.h"
#include "cli/rules_push.h"
#include "envoy/convert.h"
#include "rules/schema.h"
#include "rules/yaml_tree.h"
#include "sluice/memory_store.h"
#include "sluice/rule_set.h"

namespace sluice::cli {
namespace {

Expected<CheckedFile, std::vector<RuleError>> check_rules(std::string_view text,
                                                          const std::string& file,
                                                          const RuleTerms& terms) {
  auto rules = RuleSet::parse(text, file, terms);
  if (!rules) return Unexpected{std::move(rules.error())};
  std::size_t limits = 0;
  for (const Rule& rule : rules->rules()) limits += rule.limits.size();
  const auto warnings = rules->warnings();
  return CheckedFile{
      std::to_string(rules->rules().size()) + " rules, " + std::to_string(limits) + " limits",
      {warnings.begin(), warnings.end()}};
}

// Prints Envoy's file as native rules. Prints differences in behaviour to standard error.
int convert(const std::string& file) {
  auto text = rules::read_file(file);
  if (text) {
    const RuleText one{file, *text};
    const auto config = envoy::Config::parse({&one, 1});
    if (config) {
      const envoy::Converted converted = envoy::convert(*config->domains().front());
      for (const std::string& remark : converted.remarks) {
        std::cerr << file << ": note: " << remark << '\n';
      }
      std::cout << converted.yaml << std::flush;
      return std::cout ? 0 : 1;
    }
    text = Unexpected{config.error()};
  }
  for (const RuleError& error : text.error()) std::cerr << error.to_string() << '\n';
  return 1;
}

void add_convert(Command command, int& status) {
  const Command app = command.add_subcommand(
      "convert", "Convert a file of Envoy's rate limit service to native rules");
  auto file = std::make_shared<std::string>();
  app.add_option("FILE", *file, "Envoy's file").required();
  app.callback([file, &status] { status = convert(*file); });
}

}  // namespace

void add_rules(Command app, int& status) {
  const Command command =
      app.add_subcommand("rules", "Check, document, convert and publish rules files");
  add_push(command, status);
  add_show(command, status);
  add_diff(command, status);
  add_history(command, status);
  add_rollback(command, status);
  add_convert(command, status);
  const auto terms = std::make_shared<RuleTerms>();
  terms->reads_lists = true;
  terms->max_log_bytes = MemoryStoreOptions{}.max_log_bytes;
  add_file_commands(
      command, status,
      {.files = "rules files",
       .guide_file = "docs/rules.md",
       .check = [terms](std::string_view text,
                        const std::string& file) { return check_rules(text, file, *terms); },
       .schema = rules::schema::json_schema,
       .guide = rules::schema::guide,
       .add_check_options =
           [terms](Command check) {
             check
                 .add_option("--max-log-bytes", terms->max_log_bytes,
                             "memory.max_log_bytes of the server: warns about logs "
                             "that do not fit; 0 for Redis")
                 .show_default();
           }});
}

}  // namespace sluice::cli
