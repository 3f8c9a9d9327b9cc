#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"

namespace sluice::cli {
namespace {

constexpr const char* kManualHelp =
    R"(Packages contain these pages; then `man sluice-serve` shows them. Without a package:
  sluice manual serve | man -l -

Exit status: 0 success; 1 a page cannot be written; 2 wrong usage.)";

// Returns nothing if the program has no such subcommand.
std::optional<Command> find_command(Command program, const std::string& name) {
  for (const Command command : program.subcommands()) {
    if (command.name() == name) return command;
  }
  return std::nullopt;
}

// Prints the page of a subcommand, or that of the program for an empty name.
int print_page(Command program, const std::string& name) {
  std::cout << manual_page(name.empty() ? program : *find_command(program, name)) << std::flush;
  return std::cout ? 0 : kFailed;
}

int write_pages(Command program, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  auto commands = program.subcommands();
  commands.push_back(program);
  for (const Command command : commands) {
    const std::string name = command.parent() ? "sluice-" + command.name() : "sluice";
    std::string path = folder;
    path.append("/").append(name).append(".1");
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << manual_page(command);
    file.close();
    if (file) continue;
    std::cerr << "sluice: " << path << ": cannot write the page\n";
    return kFailed;
  }
  return 0;
}

}  // namespace

void add_manual(Command app, int& status) {
  struct Flags {
    std::string name;
    std::string folder;
  };
  const auto flags = std::make_shared<Flags>();
  const Command command = app.add_subcommand("manual", "Print the manual page of a subcommand");
  const Option name =
      command.add_option("SUBCOMMAND", flags->name, "The subcommand [the program]")
          .check([app](const std::string& text) {
            return find_command(app, text) ? std::string{} : "no such subcommand: " + text;
          });
  command.add_option("--all", flags->folder, "Write all pages to this folder")
      .type_name("FOLDER")
      .excludes(name);
  command.footer(kManualHelp);
  command.callback([flags, app, &status] {
    status = flags->folder.empty() ? print_page(app, flags->name) : write_pages(app, flags->folder);
  });
}

}  // namespace sluice::cli
