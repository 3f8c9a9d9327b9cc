// `sluice status`: what a server limits, denies and skips, and what is wrong with it, on one
// screen. Its parts are also the head of `sluice top`.

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/civil_time.h"
#include "base/quoted.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/rule_differences.h"
#include "cli/top_command.h"
#include "replay/text.h"

namespace sluice::cli {
namespace {

using boost::json::object;

// Takes the value of the next label from a text such as `rule="a\"b",outcome=...`. Returns false if
// there is none.
bool take_label(std::string_view& text, std::string_view& name, std::string& value) {
  const std::size_t equals = text.find("=\"");
  if (equals == text.npos) return false;
  name = text.substr(0, equals);
  value.clear();
  std::size_t i = equals + 2;
  for (; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      value += text[i] == 'n' ? '\n' : text[i];
    } else {
      value += text[i];
    }
  }
  if (i >= text.size()) return false;
  text.remove_prefix(i + 1);
  if (text.starts_with(',')) text.remove_prefix(1);
  return true;
}

// Whether the store could not decide (docs/reference/http.md, reasons).
bool is_failure(std::string_view reason) {
  return reason.starts_with("store_") || reason == "fallback" || reason == "foreign_value";
}

// Reads `rule="a",outcome="allowed"} 5`. Returns the number, and nothing for another text.
std::optional<std::uint64_t> read_series(std::string_view text,
                                         std::map<std::string_view, std::string>& labels) {
  std::string value;
  std::string_view name;
  while (!text.starts_with('}') && take_label(text, name, value)) labels[name] = value;
  if (text.size() < 2) return std::nullopt;
  return static_cast<std::uint64_t>(std::strtod(std::string(text.substr(2)).c_str(), nullptr));
}

const object& object_in(const object& json, std::string_view name) {
  static const object none;
  const auto* const value = json.if_contains(name);
  return value != nullptr && value->is_object() ? value->as_object() : none;
}

// "since 2026-11-26T23:10:04Z (3 min 12 s): WHY"
std::string since_and_why(const object& what, Instant now) {
  std::string text = "since " + text_in(what, "since");
  const auto since = base::parse_rfc3339(text_in(what, "since"));
  if (since && now > *since) text += " (" + replay::rough_duration_text(now - *since) + ")";
  return text + ": " + text_in(what, "why");
}

// "everything passes: api, search; local limits: login", of an outage, or of a full or slow store.
std::string meanwhile(const object& outage) {
  constexpr std::size_t kShown = 10;
  std::string text;
  for (const auto& [does, words] : {std::pair("allow", "everything passes"),
                                    {"local", "local limits"},
                                    {"deny", "everything is denied"}}) {
    std::string names;
    std::size_t count = 0;
    each_object(outage, "rules", [&](const object& rule) {
      if (text_in(rule, "does") != does || ++count > kShown) return;
      names.append(names.empty() ? ": " : ", ").append(text_in(rule, "name"));
    });
    if (count == 0) continue;
    text.append(text.empty() ? "" : "; ").append(words).append(names);
    if (count > kShown) text += " and " + std::to_string(count - kShown) + " more";
  }
  return text;
}

std::string decided_without(std::uint64_t count) {
  return replay::plural(count, "request") + (count == 1 ? " was" : " were") +
         " decided without the store";
}

// Adds the errors of rules, except for the one that a line says already.
void add_refused(const object& rules, std::string_view what, const std::string& said,
                 std::vector<std::string>& lines) {
  each_object(rules, "last_errors", [&](const object& error) {
    if (!said.empty() && text_in(error, "what") == said) return;
    std::string line = std::string(what) + text_in(error, "file");
    if (const auto at = number_in(error, "line"); at > 0) line += ":" + std::to_string(at);
    lines.push_back(line + ": " + text_in(error, "what") + "; the rules before stay active");
  });
}

// Adds which overrides are lost, as far as the server names them.
void add_lost(const object& gone, std::vector<std::string>& lines) {
  const auto* const counters = gone.if_contains("counters");
  if (counters == nullptr || !counters->is_array() || counters->as_array().empty()) return;
  std::string line;
  for (const boost::json::value& one : counters->as_array()) {
    if (!one.is_string()) continue;
    line.append(line.empty() ? "  they are: " : ", ").append(std::string_view(one.as_string()));
  }
  const std::uint64_t named = counters->as_array().size();
  const std::uint64_t all = number_in(gone, "count");
  if (all > named) line += " and " + std::to_string(all - named) + " more";
  lines.push_back(std::move(line));
  lines.emplace_back(
      "  blocks by 'block' of a limit are lost, too, and no server knows them: import an earlier "
      "export");
}

// The metrics count a request that several rules allow for the first of them, and what a shadow
// rule would have denied among the denials of its limits. A rule has what its limit says that was
// asked, or would have denied, most.
void add_of_limits(CountsByLimit& counts) {
  for (auto& [name, of] : counts) {
    if (name.second.empty()) continue;
    of.denied -= std::min(of.denied, of.shadow);
    RequestCounts& rule = counts[{name.first, ""}];
    rule.shadow = std::max(rule.shadow, of.shadow);
    rule.requests = std::max(rule.requests, of.requests);
    rule.failed = std::max(rule.failed, of.failed);
  }
}

}  // namespace

void print_full_store(AdminClient& client, std::ostream& out) {
  const object status = client.ask_json("GET", "/v1/status");
  const auto* const full = status.if_contains("full");
  if (full == nullptr) return;
  for (const std::string& line : trouble_of({{"full", *full}}, SystemClock::instance().now())) {
    out << replay::printable(line) << '\n';
  }
}

CountsByLimit read_counts(std::string_view metrics) {
  CountsByLimit counts;
  while (!metrics.empty()) {
    const std::string_view line = base::take_until(metrics, '\n');
    const std::size_t brace = std::min(line.find('{'), line.size());
    const std::string_view name = line.substr(0, brace);
    const bool counts_decisions =
        name == "sluice_requests_total" || name == "sluice_decisions_total";
    const bool counts_shadow = name == "sluice_shadow_denials_total";
    if (!counts_decisions && !counts_shadow && name != "sluice_limits_skipped_total") continue;
    if (brace == line.size()) continue;
    std::map<std::string_view, std::string> labels;
    const auto number = read_series(line.substr(brace + 1), labels);
    if (!number) continue;
    RequestCounts& of = counts[{labels["rule"], labels["limit"]}];
    if (!counts_decisions) {
      (counts_shadow ? of.shadow : of.skipped) += *number;
      continue;
    }
    of.requests += *number;
    if (labels["outcome"] != "allowed") of.denied += *number;
    if (is_failure(labels["reason"])) of.failed += *number;
  }
  add_of_limits(counts);
  return counts;
}

std::vector<std::string> trouble_of(const object& status, Instant now) {
  std::vector<std::string> lines;
  if (const object& outage = object_in(status, "outage"); !outage.empty()) {
    lines.push_back("OUTAGE " + since_and_why(outage, now));
    std::string what = meanwhile(outage);
    if (!what.empty()) what = "  meanwhile " + what;
    if (const std::uint64_t count = number_in(outage, "decided_without"); count > 0) {
      what.append(what.empty() ? "  " : "; ").append(decided_without(count));
    }
    if (!what.empty()) lines.push_back(what);
  }
  const auto add = [&](std::string_view name, const std::string& title, const char* whom = "") {
    const object& state = object_in(status, name);
    if (state.empty()) return;
    lines.push_back(title + since_and_why(state, now));
    const std::string what = meanwhile(state);
    if (!what.empty()) lines.push_back("  meanwhile, for " + std::string(whom) + ", " + what);
  };
  add("full", "STORE FULL ", "keys without a counter (new clients)");
  add("slow", "STORE SLOW ", "requests that it does not answer in time");
  const object& lost = object_in(status, "rules_lost");
  if (is_true(lost, "from_cache")) {
    lines.push_back("RULES FROM CACHE " + since_and_why(lost, now));
  } else if (!lost.empty()) {
    lines.push_back("RULES LOST " + since_and_why(lost, now) + "; the last rules stay active");
  }
  add("rules_older", "RULES WENT BACK ");
  add("gateway_not_trusted", "GATEWAY NOT TRUSTED ");
  if (is_true(status, "overrides_unknown")) {
    lines.emplace_back("OVERRIDES UNKNOWN: Redis could not be read since the start of the server");
  }
  if (const object& gone = object_in(status, "overrides_lost"); !gone.empty()) {
    lines.push_back("OVERRIDES LOST (" + std::to_string(number_in(gone, "count")) + ") " +
                    since_and_why(gone, now));
    add_lost(gone, lines);
  }
  add_refused(object_in(status, "rules"), "RULES REFUSED: ", text_in(lost, "why"), lines);
  add_refused(object_in(status, "envoy"), "ENVOY'S FILES REFUSED: ", {}, lines);
  if (is_true(status, "draining")) {
    lines.emplace_back("DRAINING: the server ends");
  } else if (status.contains("ready") && !is_true(status, "ready") && lines.empty()) {
    lines.emplace_back("NOT READY: /readyz says why");
  }
  each_object(status, "listeners", [&](const object& one) {
    const std::uint64_t count = number_in(one, "connections"), most = number_in(one, "max");
    if (most == 0 || count * 5 <= most * 4) return;
    lines.push_back("CONNECTIONS NEAR THE MAXIMUM: " + text_in(one, "name") + " " +
                    replay::grouped(count) + " of " + replay::grouped(most) +
                    " (bounds.connections); further ones are refused");
  });
  for (std::string& line : lines) line = replay::printable(line);
  return lines;
}

std::string server_line(const object& status) {
  const object& store = object_in(status, "store");
  std::string text = "sluice " + text_in(status, "version") + ", up " +
                     replay::rough_duration_text(std::chrono::seconds(
                         static_cast<std::int64_t>(number_in(status, "uptime_s")))) +
                     ", store " + text_in(store, "kind");
  if (store.contains("connections")) {
    text += " with " + replay::plural(number_in(store, "connections"), "connection");
  }
  const object& rules = object_in(status, "rules");
  if (rules.contains("version"))
    text += ", rules version " + std::to_string(number_in(rules, "version"));
  std::string clients;
  each_object(status, "listeners", [&](const object& listener) {
    clients.append(clients.empty() ? "; clients: " : ", ").append(text_in(listener, "name"));
    clients.append(" ").append(replay::grouped(number_in(listener, "connections")));
  });
  return replay::printable(text + clients);
}

namespace {

constexpr const char* kStatusHelp =
    R"(Show a running server on one screen: its version, store, rules and listeners; for each rule and
limit what it is in words, and since the start of the server how many requests asked it, how many it
denied, how many the store failed to decide (the rule's `on_store_error` answered), how many it would
have denied in shadow mode, and how many skipped it because an attribute was missing.

What is wrong comes first: a store that fails, is full or is slow, since when, and what each rule does
meanwhile; rules that were lost or refused; a gateway that is missing in trusted_proxies; overrides
that Redis lost within the last hour; a server that drains or is not ready; a listener with over 80 %
of its connections. Overrides, and at most 10,000 blocks that the store keeps, are counted. Of several
servers, the last line says whether their rules are the same, and names changes of one server: one
without an end needs attention, too.

Exit status: 0 nothing is wrong; 1 something is wrong, or the server does not answer; 2 wrong usage.

Examples:
  sluice status
  sluice status --admin unix:/run/sluice/admin.sock
  sluice status --admin 10.0.0.1:6070 --admin 10.0.0.2:6070
  sluice status --json | jq '.limits[] | select(.denied > 0)')";

using Row = std::vector<std::string>;

Row row_of(const std::string& name, const std::string& what, const RequestCounts& counts) {
  constexpr std::size_t kWidest = 44;
  return {replay::printable(name, kWidest),
          replay::printable(what, kWidest),
          replay::grouped(counts.requests),
          replay::grouped(counts.denied),
          counts.requests > 0 ? replay::percent(counts.denied, counts.requests) : "-",
          replay::grouped(counts.failed),
          replay::grouped(counts.shadow),
          replay::grouped(counts.skipped)};
}

std::vector<Row> rows_of(const object& status, const CountsByLimit& counts) {
  const auto counts_at = [&](const std::string& rule, const std::string& limit) {
    const auto found = counts.find({rule, limit});
    return found == counts.end() ? RequestCounts() : found->second;
  };
  std::vector<Row> rows = {
      {"RULE AND LIMITS", "LIMIT", "ASKED", "DENIED", "SHARE", "FAILED", "SHADOW", "SKIPPED"}};
  each_object(status, "limits", [&](const object& rule) {
    const std::string name = text_in(rule, "rule");
    const std::string action = text_in(rule, "action");
    const std::string policy = text_in(rule, "on_store_error");
    const std::string what = !action.empty()           ? "action: " + action
                             : is_true(rule, "shadow") ? "shadow mode"
                             : policy.empty()          ? ""
                                                       : "on_store_error: " + policy;
    rows.push_back(row_of(name, what, counts_at(name, "")));
    each_object(rule, "limits", [&](const object& limit) {
      const std::string of = text_in(limit, "name");
      rows.push_back(row_of("  " + of, text_in(limit, "numbers"), counts_at(name, of)));
    });
  });
  if (const RequestCounts none = counts_at("", ""); none.requests > 0) {
    rows.push_back(row_of("(no rule)", "", none));
  }
  return rows;
}

// Prints which rules are active, since when and by whom.
void print_rules(const object& rules) {
  std::string sources;
  if (const auto* const all = rules.if_contains("sources"); all != nullptr && all->is_array()) {
    constexpr std::size_t kShown = 5;
    const auto& names = all->as_array();
    for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) {
      sources.append(sources.empty() ? " of " : ", ").append(names[i].as_string());
    }
    if (names.size() > kShown) sources += " and " + std::to_string(names.size() - kShown) + " more";
  }
  // A change for a time is on top of what was pushed.
  const std::string by = text_in(rules, "by"), source = text_in(rules, "source");
  std::cout << replay::printable("rules" + sources + ", " +
                                 replay::plural(number_in(rules, "rules"), "rule") + " and " +
                                 replay::plural(number_in(rules, "limits"), "limit") +
                                 ", changed " + text_in(rules, "loaded_at") + " by " + by +
                                 (by.find(source) == by.npos ? "; source: " + source : ""))
            << '\n';
  if (const std::uint64_t warnings = number_in(rules, "warnings"); warnings > 0) {
    std::string first;
    each_object(rules, "first_warnings", [&](const object& one) {
      if (!first.empty()) return;
      first = ": " + text_in(one, "file") + ":" + std::to_string(number_in(one, "line")) + ": " +
              text_in(one, "what");
    });
    std::cout << replay::printable(replay::plural(warnings, "warning") + " about the rules" +
                                   (warnings > 1 && !first.empty() ? ", the first" : "") + first)
              << (warnings > 1 ? "; the log has all\n" : "\n");
  }
}

void print_status(const object& status, const CountsByLimit& counts) {
  std::cout << server_line(status) << '\n';
  const object& rules = object_in(status, "rules");
  print_rules(rules);
  if (const std::string warning = text_in(object_in(status, "store"), "warning");
      !warning.empty()) {
    std::cout << replay::printable("warning about the store: " + warning) << '\n';
  }
  if (rules.contains("differences")) {
    std::cout << replay::printable(
                     "the active rules differ from those that were read; latest change by " +
                     text_in(rules, "differ_by") + ":")
              << '\n';
    for (const auto& one : differences_in(rules)) std::cout << "  " << text_of(one) << '\n';
  }
  std::string listeners;
  each_object(status, "listeners", [&](const object& one) {
    listeners.append(listeners.empty() ? "listens: " : ", ").append(text_in(one, "name"));
    listeners.append(" ").append(text_in(one, "address"));
  });
  std::cout << replay::printable(listeners) << '\n';
  const object& past = object_in(status, "last_outage");
  // An outage soon after another one goes on with it.
  if (!past.empty() && text_in(past, "from") != text_in(object_in(status, "outage"), "since")) {
    std::cout << replay::printable(
                     "last outage: " + text_in(past, "from") + " to " + text_in(past, "to") + " (" +
                     std::to_string(number_in(past, "seconds")) + " s): " + text_in(past, "why") +
                     "; " + decided_without(number_in(past, "decided_without")))
              << '\n';
  }
  std::cout << temporary_text(temporary_in(status));
  std::string changed;
  for (const auto& [name, one] : {std::pair("overrides", "override"), {"blocks", "block"}}) {
    const std::uint64_t count = number_in(status, name);
    if (count == 0) continue;
    changed.append(changed.empty() ? "" : ", ").append(replay::plural(count, one));
  }
  if (!changed.empty()) std::cout << "keys: " << changed << " (sluice key list)\n";
  std::cout << '\n';
  std::cout << replay::table_text(rows_of(status, counts), 2);
}

// Adds the counts to the rules and limits of the status.
void add_counts(object& status, const CountsByLimit& counts) {
  const auto add = [&](object& to, const std::string& rule, const std::string& limit) {
    const auto found = counts.find({rule, limit});
    const RequestCounts of = found == counts.end() ? RequestCounts() : found->second;
    to["asked"] = of.requests;
    to["denied"] = of.denied;
    to["failed"] = of.failed;
    to["would_deny"] = of.shadow;
    to["skipped"] = of.skipped;
  };
  auto* const rules = status.if_contains("limits");
  if (rules == nullptr) return;
  for (auto& each : rules->as_array()) {
    object& rule = each.as_object();
    const std::string name = text_in(rule, "rule");
    add(rule, name, "");
    for (auto& limit : rule.at("limits").as_array()) {
      add(limit.as_object(), name, text_in(limit.as_object(), "name"));
    }
  }
}

// "10.0.0.1:6070: login (mode shadow)", of the changes of one server that have an effect. Returns
// an empty text if there are none.
std::string own_changes(const std::string& address,
                        const std::vector<server::TemporaryChange>& changes) {
  std::string text;
  for (const server::TemporaryChange& one : changes) {
    if (!one.has_effect) continue;
    text.append(text.empty() ? address + ": " : ", ").append(one.place() + " (" + one.name() + " ");
    text.append(one.value).append(one.until ? " until " + base::to_rfc3339(*one.until) : "") += ')';
  }
  return replay::printable(text);
}

// Appends the texts of the rules to `rules`, and what the server has of its own to `own`. With
// them, a change of its own without an end is a failure. Both may be null.
int show_status(const AdminFlags& flags, bool json,
                std::vector<std::vector<server::RulesText>>* rules, std::string* own) {
  AdminClient client(flags);
  object status = client.ask_json("GET", "/v1/status?limits=true");
  // A store without blocks, or one that fails, has none to show.
  const auto blocks = json_of(client.ask("GET", "/v1/blocks?count=10000"));
  if (blocks && blocks->contains("blocks")) {
    status["blocks"] = blocks->at("blocks").as_array().size();
  }
  const CountsByLimit counts = read_counts(client.ask("GET", "/metrics").body);
  const auto trouble = trouble_of(status, SystemClock::instance().now());
  if (json) {
    add_counts(status, counts);
    status["admin"] = client.address();
    std::cout << status << '\n';
  } else {
    for (const std::string& line : trouble) std::cout << line << '\n';
    print_status(status, counts);
  }
  if (rules == nullptr) return trouble.empty() ? 0 : kFailed;
  rules->push_back(texts_of(client, number_in(object_in(status, "rules"), "version")));
  const auto changes = temporary_in(status);
  const std::string text = own_changes(client.address(), changes);
  if (!text.empty()) own->append(own->empty() ? "" : "; ").append(text);
  const bool lasts = std::ranges::any_of(
      changes, [](const server::TemporaryChange& one) { return one.has_effect && !one.until; });
  return trouble.empty() && !lasts ? 0 : kFailed;
}

}  // namespace

void add_status(Command app) {
  const Command command = app.add_subcommand(
      "status", "Show what a server limits, and what is wrong with it", kStatusHelp);
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print one JSON object for each server");
  auto servers = std::make_shared<std::vector<std::string>>();
  auto flags = add_admin_flags(command, false, servers.get());
  command.run("status", [flags, servers, json] {
    const bool compares = servers->size() > 1 && !*json;
    std::vector<std::vector<server::RulesText>> rules;
    std::string own;
    const int shown = ask_servers(
        *flags, *servers, "status",
        [&](const AdminFlags& one) {
          const int of_one = show_status(one, *json, compares ? &rules : nullptr, &own);
          if (compares) std::cout << '\n';
          return of_one;
        },
        *json);
    if (rules.size() < 2) return shown;
    const bool are_same = std::ranges::all_of(
        rules, [&](const auto& one) { return compare_texts(rules.front(), one).empty(); });
    std::cout << (are_same ? "all servers that answered have the same rules"
                           : "the servers have different rules (sluice rules show --admin ADDR)");
    if (!own.empty()) std::cout << (are_same ? ", except " : "; on top of them ") << own;
    std::cout << '\n';
    return shown;
  });
}

}  // namespace sluice::cli
