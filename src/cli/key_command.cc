// `sluice key`: shows one key of a rule in a running server, resets its counters, blocks it, and
// sets or removes its override; lists, imports and exports overrides.

#include "cli/key_command.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/civil_time.h"
#include "base/ip_address.h"
#include "base/json_writer.h"
#include "base/quoted.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/top_command.h"
#include "core/period.h"
#include "replay/text.h"
#include "rules/attributes.h"
#include "rules/diagnostics.h"

namespace sluice::cli {
namespace {

using base::in_quotes;
using boost::json::object;

constexpr const char* kKeyHelp =
    R"(Show a key of a rule: the numbers of each limit, what remains, when the next request passes, what of
a budget is spent and held, the override of the key, and its block. The attributes are those that the keys of the limits read. An
option changes the key instead (docs/keys.md). An override replaces an earlier one of the key, which
does not come back by itself: stderr says how to set it again.
Overrides and blocks count on all servers of one Redis; other servers need an --admin each.

A change needs RULE/LIMIT if the rule has several limits; --reset, --block and --unblock accept
RULE/* for all. A limit without a name has its index: login/0. A slash in the name of a rule is
written as %2F; a rule that is called like a subcommand needs its limit.

Exit status: 0 shown or done; 1 there is no such rule or limit, every limit lacks an attribute, on no
server was anything to --unset or --unblock, or a server refused or did not answer; 2 wrong usage.

Examples:
  sluice key login ip=192.0.2.1
  sluice key login/address ip=192.0.2.1 --reset
  sluice key login ip=192.0.2.1 --admin 10.0.0.1:6070 --admin 10.0.0.2:6070
  sluice key api/requests header.x-customer=42 --set limit=500,burst=50 --for 1h
  sluice key api/requests header.x-customer=42 --plan pro --until 2027-10-01T00:00:00Z
  sluice key api/requests header.x-customer=42 --block 15m
  sluice key api/requests header.x-customer=42 --unblock
  sluice key --unset --counter 'default|gone|requests|header.x-customer=42')";

constexpr const char* kListHelp =
    R"(Print the overrides, one line each, and then the blocks that have not ended, both by their counters.
RULE may be a rule that is no longer there.

Exit status: 0 printed; 1 they could not be read, or there is no such rule; 2 wrong usage.

Examples:
  sluice key list
  sluice key list api --max 100)";

constexpr const char* kNoEffect = ", without effect on the active rules";

struct KeyFlags {
  AdminFlags admin;
  std::string place;  // RULE or RULE/LIMIT
  std::vector<std::string> attributes;
  std::vector<std::string> numbers;
  std::string plan, length, until, block, counter;
  bool reset = false, unset = false, unlimited = false, unblock = false, json = false;
  bool was_blocked = false;  // --unblock: in one of the servers

  bool gives() const { return !numbers.empty() || !plan.empty() || unlimited; }
  int actions() const {
    return int{reset} + int{unset} + int{unlimited} + int{unblock} + int{!numbers.empty()} +
           int{!plan.empty()} + int{!block.empty()};
  }
};

// The names of a rule and of a limit in RULE or RULE/LIMIT, encoded. The limit is empty if none is
// named.
std::string rule_in(std::string_view place) {
  return encoded_once(place.substr(0, place.find('/')));
}
std::string limit_in(std::string_view place) {
  const std::size_t slash = place.find('/');
  return slash == place.npos ? "" : encoded_once(place.substr(slash + 1));
}

std::string query_of_place(std::string_view place) {
  const std::string limit = limit_in(place);
  return "rule=" + rule_in(place) + (limit.empty() ? "" : "&limit=" + limit);
}

void check_place(std::string_view place) {
  const std::size_t slash = place.find('/');
  if (slash != 0 && slash + 1 != place.size()) return;
  throw wrong_usage(in_quotes(place) +
                    " names no limit; expected RULE or RULE/LIMIT, such as "
                    "api/requests");
}

// The parts of an attribute, NAME=VALUE. The name of a header is in lower case, as rules read it.
std::string name_in(std::string_view attribute) {
  return rules::normalized(attribute.substr(0, attribute.find('=')));
}
std::string_view value_in(std::string_view attribute) {
  return attribute.substr(attribute.find('=') + 1);
}

void check_given(const std::vector<std::string>& attributes) {
  std::set<std::string> names;
  for (const std::string& text : attributes) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || equals == 0) {
      throw wrong_usage(in_quotes(text) + " is not an attribute; expected NAME=VALUE");
    }
    const std::string name = name_in(text);
    if (!names.insert(name).second) {
      throw wrong_usage("the attribute " + in_quotes(name) + " is given twice; expected it once");
    }
    const auto wrong = name == "ip" ? rules::find_address_error(value_in(text)) : std::nullopt;
    if (wrong) throw wrong_usage(*wrong);
  }
}

// Writes the attribute `ip` as gateways and /v1/auth do, and says so. Warns of a text that is no
// address, which they never send.
void use_canonical_address(KeyFlags& flags) {
  for (std::string& text : flags.attributes) {
    if (!text.starts_with("ip=") || text == "ip=") continue;
    const auto address = base::IpAddress::parse(value_in(text));
    if (!address) {
      std::cerr << "warning: " << replay::printable(in_quotes(text))
                << " is not an address: it is the key only of requests to /v1/check with exactly "
                   "this text\n";
      continue;
    }
    std::string canonical = "ip=" + std::string(address->network({}).view());
    if (canonical == text) continue;
    std::cerr << text << " is " << canonical.substr(3)
              << " at a gateway, and is used so (docs/keys.md)\n";
    text = std::move(canonical);
  }
}

// "&attribute.ip=192.0.2.1&attribute.header.x-user=7"
std::string query_of(const KeyFlags& flags) {
  std::string query;
  for (const std::string& one : flags.attributes) {
    query.append("&attribute.").append(url_encoded(name_in(one))).append("=");
    query.append(url_encoded(value_in(one)));
  }
  return query;
}

// A time in milliseconds in words, from 10 s on rounded up to seconds.
std::string wait_in(const object& json, std::string_view name) {
  const auto ms = static_cast<std::int64_t>(number_in(json, name));
  return in_two_units(ms < 10'000 ? ms : (ms + 999) / 1000 * 1000);
}

std::string in_seconds(Instant at) {
  return base::to_rfc3339(std::chrono::ceil<std::chrono::seconds>(at), 0);
}

// An instant in whole seconds.
std::string instant_in(const object& json, std::string_view name) {
  const auto at = base::parse_rfc3339(text_in(json, name));
  return at ? in_seconds(*at) : text_in(json, name);
}

std::optional<Instant> end_of_block(const object& limit) {
  if (!limit.contains("blocked_for_ms")) return std::nullopt;
  const std::chrono::milliseconds left(
      static_cast<std::int64_t>(number_in(limit, "blocked_for_ms")));
  return SystemClock::instance().now() + left;
}

// "limit 100, per 1m, until 2027-10-01T00:00:00Z": what an override says, without its counter.
std::string given_text(const object& given) {
  std::string line;
  bool was_flag = false;
  for (const auto& [name, value] : given) {
    if (name == "counter" || name == "was" || name == "replaced") continue;
    line.append(line.empty() ? "" : was_flag ? " " : ", ").append(name);
    was_flag = value.is_bool();
    if (value.is_string()) {
      line.append(" ").append(name == "until" ? instant_in(given, name) : text_in(given, name));
    }
    if (value.is_number()) line.append(" ").append(boost::json::serialize(value));
  }
  return line;
}

// "COUNTER: limit 100, per 1m"
std::string line_of(const object& one) {
  const std::string given = given_text(one);
  return replay::printable(text_in(one, "counter") + (given.empty() ? "" : ": ") + given);
}

// What a request of the key would meet.
std::string state_text(const object& limit) {
  const auto* const given = limit.if_contains("override");
  const object override = given != nullptr && given->is_object() ? given->as_object() : object();
  if (is_true(override, "blocked")) return given_text(override);
  if (const auto end = end_of_block(limit)) return "blocked until " + in_seconds(*end);
  if (is_true(override, "unlimited")) return given_text(override);
  const std::string whole = std::to_string(number_in(limit, "limit"));
  if (number_in(limit, "remaining") > 0) {
    return std::to_string(number_in(limit, "remaining")) + " of " + whole + " left";
  }
  if (!limit.contains("retry_after_ms")) return "nothing of " + whole + " left";
  return "nothing of " + whole + " left; the next passes in " + wait_in(limit, "retry_after_ms");
}

// "49, and 7512 are held by calls that are not settled": of a budget.
std::string spent_text(const object& limit) {
  const std::uint64_t held = number_in(limit, "held");
  return std::to_string(number_in(limit, "spent")) + ", and " +
         (held == 0 ? "nothing is held"
                    : std::to_string(held) + (held == 1 ? " is" : " are") +
                          " held by calls that are not settled");
}

// "header.x-customer, ip or header.x-user": the attributes that the key of a limit lacks.
std::string missing_in(const object& limit) {
  std::string names;
  for (const auto& one : limit.at("missing").as_array()) {
    names.append(names.empty() ? "" : ", ").append(one.as_string());
  }
  return names;
}

void print_limit(const std::string& rule, const object& limit) {
  std::cout << replay::printable(rules::full_name(rule, text_in(limit, "name")));
  if (limit.contains("missing")) {
    std::cout << ": the key needs " << replay::printable(missing_in(limit)) << '\n';
    return;
  }
  const auto print = [](const char* title, const std::string& text) {
    if (!text.empty()) std::cout << "  " << title << replay::printable(text) << '\n';
  };
  const std::string key = text_in(limit, "key");
  std::cout << (key.empty() ? "" : ", key ") << replay::printable(key) << ": " << state_text(limit)
            << '\n';
  if (limit.contains("spent")) print("spent     ", spent_text(limit));
  print("limit     ", text_in(limit, "numbers") + " (" + text_in(limit, "algorithm") + ")");
  print("plan      ", text_in(limit, "plan"));
  if (number_in(limit, "reset_after_ms") > 0) print("full in   ", wait_in(limit, "reset_after_ms"));
  if (const auto* const given = limit.if_contains("override")) {
    object shown = given->as_object();
    const bool is_vain = shown.erase("effective") > 0;
    print("override  ", given_text(shown) + (is_vain ? kNoEffect : ""));
  }
  if (const auto* const denied = limit.if_contains("denied")) {
    std::string counts;
    for (const char* span : {"minute", "hour", "day"}) {
      counts.append(counts.empty() ? "" : ", ");
      counts += replay::grouped(number_in(denied->as_object(), span)) + " in the last " + span;
    }
    print("denied    ", counts + ", by this server");
  }
  print("counter   ", text_in(limit, "counter"));
  print("tag       ", text_in(limit, "tag"));
}

// Throws Failed too if the answer has no list of limits.
object ask_limits(AdminClient& client, std::string_view method, const std::string& target) {
  object answer = client.ask_json(method, target);
  client.objects_in(answer, "limits");
  return answer;
}

// Prints the limits of an answer by `print`, or the answer.
template <typename Print>
int print_limits(const KeyFlags& flags, const object& answer, const Print& print) {
  if (flags.json) {
    std::cout << answer << '\n';
    return 0;
  }
  const std::string rule = text_in(answer, "rule");
  const auto& limits = answer.at("limits").as_array();
  for (const auto& limit : limits) print(rule, limit.as_object());
  if (limits.empty()) std::cout << replay::printable(rule) << ": the rule has no limits\n";
  return 0;
}

// Says that a rule in shadow mode denies nothing, even if the key is blocked.
void print_mode(const KeyFlags& flags, const object& answer) {
  if (flags.json || !answer.contains("mode")) return;
  std::cout << std::flush;
  std::cerr << "The rule " << replay::printable(text_in(answer, "rule"))
            << " is in shadow mode, so that it denies nothing.\n";
}

std::string keys_of(const KeyFlags& flags) {
  return "/v1/keys?" + query_of_place(flags.place) + query_of(flags);
}

// Throws Failed if every limit lacks an attribute, so that there is no counter.
void check_attributes(const object& answer) {
  std::string lacks;
  for (const auto& one : answer.at("limits").as_array()) {
    const object& limit = one.as_object();
    if (!limit.contains("missing")) return;
    lacks.append(lacks.empty() ? "" : ", ").append("the key of the limit ");
    lacks.append(rules::full_name(text_in(answer, "rule"), text_in(limit, "name")));
    lacks.append(" needs ").append(missing_in(limit));
  }
  if (!lacks.empty()) throw Failed(lacks + "; expected NAME=VALUE");
}

// Shows the counters, or resets them.
int show(const KeyFlags& flags, std::string_view method) {
  const std::string target = keys_of(flags);
  AdminClient client(flags.admin);
  const object answer = ask_limits(client, method, target);
  check_attributes(answer);
  print_full_store(client, flags.json ? std::cerr : std::cout);
  const int status = print_limits(flags, answer, print_limit);
  print_mode(flags, answer);
  return status;
}

// " --set limit=100,per=1m --until 2027-10-01T00:00:00Z": the flags that set the override.
std::string flags_that_set(const object& given) {
  const std::string until = given.contains("until") ? instant_in(given, "until") : "";
  if (is_true(given, "blocked")) return " --block " + (until.empty() ? "forever" : until);
  std::string flags = " --unlimited";
  if (given.contains("plan")) flags = " --plan " + shell_word(text_in(given, "plan"));
  if (given.contains("limit")) {
    flags = " --set limit=" + std::to_string(number_in(given, "limit"));
    if (given.contains("per")) flags += ",per=" + text_in(given, "per");
    if (given.contains("burst")) flags += ",burst=" + std::to_string(number_in(given, "burst"));
  }
  return flags + (until.empty() ? "" : " --until " + until);
}

// Says how to set an override again that was removed, or replaced by another one until `end`, and
// that it does not come back by itself if it would last longer.
void print_undo(const KeyFlags& flags, const std::string& place, const object& before,
                std::optional<Instant> end) {
  const auto earlier_end = base::parse_rfc3339(text_in(before, "until"));
  if (end && (!earlier_end || *end < *earlier_end)) {
    std::cerr << "This replaces an override "
              << (before.contains("until") ? "until " + instant_in(before, "until")
                                           : "without an end")
              << ". When this ends, the rule's numbers count again.\n";
  }
  std::string undo = "sluice key " + shell_word(place);
  for (const std::string& one : flags.attributes) undo += " " + shell_word(one);
  undo += flags_that_set(before) + options_of(flags.admin);
  std::cerr << "undo: " << replay::printable(undo) << '\n';
}

void print_block(const KeyFlags& flags, const object& limit) {
  std::string line = text_in(limit, "counter");
  if (line.empty()) return;
  const auto end = end_of_block(limit);
  line += end                         ? ": blocked until " + in_seconds(*end)
          : is_true(limit, "blocked") ? ": blocked"
                                      : ": not blocked";
  const auto* const replaced = limit.if_contains("replaced");
  if (replaced != nullptr) line += "; this replaced: " + given_text(replaced->as_object());
  std::cout << replay::printable(line) << std::endl;
  if (replaced == nullptr) return;
  std::string place = flags.place;
  if (place.ends_with("/*")) place.replace(place.size() - 1, 1, text_in(limit, "name"));
  print_undo(flags, place, replaced->as_object(), end);
}

int print_blocks(const KeyFlags& flags, const object& answer) {
  return print_limits(flags, answer, [&](const std::string& /*rule*/, const object& limit) {
    print_block(flags, limit);
  });
}

std::string blocks_of(const KeyFlags& flags) {
  return "/v1/blocks?" + query_of_place(flags.place) + query_of(flags);
}

// A failure is for the change that follows to report.
bool is_blocked_or_unknown(const AdminClient::Answer& read) {
  const auto answer = json_of(read);
  if (read.status != 200 || !answer) return true;
  bool is_blocked = false;
  each_object(*answer, "limits",
              [&](const object& limit) { is_blocked = is_blocked || is_true(limit, "blocked"); });
  return is_blocked;
}

// Says so of a limit that has nothing left, or the end of its block would look like a repair.
void print_spent(const std::string& rule, const object& limit) {
  if (!limit.contains("remaining") || number_in(limit, "remaining") > 0) return;
  std::cout << replay::printable(rules::full_name(rule, text_in(limit, "name"))) << ": "
            << state_text(limit) << "; --reset fills it\n";
}

int unblock(KeyFlags& flags) {
  AdminClient client(flags.admin);
  const bool was_blocked = is_blocked_or_unknown(client.ask("GET", blocks_of(flags)));
  const object answer = ask_limits(client, "DELETE", blocks_of(flags));
  print_blocks(flags, answer);
  flags.was_blocked = flags.was_blocked || was_blocked;
  if (!was_blocked || flags.json) return 0;
  return print_limits(flags, ask_limits(client, "GET", keys_of(flags)), print_spent);
}

// The path of the override of a key. A rule with one limit needs no name of it, and a limit without
// a name only its index.
std::string override_path(const KeyFlags& flags, AdminClient& client) {
  std::string limit = limit_in(flags.place);
  if (limit.find_first_not_of("0123456789") == limit.npos) {
    limit = url_encoded(only_limit(client, query_of_place(flags.place), flags.place));
  }
  return "/v1/overrides/" + rule_in(flags.place) + "/" + limit;
}

void write_number(const std::string& text, base::JsonWriter& json) {
  constexpr std::array<std::string_view, 4> kNames = {"limit", "burst", "per", "lease"};
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals);
  const std::string value = text.substr(std::min(equals + 1, text.size()));
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    throw wrong_usage("--set " + in_quotes(text) + "; expected limit=, burst=, per= or lease=" +
                      rules::did_you_mean(name, {kNames.begin(), kNames.end()}));
  }
  if (name == "per" || name == "lease") {
    json.member(name, value);
    return;
  }
  const auto number = base::read_number<std::uint64_t>(value);
  if (!number) {
    throw wrong_usage("--set " + in_quotes(text) +
                      "; expected a whole number from 0 to 9007199254740991");
  }
  json.member(name, *number);
}

std::string body_of(const KeyFlags& flags) {
  base::JsonWriter json;
  json.begin_object().key("attributes").begin_object();
  for (const std::string& one : flags.attributes) {
    if (base::find_invalid_utf8(value_in(one)) != one.npos) {
      throw wrong_usage("the attribute " + in_quotes(name_in(one)) +
                        " is not UTF-8; expected an import of its counter, with %XX for the bytes "
                        "that are not");
    }
    json.member(name_in(one), value_in(one));
  }
  json.end_object();
  for (const std::string& text : flags.numbers) {
    for (const std::string_view one : base::split(text, ',')) {
      write_number(std::string(one), json);
    }
  }
  if (!flags.plan.empty()) json.member("plan", flags.plan);
  if (flags.unlimited) json.member("unlimited", true);
  if (flags.block == "forever") json.member("blocked", true);
  if (!flags.length.empty()) json.member("for", flags.length);
  if (!flags.until.empty()) json.member("until", flags.until);
  return std::string(json.end_object().view());
}

// Names the flags where the error of a server names members of the body.
std::string with_flags(std::string error) {
  constexpr std::string_view kMembers = "'limit', 'blocked' or 'unlimited'";
  const std::size_t at = error.find(kMembers);
  if (at != error.npos) {
    error.replace(at, kMembers.size(), "--set limit=N, --block TIME or --unlimited");
  }
  return error;
}

// Sends a change of an override, and prints it.
int change_override(const KeyFlags& flags, std::string_view method) {
  const bool puts = method == "PUT";
  std::string body = puts ? body_of(flags) : std::string();
  std::string query = query_of(flags);
  if (!query.empty()) query.front() = '?';
  AdminClient client(flags.admin);
  const std::string target = flags.counter.empty()
                                 ? override_path(flags, client) + (puts ? std::string() : query)
                                 : "/v1/overrides?counter=" + url_encoded(flags.counter);
  object answer;
  try {
    answer = client.ask_json(method, target, std::move(body));
  } catch (const Failed& failed) {
    const bool is_done =
        !puts && std::string_view(failed.what()).starts_with("there is no override of ");
    throw Failed(with_flags(failed.what()), kFailed, is_done);
  }
  if (puts && answer.contains("limit") && number_in(answer, "limit") == 0) {
    std::cerr << "warning: the limit 0 denies every request of this key; expected at least 1, or "
                 "--block TIME\n";
  }
  if (flags.json) {
    std::cout << answer << '\n';
  } else {
    const std::string was = flags.gives() ? text_in(answer, "was") : std::string();
    std::cout << (puts ? "" : "removed ") << line_of(answer)
              << replay::printable(was.empty() ? was : "; was " + was) << std::endl;
    if (const auto* const replaced = answer.if_contains("replaced")) {
      print_undo(flags, flags.place, replaced->as_object(),
                 base::parse_rfc3339(text_in(answer, "until")));
    }
    const bool says_what = !puts && flags.counter.empty() && answer.size() > 1;
    if (says_what) print_undo(flags, flags.place, answer, {});
    if (puts || !flags.counter.empty()) return 0;
    // What was used with the override counts on.
    return print_limits(flags, ask_limits(client, "GET", keys_of(flags)), print_spent);
  }
  return 0;
}

int start_block(const KeyFlags& flags) {
  // The path of an override also refuses attributes that the key does not read.
  const bool is_one = limit_in(flags.place) != encoded_once("*");
  if (flags.block == "forever" && is_one) {
    const int status = change_override(flags, "PUT");
    const auto blocks = json_of(AdminClient(flags.admin).ask("GET", blocks_of(flags)));
    if (blocks) print_mode(flags, *blocks);
    return status;
  }
  const bool is_instant = base::parse_rfc3339(flags.block).has_value();
  const std::string length = (is_instant ? "&until=" : "&for=") + url_encoded(flags.block);
  AdminClient client(flags.admin);
  const object answer = ask_limits(client, "PUT", blocks_of(flags) + length);
  const int status = print_blocks(flags, answer);
  print_mode(flags, answer);
  return status;
}

void check(const KeyFlags& flags) {
  if (flags.actions() > 1) {
    throw wrong_usage(
        "expected at most one of --reset, --set, --plan, --unlimited, --unset, --block "
        "and --unblock");
  }
  if (!flags.length.empty() && !flags.until.empty()) {
    throw wrong_usage("expected at most one of --for and --until");
  }
  if ((!flags.length.empty() || !flags.until.empty()) && !flags.gives()) {
    throw wrong_usage(
        "--for and --until say how long an override lasts; expected --set, --plan or "
        "--unlimited with them, or --block TIME");
  }
  const auto length = core::parse_period(flags.block);
  const bool is_time = flags.block.empty() || flags.block == "forever" || length;
  if (!is_time && !base::parse_rfc3339(flags.block)) {
    const std::size_t dash = flags.block.find('-');
    if (dash != flags.block.npos && base::is_digits(flags.block.substr(0, dash))) {
      throw wrong_usage("--block " + in_quotes(flags.block) +
                        " is no instant; expected one such as 2027-10-01T00:00:00Z");
    }
    throw wrong_usage("--block: " + length.error() +
                      ", an instant such as 2027-10-01T00:00:00Z, or forever");
  }
  const bool has_place = !flags.place.empty() || !flags.attributes.empty();
  if (!flags.counter.empty() && (has_place || !flags.unset)) {
    throw wrong_usage("--counter is for --unset, without RULE and attributes");
  }
  if (flags.counter.empty() && flags.place.empty()) {
    throw wrong_usage(
        "a rule is missing; expected RULE or RULE/LIMIT and NAME=VALUE, or one of the "
        "commands list, import, export, dump");
  }
  if (flags.counter.empty()) check_place(flags.place);
}

int work(KeyFlags& flags) {
  if (flags.reset) return show(flags, "DELETE");
  if (flags.gives()) return change_override(flags, "PUT");
  if (flags.unset) return change_override(flags, "DELETE");
  if (!flags.block.empty()) return start_block(flags);
  if (flags.unblock) return unblock(flags);
  return show(flags, "GET");
}

int list(const AdminFlags& flags, const std::string& rule, std::uint64_t most) {
  AdminClient client(flags);
  bool more = false;
  std::vector<std::string> lines;
  std::size_t printed = 0;
  const auto add = [&](const object& one) {
    more = printed + lines.size() == most;
    if (!more) lines.push_back(line_of(one));
    return !more;
  };
  const auto print_sorted = [&] {
    std::ranges::sort(lines);
    for (const std::string& line : lines) std::cout << line << '\n';
    printed += std::exchange(lines, {}).size();
  };
  // A server may have blocks without overrides.
  const AdminClient::Answer first = client.ask("GET", "/v1/overrides?count=1");
  if (first.status == 200 && !json_of(first)) throw Failed(client.strange());
  const bool has_overrides = first.status != 404;
  if (has_overrides) for_each_override(client, rule, add);
  print_sorted();
  const auto add_blocked = [&](const object& one) {
    if (printed + lines.size() == most) return false;
    lines.push_back(replay::printable(text_in(one, "counter")) + ": blocked until " +
                    instant_in(one, "until") + (one.contains("effective") ? kNoEffect : ""));
    return true;
  };
  more = more || for_each_block(client, rule, add_blocked);
  print_sorted();
  if (more) std::cerr << "sluice: key list: there may be more; --max N shows more\n";
  return 0;
}

void add_list(Command key) {
  const Command command = key.add_subcommand(
      "list", "Print the overrides, and the blocks that have not ended", kListHelp);
  auto rule = std::make_shared<std::string>();
  auto most = std::make_shared<std::uint64_t>(1000);
  command.add_option("RULE", *rule, "Only those of this rule");
  command.add_option("--max", *most, "The maximum number of lines [1000]")
      .range(std::uint64_t{1}, std::uint64_t{100'000'000});
  auto flags = add_admin_flags(command);
  command.run("key list", [flags, rule, most] { return list(*flags, *rule, *most); });
}

}  // namespace

void add_key(Command app) {
  const Command command =
      app.add_subcommand("key", "Show, reset, block or override one key in a server", kKeyHelp);
  auto flags = std::make_shared<KeyFlags>();
  command.add_option("RULE", flags->place, "The rule, or RULE/LIMIT");
  command.add_option("ATTRIBUTE", flags->attributes, "The attributes of the key: NAME=VALUE");
  command.add_flag("--reset", flags->reset, "Fill its counters");
  command
      .add_option("--set", flags->numbers,
                  "Set an override with these numbers: limit=N, burst=N, per=PERIOD, lease=PERIOD",
                  "NAME=VALUE,...")
      .take_all();
  command.add_option("--plan", flags->plan, "Set an override with the numbers of this plan",
                     "NAME");
  command.add_flag("--unlimited", flags->unlimited, "Set an override without a limit");
  command.add_option("--for", flags->length,
                     "How long the override lasts, such as 1h [without end]", "PERIOD");
  command.add_option("--until", flags->until, "When the override ends (RFC 3339)", "INSTANT");
  command.add_flag("--unset", flags->unset, "Remove the override");
  command.add_option("--counter", flags->counter,
                     "With --unset: the counter of the override, instead of RULE", "COUNTER");
  command.add_option(
      "--block", flags->block,
      "Deny all its requests for a time such as 15m, until an instant (RFC 3339), or forever",
      "TIME");
  command.add_flag("--unblock", flags->unblock, "End its block, also one after repeated denials");
  command.add_flag("--json", flags->json, "Print the answer of the server as JSON");
  const auto servers = std::make_shared<std::vector<std::string>>();
  const auto admin = add_admin_flags(command, false, servers.get());
  add_list(command);
  add_key_import(command);
  add_key_export(command);
  add_key_dump(command);
  command.run("key", [flags, admin, servers] {
    check(*flags);
    check_given(flags->attributes);
    use_canonical_address(*flags);
    const auto ask = [&](const AdminFlags& one) {
      flags->admin = one;
      return work(*flags);
    };
    const int done = ask_servers(*admin, *servers, "key", ask, flags->json);
    // Of servers with one Redis, the first ends the block for all.
    if (flags->unblock && !flags->was_blocked && done == 0) {
      throw Failed("the key was not blocked; expected one of sluice key list");
    }
    return done;
  });
}

}  // namespace sluice::cli
