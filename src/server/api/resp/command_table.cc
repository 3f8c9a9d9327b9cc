#include <array>
#include <string>

#include "base/quoted.h"
#include "core/limit.h"
#include "server/api/resp/command.h"
#include "server/api/resp/command_handler.h"

namespace sluice::server::resp {
namespace {

constexpr std::string_view kLimits = "limits";
constexpr std::string_view kConnection = "connection";
constexpr std::string_view kServer = "server";

std::string heading(std::string_view name, const Command& command) {
  std::string out = "`" + base::upper_case(name);
  if (!command.synopsis.empty()) out.append(" ").append(command.synopsis);
  return out + "`";
}

std::string role_of(Role role) {
  return role == Role::kNobody ? "none" : "`" + std::string(to_string(role)) + "`";
}

}  // namespace

std::string reference(const Command& command) {
  std::string page = "### " + base::upper_case(command.name) + "\n\n";
  if (command.handle != nullptr) {
    page.append(heading(command.name, command)).append("\n\n");
  }
  page.append(command.summary).append(" Role: ").append(role_of(command.role)).append(".\n");
  if (!command.parts.empty()) page.append("\n");
  for (const Command& part : command.parts) {
    const std::string name = std::string(command.name) + " " + std::string(part.name);
    page.append("- ").append(heading(name, part)).append(": ").append(part.summary).append("\n");
  }
  return page;
}

std::string commands_reference() {
  std::string page;
  for (const std::string_view group : {kLimits, kConnection, kServer}) {
    page.append(page.empty() ? "## " : "\n## ");
    page.append(base::upper_case(group.substr(0, 1))).append(group.substr(1)).append("\n");
    for (const Command& command : all_commands()) {
      if (command.group == group) page.append("\n").append(reference(command));
    }
  }
  return page;
}

// The table of commands: arity, role, syntax and summary of each.
namespace {

constexpr std::string_view kCosts = "[COST units]";
constexpr std::string_view kRuleCosts = "[COST units] [COST limit=units]...";

// The syntax of the attributes that select rules, and of options.
constexpr auto rule_syntax(std::string_view options) {
  base::FixedText<512> text;
  return text.append("rule [attribute value]... ").append(options);
}
constexpr auto kRuleSyntax = rule_syntax(kRuleCosts);
constexpr std::string_view kRuleAddress = kRuleSyntax.view();
constexpr auto kCountByRule = rule_syntax("[COST units] [COST limit=units]... [ID id]");

// The syntax of a limit, with the options of the table.
constexpr auto limit_syntax(std::string_view options) {
  base::FixedText<640> text;
  text.append("key algorithm limit period");
  for (const core::OptionInfo& option : core::kLimitOptions) {
    text.append(" [").append_upper(option.name).append(" ").append(option.unit);
    if (option.is_time) text.append("period");
    for (const std::string_view word : option.words) {
      text.append(word == option.words.front() ? "" : "|").append(word);
    }
    text.append("]");
  }
  text.append(" [ZONE name] [STARTS day]");
  return text.append(" ").append(options);
}
constexpr auto kLimitSyntax = limit_syntax(kCosts);
constexpr std::string_view kLimitAddress = kLimitSyntax.view();
constexpr auto kCountByLimit = limit_syntax("[COST units] [ID id]");

// The syntaxes of the verbs with options of their own.
constexpr auto kTakeByRule = rule_syntax("ATMOST units [ATMOST limit=units]...");
constexpr auto kTakeByLimit = limit_syntax("ATMOST units");
constexpr auto kReserveByRule = rule_syntax("[COST units] [COST limit=units]... MAXWAIT period");
constexpr auto kReserveByLimit = limit_syntax("[COST units] MAXWAIT period");
constexpr auto kSettleByRule =
    rule_syntax("[COST units] [COST limit=units]... ACTUAL units [ACTUAL limit=units]... [ID id]");
constexpr auto kSettleByLimit = limit_syntax("[COST units] ACTUAL units [ID id]");
constexpr auto kHoldByRule = rule_syntax("[COST units] [COST limit=units]... TTL period [ID id]");
constexpr auto kHoldByLimit = limit_syntax("[COST units] TTL period [ID id]");
constexpr auto kCancelByRule = rule_syntax("ID id");
constexpr auto kCancelByLimit = limit_syntax("ID id");

constexpr auto kReportAddress = rule_syntax("status code [COST units] [COST limit=units]...");

constexpr Command connection(std::string_view name, std::size_t least, std::size_t most,
                             std::string_view synopsis, std::string_view summary, Run* handle,
                             Role role = Role::kCheck) {
  return {name, least, most, role, synopsis, summary, kConnection, handle};
}

constexpr Command server(std::string_view name, std::size_t least, std::size_t most,
                         std::string_view synopsis, std::string_view summary, Run* handle) {
  return {name, least, most, Role::kCheck, synopsis, summary, kServer, handle};
}

// A command that decides or changes counters. `traits` has its other members.
constexpr Command limits(std::string_view name, std::size_t least, std::size_t most,
                         std::string_view synopsis, std::string_view summary, Run* handle,
                         const Command& traits) {
  Command made{name, least, most, traits.role, synopsis, summary, kLimits, handle};
  made.parts = traits.parts;
  made.has_key = traits.has_key;
  made.writes = traits.writes;
  made.verb = traits.verb;
  return made;
}

template <std::size_t N>
constexpr std::array<Command, N> parts(std::array<Command, N> all) {
  for (Command& one : all) one.is_part = true;
  return all;
}

constexpr Command with_parts(Command made, std::span<const Command> parts) {
  made.parts = parts;
  return made;
}

// The two forms of a command: for a rule and for a limit in the arguments, each with its summary.
constexpr std::array<Command, 2> forms(const Command& traits, std::string_view check,
                                       std::string_view limit,
                                       std::string_view rule_address = kRuleAddress,
                                       std::string_view limit_address = kLimitAddress) {
  return parts<2>({{limits("check", 3, 0, rule_address, check, commands::check, traits),
                    limits("limit", 6, 0, limit_address, limit, commands::limit, traits)}});
}

// The traits of a command that operators call and that changes counters.
constexpr Command change(CounterVerb verb) {
  return {.role = Role::kOperate, .writes = true, .verb = verb};
}
constexpr Command kChange = change({});

constexpr auto kPeek = forms(
    {.verb = {.verb = Verb::kPeek, .may_have_id = true}}, "Returns what RL.CHECK would reply.",
    "Returns what RL.LIMIT would reply.", kCountByRule.view(), kCountByLimit.view());
constexpr auto kRefund = forms(change({Verb::kRefund}), "Refunds units that RL.CHECK took.",
                               "Refunds units that RL.LIMIT took.");
constexpr auto kReset =
    forms(change({Verb::kReset}), "Deletes the counters that RL.CHECK would use.",
          "Deletes the counter that RL.LIMIT would use.");
constexpr auto kCharge =
    forms(change({.verb = Verb::kCharge, .may_have_id = true}), "Charges the limits of rules.",
          "Charges a limit in the arguments.", kCountByRule.view(), kCountByLimit.view());
constexpr auto kTake = forms(
    {.writes = true, .verb = {Verb::kTakeAtMost}}, "Takes what the limits of rules have left.",
    "Takes what a limit in the arguments has left.", kTakeByRule.view(), kTakeByLimit.view());
constexpr auto kReserve = forms(change({Verb::kReserve}), "Reserves units of the limits of rules.",
                                "Reserves units of a limit in the arguments.",
                                kReserveByRule.view(), kReserveByLimit.view());
constexpr auto kHold =
    forms({.writes = true, .verb = {Verb::kHold}},
          "Holds units of the budgets of rules, and takes others.",
          "Holds units of a budget in the arguments.", kHoldByRule.view(), kHoldByLimit.view());
constexpr auto kCancel =
    forms({.writes = true, .verb = {Verb::kCancel}}, "Ends a hold of RL.HOLD CHECK.",
          "Ends a hold of RL.HOLD LIMIT.", kCancelByRule.view(), kCancelByLimit.view());
constexpr Command kSettles{.writes = true, .verb = {.verb = Verb::kCharge, .settles = true}};
constexpr auto kSettle =
    forms(kSettles,
          "Settles units that a RL command with CHECK took. Without an ID only "
          "for operators.",
          "Settles units that a RL command with LIMIT took. Without an ID only "
          "for operators.",
          kSettleByRule.view(), kSettleByLimit.view());

constexpr auto kClient = parts<7>({{
    connection("getname", 2, 2, "", "Returns the name of the connection.",
               commands::client_getname),
    connection("id", 2, 2, "", "Returns the unique number of the connection.", commands::client_id),
    connection("info", 2, 2, "",
               "Returns the fields that Redis 7.2 returns, and the client's role.",
               commands::client_info),
    connection("no-evict", 3, 3, "on|off", "Has no effect: the server evicts no connections.",
               commands::client_switch),
    connection("no-touch", 3, 3, "on|off", "Has no effect: keys have no time of last use.",
               commands::client_switch),
    connection("setinfo", 4, 4, "lib-name|lib-ver text",
               "Sets the name or version of the client library.", commands::client_setinfo),
    connection("setname", 3, 3, "name", "Sets the name of the connection.",
               commands::client_setname),
}});

constexpr auto kCommand = parts<3>({{
    server("count", 2, 2, "", "Returns the number of commands.", commands::command_count),
    server("docs", 2, 0, "[name]...", "Returns the documentation of commands.",
           commands::command_docs),
    server("info", 2, 0, "[name]...", "Returns properties of commands, for programs.",
           commands::command_info),
}});

constexpr Command kOperates{.role = Role::kOperate};
constexpr auto kOverride = parts<3>({{
    limits("get", 4, 0, "rule limit [attribute value]...", "Returns the override of a key.",
           commands::get_override, kOperates),
    limits("set", 6, 0,
           "rule limit [attribute value]... [LIMIT units|blocked|unlimited] [PLAN name] "
           "[PER period] [BURST units] [UNTIL unix-time-ms]",
           "Sets the override of a key.", commands::set_override, kChange),
    limits("unset", 4, 0, "rule limit [attribute value]...", "Removes the override of a key.",
           commands::unset_override, kChange),
}});
constexpr std::array<Command, 32> kAll{
    limits("cl.throttle", 5, 6, "key max_burst count period_seconds [quantity]",
           "Decides a request by a GCRA limit in the arguments, like redis-cell.",
           commands::throttle, {.has_key = true, .writes = true}),
    limits("gcra", 5, 7, "key max_burst tokens_per_period period [TOKENS count]",
           "Decides like CL.THROTTLE, with the arguments of GCRA of Redis.", commands::gcra,
           {.has_key = true, .writes = true}),
    limits("throttle", 5, 6, "key max_burst count period_seconds [quantity]",
           "Decides like CL.THROTTLE, with the arguments and the reply of throttlecrab.",
           commands::throttle_like_crab, {.has_key = true, .writes = true}),
    limits("rl.check", 2, 0, kCountByRule.view(), "Decides a request by the rules.",
           commands::check, {.writes = true, .verb = {.may_have_id = true}}),
    limits("rl.limit", 5, 0, kCountByLimit.view(),
           "Decides a request by a limit of any algorithm in the arguments.", commands::limit,
           {.has_key = true, .writes = true, .verb = {.may_have_id = true}}),
    limits("rl.block", 5, 0, "rule limit [attribute value]... FOR period|UNTIL unix-time-ms",
           "Blocks a key of a limit.", commands::block, {.role = Role::kOperate, .writes = true}),
    limits("rl.charge", 2, 0, "", "Counts work that is already done.", nullptr,
           {.role = Role::kOperate, .parts = kCharge, .writes = true}),
    limits("rl.cancel", 2, 0, "", "Ends a hold of budgets and spends nothing.", nullptr,
           {.parts = kCancel, .writes = true}),
    limits("rl.extend", 2, 0, "permit|CHECK|LIMIT [argument]... [TTL period] [ID id]",
           "Starts the lease of a permit or the time of a hold again.", commands::extend,
           {.writes = true, .verb = {Verb::kExtend}}),
    limits("rl.hold", 2, 0, "", "Holds units of budgets, to settle them later.", nullptr,
           {.parts = kHold, .writes = true}),
    limits("rl.override", 2, 0, "", "Changes the limit of one key, or blocks it.", nullptr,
           {.role = Role::kOperate, .parts = kOverride, .writes = true}),
    limits("rl.peek", 2, 0, "", "Returns a decision without taking units.", nullptr,
           {.parts = kPeek}),
    limits("rl.refund", 2, 0, "",
           "Refunds the newest units. A refund never exceeds what was taken.", nullptr,
           {.role = Role::kOperate, .parts = kRefund, .writes = true}),
    limits("rl.release", 2, 2, "permit", "Ends a permit and gives its units back.",
           commands::release, {.writes = true}),
    limits("rl.report", 2, 0, kReportAddress.view(), "Counts the response of a request.",
           commands::check, change({.verb = Verb::kCharge, .reports = true})),
    limits("rl.reset", 2, 0, "", "Deletes counters.", nullptr,
           {.role = Role::kOperate, .parts = kReset, .writes = true}),
    limits("rl.reserve", 2, 0, "", "Takes units ahead of their time.", nullptr,
           {.role = Role::kOperate, .parts = kReserve, .writes = true}),
    limits("rl.settle", 2, 0, "", "Replaces an estimated cost by the actual one.", nullptr,
           {.parts = kSettle, .writes = true}),
    limits("rl.take", 2, 0, "", "Takes as many units as are left, up to a number.", nullptr,
           {.parts = kTake, .writes = true}),
    limits("rl.throttle", 5, 6, "key max_burst count period_seconds [quantity]",
           "The same as CL.THROTTLE.", commands::throttle, {.has_key = true, .writes = true}),
    limits("rl.top", 2, 0,
           "rule [LIMIT name] [BY asked|denied] [OVER minute|hour|day] [COUNT keys]",
           "Returns the most asked or most denied keys of a rule.", commands::top,
           {.role = Role::kOperate}),
    limits("rl.unblock", 3, 0, "rule limit [attribute value]...", "Ends the block of a key.",
           commands::unblock, {.role = Role::kOperate, .writes = true}),
    connection("auth", 2, 0, "[user] password",
               "Authenticates the connection. Without a user name, the user is `default`.",
               commands::auth, Role::kNobody),
    with_parts(
        connection("client", 2, 0, "", "Returns or sets properties of the connection.", nullptr),
        kClient),
    connection("echo", 2, 2, "message", "Returns the message.", commands::echo),
    connection("hello", 1, 0, "[protocol] [AUTH user password] [SETNAME name]",
               "Selects RESP2 or RESP3, authenticates and names the connection.", commands::hello,
               Role::kNobody),
    connection("ping", 1, 0, "[message]", "Returns PONG, or the message.", commands::ping),
    connection("quit", 1, 0, "", "Closes the connection after all earlier requests are answered.",
               commands::quit, Role::kNobody),
    connection("reset", 1, 1, "",
               "Resets the connection to its initial state: RESP2, no name, and the user of its "
               "certificate, or none.",
               commands::reset, Role::kNobody),
    connection("select", 2, 2, "index", "Selects a database. The only database is 0.",
               commands::select),
    with_parts(server("command", 1, 0, "", "Returns the properties of all commands, for programs.",
                      commands::command),
               kCommand),
    server("info", 1, 0, "[section]...",
           "Returns the sections server, clients, persistence, replication and cluster.",
           commands::info),
};

}  // namespace

std::span<const Command> all_commands() noexcept { return kAll; }

}  // namespace sluice::server::resp
