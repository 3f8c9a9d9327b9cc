#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/progress_line.h"
#include "replay/log_input.h"

namespace sluice::cli {

// The arguments of subcommands that read logs.
struct LogFlags {
  std::vector<std::string> logs;
  std::string format = "auto";
  std::vector<std::string> fields;
  bool quiet = false;

  // Adds them to a command, which must not outlive them.
  void add_to(Command command);
  // Sets what to read, and reports problems and progress on stderr. Borrows the line. Returns false
  // after an error in the arguments, which it prints.
  bool set(replay::LogInput& input, ProgressLine& progress) const;
};

// Prints an error of a subcommand that reads logs. Returns the status.
int fail_to_read(const std::string& text, int status);

// Writes a page to a file. Returns 0 or, after an error, which it prints, the exit status.
int write_page(const std::string& path, const std::string& page);

// Returns whether two paths name the same existing file.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace sluice::cli
