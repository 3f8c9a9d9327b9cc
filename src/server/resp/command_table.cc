#include <array>

#include "server/resp/command.h"
#include "server/resp/desk.h"

// What is said of the commands, in one place.
namespace sluice::server::resp {
namespace {

constexpr std::string_view kLimits = "limits";
constexpr std::string_view kConnection = "connection";
constexpr std::string_view kServer = "server";

constexpr std::string_view kRuleAddress = "rule [attribute value]... [COST units]";
constexpr std::string_view kLimitAddress =
    "key algorithm limit period [BURST units] [SLICES count] [ALIGN first_request|clock] "
    "[WEIGHTING linear|none] [MODE meter|queue] [REFILL continuous|interval] [COST units]";

// What is done at both kinds of addresses.
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
                 "What RL.CHECK would answer.", "What RL.LIMIT would answer.");
constexpr auto kRefund =
    at_addresses(commands::refund_check, commands::refund_limit, Role::kAdmin, true,
                 "Gives back what RL.CHECK has taken.", "Gives back what RL.LIMIT has taken.");
constexpr auto kReset = at_addresses(commands::reset_check, commands::reset_limit, Role::kAdmin,
                                     true, "Forgets the counters that RL.CHECK would ask.",
                                     "Forgets the counter that RL.LIMIT would ask.");

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
    part("getname", 2, 2, "", "The name of the connection.", commands::client_getname),
    part("id", 2, 2, "", "The number of the connection: each has another.", commands::client_id),
    part("info", 2, 2, "", "What the connection is: id, addr, name, user, role, library.",
         commands::client_info),
    part("no-evict", 3, 3, "on|off", "Does nothing, as no connection is evicted.",
         commands::client_switch),
    part("no-touch", 3, 3, "on|off", "Does nothing, as no key has a time of last use.",
         commands::client_switch),
    part("setinfo", 4, 4, "lib-name|lib-ver text", "Tells the client's library and its version.",
         commands::client_setinfo),
    part("setname", 3, 3, "name", "Names the connection.", commands::client_setname),
};

constexpr std::array<Command, 3> kCommand{
    part("count", 2, 2, "", "How many commands there are.", commands::command_count, kServer),
    part("docs", 2, 0, "[name]...", "What commands do, for people.", commands::command_docs,
         kServer),
    part("info", 2, 0, "[name]...", "What commands are, for programs.", commands::command_info,
         kServer),
};

constexpr std::string_view kThrottleText =
    R"(GCRA, as redis-cell has it: `count` requests per `period_seconds`, and `max_burst` more at once, so
that the limit is `max_burst + 1`. `quantity` is 1 unless it is given; 0 looks without taking and is
never limited; a negative one gives back, and asks for the role `admin`.

The reply is five integers:

1. 0 allowed, 1 limited
2. the limit: `max_burst + 1`
3. what remains
4. seconds until the same would pass; -1 where it is allowed, and where it never would (a quantity
   over the limit)
5. seconds until nothing is used

Seconds are rounded up, so that who is limited never reads 0. A counter is the same as that of
`RL.LIMIT key gcra`.

```
> CL.THROTTLE user123 15 30 60
1) (integer) 0
2) (integer) 16
3) (integer) 15
4) (integer) -1
5) (integer) 2
```)";

constexpr std::string_view kCheckText =
    R"(Decides by the loaded rules: with `*` by those that match, else by the rule of that name, matching or
not. The attributes are what rules read: `method`, `path`, `ip`, `header.x-user-id` and so on, each
once. A last pair `COST units` is no attribute; the cost is 1 without it.

```
> RL.CHECK * method POST path /login ip 203.0.113.9
```)";

constexpr std::string_view kLimitText =
    R"(Decides by what the request says alone. `algorithm` is one of `fixed_window`, `sliding_window_log`,
`sliding_window_counter`, `sliding_window_hybrid`, `leaky_bucket`, `token_bucket` and `gcra`;
`period` is `500ms`, `60s`, `5m`, `1h` or `7d`. Options that do not apply to the algorithm are
refused (docs/algorithms.md).

```
> RL.LIMIT user:42 token_bucket 100 60s BURST 200 COST 3
```)";

constexpr std::array<Command, 16> kAll{{
    {.name = "cl.throttle",
     .least = 5,
     .most = 6,
     .role = Role::kCheckOnly,
     .synopsis = "key max_burst count period_seconds [quantity]",
     .summary = "Decides by a limit that the request tells, as redis-cell does.",
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
     .summary = "Decides by the rules.",
     .group = kLimits,
     .handle = commands::check,
     .writes = true,
     .text = kCheckText},
    {.name = "rl.limit",
     .least = 5,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = kLimitAddress,
     .summary = "Decides by a limit of any algorithm that the request tells.",
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
     .summary = "Decides, and takes nothing.",
     .group = kLimits,
     .handle = nullptr,
     .parts = kPeek},
    {.name = "rl.refund",
     .least = 2,
     .most = 0,
     .role = Role::kAdmin,
     .synopsis = "",
     .summary = "Gives back what was taken last, never beyond untouched.",
     .group = kLimits,
     .handle = nullptr,
     .parts = kRefund,
     .writes = true},
    {.name = "rl.reset",
     .least = 2,
     .most = 0,
     .role = Role::kAdmin,
     .synopsis = "",
     .summary = "Forgets counters.",
     .group = kLimits,
     .handle = nullptr,
     .parts = kReset,
     .writes = true},
    {.name = "auth",
     .least = 2,
     .most = 0,
     .role = Role::kNobody,
     .synopsis = "[user] password",
     .summary = "Shows a password. Without a user, that of `default`.",
     .group = kConnection,
     .handle = commands::auth},
    {.name = "client",
     .least = 2,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = "",
     .summary = "What a connection says and asks of itself.",
     .group = kConnection,
     .handle = nullptr,
     .parts = kClient},
    {.name = "echo",
     .least = 2,
     .most = 2,
     .role = Role::kCheckOnly,
     .synopsis = "message",
     .summary = "Answers the message.",
     .group = kConnection,
     .handle = commands::echo},
    {.name = "hello",
     .least = 1,
     .most = 0,
     .role = Role::kNobody,
     .synopsis = "[protocol] [AUTH user password] [SETNAME name]",
     .summary = "Chooses RESP2 or RESP3, shows a password, names the connection.",
     .group = kConnection,
     .handle = commands::hello},
    {.name = "ping",
     .least = 1,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = "[message]",
     .summary = "Answers PONG, or the message.",
     .group = kConnection,
     .handle = commands::ping},
    {.name = "quit",
     .least = 1,
     .most = 0,
     .role = Role::kNobody,
     .synopsis = "",
     .summary = "Closes the connection, when all before it is answered.",
     .group = kConnection,
     .handle = commands::quit},
    {.name = "reset",
     .least = 1,
     .most = 1,
     .role = Role::kNobody,
     .synopsis = "",
     .summary = "Makes the connection as it was at first: RESP2, no user, no name.",
     .group = kConnection,
     .handle = commands::reset},
    {.name = "select",
     .least = 2,
     .most = 2,
     .role = Role::kCheckOnly,
     .synopsis = "index",
     .summary = "Chooses a database: there is 0 alone.",
     .group = kConnection,
     .handle = commands::select},
    {.name = "command",
     .least = 1,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = "",
     .summary = "What all commands are, for programs.",
     .group = kServer,
     .handle = commands::command,
     .parts = kCommand},
    {.name = "info",
     .least = 1,
     .most = 0,
     .role = Role::kCheckOnly,
     .synopsis = "[section]...",
     .summary = "What the server is: sections server, clients, persistence, replication, cluster.",
     .group = kServer,
     .handle = commands::info},
}};

}  // namespace

std::span<const Command> all_commands() noexcept { return kAll; }

}  // namespace sluice::server::resp
