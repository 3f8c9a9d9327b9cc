// `sluice rules set`: changes numbers and modes of a running server.

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/rule_differences.h"
#include "core/period.h"
#include "replay/text.h"
#include "rules/diagnostics.h"
#include "server/rules/rules_manager.h"

namespace sluice::cli {
namespace {

constexpr const char* kChangeHelp =
    R"(Change numbers of a limit, or the mode of a rule, in a running server, at once; print what
changed and the new version. Counters stay. The rules files stay as they are, and win at the next
reload: change them too. With rules in Redis all servers follow.

With --for, rules and plans change on that server only, and the change ends by itself; --for 0s
after RULE or plans/PLAN ends all such changes of it now, and if there are none, those that a server
made without --for while Redis was gone. mode and on_store_error change even while Redis is gone, one
server at a time: repeat --admin.

--admin says which server, else SLUICE_ADMIN, else the configuration (--config).

PLACE is RULE/LIMIT for limit, per, burst and lease (or RULE if it has one limit), RULE for mode and
on_store_error, plans/PLAN/LIMIT for the numbers of a plan and for its own prices, as prices.MODEL.NAME, and
prices/MODEL for the prices of a model by their names. A limit without a name is RULE/INDEX, such as api/0; a slash within a name is written as %2F.
A rule whose name is `plans` or `prices` is written %70lans or %70rices.

Exit status: 0 changed, or the rules say so already; 1 refused, a server does not answer, or none
has a change for --for 0s to end; 2 wrong usage.

Examples:
  sluice rules set api/requests limit=20 burst=40 --dry-run
  sluice rules set api/requests limit=20 burst=40
  sluice rules set api mode=shadow
  sluice rules set login/ip limit=5 --for 1h
  sluice rules set login on_store_error=deny --for 1h --admin 10.0.0.1:6070 --admin 10.0.0.2:6070
  sluice rules set plans/free/requests limit=100 per=1m --admin 127.0.0.1:6070
  sluice rules set plans/partner/spend prices.gpt-large.input=3
  sluice rules set prices/gpt-large input=4 output=20)";

struct ChangeFlags {
  std::shared_ptr<AdminFlags> admin;
  std::string place;
  std::vector<std::string> servers;  // addresses; none: the one of `admin`
  std::vector<std::string> values;
  std::string by, expect, length;
  bool dry_run = false;
};

// What `rules set` changes: "/v1/rules/api", and the limit, if it names one.
struct ChangePlace {
  std::string target;
  std::string rule;  // encoded; empty: it is none
  std::string limit;
  bool has_prices = false;
};

constexpr std::string_view kPlans = "plans/";

// `is_whole`: the place has no limit, because all changes of it end.
ChangePlace changed_place(const std::string& text, bool is_whole) {
  constexpr std::string_view kPrices = "prices/";
  if (text.starts_with(kPrices) && text.size() > kPrices.size()) {
    return {"/v1/prices/" + encoded_once(std::string_view(text).substr(kPrices.size())), "", "",
            true};
  }
  const bool is_plan = text.starts_with(kPlans) && text.size() > kPlans.size() &&
                       (is_whole || text.find('/', kPlans.size()) != text.npos);
  const std::string rest = is_plan ? text.substr(kPlans.size()) : text;
  const std::size_t slash = rest.find('/');
  const std::string name = rest.substr(0, slash);
  std::string limit = slash == rest.npos ? "" : rest.substr(slash + 1);
  if (name.empty() || (slash != rest.npos && limit.empty())) {
    throw wrong_usage(base::in_quotes(text) +
                      " names no rule; expected RULE, RULE/LIMIT such as api/requests, "
                      "plans/PLAN/LIMIT, or prices/MODEL");
  }
  const auto with_slashes = [](std::string part) {
    for (std::size_t at = 0; (at = part.find("%2F", at)) != part.npos;) part.replace(at, 3, "/");
    return part;
  };
  if (is_whole && !limit.empty()) {
    const std::string whole = (is_plan ? std::string(kPlans) : "") + name;
    throw wrong_usage(
        "--for 0s ends all temporary changes of a rule or a plan, not of one limit; "
        "expected sluice rules set " +
        whole + " --for 0s");
  }
  limit = with_slashes(limit);
  return {(is_plan ? "/v1/plans/" : "/v1/rules/") + encoded_once(name),
          is_plan ? "" : encoded_once(name), limit};
}

// "input=4 output=20" as the body of a PATCH.
std::string price_body(const ChangeFlags& flags) {
  if (!flags.length.empty()) {
    throw wrong_usage("--for does not apply to prices; expected it with a rule or a plan");
  }
  if (flags.dry_run) {
    throw wrong_usage("--dry-run does not apply to prices; expected it with a rule or a plan");
  }
  boost::json::object prices;
  for (const std::string& text : flags.values) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string value = text.substr(std::min(equals + 1, text.size()));
    if (equals == 0 || !base::is_digits(value) || value.size() > 18) {
      throw wrong_usage(base::in_quotes(text) +
                        " is no price; expected NAME=NUMBER, such as input=4");
    }
    if (!prices.emplace(text.substr(0, equals), std::stoull(value)).second) {
      throw wrong_usage(base::in_quotes(text.substr(0, equals)) +
                        " is given twice; expected it once");
    }
  }
  if (prices.empty()) {
    throw wrong_usage("nothing is changed; expected NAME=NUMBER after " + flags.place);
  }
  return boost::json::serialize(prices);
}

constexpr std::string_view kPricesOf = "prices.";

// Whether it is "prices.MODEL.NAME". A model may have dots.
bool is_price_of_plan(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return name.starts_with(kPricesOf) && dot > kPricesOf.size() && dot + 1 < name.size();
}

void add_plan_price(boost::json::object& members, const std::string& name,
                    const std::string& value) {
  if (!base::is_digits(value) || value.size() > 18) {
    throw wrong_usage(base::in_quotes(name + "=" + value) +
                      " is no price; expected a whole number, such as " + name + "=4");
  }
  const std::size_t dot = name.rfind('.');
  const std::string model = name.substr(kPricesOf.size(), dot - kPricesOf.size());
  const auto object_in = [](boost::json::object& map, std::string_view key) -> auto& {
    boost::json::value& found = map[key];
    if (!found.is_object()) found = boost::json::object();
    return found.get_object();
  };
  auto& prices = object_in(object_in(members, "prices"), model);
  if (!prices.emplace(name.substr(dot + 1), std::stoull(value)).second) {
    throw wrong_usage(base::in_quotes(name) + " is given twice; expected it once");
  }
}

constexpr std::array<std::string_view, 4> kLimitNames{"limit", "per", "burst", "lease"};

// Whether the server is to say which limit is meant: the only one of a rule, or the one with an
// index, which may be a name too.
bool lacks_limit(const ChangeFlags& flags, const ChangePlace& place) {
  if (place.rule.empty()) return false;
  if (!place.limit.empty()) return base::is_digits(place.limit);
  return std::ranges::any_of(flags.values, [](const std::string& text) {
    const std::string_view name = std::string_view(text).substr(0, text.find('='));
    return std::ranges::find(kLimitNames, name) != kLimitNames.end();
  });
}

// Returns the members of the values as the body of a PATCH.
std::string change_body(const ChangeFlags& flags, const ChangePlace& place) {
  if (place.has_prices) return price_body(flags);
  static constexpr std::array<std::string_view, 2> kOfRule{"mode", "on_store_error"};
  const auto length = core::parse_period(flags.length);
  if (!flags.length.empty() && !length) throw wrong_usage("--for: " + length.error());
  if (flags.values.empty() && (flags.length.empty() || *length > Duration{0})) {
    throw wrong_usage("nothing is changed; expected NAME=VALUE after " + flags.place +
                      ", or --for 0s to end temporary changes");
  }
  boost::json::object members;
  for (const std::string& text : flags.values) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals);
    const std::string value = equals == text.size() ? "" : text.substr(equals + 1);
    const bool is_price = is_price_of_plan(name);
    const bool is_of_limit =
        is_price || std::find(kLimitNames.begin(), kLimitNames.end(), name) != kLimitNames.end();
    const bool is_of_rule = std::find(kOfRule.begin(), kOfRule.end(), name) != kOfRule.end();
    if (value.empty() || (!is_of_limit && !is_of_rule)) {
      const std::vector<std::string_view> names{
          "limit", "per", "burst", "lease", "mode", "on_store_error", "prices.MODEL.NAME"};
      throw wrong_usage(
          base::in_quotes(text) + " is no change; expected NAME=VALUE, where NAME is " +
          rules::either(names) + (value.empty() ? "" : rules::did_you_mean(name, names)));
    }
    if (is_of_limit == place.limit.empty()) {
      throw wrong_usage("'" + name + "' belongs to a " + (is_of_limit ? "limit" : "rule") +
                        "; expected " + (is_of_limit ? "RULE/LIMIT" : "RULE") + " before it");
    }
    if (is_price) {
      add_plan_price(members, name, value);
      continue;
    }
    if (members.contains(name))
      throw wrong_usage("'" + name + "' is given twice; expected it once");
    const bool is_number = name == "limit" || name == "burst";
    if (is_number && (!base::is_digits(value) || value.size() > 18)) {
      throw wrong_usage(base::in_quotes(text) +
                        "; expected a whole number from 0 to 9007199254740991");
    }
    members[name] = is_number ? boost::json::value(std::stoull(value)) : boost::json::value(value);
  }
  if (!place.limit.empty()) {
    boost::json::object limits{{place.limit, std::move(members)}};
    members = {{"limits", std::move(limits)}};
  }
  if (!flags.length.empty()) members["for"] = flags.length;
  if (flags.dry_run) members["dry_run"] = true;
  return boost::json::serialize(members);
}

// Prints what would change, and the warnings that it would cause.
void print_tried(const boost::json::object& answer) {
  const auto differences = differences_in(answer);
  print_text(differences);
  if (differences.empty()) print_same();
  print_warnings(answer);
}

// Whether the rule or the plan has changes for a time. `--for 0s` would end them, too. A failure is
// for the change that follows to report.
bool has_temporary(AdminClient& client, const ChangePlace& place) {
  const auto status = json_of(client.ask("GET", "/v1/status"));
  if (!status) return false;
  return std::ranges::any_of(temporary_in(*status), [&](const server::TemporaryChange& one) {
    if (!one.until) return false;
    if (!place.rule.empty()) return place.rule == url_encoded(one.rule);
    return one.rule.starts_with(kPlans) &&
           place.target == "/v1/plans/" + url_encoded(one.rule.substr(kPlans.size()));
  });
}

// Returns the rule or the plan of a place, as it is given.
std::string whole_of(const std::string& place) {
  std::size_t slash = place.starts_with(kPlans) ? place.find('/', kPlans.size()) : place.npos;
  if (slash == place.npos) slash = place.find('/');
  return place.substr(0, slash);
}

// Says how to undo a change of this server, unless a value that it had cannot be set. `ends_more`:
// that ends earlier changes for a time, too.
void print_undo(const ChangeFlags& flags, const AdminFlags& server,
                const boost::json::object& answer, bool ends_more) {
  const auto differences = differences_in(answer);
  const bool is_temporary = !flags.length.empty();
  if (flags.values.empty() || (differences.empty() && !is_temporary)) return;
  const std::string whole = whole_of(flags.place);
  std::string undo = shell_word(is_temporary ? whole : flags.place);
  if (is_temporary) undo += " --for 0s";
  bool has_value = is_temporary;
  for (const std::string& text : flags.values) {
    const std::string name = text.substr(0, text.find('='));
    const auto found = std::ranges::find_if(differences, [&](const rules::RuleDifference& one) {
      return one.key == name ||
             (one.key.find('.') != one.key.npos && one.key.ends_with("." + name));
    });
    if (is_temporary || found == differences.end()) continue;
    if (found->before.empty()) return;
    undo += " " + shell_word(name + "=" + found->before);
    has_value = true;
  }
  if (!has_value) return;
  undo += options_of(server);
  std::cerr << "undo"
            << (ends_more ? " (ends all changes for a time of " + replay::printable(whole) + ")"
                          : "")
            << ": sluice rules set " << replay::printable(undo) << '\n';
}

// Asks for the change again while the server reads rules that were pushed a moment before, as by
// the same command on another server. It has changed nothing then, and looks at Redis each second.
boost::json::object change(AdminClient& client, const std::string& target, const std::string& body,
                           const std::string& expect, std::chrono::duration<double> most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (true) {
    const AdminClient::Answer answer = client.ask("PATCH", target, body, expect);
    auto json = json_of(answer);
    if (answer.status == 200 && json) return *std::move(json);
    if (answer.status == 200) throw Failed(client.strange());
    const std::string refusal = client.refusal(answer);
    const bool is_late = expect.empty() && refusal.starts_with("other rules were pushed");
    if (!is_late || std::chrono::steady_clock::now() > end) {
      throw Failed(refusal, kFailed, refusal.ends_with("of 'temporary' in GET /v1/status"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
}

int change_servers(const ChangeFlags& flags) {
  const ChangePlace given =
      changed_place(flags.place, flags.values.empty() && !flags.length.empty());
  ChangePlace place = given;
  const bool lacks = lacks_limit(flags, place);
  std::string body = lacks && place.limit.empty() ? std::string() : change_body(flags, place);
  return ask_servers(*flags.admin, flags.servers, "rules set", [&](const AdminFlags& one) {
    AdminClient client(one);
    if (lacks) {
      const std::string limit = given.limit.empty() ? "" : "&limit=" + given.limit;
      place.limit = only_limit(client, "rule=" + given.rule + limit, flags.place);
      body = change_body(flags, place);
    }
    const bool is_for_a_time = !flags.length.empty() && !flags.values.empty();
    const bool ends_more = is_for_a_time && !flags.dry_run && has_temporary(client, place);
    const auto answer = change(client, place.target + "?" + by_query(flags.by), body, flags.expect,
                               std::chrono::duration<double>(one.timeout));
    if (flags.dry_run) {
      print_tried(answer);
    } else if (flags.values.empty()) {  // --for 0s
      std::cout << "temporary changes of " << (flags.place.starts_with(kPlans) ? "" : "rule ")
                << replay::printable(flags.place) << " ended: version "
                << number_in(answer, "version") << '\n';
      if (answer.contains("note")) std::cout << text_in(answer, "note") << '\n';
    } else {
      if (!flags.length.empty() && differences_in(answer).empty()) {
        std::cout << "the rules have these values already, and keep them for that time\n";
      }
      print_changed(client, answer);
    }
    if (!flags.dry_run) print_undo(flags, one, answer, ends_more);
    return 0;
  });
}

}  // namespace

// Adds the subcommand set to `rules`: changes numbers of a running server.
void add_rules_set(Command rules) {
  const Command command =
      rules.add_subcommand("set", "Change numbers of a running server", kChangeHelp);
  const auto flags = std::make_shared<ChangeFlags>();
  command.add_option("PLACE", flags->place, "RULE, RULE/LIMIT, plans/PLAN/LIMIT or prices/MODEL")
      .required();
  command
      .add_option("CHANGE", flags->values, "NAME=VALUE, such as limit=20,burst=40 or mode=shadow")
      .comma_separated();
  flags->admin = add_admin_flags(command, false, &flags->servers);
  command.add_option("--for", flags->length,
                     "Change rules or plans for this time, such as 1h; 0s ends the changes",
                     "DURATION");
  command.add_flag("--dry-run", flags->dry_run,
                   "Print what would change, and warnings, without changing it");
  command.add_option("--by", flags->by, "Who asks for it, for the history [USER@HOST]", "NAME")
      .check(server::find_wrong_by);
  command.add_option("--expect", flags->expect, "Change only this version of the server's rules",
                     "VERSION");
  command.run("rules set", [flags] { return change_servers(*flags); });
}

}  // namespace sluice::cli
