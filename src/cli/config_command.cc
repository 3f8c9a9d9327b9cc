#include "server/config/config.h"

#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/file_commands.h"
#include "server/config/schema.h"

namespace sluice::cli {
namespace {

Expected<CheckedFile, std::vector<RuleError>> check_config(std::string_view text,
                                                           const std::string& file) {
  auto config = server::parse_config(text, file);
  if (!config) return Unexpected{std::move(config.error())};
  return CheckedFile{};
}

}  // namespace

void add_config(Command app, int& status) {
  add_file_commands(
      app.add_subcommand("config", "Checks and documents configuration files of the server"),
      status,
      {.files = "configuration files",
       .guide_file = "docs/config.md",
       .check = check_config,
       .schema = server::config::json_schema,
       .guide = server::config::guide});
}

}  // namespace sluice::cli
