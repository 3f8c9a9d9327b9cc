#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/log_flags.h"
#include "replay/replay.h"
#include "replay/text.h"
#include "rules/diagnostics.h"

namespace sluice::cli {
namespace {

constexpr const char* kReplayHelp =
    R"(Sluice decides each request at the time in the log. Several logs, as of several servers, are
merged by time. The clock never goes back: an out-of-order line of a log is decided at the latest
time before it. Rules can use the attributes method, path (without the query), query.NAME, ip,
header.user-agent, header.referer and status, and those that the log has besides. Lines that are not
of the log's format are counted and skipped; the first five of each log are printed to stderr. Logs
may have any size. Compressed logs are recognized by their content. NO_COLOR turns off colours.

Formats: the Common and Combined Log Format, Envoy's default text format, JSON lines (nginx with
escape=json, Envoy, Caddy, recorded traffic) and CSV with a header line. Each log has one format,
which its first lines show. Of JSON and CSV logs, the usual names of fields are known. --field
NAME=SOURCE names others: NAME is an attribute, time, cost (the units for all limits) or
costs.LIMIT (the units for one limit); SOURCE is a column, or the path of a JSON field. The source
remote_user is the third field of a Common or Combined log, the user.

JSON: lines = parsed + skipped + without_rules; wrong_costs of the skipped lines have a cost that is
no whole number. late counts lines that are earlier than one before them in their log.
parsed = allowed + denied + invalid. invalid counts requests that a server refuses
with 400, such as for a cost that is no number; no limit counts them. without_rules counts recorded
requests that name their limits themselves, or have one of Envoy's files: they are not replayed.
Unmatched requests are allowed, and so are the would_deny requests that a shadow rule would deny.
units has the costs (cost) of the requests that are not invalid; denied_units and would_deny_units are
those of the requests that are denied or that a shadow rule would deny. They are absent if requests
have 1 unit each, whatever the costs of single limits (costs.LIMIT). The units of a limit are what
requests asked of this limit, and denied_units what it denied.
Within a rule, matched = allowed + denied, and invalid ones count as allowed; for a shadow rule (mode:
shadow), denied counts the requests that it would have denied. The denied of a limit counts the
requests that this limit denied, blocked those of them whose key was blocked (block); several limits
may deny one request. Of budgets in a row (overflow), the first has the denials. keys is the
number of distinct counters of the limit.
denied_by_hour and would_deny_by_hour have the requests of the 24 hours of the day, UTC.
top_denied has the most denied keys, and the most frequent agents, requests and statuses of their
denied requests; more_denied is the number of the other denied keys. A rule with action: deny has
keys_denied, top_denied and more_denied itself, by {ip}.
With --against, against has the counts of these rules, and denied_only_by_rules and
denied_only_by_against have the requests that only one of them denies.
warnings says which logs are cut off, out of order or mostly skipped, and names the rules and limits that
applied to no request, the limits of concurrency, which are skipped, the limits whose cost the log
lacks, the attributes of keys that no request has, and limits without cost next to a limit with one.

Exit status: 0 success; 1 the rules are wrong, or have warnings with --strict (nothing is replayed
then), or a log could not be opened or read to its end
(the report then covers what was read), or it has no line that could be read or no field that
--field names, or over 5 % of a log are more than 10 s out of order, or the logs have no request; 2 wrong
usage.

Examples:
  sluice replay --rules rules.yaml access.log
  sluice replay --rules rules.yaml server1/access.log* server2/access.log*
  sluice replay --rules rules.yaml --html report.html access.log.gz
  sluice replay --rules rules.yaml --against new-rules.yaml access.log
  sluice replay --rules rules.yaml --field header.x-user=user.id requests.jsonl
  sluice replay --rules rules.yaml --field costs.tokens=ContextTokens calls.csv.gz
  zstd -dc access.log.zst | sluice replay --rules rules.yaml --json - | jq .denied)";

struct ReplayFlags {
  std::string rules;
  std::string against;
  std::string overrides;
  LogFlags input;
  bool strict = false;
  bool json = false;
  std::string html;
  std::size_t max_keys = replay::ReplayOptions{}.max_keys;
};

bool stdout_has_colours() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') &&
         terminal != nullptr && std::string_view(terminal) != "dumb";
}

int report_on(const ReplayFlags& arguments, const replay::ReplayReport& report) {
  const int status = report.failed || report.disordered ? kFailed : 0;
  if (report.failed && report.parsed() == 0) return status;
  if (report.parsed() + report.without_rules == 0) {
    throw unreadable("the logs have no request; there is nothing to decide");
  }
  if (!report.fault.empty()) throw unreadable(report.fault);
  if (arguments.json) {
    std::cout << replay::json_report(report);
    if (report.approximate()) {
      std::cerr << "sluice: results are approximate; raise --max\n";
    }
    return status;
  }
  std::cout << replay::text_report(report, stdout_has_colours(), report_columns());
  if (arguments.html.empty()) return status;
  write_page(arguments.html, replay::html_report(report));
  if (!arguments.input.quiet)
    std::cout << "\nwrote the page " << replay::printable(arguments.html) << "\n";
  return status;
}

// Whether the rules have nothing but limits with permits, which a replay skips.
bool has_only_permits(const RuleSet& rules) {
  const auto only = [](const Rule& rule) {
    return rule.action == RuleAction::kLimit &&
           std::all_of(rule.limits.begin(), rule.limits.end(), [](const RuleLimit& limit) {
             return holds_permits(limit.limit.algorithm());
           });
  };
  return std::all_of(rules.rules().begin(), rules.rules().end(), only);
}

// Prints the warnings about the rules, or their errors. Returns nothing if they have errors, or
// warnings that count as errors.
std::optional<RuleSet> load_rules(const std::string& path, bool is_strict) {
  auto rules = RuleSet::load(path);
  if (rules && has_only_permits(*rules)) {
    rules = RuleSet::load(path, {.no_permits = "which a replay does not hold: a log does not say "
                                               "when a request ends"});
  }
  print_errors(rules ? rules->warnings() : rules.error());
  if (!rules) return {};
  if (is_strict && !rules->warnings().empty()) return {};
  return *rules;
}

// Refuses the cost of a limit that no rule has.
void check_costs(const std::vector<replay::FieldMapping>& fields, const RuleSet& rules,
                 const RuleSet* against) {
  constexpr std::string_view kCosts = "costs.";
  std::set<std::string_view> limits;
  for (const RuleSet* const each : {&rules, against}) {
    for (const Rule& rule : each == nullptr ? std::span<const Rule>() : each->rules()) {
      for (const RuleLimit& limit : rule.limits) limits.insert(limit.name);
    }
  }
  const std::vector<std::string_view> names(limits.begin(), limits.end());
  for (const replay::FieldMapping& field : fields) {
    if (!field.name.starts_with(kCosts)) continue;
    const std::string limit = field.name.substr(kCosts.size());
    if (limits.contains(limit)) continue;
    throw wrong_argument(field.option() + ": no rule has a limit '" + limit +
                         "'; expected one of: " + rules::either(names) +
                         rules::did_you_mean(limit, names));
  }
}

int work(const ReplayFlags& arguments) {
  std::vector<std::string> inputs = arguments.input.logs;
  inputs.insert(inputs.end(), {arguments.rules, arguments.against, arguments.overrides});
  check_page(arguments.html, inputs);
  const auto rules = load_rules(arguments.rules, arguments.strict);
  std::optional<RuleSet> against;
  if (!arguments.against.empty()) against = load_rules(arguments.against, arguments.strict);
  if (!rules || (!arguments.against.empty() && !against)) return kFailed;
  Overrides overrides;
  if (!arguments.overrides.empty()) {
    const auto read = read_overrides(arguments.overrides, overrides);
    if (!read) throw unreadable(read.error());
    if (!*read) throw unreadable(arguments.overrides + ": there is no such file");
  }
  ProgressLine progress;
  replay::ReplayOptions options;
  options.max_keys = arguments.max_keys;
  options.overrides = &overrides;
  options.rules_name = arguments.rules;
  options.against_name = arguments.against;
  if (against) options.against = &*against;
  arguments.input.set(options, progress);
  check_costs(options.fields, *rules, options.against);
  check_fields(options.fields, {&*rules, options.against});
  const replay::ReplayReport report = replay::replay(*rules, options);
  progress.clear();
  return report_on(arguments, report);
}

}  // namespace

void add_replay(Command app) {
  const Command command =
      app.add_subcommand("replay", "Apply rules to the requests of access logs", kReplayHelp);
  const auto arguments = std::make_shared<ReplayFlags>();
  command.add_option("--rules", arguments->rules, "The rules file").required();
  command.add_option("--against", arguments->against,
                     "Another rules file: report who is denied by one and not by the other");
  command.add_option("--overrides", arguments->overrides,
                     "The file of overrides of a server (overrides.txt)");
  command.add_flag("--strict", arguments->strict, "Warnings about the rules count as errors");
  arguments->input.add_to(command);
  Option json = command.add_flag("--json", arguments->json, "Print one JSON object");
  command
      .add_option("--html", arguments->html,
                  "Also write a page with charts and tables to this file")
      .excludes(json);
  command
      .add_option("--max", arguments->max_keys,
                  "The maximum number of counters; beyond it the results are approximate")
      .range(std::size_t{1}, std::size_t{1} << 28)
      .show_default();
  command.run({}, [arguments] { return work(*arguments); });
}

}  // namespace sluice::cli
