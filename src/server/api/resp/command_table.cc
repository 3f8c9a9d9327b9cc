#include <array>

#include "core/fixed_text.h"
#include "core/limit_options.h"
#include "server/api/resp/command.h"
#include "server/api/resp/command_handler.h"

// The table of commands: arity, role, syntax and documentation of each.
namespace sluice::server::resp {
namespace {

constexpr std::string_view kLimits = "limits";
constexpr std::string_view kConnection = "connection";
constexpr std::string_view kServer = "server";

constexpr std::string_view kRuleAddress = "rule [attribute value]... [COST units]";

// The syntax of a limit, with the options of the table.
constexpr auto kLimitSyntax = [] {
  core::FixedText<512> text;
  text.append("key algorithm limit period");
  for (const core::OptionInfo& option : core::kLimitOptions) {
    text.append(" [").append_upper(option.name).append(" ").append(option.unit);
    for (const std::string_view word : option.words) {
      text.append(word == option.words.front() ? "" : "|").append(word);
    }
    text.append("]");
  }
  return text.append(" [COST units]");
}();
constexpr std::string_view kLimitAddress = kLimitSyntax.view();

// The two forms of a command: for a rule and for a limit in the arguments.
constexpr std::array<Command, 2> at_addresses(Command::Handle check, Command::Handle limit,
                                              Role role, bool writes, std::string_view check_help,
                                              std::string_view limit_help) {
  return {{{.name = "check",
            .least = 3,
            .most = 0,
            .role = role,
            .synopsis = kRuleAddress,
            .summary = check_help,
            .group = kLimits,
            .handle = check,
            .writes = writes},
           {.name = "limit",
            .least = 6,
            .most = 0,
            .role = role,
            .synopsis = kLimitAddress,
            .summary = limit_help,
            .group = kLimits,
            .handle = limit,
            .writes = writes}}};
}

constexpr auto kPeek =
    at_addresses(commands::peek_check, commands::peek_limit, Role::kCheckOnly, false,
                 "Returns what RL.CHECK would reply.", "Returns what RL.LIMIT would reply.");
constexpr auto kRefund =
    at_addresses(commands::refund_check, commands::refund_limit, Role::kAdmin, true,
                 "Refunds units that RL.CHECK took.", "Refunds units that RL.LIMIT took.");
constexpr auto kReset = at_addresses(commands::reset_check, commands::reset_limit, Role::kAdmin,
                                     true, "Deletes the counters that RL.CHECK would use.",
                                     "Deletes the counter that RL.LIMIT would use.");

constexpr Command part(std::string_view name, std::size_t least, std::size_t most,
                       std::string_view synopsis, std::string_view summary, Command::Handle handle,
                       std::string_view group = kConnection) {
  return {.name = name,
          .least = least,
          .most = most,
          .role = Role::kCheckOnly,
          .synopsis = synopsis,
          .summary = summary,
          .group = group,
          .handle = handle};
}

constexpr std::array<Command, 7> kClient{
    part("getname", 2, 2, "", "Returns the name of the connection.", commands::client_getname),
    part("id", 2, 2, "", "Returns the unique number of the connection.", commands::client_id),
    part("info", 2, 2, "", "Returns the fields that Redis 7.2 returns, and the client's role.",
         commands::client_info),
    part("no-evict", 3, 3, "on|off", "Has no effect: the server evicts no connections.",
         commands::client_switch),
    part("no-touch", 3, 3, "on|off", "Has no effect: keys have no time of last use.",
         commands::client_switch),
    part("setinfo", 4, 4, "lib-name|lib-ver text",
         "Sets the name or version of the client library.", commands::client_setinfo),
    part("setname", 3, 3, "name", "Sets the name of the connection.", commands::client_setname),
};

constexpr std::array<Command, 3> kCommand{
    part("count", 2, 2, "", "Returns the number of commands.", commands::command_count, kServer),
    part("docs", 2, 0, "[name]...", "Returns the documentation of commands.",
         commands::command_docs, kServer),
    part("info", 2, 0, "[name]...", "Returns properties of commands, for programs.",
         commands::command_info, kServer),
};

constexpr std::string_view kThrottleText =
    R"(The algorithm is GCRA with the arguments of redis-cell: `count` requests per `period_seconds`, and
a burst of `max_burst` more, so that the limit is `max_burst + 1`. `quantity` is the cost,
default 1. A quantity of 0 takes nothing and is never limited. A negative quantity is a refund and
requires the role `admin`.

The reply is an array of five integers:

1. 0 if the request is allowed, 1 if it is limited
2. the limit: `max_burst + 1`
3. the remaining units
4. the seconds until the same request would pass; -1 if it is allowed, and -1 if it can never pass
   (the quantity exceeds the limit)
5. the seconds until the limit is fully replenished

Seconds are rounded up, so a limited client never reads 0. `RL.LIMIT key gcra` uses the same
counter.

```
> CL.THROTTLE user123 15 30 60
1) (integer) 0
2) (integer) 16
3) (integer) 15
4) (integer) -1
5) (integer) 2
```)";

constexpr std::string_view kCheckText =
    R"(`*` selects the rules that match the attributes. A name selects the rule of that name, even if
the rule does not match. The attributes are those that rules read: `method`, `path`, `ip`,
`header.x-user-id` and so on. Each may be given once. If the last pair is `COST units`, it is the
cost and not an attribute; the default cost is 1.

```
> RL.CHECK * method POST path /login ip 203.0.113.9
```)";

constexpr auto kLimitPage = [] {
  core::FixedText<2048> text;
  text.append("The arguments define the limit; rules have no effect. `algorithm` is one of:\n\n");
  for (const AlgorithmInfo& row : kAlgorithms) {
    text.append("- `").append(row.name).append("`: ").append(row.summary).append("\n");
  }
  return text.append(R"(
`docs/algorithms.md` describes them. `period` is a whole number and a unit: `500ms`, `60s`, `5m`,
`1h` or `7d`. An option that does not apply to the algorithm is an error.

```
> RL.LIMIT user:42 token_bucket 100 60s BURST 200 COST 3
```)");
}();
constexpr std::string_view kLimitText = kLimitPage.view();

constexpr std::array<Command, 16> kAll{{
    {.name = "cl.throttle",
     .least = 5,
     .most = 6,
     .role = Role::kCheckOnly,
     .synopsis = "key max_burst count period_seconds [quantity]",
     .summary = "Decides a request by a GCRA limit in the arguments, like redis-cell.",
     .group = kLimits,
     .handle = commands::throttle,
     .has_key = true,
     .writes = true,
     .text = kThrottleText},
    {.name = "rl.check",
     .least = 2,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = kRuleAddress,
     .summary = "Decides a request by the rules.",
     .group = kLimits,
     .handle = commands::check,
     .writes = true,
     .text = kCheckText},
    {.name = "rl.limit",
     .least = 5,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = kLimitAddress,
     .summary = "Decides a request by a limit of any algorithm in the arguments.",
     .group = kLimits,
     .handle = commands::limit,
     .has_key = true,
     .writes = true,
     .text = kLimitText},
    {.name = "rl.peek",
     .least = 2,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = "",
     .summary = "Returns a decision without taking units.",
     .group = kLimits,
     .handle = nullptr,
     .parts = kPeek},
    {.name = "rl.refund",
     .least = 2,
     .most = 0,
     .role = Role::kAdmin,
     .synopsis = "",
     .summary = "Refunds the newest units. A refund never exceeds what was taken.",
     .group = kLimits,
     .handle = nullptr,
     .parts = kRefund,
     .writes = true},
    {.name = "rl.reset",
     .least = 2,
     .most = 0,
     .role = Role::kAdmin,
     .synopsis = "",
     .summary = "Deletes counters.",
     .group = kLimits,
     .handle = nullptr,
     .parts = kReset,
     .writes = true},
    {.name = "auth",
     .least = 2,
     .most = 0,
     .role = Role::kNobody,
     .synopsis = "[user] password",
     .summary = "Authenticates the connection. Without a user name, the user is `default`.",
     .group = kConnection,
     .handle = commands::auth},
    {.name = "client",
     .least = 2,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = "",
     .summary = "Returns or sets properties of the connection.",
     .group = kConnection,
     .handle = nullptr,
     .parts = kClient},
    {.name = "echo",
     .least = 2,
     .most = 2,
     .role = Role::kCheckOnly,
     .synopsis = "message",
     .summary = "Returns the message.",
     .group = kConnection,
     .handle = commands::echo},
    {.name = "hello",
     .least = 1,
     .most = 0,
     .role = Role::kNobody,
     .synopsis = "[protocol] [AUTH user password] [SETNAME name]",
     .summary = "Selects RESP2 or RESP3, authenticates and names the connection.",
     .group = kConnection,
     .handle = commands::hello},
    {.name = "ping",
     .least = 1,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = "[message]",
     .summary = "Returns PONG, or the message.",
     .group = kConnection,
     .handle = commands::ping},
    {.name = "quit",
     .least = 1,
     .most = 0,
     .role = Role::kNobody,
     .synopsis = "",
     .summary = "Closes the connection after all earlier requests are answered.",
     .group = kConnection,
     .handle = commands::quit},
    {.name = "reset",
     .least = 1,
     .most = 1,
     .role = Role::kNobody,
     .synopsis = "",
     .summary = "Resets the connection to its initial state: RESP2, no user, no name.",
     .group = kConnection,
     .handle = commands::reset},
    {.name = "select",
     .least = 2,
     .most = 2,
     .role = Role::kCheckOnly,
     .synopsis = "index",
     .summary = "Selects a database. The only database is 0.",
     .group = kConnection,
     .handle = commands::select},
    {.name = "command",
     .least = 1,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = "",
     .summary = "Returns the properties of all commands, for programs.",
     .group = kServer,
     .handle = commands::command,
     .parts = kCommand},
    {.name = "info",
     .least = 1,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = "[section]...",
     .summary = "Returns the sections server, clients, persistence, replication and cluster.",
     .group = kServer,
     .handle = commands::info},
}};

}  // namespace

std::span<const Command> all_commands() noexcept { return kAll; }

}  // namespace sluice::server::resp
