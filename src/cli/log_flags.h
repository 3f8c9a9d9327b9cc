#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "replay/log_reader.h"
#include "sluice/rule_set.h"

namespace sluice::cli {

// A line on stderr with the progress of reading logs, redrawn ten times per second: the share of
// the logs, the rate, and the time until their end if they are files.
//
// Not thread-safe. The destructor clears the line.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const replay::LogTotals& so_far, std::string_view log);
  // Clears the line before other text on stderr.
  void clear();

 private:
  using SteadyClock = std::chrono::steady_clock;

  bool drawn_ = false;
  SteadyClock::time_point started_ = SteadyClock::now();
  SteadyClock::time_point next_ = started_ + std::chrono::milliseconds{200};
};

// The arguments of subcommands that read logs.
struct LogFlags {
  std::vector<std::string> logs;
  std::string format = "auto";
  std::vector<std::string> fields;
  bool quiet = false;

  // Adds them to a command, which must not outlive them.
  void add_to(Command command);
  // Sets what to read, and reports problems and progress on stderr. Borrows the line. Throws
  // Failed: an error in the arguments.
  void set(replay::LogInput& input, ProgressLine& progress) const;
};

// Refuses a field whose name is none that Sluice knows, and that no rule reads. Rules may be null.
// Throws Failed.
void check_fields(const std::vector<replay::FieldMapping>& fields,
                  std::initializer_list<const RuleSet*> rules);

// Returns the width of reports: COLUMNS, or that of the terminal, or kUsualColumns.
std::size_t report_columns();

// Errors of a subcommand that reads logs: a failure, and wrong usage. They may contain text of any
// origin.
Failed unreadable(const std::string& text);
Failed wrong_argument(const std::string& text);

// Writes a page to a file. Throws Failed.
void write_page(const std::string& path, const std::string& page);
// Throws Failed if the page would overwrite one of the inputs, or another file that is no HTML
// page: it may be a log. `--html access.log*` takes the first one as the page.
void check_page(const std::string& path, const std::vector<std::string>& inputs);

}  // namespace sluice::cli
