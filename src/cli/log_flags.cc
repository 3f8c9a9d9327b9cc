#include "cli/log_flags.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <set>
#include <string>

#include "replay/text.h"
#include "rules/attributes.h"
#include "rules/diagnostics.h"
#include "rules/rule_set.h"

namespace sluice::cli {
namespace {

// Returns the time until the end of the logs at the rate so far, if they are files.
std::string time_left(const replay::LogTotals& so_far, std::chrono::nanoseconds elapsed) {
  const std::uint64_t size = so_far.size.value_or(0);
  if (so_far.read == 0 || so_far.read >= size) return "";
  const double share = static_cast<double>(size - so_far.read) / static_cast<double>(so_far.read);
  const auto seconds = std::chrono::duration<double>(elapsed).count() * share;
  if (seconds < 1) return "";
  return ", " +
         replay::rough_duration_text(std::chrono::seconds{static_cast<std::int64_t>(seconds)}) +
         " left";
}

}  // namespace

void ProgressLine::show(const replay::LogTotals& so_far, std::string_view log) {
  const auto now = SteadyClock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds{100};
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(so_far.bytes) / seconds);
  std::string text = replay::printable(log, 30) + ": ";
  if (so_far.size.value_or(0) > 0) {
    const std::uint64_t read = std::min(so_far.read, *so_far.size);
    text += std::to_string(read * 100 / *so_far.size) + " %, ";
  }
  text += replay::grouped(so_far.lines) + " lines, " + replay::bytes_text(so_far.bytes);
  text += ", " + replay::bytes_text(rate) + "/s";
  text += time_left(so_far, now - started_);
  std::cerr << "\r\x1b[K" << text << std::flush;
  drawn_ = true;
}

void ProgressLine::clear() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

void LogFlags::add_to(Command command) {
  command.add_option("LOG", logs, "Logs, plain or .gz, merged by time; - is standard input")
      .required();
  command.add_option("--format", format, "The format of all logs")
      .one_of({"auto", "common", "envoy", "json", "csv"})
      .show_default();
  command
      .add_option("--field", fields,
                  "NAME=SOURCE: an attribute or a cost from a JSON field or a column; repeatable",
                  "NAME=SOURCE")
      .take_all();
  command.add_flag("--quiet", quiet, "No progress line on the terminal");
}

void LogFlags::set(replay::LogInput& input, ProgressLine& progress) const {
  input.logs = logs;
  input.format = replay::log_format_of(format);
  for (const std::string& field : fields) {
    const std::size_t equals = field.find('=');
    if (equals == 0 || equals == field.npos || equals + 1 == field.size()) {
      throw wrong_argument("--field " + field + ": expected NAME=SOURCE");
    }
    input.fields.push_back({rules::normalized(field.substr(0, equals)), field.substr(equals + 1)});
  }
  input.complain = [&progress](std::string_view text) {
    progress.clear();
    std::cerr << "sluice: " << replay::printable(text) << "\n";
  };
  std::set<std::string> paths;
  for (const std::string& log : logs) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(log, ignored) &&
        !paths.insert(std::filesystem::canonical(log, ignored).string()).second) {
      throw wrong_argument(log + " is given twice: its requests would count twice");
    }
  }
  if (logs.size() > 1) input.starts = replay::starts_of(input);
  if (!quiet && ::isatty(STDERR_FILENO) == 1) {
    input.on_progress = std::bind_front(&ProgressLine::show, &progress);
  }
}

void check_fields(const std::vector<replay::FieldMapping>& fields,
                  std::initializer_list<const RuleSet*> rules) {
  std::vector<std::string_view> known = {"time", "ip", "method", "path", "host", "status", "cost"};
  for (const RuleSet* const each : rules) {
    if (each == nullptr) continue;
    for (const std::string& name : each->impl().attributes.names()) {
      known.emplace_back(name);
    }
  }
  for (const replay::FieldMapping& field : fields) {
    const std::string& name = field.name;
    const bool is_known =
        name.starts_with("costs.") || rules::is_of_client(name) ||
        std::find(known.begin(), known.end(), rules::normalized(name)) != known.end();
    if (is_known) continue;
    const std::string start = name.substr(0, name.find('.') + 1);
    const std::vector<std::string_view> groups = {"costs.", "header.", "query.", "cookie.",
                                                  "body."};
    std::string proposal = rules::did_you_mean(name, known);
    if (!start.empty()) proposal = rules::did_you_mean(start, groups);
    std::string what = field.option();
    what.append(": nothing reads '").append(name);
    what +=
        "'; expected time, ip, method, path, host, status, cost, costs.LIMIT, header.NAME, "
        "query.NAME, cookie.NAME, body.NAME or an attribute that a rule reads";
    throw wrong_argument(what + proposal);
  }
}

std::size_t report_columns() {
  const char* const given = std::getenv("COLUMNS");
  unsigned long columns = given == nullptr ? 0 : std::strtoul(given, nullptr, 10);
  winsize terminal{};
  if (columns == 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &terminal) == 0) {
    columns = terminal.ws_col;
  }
  constexpr unsigned long kMost = 1000;
  if (columns == 0 || columns > kMost) return replay::kUsualColumns;
  return std::max<std::size_t>(columns, replay::kLeastColumns);
}

Failed unreadable(const std::string& text) { return Failed(replay::printable(text)); }
Failed wrong_argument(const std::string& text) { return wrong_usage(replay::printable(text)); }

void check_page(const std::string& path, const std::vector<std::string>& inputs) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  for (const std::string& input : inputs) {
    if (!std::filesystem::equivalent(input, path, ignored)) continue;
    throw wrong_argument("--html " + path + " is one of the inputs; expected another file");
  }
  std::string start(9, '\0');
  std::ifstream(path, std::ios::binary)
      .read(start.data(), static_cast<std::streamsize>(start.size()));
  const bool is_empty = std::filesystem::file_size(path, ignored) == 0;
  if (is_empty || start == "<!DOCTYPE" || start == "<!doctype") return;
  throw wrong_argument("--html " + path +
                       " is no HTML page, and would be overwritten; expected another file");
}

void write_page(const std::string& path, const std::string& page) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(page.data(), static_cast<std::streamsize>(page.size()));
  file.close();
  if (!file) throw unreadable(path + ": cannot write the page: " + std::strerror(errno));
}

}  // namespace sluice::cli
