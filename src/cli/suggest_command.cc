#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "cli/command.h"
#include "cli/log_flags.h"
#include "core/period.h"
#include "replay/suggest.h"
#include "replay/text.h"
#include "rules/attributes.h"

namespace sluice::cli {
namespace {

constexpr const char* kSuggestHelp =
    R"(Sluice measures the demand of each key at the times in the logs. The first line of the output is
the limit to take: a token bucket with a rate and a burst that are fitted to the log, with room for
half as much again. The clients that it would have denied follow, with their user agents and paths.
Sluice finds routes by itself: logins, an API, requests that write, static files and pages. It
suggests a limit for each that matters. With --match it suggests one limit, for the requests that
match. --exclude leaves requests out, and the rules do not match them.

--yaml prints rules: one in shadow mode, which denies nothing, and the others as comments. `sluice
replay` shows what they would deny. --html also writes a page with curves. --all adds the smallest
limits that deny at most the share --harm of the keys, for all requests: for fixed_window (aligned to
the clock) and sliding_window_counter (one slice) the limit of each period, and with --rate for
token_bucket the burst of a bucket that refills --rate units per period. A key is denied if one of its
requests is. --all --yaml prints all of them as rules.

Logs, formats and --field: see `sluice replay --help`. Files are read up to three times, of more than
4 million requests up to four times; standard input once. A request takes 16 bytes, up to 64 MB, and a
key about 100 bytes with three periods, besides the keys that were active in the last two periods and
those whose bucket is not full.

JSON: lines, parsed, skipped, wrong_costs, without_rules and late are those of `sluice replay --help`.
parsed = requests + unmatched + keyless: requests match and have a key, unmatched ones do not match
--match and --exclude, keyless ones lack the key. keys is the number of distinct keys, and key_bytes
the memory for them. unit is what limits count: requests, or the field of --field cost.
advice has the limits in the order to take them: the rule, its match, the numbers of the limit, and
the requests and keys that it applies to. keys_denied and requests_denied are those that it denies;
requests_denied_at_most has an upper bound instead. busiest_hour and burst_needed are the largest
needs of the keys_measured keys that it admits (of writes, those that look legitimate).
made_for has the needs that the limit is made for: those of `keys` keys. of_keys counts all keys except
for those that look like robots: most requests of a route that writes fail, or the limit of the login
denies them. It counts all if most keys of the log would be denied: these are shared, such as the
addresses of proxies.
burst is at least headroom times this burst_needed, and the rate headroom times this busiest_hour;
headroom is 0 if the limit is what one person needs. note says what is uncertain.
clients has at most ten keys: denied ones, the one that needs_most of the others, and those with a
large share of the requests; more_denied is the number of the other denied keys.
suggestions has the limits of --all. warnings says which logs are cut off, out of order or mostly
skipped, which conditions no request meets, and which attributes of the key no request has.

Exit status: 0 success; 1 a log could not be opened or read to its end (the output then covers what
was read), has over 5 % of its lines more than 10 s out of order, has no line that could be read or no
field that --field names, or no request matches; 2 wrong usage.

Examples:
  sluice suggest access.log.gz
  sluice suggest --key '{header.x-user|ip}' --match path=/api/** --harm 0.5% a.jsonl
  sluice suggest --exclude path=/health --exclude ip=10.0.0.0/8 access.log
  sluice suggest --all --rate 10 access.log
  sluice suggest --yaml access.log > limits.yaml && sluice replay --rules limits.yaml access.log)";

constexpr std::size_t kMostPeriods = 8;

struct SuggestFlags {
  LogFlags input;
  std::string key = "{ip}";
  std::vector<std::string> match, exclude;
  std::string periods = "1s,1m,1h";
  std::string harm = "0.1%";
  std::uint32_t rate = 0;
  bool all = false;
  bool json = false;
  bool yaml = false;
  std::string html;
};

// Returns the share of "0.1%", or nothing.
std::optional<double> share_of(const std::string& text) {
  char* end = nullptr;
  const double percent = std::strtod(text.c_str(), &end);
  const bool is_share = end != text.c_str() && std::string(end) == "%";
  return is_share && percent >= 0 && percent <= 100 ? std::optional(percent / 100) : std::nullopt;
}

// Returns what is wrong with ATTRIBUTE=PATTERN, or an empty text. `option` is its option. An
// attribute that neither requests nor the fields of the log have matches nothing.
std::string fault_of(const std::string& option, const std::string& name, const std::string& pattern,
                     const std::vector<std::string>& fields) {
  constexpr std::array<std::string_view, 5> kNames = {"ip", "path", "method", "host", "status"};
  constexpr std::string_view kNameBytes =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  const std::size_t end = name.find_first_not_of(kNameBytes);
  const std::string operation =
      (end == name.npos ? "" : name.substr(end)) + "=" + (pattern.starts_with('=') ? "=" : "");
  if (end == 0 || operation != "=") {
    const bool is_not = operation == "!=" && option == "--match";
    const std::string instead = is_not              ? "--exclude " + name.substr(0, end) + "="
                                : operation == "~=" ? option + " " + name.substr(0, end) + "=~"
                                                    : option + " " + name.substr(0, end) + "=";
    const std::size_t same = pattern.find_first_not_of('=');
    return "there is no operator " + operation + "; expected ATTRIBUTE=PATTERN; did you mean " +
           instead + (same == pattern.npos ? "" : pattern.substr(same)) + "?";
  }
  const bool is_field = std::any_of(fields.begin(), fields.end(), [&](const std::string& field) {
    return field.starts_with(name + "=");
  });
  if (is_field || rules::is_of_client(name) ||
      std::find(kNames.begin(), kNames.end(), name) != kNames.end()) {
    return "";
  }
  return "there is no attribute " + name +
         "; expected ip, path, method, host, status, header.NAME, query.NAME, cookie.NAME, "
         "body.NAME or a NAME of --field" +
         rules::did_you_mean_attribute(name);
}

// Returns the attributes and patterns of an option.
std::vector<std::pair<std::string, std::string>> conditions_of(
    const std::string& option, const std::vector<std::string>& texts,
    const std::vector<std::string>& fields) {
  std::vector<std::pair<std::string, std::string>> conditions;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    std::string wrong = option;
    wrong.append(" ").append(text).append(": ");
    if (equals == 0 || equals == text.npos) {
      throw wrong_argument(wrong.append("expected ATTRIBUTE=PATTERN"));
    }
    auto& [name, pattern] =
        conditions.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    const std::string fault = fault_of(option, name, pattern, fields);
    if (!fault.empty()) throw wrong_argument(wrong.append(fault));
  }
  return conditions;
}

// Sets the requests that count.
void set_requests(const SuggestFlags& arguments, replay::SuggestOptions& options) {
  options.key = arguments.key;
  options.rate = arguments.rate;
  options.match = conditions_of("--match", arguments.match, arguments.input.fields);
  options.exclude = conditions_of("--exclude", arguments.exclude, arguments.input.fields);
  for (const std::string_view one : base::split(arguments.periods, ',')) {
    const std::string text(one);
    const auto period = core::parse_period(text);
    if (!period) throw wrong_argument("--per " + text + ": " + period.error());
    if (*period < std::chrono::milliseconds{1} || *period > std::chrono::days{31}) {
      throw wrong_argument("--per " + text + ": expected 1ms to 31d");
    }
    auto& periods = options.periods;
    if (std::find(periods.begin(), periods.end(), *period) == periods.end()) {
      periods.push_back(*period);
    }
  }
  if (options.periods.size() > kMostPeriods) {
    throw wrong_argument("--per: expected at most " + std::to_string(kMostPeriods) + " periods");
  }
}

// Prints a warning, once.
void warn(const std::string& text, std::set<std::string>& warned) {
  if (!warned.insert(text).second) return;
  std::cerr << "sluice: warning: " << replay::printable(text) << '\n';
}

// Refuses a key or a condition that is wrong in rules, and names its option.
void refuse_wrong(const replay::SuggestOptions& options) {
  const auto refuse = [](const std::string& option, const replay::SuggestOptions& one) {
    const auto rules = RuleSet::parse(replay::suggested_rules(one, {}), option);
    if (rules) return;
    const RuleError& error = rules.error().front();
    throw wrong_argument(option + ": " + error.what + "; " + error.expected);
  };
  replay::SuggestOptions key;
  key.key = options.key;
  refuse("--key " + options.key, key);
  for (const auto* const conditions : {&options.match, &options.exclude}) {
    const std::string option = conditions == &options.match ? "--match " : "--exclude ";
    for (const auto& condition : *conditions) {
      replay::SuggestOptions one;
      one.match = {condition};
      refuse(option + condition.first + "=" + condition.second, one);
    }
  }
}

// Warns about options that change only the table of all algorithms if it is not shown.
void warn_of_all(const SuggestFlags& arguments, std::set<std::string>& warned) {
  if (arguments.all || arguments.json || !arguments.html.empty()) return;
  if (arguments.periods != SuggestFlags{}.periods) {
    warn("--per changes nothing without --all, --json or --html", warned);
  }
  if (arguments.rate > 0) warn("--rate changes nothing without --all, --json or --html", warned);
}

int print_report(const SuggestFlags& arguments, const replay::SuggestReport& report, double harm) {
  const int status = report.failed || report.disordered ? kFailed : 0;
  if (report.failed && report.parsed() == 0) return status;
  if (report.parsed() == 0)
    throw unreadable("the logs have no request; there is nothing to suggest");
  if (!report.fault.empty()) throw unreadable(report.fault);
  if (report.requests == 0 && report.unmatched > 0) {
    throw unreadable("none of " + replay::plural(report.unmatched, "request") +
                     " matches --match and --exclude");
  }
  if (report.requests == 0) {
    throw unreadable("none of " + replay::plural(report.keyless, "request") + " has the key " +
                     arguments.key +
                     (report.key_source.empty() ? "; expected" : report.key_source + ", or") +
                     " --key all, which counts all requests together");
  }
  if (arguments.json) {
    std::cout << replay::suggest_json(report, harm);
  } else if (arguments.yaml) {
    for (const std::string& each : report.problems) {
      std::cout << "# " << replay::printable(each) << '\n';
    }
    std::cout << (arguments.all
                      ? replay::suggested_rules(report.options, replay::suggestions(report, harm))
                      : replay::advised_rules(report, replay::advise(report, harm)));
  } else {
    std::cout << replay::suggest_text(report, harm, arguments.all, report_columns());
  }
  if (!arguments.html.empty()) write_page(arguments.html, replay::suggest_html(report, harm));
  return status;
}

int suggest_limits(const SuggestFlags& arguments) {
  check_page(arguments.html, arguments.input.logs);
  const std::optional<double> harm = share_of(arguments.harm);
  if (!harm) throw wrong_argument("--harm " + arguments.harm + ": expected 0% to 100%, such as 1%");
  ProgressLine progress;
  replay::SuggestOptions options;
  options.harm = *harm;
  options.counts_suggestions =
      arguments.json || !arguments.html.empty() || (arguments.all && !arguments.yaml);
  set_requests(arguments, options);
  arguments.input.set(options, progress);
  for (const replay::FieldMapping& field : options.fields) {
    if (!field.name.starts_with("costs.")) continue;
    throw wrong_argument(field.option() +
                         ": there are no limits yet; expected --field cost=" + field.source);
  }
  const auto rules = RuleSet::parse(replay::suggested_rules(options, {}), "the options");
  if (!rules) {
    refuse_wrong(options);
    throw wrong_argument(rules.error().front().what);
  }
  check_fields(options.fields, {&*rules});
  std::set<std::string> warned;
  for (const RuleError& each : rules->warnings()) warn(each.what + "; " + each.expected, warned);
  warn_of_all(arguments, warned);
  const replay::SuggestReport report = replay::suggest(*rules, options);
  progress.clear();
  for (const std::string& each : report.unmet) warn(each, warned);
  return print_report(arguments, report, *harm);
}

}  // namespace

void add_suggest(Command app) {
  const Command command = app.add_subcommand(
      "suggest",
      "Suggest limits for the traffic in access logs, and name the clients that they deny",
      kSuggestHelp);
  const auto arguments = std::make_shared<SuggestFlags>();
  arguments->input.add_to(command);
  command.add_option("--key", arguments->key, "The key of a counter, as in rules").show_default();
  command
      .add_option("--match", arguments->match,
                  "ATTRIBUTE=PATTERN: count only these requests, as in rules; repeatable")
      .take_all();
  command
      .add_option("--exclude", arguments->exclude,
                  "ATTRIBUTE=PATTERN: do not count these requests; repeatable")
      .take_all();
  command.add_option("--per", arguments->periods, "The periods of limits, separated by commas")
      .show_default();
  command.add_option("--harm", arguments->harm, "The share of keys that a limit may deny")
      .show_default();
  command
      .add_option("--rate", arguments->rate,
                  "Units that token buckets refill per period, for those of --all")
      .range(1u, replay::Demand::kMostRate);
  command.add_flag("--all", arguments->all, "Also the smallest limits of all algorithms");
  Option json = command.add_flag("--json", arguments->json, "Print one JSON object");
  command
      .add_flag("--yaml", arguments->yaml, "Print the limits as rules, one of them in shadow mode")
      .excludes(json);
  command.add_option("--html", arguments->html, "Also write a page with the curves to this file");
  command.run({}, [arguments] { return suggest_limits(*arguments); });
}

}  // namespace sluice::cli
