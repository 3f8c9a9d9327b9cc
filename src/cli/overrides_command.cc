#include <boost/json.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/admin_client.h"
#include "cli/commands.h"
#include "cli/limit_place.h"
#include "cli/override_pages.h"
#include "cli/overrides_transfer.h"
#include "core/quoted.h"
#include "replay/text.h"
#include "server/api/admin/json_writer.h"

namespace sluice::cli {
namespace {

constexpr const char* kSetOverrideHelp =
    R"(Give one key of one limit different numbers, a plan, a block, or no limit (docs/overrides.md). The
attributes are all those that the key of the limit reads, and no others. A slash in the name of a
rule is written as %2F. An override of the same key is replaced.

Exit status: 0 set; 1 it could not be set; 2 wrong usage.

Examples:
  sluice overrides set api/requests header.x-customer=42 --limit 100 --per 1m
  sluice overrides set api/requests header.x-customer=42 --plan pro --until 2026-12-01T00:00:00Z
  sluice overrides set login/ip ip=192.0.2.1 --blocked)";

constexpr const char* kUnsetHelp =
    R"(The counter is as `sluice overrides list` prints it; it may be of a rule or a limit that is no
longer there.

Exit status: 0 removed; 1 there is none, or it could not be removed; 2 wrong usage.

Examples:
  sluice overrides unset api/requests header.x-customer=42
  sluice overrides unset --counter 'default|api|requests|header.x-customer=42')";

constexpr const char* kListHelp =
    R"(RULE may be a rule that is no longer there, if it has overrides.

Exit status: 0 printed; 1 they could not be read, or there is no such rule; 2 wrong usage.

Example:
  sluice overrides list api)";

using Result = Expected<int, Failed>;

// "/v1/overrides/RULE/LIMIT"
Expected<std::string, Failed> path_of(const LimitPlace& place) {
  const auto names = names_of(place);
  if (!names) return Unexpected{names.error()};
  return "/v1/overrides/" + names->rule + "/" + names->limit;
}

// "COUNTER: limit 100 per 1m, until 2026-12-01T00:00:00.000000Z"
std::string line_of(const boost::json::object& one) {
  std::string line;
  for (const auto& [name, value] : one) {
    const std::string text =
        value.is_string() ? std::string(value.as_string()) : boost::json::serialize(value);
    if (name == "counter") {
      line = text + ":";
      continue;
    }
    line.append(line.ends_with(':') ? " " : ", ").append(name);
    if (!value.is_bool()) line.append(" ").append(text);
  }
  if (line.ends_with(':')) line.pop_back();
  return replay::printable(line);
}

// Sends the request, and prints the override in its answer.
Result ask(const AdminFlags& flags, std::string_view method, const std::string& target,
           std::string body, std::string_view done) {
  const auto client = connect_to(flags);
  if (!client) return Unexpected{client.error()};
  const auto answer = (*client)->ask(method, target, std::move(body));
  if (!answer) return Unexpected{Failed{answer.error()}};
  if (answer->status != 200) return Unexpected{Failed{(*client)->refusal(*answer)}};
  const auto json = answer->json();
  if (!json) return Unexpected{Failed{(*client)->strange()}};
  std::cout << done << line_of(*json) << '\n';
  return 0;
}

struct SetFlags {
  std::shared_ptr<AdminFlags> admin;
  LimitPlace place;
  std::optional<std::uint64_t> limit, burst;
  std::string per, plan, until;
  bool blocked = false;
  bool unlimited = false;

  int kinds() const {
    return (limit ? 1 : 0) + (plan.empty() ? 0 : 1) + (blocked ? 1 : 0) + (unlimited ? 1 : 0);
  }
};

std::string body_of(const SetFlags& flags, const std::vector<PlaceAttribute>& attributes) {
  server::JsonWriter json;
  json.begin_object().key("attributes").begin_object();
  for (const PlaceAttribute& one : attributes) json.member(one.name, one.value);
  json.end_object();
  if (flags.limit) json.member("limit", *flags.limit);
  if (!flags.per.empty()) json.member("per", flags.per);
  if (flags.burst) json.member("burst", *flags.burst);
  if (!flags.plan.empty()) json.member("plan", flags.plan);
  if (flags.blocked) json.member("blocked", true);
  if (flags.unlimited) json.member("unlimited", true);
  if (!flags.until.empty()) json.member("until", flags.until);
  return std::string(json.end_object().view());
}

Result set(const SetFlags& flags) {
  if (flags.kinds() != 1) {
    return Unexpected{
        Failed{"expected exactly one of --limit, --plan, --blocked and --unlimited", kUsage}};
  }
  const auto path = path_of(flags.place);
  if (!path) return Unexpected{path.error()};
  const auto attributes = attributes_of(flags.place);
  if (!attributes) return Unexpected{attributes.error()};
  for (const PlaceAttribute& one : *attributes) {
    if (server::as_utf8(one.value) == one.value) continue;
    return Unexpected{Failed{"the attribute " + core::in_quotes(one.name) +
                                 " is not UTF-8; expected an import of its counter, with %XX for "
                                 "the bytes that are not",
                             kUsage}};
  }
  return ask(*flags.admin, "PUT", *path, body_of(flags, *attributes), "");
}

Result unset(const AdminFlags& flags, const LimitPlace& place, const std::string& counter) {
  if (counter.empty() == place.limit.empty() || (!counter.empty() && !place.attributes.empty())) {
    return Unexpected{Failed{"expected either LIMIT and attributes, or --counter", kUsage}};
  }
  if (!counter.empty()) {
    return ask(flags, "DELETE", "/v1/overrides?counter=" + url_encoded(counter), {}, "removed ");
  }
  const auto path = path_of(place);
  if (!path) return Unexpected{path.error()};
  const auto attributes = attributes_of(place);
  if (!attributes) return Unexpected{attributes.error()};
  const std::string target = attributes->empty() ? *path : *path + "?" + query_of(*attributes);
  return ask(flags, "DELETE", target, {}, "removed ");
}

Result list_overrides(const AdminFlags& flags, const std::string& rule) {
  const auto client = connect_to(flags);
  if (!client) return Unexpected{client.error()};
  const auto count = for_each_override(
      **client, rule, [](const boost::json::object& one) { std::cout << line_of(one) << '\n'; });
  if (!count) return Unexpected{count.error()};
  return 0;
}

void add_set(Command overrides, int& status) {
  const Command command = overrides.add_subcommand("set", "Set the override of a key");
  auto flags = std::make_shared<SetFlags>();
  add_place(command, flags->place).required();
  constexpr std::uint64_t kMostUnits = UINT32_MAX;
  command.add_option("--limit", flags->limit, "Units per period")
      .type_name("UNITS")
      .range(std::uint64_t{0}, kMostUnits);
  command
      .add_option("--per", flags->per,
                  "The period, the lease, or a unit of the calendar: day, week, month or year "
                  "[that of the limit]")
      .type_name("PERIOD");
  command.add_option("--burst", flags->burst, "The burst [the algorithm's default]")
      .type_name("UNITS")
      .range(std::uint64_t{0}, kMostUnits);
  command.add_option("--plan", flags->plan, "The numbers of this plan").type_name("NAME");
  command.add_flag("--blocked", flags->blocked, "Deny every request");
  command.add_flag("--unlimited", flags->unlimited, "Do not apply the limit");
  command.add_option("--until", flags->until, "When the override ends (RFC 3339) [never]")
      .type_name("INSTANT");
  flags->admin = add_admin_flags(command);
  command.footer(kSetOverrideHelp);
  command.callback([flags, &status] { status = finish_overrides("set", set(*flags)); });
}

void add_unset(Command overrides, int& status) {
  const Command command = overrides.add_subcommand("unset", "Remove the override of a key");
  auto place = std::make_shared<LimitPlace>();
  auto counter = std::make_shared<std::string>();
  add_place(command, *place);
  command.add_option("--counter", *counter, "The counter, instead of LIMIT and ATTRIBUTE")
      .type_name("COUNTER");
  auto flags = add_admin_flags(command);
  command.footer(kUnsetHelp);
  command.callback([flags, place, counter, &status] {
    status = finish_overrides("unset", unset(*flags, *place, *counter));
  });
}

void add_list(Command overrides, int& status) {
  const Command command = overrides.add_subcommand("list", "Print one line per override");
  auto rule = std::make_shared<std::string>();
  command.add_option("RULE", *rule, "Only those of this rule");
  auto flags = add_admin_flags(command);
  command.footer(kListHelp);
  command.callback(
      [flags, rule, &status] { status = finish_overrides("list", list_overrides(*flags, *rule)); });
}

}  // namespace

void add_overrides(Command app, int& status) {
  const Command command = app.add_subcommand(
      "overrides", "Set, list, import and export overrides of single keys in a server");
  command.require_subcommand();
  add_set(command, status);
  add_unset(command, status);
  add_list(command, status);
  add_overrides_import(command, status);
  add_overrides_export(command, status);
}

}  // namespace sluice::cli
