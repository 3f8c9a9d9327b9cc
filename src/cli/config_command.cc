#include "server/config/config.h"

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/commands.h"
#include "server/config/schema.h"

namespace sluice::cli {
namespace {

Expected<std::string, std::vector<RuleError>> check_config(std::string_view text,
                                                           const std::string& file,
                                                           std::vector<RuleError>& /*warnings*/) {
  auto config = server::parse_config(text, file);
  if (!config) return Unexpected{std::move(config.error())};
  if (const std::string conflict = server::find_conflict(*config); !conflict.empty()) {
    const std::size_t end = conflict.find("; ");
    RuleError error{
        .file = file, .what = conflict.substr(0, end), .expected = conflict.substr(end + 2)};
    return Unexpected{std::vector{std::move(error)}};
  }
  return std::string();
}

}  // namespace

void add_config(Command app, int& status) {
  add_file_commands(
      app.add_subcommand("config", "Check and document configuration files of the server"), status,
      {.files = "configuration files",
       .guide_file = "docs/config.md",
       .check = check_config,
       .schema = server::config::json_schema,
       .keys = &server::config::file()});
}

}  // namespace sluice::cli
