#include "cli/log_flags.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/commands.h"
#include "replay/text.h"

namespace sluice::cli {

void LogFlags::add_to(Command command) {
  command.add_option("LOG", logs, "Logs, plain or .gz, in order; - is standard input").required();
  command.add_option("--format", format, "The format of all logs")
      .one_of({"auto", "common", "envoy", "json", "csv"})
      .show_default();
  command
      .add_option("--field", fields,
                  "NAME=SOURCE: an attribute or a cost from a JSON field or a column; repeatable")
      .type_name("NAME=SOURCE")
      .take_all();
  command.add_flag("--quiet", quiet, "No progress line on the terminal");
}

bool LogFlags::set(replay::LogInput& input, ProgressLine& progress) const {
  input.logs = logs;
  input.reading.format = replay::log_format_of(format);
  for (const std::string& field : fields) {
    const std::size_t equals = field.find('=');
    if (equals == 0 || equals == field.npos || equals + 1 == field.size()) {
      fail_to_read("--field " + field + ": expected NAME=SOURCE", kUsage);
      return false;
    }
    input.reading.fields.push_back({field.substr(0, equals), field.substr(equals + 1)});
  }
  input.complain = [&progress](std::string_view text) {
    progress.clear();
    std::cerr << "sluice: " << replay::printable(text) << "\n";
  };
  if (!quiet && ::isatty(STDERR_FILENO) == 1) {
    input.on_progress = [&progress](const replay::Progress& state) { progress.show(state); };
  }
  return true;
}

int fail_to_read(const std::string& text, int status) {
  std::cerr << "sluice: " << replay::printable(text) << "\n";
  return status;
}

int write_page(const std::string& path, const std::string& page) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(page.data(), static_cast<std::streamsize>(page.size()));
  file.close();
  if (file) return 0;
  return fail_to_read(path + ": cannot write the page: " + std::strerror(errno), kFailed);
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(a, ignored) && std::filesystem::equivalent(a, b, ignored);
}

}  // namespace sluice::cli
