#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/progress_line.h"
#include "replay/replay.h"
#include "replay/report.h"
#include "replay/text.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr const char* kHelp =
    "Requests are decided at the log's own instants: the clock is the running maximum of all\n"
    "timestamps, and a late line is decided at the clock's instant. Rules see method, path "
    "(without\n"
    "query), query.NAME, ip, header.user-agent, header.referer and status. A line that is not one "
    "of\n"
    "an access log is counted, the first five of each log are shown on stderr, and it stops "
    "nothing.\n"
    "Logs are read one after the other, in any size; .gz is recognised by its content. NO_COLOR\n"
    "turns colours off.\n"
    "\n"
    "JSON: lines = parsed + skipped; parsed = allowed + denied (unmatched requests are allowed, "
    "and\n"
    "so are those that only a rule on trial would deny). Within a rule, matched = allowed + "
    "denied;\n"
    "for a rule on trial (mode: shadow) denied is what it would have denied. A limit's denied "
    "counts\n"
    "the requests that this limit denied; several limits may deny one request. keys are the "
    "distinct\n"
    "counters the limit was asked about.\n"
    "\n"
    "Exit status: 0 success; 1 a log could not be opened or read to its end (what was read is\n"
    "reported), or the rules are wrong; 2 usage.\n"
    "\n"
    "Examples:\n"
    "  sluice replay --rules rules.yaml access.log\n"
    "  sluice replay --rules rules.yaml access.log.2.gz access.log.1 access.log\n"
    "  sluice replay --rules rules.yaml --html report.html access.log.gz\n"
    "  zstd -dc access.log.zst | sluice replay --rules rules.yaml --json - | jq .denied";

struct Arguments {
  std::string rules;
  std::vector<std::string> logs;
  bool json = false;
  std::string html;
  std::size_t max_keys = replay::ReplayOptions{}.max_keys;
  bool quiet = false;
};

int fail(const std::string& text, int status = kFailed) {
  std::cerr << "sluice: " << replay::printable(text) << "\n";
  return status;
}

// A page must not be written over a log or the rules.
bool is_an_input(const Arguments& arguments) {
  std::error_code ignored;
  const auto same = [&](const std::string& input) {
    return fs::is_regular_file(input, ignored) && fs::equivalent(input, arguments.html, ignored);
  };
  return same(arguments.rules) || std::any_of(arguments.logs.begin(), arguments.logs.end(), same);
}

bool stdout_has_colours() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') &&
         terminal != nullptr && std::string_view(terminal) != "dumb";
}

int write_page(const std::string& path, const std::string& page) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(page.data(), static_cast<std::streamsize>(page.size()));
  file.close();
  return file ? 0 : fail(path + ": cannot write the page: " + std::strerror(errno));
}

replay::ReplayReport replay_logs(const Arguments& arguments, const RuleSet& rules) {
  ProgressLine progress(!arguments.quiet && ::isatty(STDERR_FILENO) == 1);
  replay::ReplayOptions options;
  options.logs = arguments.logs;
  options.max_keys = arguments.max_keys;
  options.complain = [&progress](std::string_view text) {
    progress.clear();
    std::cerr << "sluice: " << replay::printable(text) << "\n";
  };
  if (progress.shown()) {
    options.on_progress = [&progress](const replay::Progress& state) { progress.show(state); };
  }
  return replay::replay(rules, options);
}

int report_on(const Arguments& arguments, const replay::ReplayReport& report) {
  int status = report.failed ? kFailed : 0;
  if (report.opened == 0) return status;
  if (arguments.json) {
    std::cout << replay::json_report(report);
    if (report.approximate()) {
      std::cerr << "sluice: results are approximate: more keys than --max-keys; raise it\n";
    }
    return status;
  }
  std::cout << replay::text_report(report, {.colours = stdout_has_colours()});
  if (arguments.html.empty()) return status;
  if (const int written = write_page(arguments.html, replay::html_report(report)); written != 0) {
    return written;
  }
  if (!arguments.quiet)
    std::cout << "\npage written to " << replay::printable(arguments.html) << "\n";
  return status;
}

int work(const Arguments& arguments) {
  if (!arguments.html.empty() && is_an_input(arguments)) {
    return fail("--html " + arguments.html + " is one of the inputs; name another file", kUsage);
  }
  const auto rules = RuleSet::load(arguments.rules);
  if (!rules) {
    for (const RuleError& error : rules.error()) std::cerr << error.to_string() << "\n";
    return kFailed;
  }
  return report_on(arguments, replay_logs(arguments, *rules));
}

}  // namespace

void add_replay(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "replay", "Decides every request of access logs (Common or Combined Log Format) by rules");
  command->footer(kHelp);
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("--rules", arguments->rules, "The rules, a YAML file")->required();
  command->add_option("LOG", arguments->logs, "Access logs, plain or .gz, in order; - is stdin")
      ->required();
  CLI::Option* json = command->add_flag("--json", arguments->json, "Print one JSON object");
  command
      ->add_option("--html", arguments->html,
                   "Also write a page of charts and tables to this file; it needs no network")
      ->excludes(json);
  command
      ->add_option(
          "--max-keys", arguments->max_keys,
          "The most counters kept; past it results are approximate, and the report says so")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 28))
      ->capture_default_str();
  command->add_flag("--quiet", arguments->quiet, "No progress line on the terminal");
  command->callback([arguments, &status] { status = work(*arguments); });
}

}  // namespace sluice::cli
