#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "cli/command_tree.h"
#include "cli/commands.h"

namespace sluice::cli {
namespace {

constexpr const char* kManualHelp =
    R"(Packages contain these pages; then `man sluice-serve` shows them. Without a package:
  sluice manual serve | man -l -

Exit status: 0 success; 1 a page cannot be written; 2 wrong usage.)";

// Returns null if the program has no such subcommand.
const CLI::App* find_command(const CLI::App& program, const std::string& name) {
  for (const CLI::App* command : program.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

// Prints the page of a subcommand, or that of the program for an empty name.
int print_page(const CLI::App& program, const std::string& name) {
  std::cout << manual_page(name.empty() ? program : *find_command(program, name)) << std::flush;
  return std::cout ? 0 : kFailed;
}

int write_pages(const CLI::App& program, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  auto commands = program.get_subcommands({});
  commands.push_back(&program);
  for (const CLI::App* command : commands) {
    const std::string name = command == &program ? "sluice" : "sluice-" + command->get_name();
    const std::string path = folder + "/" + name + ".1";
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << manual_page(*command);
    file.close();
    if (file) continue;
    std::cerr << "sluice: " << path << ": cannot write the page\n";
    return kFailed;
  }
  return 0;
}

}  // namespace

void add_manual(CLI::App& app, int& status) {
  struct Flags {
    std::string name;
    std::string folder;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("manual", "Prints the manual page of a subcommand");
  const CLI::App* const program = &app;
  auto* name = command->add_option("SUBCOMMAND", flags->name, "The subcommand [the program]")
                   ->check([program](const std::string& text) {
                     return find_command(*program, text) == nullptr ? "no such subcommand: " + text
                                                                    : std::string{};
                   });
  command->add_option("--all", flags->folder, "Write all pages to this folder")
      ->type_name("FOLDER")
      ->excludes(name);
  command->footer(kManualHelp);
  command->callback([flags, program, &status] {
    status = flags->folder.empty() ? print_page(*program, flags->name)
                                   : write_pages(*program, flags->folder);
  });
}

}  // namespace sluice::cli
