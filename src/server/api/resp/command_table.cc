#include <array>
#include <string>

#include "core/limit.h"
#include "core/quoted.h"
#include "server/api/resp/command.h"
#include "server/api/resp/command_handler.h"

namespace sluice::server::resp {
namespace {

constexpr std::string_view kTop = R"page(# Commands for Redis clients

<!-- Written by `sluice commands` from the program's own table. Change it there. -->

The RESP front end speaks the Redis protocol, RESP2 and RESP3, so that a Redis client in any
language can request decisions. This page describes its commands. The front end listens on
`127.0.0.1:6380` unless `listen.resp` (`docs/config.md`) names another address.

<!-- run
sluice serve --rules rules.yaml
-->

```sh
redis-cli -p 6380 CL.THROTTLE user123 15 30 60
```

[clients](../clients/README.md) has programs in Python, Node and Go, and a library for Spring.

The front end stores no data. It answers Redis commands that are not on this page with the error
for an unknown command.

- Command names and options may be written in upper or lower case. Keys may contain any bytes.
- The server answers the requests of a connection in order. A client may send many requests at
  once.
- If a client does not read its replies, the server stops reading from it and closes the connection
  after `bounds.write_timeout`.
- A request has at most `bounds.body_bytes` bytes and 4096 arguments.
- There are no transactions. `MULTI` is unknown, but the server carries out the commands that a
  client library sends after it. Use pipelines without transactions: `pipeline(transaction=False)`
  in Python, `execAsPipeline()` in node-redis.
- The server answers malformed input with the same error as Redis 7.0 and closes the connection.

## Users and roles

If the configuration names no users, every client that can connect may use every command. The front
end then listens only on loopback addresses and Unix sockets. If there are users, a client must
first send a password with `AUTH` or `HELLO`, within `bounds.header_timeout`.

```yaml
version: 1
resp:
  users:
    - { name: default, password_file: /etc/sluice/resp-password }
    - { name: ops, role: operate, password_env: SLUICE_RESP_OPS }
```

With `resp.tls` the connection is encrypted, and a user may have a `certificate` instead of a
password or in addition to it: a client that presents it is logged in from the start
(docs/config.md, *TLS*).

The password is one line; the server reads it at the start and logs a warning if every user of the
machine can read the file, or if the password has fewer than 16 characters or fewer than 6 different
ones.

The role `check`, the default, may request decisions; where other machines reach the listener, of one
unit at a time. The role `operate` may also refund, reset, take several units, block keys and set
overrides. The role `admin` includes `operate`. Each command below names the role that it requires.

## Replies

`CL.THROTTLE` replies like redis-cell. The `RL.*` commands reply with a map in RESP3 and with a
flat array of names and values in RESP2. Values that do not apply are null.

| name | value |
|---|---|
| `outcome` | `allowed` or `denied` |
| `reason` | `ok`, `lease`, `limited`, `never`, `blocked`, `shadow`, `deny_cache`, `fallback`, `store_timeout`, `store_error`, `foreign_value`, `store_full`, `missing`, `deny_rule` |
| `limit` | the capacity: units that the limit holds when it is unused; with several limits, that of the tightest |
| `remaining` | whole units that would pass now |
| `reset_after_ms` | the time until the limit is fully replenished |
| `retry_after_ms` | if denied: the time until the same request would pass; null if it can never pass |
| `delay_ms` | with a leaky bucket in queue mode: the time to wait before you process the request |

Milliseconds are rounded up. Replies to requests that name a rule also contain `rule` (the name of
the rule that decided, or null) and `limits` (`name`, `rule`, `mode` and the values above for each
limit). A limit with `warn` also has `near`: 1 if as much of it is used as `warn` says, else 0.

## Errors

| error | meaning |
|---|---|
| `ERR` | an argument is wrong (the message names it), or the store could not decide and no rule defines what happens then |
| `WRONGTYPE` | the store contains something else under this key |
| `NOAUTH`, `WRONGPASS` | the client has not sent a password, or sent a wrong one |
| `NOPERM` | the user's role does not allow this command |
| `NOPROTO` | the server does not support this version of the protocol |

A request that is answered with an error is not counted, with one exception: if the store did not
answer in time, it may have counted the request.

## Metrics and log

`RL.CHECK` counts in `sluice_requests_total` like the requests of other front ends. `CL.THROTTLE`
and `RL.LIMIT` count there with an empty `rule` label, because no rule decides them. Denials are
logged like those of other front ends; `log.keys` controls whether the log contains the key. With
`log.access: true` each request is logged with `command`, `status` (`ok` or the first word of the
error), the `outcome` of a decision, `peer`, `user`, `duration_us` and `front_end=resp`. The log
does not contain arguments, because they may be passwords.
)page";

struct Group {
  std::string_view name;
  std::string_view heading;
};
constexpr std::array<Group, 3> kGroups{
    {{"limits", "Limits"}, {"connection", "Connection"}, {"server", "Server"}}};

std::string upper(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c & ~0x20) : c;
  return out;
}

std::string heading(std::string_view name, const Command& command) {
  std::string out = "`" + upper(name);
  if (!command.synopsis.empty()) out.append(" ").append(command.synopsis);
  return out + "`";
}

std::string role_of(Role role) {
  return role == Role::kNobody ? "none" : "`" + std::string(to_string(role)) + "`";
}

void append_command(std::string& page, const Command& command) {
  page.append("\n### ").append(upper(command.name)).append("\n\n");
  if (command.handle != nullptr) {
    page.append(heading(command.name, command)).append("\n\n");
  }
  page.append(command.summary).append(" Role: ").append(role_of(command.role)).append(".\n");
  if (!command.text.empty()) page.append("\n").append(command.text).append("\n");
  if (!command.parts.empty()) page.append("\n");
  for (const Command& part : command.parts) {
    const std::string name = std::string(command.name) + " " + std::string(part.name);
    page.append("- ").append(heading(name, part)).append(": ").append(part.summary).append("\n");
  }
}

}  // namespace

std::string commands_page() {
  std::string page(kTop);
  for (const Group& group : kGroups) {
    page.append("\n## ").append(group.heading).append("\n");
    for (const Command& command : all_commands()) {
      if (command.group == group.name) append_command(page, command);
    }
  }
  return page;
}

// The table of commands: arity, role, syntax and documentation of each.
namespace {

constexpr std::string_view kLimits = "limits";
constexpr std::string_view kConnection = "connection";
constexpr std::string_view kServer = "server";

constexpr std::string_view kCosts = "[COST units]";
constexpr std::string_view kRuleCosts = "[COST units] [COST limit=units]...";

// The syntax of the attributes that select rules, and of options.
constexpr auto rule_syntax(std::string_view options) {
  core::FixedText<512> text;
  return text.append("rule [attribute value]... ").append(options);
}
constexpr auto kRuleSyntax = rule_syntax(kRuleCosts);
constexpr std::string_view kRuleAddress = kRuleSyntax.view();

// The syntax of a limit, with the options of the table.
constexpr auto limit_syntax(std::string_view options) {
  core::FixedText<512> text;
  text.append("key algorithm limit period");
  for (const core::OptionInfo& option : core::kLimitOptions) {
    text.append(" [").append_upper(option.name).append(" ").append(option.unit);
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

// The syntaxes of the verbs with options of their own.
constexpr auto kTakeByRule = rule_syntax("ATMOST units [ATMOST limit=units]...");
constexpr auto kTakeByLimit = limit_syntax("ATMOST units");
constexpr auto kReserveByRule = rule_syntax("[COST units] [COST limit=units]... MAXWAIT period");
constexpr auto kReserveByLimit = limit_syntax("[COST units] MAXWAIT period");
constexpr auto kSettleByRule =
    rule_syntax("[COST units] [COST limit=units]... ACTUAL units [ACTUAL limit=units]...");
constexpr auto kSettleByLimit = limit_syntax("[COST units] ACTUAL units");

constexpr auto kReportAddress = rule_syntax("status code [COST units] [COST limit=units]...");

struct Arity {
  std::size_t least;
  std::size_t most;  // 0: any number
};

constexpr Command row(std::string_view name, Arity arity, Role role, std::string_view synopsis,
                      std::string_view summary, std::string_view group, Command::Handle handle) {
  return {.name = name,
          .least = arity.least,
          .most = arity.most,
          .role = role,
          .synopsis = synopsis,
          .summary = summary,
          .group = group,
          .handle = handle};
}

constexpr Command connection(std::string_view name, Arity arity, std::string_view synopsis,
                             std::string_view summary, Command::Handle handle,
                             Role role = Role::kCheck) {
  return row(name, arity, role, synopsis, summary, kConnection, handle);
}

constexpr Command server(std::string_view name, Arity arity, std::string_view synopsis,
                         std::string_view summary, Command::Handle handle) {
  return row(name, arity, Role::kCheck, synopsis, summary, kServer, handle);
}

// A command that decides or changes counters.
struct LimitTraits {
  Role role = Role::kCheck;
  std::span<const Command> parts = {};
  bool has_key = false;
  bool writes = false;
  std::string_view text = {};
};
constexpr Command limits(std::string_view name, Arity arity, std::string_view synopsis,
                         std::string_view summary, Command::Handle handle,
                         const LimitTraits& traits) {
  Command made = row(name, arity, traits.role, synopsis, summary, kLimits, handle);
  made.parts = traits.parts;
  made.has_key = traits.has_key;
  made.writes = traits.writes;
  made.text = traits.text;
  return made;
}

constexpr Command with_parts(Command made, std::span<const Command> parts) {
  made.parts = parts;
  return made;
}

// The two forms of a command: for a rule and for a limit in the arguments.
struct Form {
  Command::Handle handle;
  std::string_view summary;
};
constexpr std::array<Command, 2> forms(const LimitTraits& traits, Form check, Form limit,
                                       std::string_view rule_address = kRuleAddress,
                                       std::string_view limit_address = kLimitAddress) {
  return {{limits("check", {3, 0}, rule_address, check.summary, check.handle, traits),
           limits("limit", {6, 0}, limit_address, limit.summary, limit.handle, traits)}};
}

constexpr auto kPeek = forms({}, {commands::peek_check, "Returns what RL.CHECK would reply."},
                             {commands::peek_limit, "Returns what RL.LIMIT would reply."});
constexpr LimitTraits kChange{.role = Role::kOperate, .writes = true};
constexpr auto kRefund =
    forms(kChange, {commands::refund_check, "Refunds units that RL.CHECK took."},
          {commands::refund_limit, "Refunds units that RL.LIMIT took."});
constexpr auto kReset =
    forms(kChange, {commands::reset_check, "Deletes the counters that RL.CHECK would use."},
          {commands::reset_limit, "Deletes the counter that RL.LIMIT would use."});

constexpr auto kCharge = forms(kChange, {commands::charge_check, "Charges the limits of rules."},
                               {commands::charge_limit, "Charges a limit in the arguments."});
constexpr auto kTake =
    forms({.writes = true}, {commands::take_check, "Takes what the limits of rules have left."},
          {commands::take_limit, "Takes what a limit in the arguments has left."},
          kTakeByRule.view(), kTakeByLimit.view());
constexpr auto kReserve =
    forms(kChange, {commands::reserve_check, "Reserves units of the limits of rules."},
          {commands::reserve_limit, "Reserves units of a limit in the arguments."},
          kReserveByRule.view(), kReserveByLimit.view());
constexpr auto kSettle =
    forms(kChange, {commands::settle_check, "Settles units that a RL command with CHECK took."},
          {commands::settle_limit, "Settles units that a RL command with LIMIT took."},
          kSettleByRule.view(), kSettleByLimit.view());

constexpr std::array<Command, 7> kClient{
    connection("getname", {2, 2}, "", "Returns the name of the connection.",
               commands::client_getname),
    connection("id", {2, 2}, "", "Returns the unique number of the connection.",
               commands::client_id),
    connection("info", {2, 2}, "",
               "Returns the fields that Redis 7.2 returns, and the client's role.",
               commands::client_info),
    connection("no-evict", {3, 3}, "on|off", "Has no effect: the server evicts no connections.",
               commands::client_switch),
    connection("no-touch", {3, 3}, "on|off", "Has no effect: keys have no time of last use.",
               commands::client_switch),
    connection("setinfo", {4, 4}, "lib-name|lib-ver text",
               "Sets the name or version of the client library.", commands::client_setinfo),
    connection("setname", {3, 3}, "name", "Sets the name of the connection.",
               commands::client_setname),
};

constexpr std::array<Command, 3> kCommand{
    server("count", {2, 2}, "", "Returns the number of commands.", commands::command_count),
    server("docs", {2, 0}, "[name]...", "Returns the documentation of commands.",
           commands::command_docs),
    server("info", {2, 0}, "[name]...", "Returns properties of commands, for programs.",
           commands::command_info),
};

constexpr std::string_view kGcraText =
    R"(`period` is a number of seconds from 0.001, with at most six digits after the point. `TOKENS` is the
cost, default 1; `NUM_REQUESTS` is read as `TOKENS`. The reply and the counter are those of
`CL.THROTTLE`.

```
> GCRA bob 15 30 60 TOKENS 2
1) (integer) 0
2) (integer) 16
3) (integer) 14
4) (integer) -1
5) (integer) 4
```)";

constexpr std::string_view kThrottlecrabText =
    R"(The arguments, the reply and its numbers are those of throttlecrab 0.4.40: the limit is `max_burst`,
which is at least 1, and a quantity is not negative. The counter is that of `CL.THROTTLE`. The reply is an
array of five integers:

1. 1 if the request is allowed, 0 if it is limited
2. the limit, `max_burst`
3. the remaining units
4. the seconds after which throttlecrab deletes the counter: the time for `max_burst - 2` units more than
   until the limit is fully replenished
5. the seconds until the same request would pass; 0 if it is allowed

Seconds are cut, so a client that is limited for less than a second reads 0. A quantity that exceeds the
limit never passes, but has a number of seconds too. `docs/migrate/throttlecrab.md` lists the differences.

```
> THROTTLE carol 10 60 60
1) (integer) 1
2) (integer) 10
3) (integer) 9
4) (integer) 9
5) (integer) 0
```)";

constexpr std::string_view kThrottleText =
    R"(The algorithm is GCRA with the arguments of redis-cell: `count` requests per `period_seconds`, and
a burst of `max_burst` more, so that the limit is `max_burst + 1`. `quantity` is the cost,
default 1. A quantity of 0 takes nothing and is never limited. A negative quantity is a refund and
requires the role `operate`.

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
> CL.THROTTLE alice 15 30 60
1) (integer) 0
2) (integer) 16
3) (integer) 15
4) (integer) -1
5) (integer) 2
```)";

constexpr std::string_view kCheckText =
    R"(`*` selects the rules that match the attributes. A name selects the rule of that name, even if
the rule does not match. The attributes are those that rules read: `method`, `path`, `ip`,
`header.x-user-id` and so on. Each may be given once.

Pairs at the end that begin with `COST` are costs and not attributes. `COST units` is the cost for
limits without `cost` or with `cost: request` (`docs/rules.md`, *Costs*); the default is 1.
`COST limit=units` is that of the limit with this name, whatever its `cost` is. If the rules that
apply have no such limit, the reply is an error.

```
> RL.CHECK * method POST path /login ip 203.0.113.9
> RL.CHECK models header.x-team blue COST requests=1 COST tokens=700
```)";

constexpr auto kLimitPage = [] {
  core::FixedText<2048> text;
  text.append("The arguments define the limit; rules have no effect. `algorithm` is one of:\n\n");
  for (const AlgorithmInfo& row : kAlgorithms) {
    text.append("- `").append(row.name).append("`: ").append(row.summary).append("\n");
  }
  return text.append(R"(
`docs/algorithms.md` describes them. `period` is a whole number and a unit: `500ms`, `60s`, `5m`,
`1h` or `7d`; of `concurrency` it is the lease of a permit. For `fixed_window` it may also be `day`,
`week`, `month` or `year`: windows of the calendar in a time zone (`ZONE`, default UTC) that begin on
a day (`STARTS`: a weekday, a day of the month, or a date such as 04-06). An option that does not
apply to the algorithm is an error.

```
> RL.LIMIT user:42 token_bucket 100 60s BURST 200 COST 3
> RL.LIMIT user:42 fixed_window 50000 month ZONE Asia/Shanghai STARTS 15
```)");
}();
constexpr std::string_view kLimitText = kLimitPage.view();

constexpr std::string_view kChargeText =
    R"(The work is already done, so the reply is always allowed. The reason is `over` if the counter is
now beyond its limit; later requests wait until it is not.)";

constexpr std::string_view kTakeText =
    R"(Takes the same number of units from every limit: as many as all of them have, at most `ATMOST`.
The pair `taken` of the reply is that number. If no unit is left, the reply is denied.

```
> RL.TAKE LIMIT mails:42 token_bucket 100 60s ATMOST 30
```)";

constexpr std::string_view kReserveText =
    R"(Takes units that the limits will have within `MAXWAIT`. Wait `delay_ms` before you act. Callers are
served in the order in which they asked, on every machine. Only token_bucket, leaky_bucket and gcra
can be reserved ahead; other limits must allow the request at once. To cancel a reservation before
its time, use `RL.REFUND`.

```
> RL.RESERVE LIMIT exports gcra 10 60s COST 1 MAXWAIT 500ms
```)";

constexpr std::string_view kReleaseText =
    R"(`permit` is the text that RL.CHECK or RL.LIMIT replied for a limit of `concurrency`. The reply is 1,
or 0 if the permit has ended already.

```
> RL.LIMIT exports:42 concurrency 10 30s
> RL.RELEASE AUffY_Kut-tMYtqXbQEACgCAw8kBAAAKAAAAAAAAAGV4cG9ydHM6NDI
```)";
constexpr std::string_view kExtendText =
    R"(The permit then lasts for its whole lease again. The reply is 1, or 0 if the permit has ended: then
its units may belong to another request.)";

constexpr std::string_view kReportText =
    R"(For limits with `count` (docs/rules.md, *Counting by the response*); it charges no others. The
attributes are those that RL.CHECK had, the `status` of the response, and the attributes of the
response that `count` adds.

```
> RL.REPORT * method POST path /login ip 203.0.113.9 status 401
```)";

constexpr LimitTraits kOperates{.role = Role::kOperate};
constexpr std::array<Command, 3> kOverride{
    limits("get", {4, 0}, "rule limit [attribute value]...", "Returns the override of a key.",
           commands::get_override, kOperates),
    limits("set", {6, 0},
           "rule limit [attribute value]... [LIMIT units|blocked|unlimited] [PLAN name] "
           "[PER period] [BURST units] [UNTIL unix-time-ms]",
           "Sets the override of a key.", commands::set_override, kChange),
    limits("unset", {4, 0}, "rule limit [attribute value]...", "Removes the override of a key.",
           commands::unset_override, kChange),
};
constexpr std::string_view kOverrideText =
    R"(`docs/overrides.md` describes overrides. `rule` and `limit` are names; the attributes are those that
the key of the limit reads. An attribute with the name of an option, such as `plan`, is written as
`attribute.plan`. `LIMIT` or `PLAN` is required, options come after the attributes, and `UNTIL` is
the time at which the override ends. The replies: SET `OK`; UNSET 1, or 0 if there was none; GET a
map of `counter` and what was set, or null.

With a memory store, SET and UNSET write the file of all overrides, and the connections of the same
event loop wait until it is written: for a server with very many of them, use `/v1/overrides`.

```
> RL.OVERRIDE SET api requests header.x-customer 42 LIMIT 100 PER 1m
> RL.OVERRIDE SET api requests header.x-customer 43 LIMIT blocked UNTIL 1796083200000
> RL.OVERRIDE GET api requests header.x-customer 42
```)";

constexpr std::string_view kBlockText =
    R"(For limits with a `block` (`docs/rules.md`, *Blocks*); it replaces a block that lasts. `rule` and
`limit` are names; the attributes are those that the key of the limit reads. The period is 1ms to
366d, `UNTIL` an instant so far ahead at most. The reply is `OK`.

```
> RL.BLOCK login address ip 192.0.2.1 FOR 15m
```)";
constexpr std::string_view kUnblockText =
    R"(It also forgets earlier denials and how long the latest block lasted. The reply is 1, or 0 if the key
was not blocked.)";

constexpr std::string_view kTopText =
    R"(`docs/insight.md` says how keys are counted. Without `LIMIT` the reply has all limits of the rule
that had requests; the defaults are `BY denied`, `OVER minute` and `COUNT 20`. The reply is an array
with a map for each limit: `limit`, `total` (the number of these requests) and `keys`, an array of
maps. The true number of a `key` is at most `count` and at least `count` - `error`. Keys appear as
`log.keys` says.

```
> RL.TOP login BY denied OVER hour COUNT 5
```)";

constexpr std::string_view kSettleText =
    R"(`COST` is what the request took, `ACTUAL` what it really cost. Less gives back the difference, more
charges it. A limit without an `ACTUAL` of its own settles to `ACTUAL units`, or keeps its cost.
Settle once, while the units count: no check is remembered, so a second or a late settlement gives
back units of others.

```
> RL.SETTLE LIMIT tokens:42 token_bucket 10000 60s COST 700 ACTUAL 512
```)";

constexpr std::array<Command, 30> kAll{
    limits("cl.throttle", {5, 6}, "key max_burst count period_seconds [quantity]",
           "Decides a request by a GCRA limit in the arguments, like redis-cell.",
           commands::throttle, {.has_key = true, .writes = true, .text = kThrottleText}),
    limits("gcra", {5, 7}, "key max_burst tokens_per_period period [TOKENS count]",
           "Decides like CL.THROTTLE, with the arguments of GCRA of Redis.", commands::gcra,
           {.has_key = true, .writes = true, .text = kGcraText}),
    limits("throttle", {5, 6}, "key max_burst count period_seconds [quantity]",
           "Decides like CL.THROTTLE, with the arguments and the reply of throttlecrab.",
           commands::throttle_like_crab,
           {.has_key = true, .writes = true, .text = kThrottlecrabText}),
    limits("rl.check", {2, 0}, kRuleAddress, "Decides a request by the rules.", commands::check,
           {.writes = true, .text = kCheckText}),
    limits("rl.limit", {5, 0}, kLimitAddress,
           "Decides a request by a limit of any algorithm in the arguments.", commands::limit,
           {.has_key = true, .writes = true, .text = kLimitText}),
    limits("rl.block", {5, 0}, "rule limit [attribute value]... FOR period|UNTIL unix-time-ms",
           "Blocks a key of a limit.", commands::block,
           {.role = Role::kOperate, .writes = true, .text = kBlockText}),
    limits("rl.charge", {2, 0}, "", "Counts work that is already done.", nullptr,
           {.role = Role::kOperate, .parts = kCharge, .writes = true, .text = kChargeText}),
    limits("rl.extend", {2, 2}, "permit", "Starts the lease of a permit again.", commands::extend,
           {.writes = true, .text = kExtendText}),
    limits("rl.override", {2, 0}, "", "Changes the limit of one key, or blocks it.", nullptr,
           {.role = Role::kOperate, .parts = kOverride, .writes = true, .text = kOverrideText}),
    limits("rl.peek", {2, 0}, "", "Returns a decision without taking units.", nullptr,
           {.parts = kPeek}),
    limits("rl.refund", {2, 0}, "",
           "Refunds the newest units. A refund never exceeds what was taken.", nullptr,
           {.role = Role::kOperate, .parts = kRefund, .writes = true}),
    limits("rl.release", {2, 2}, "permit", "Ends a permit and gives its units back.",
           commands::release, {.writes = true, .text = kReleaseText}),
    limits("rl.report", {2, 0}, kReportAddress.view(), "Counts the response of a request.",
           commands::report, {.role = Role::kOperate, .writes = true, .text = kReportText}),
    limits("rl.reset", {2, 0}, "", "Deletes counters.", nullptr,
           {.role = Role::kOperate, .parts = kReset, .writes = true}),
    limits("rl.reserve", {2, 0}, "", "Takes units ahead of their time.", nullptr,
           {.role = Role::kOperate, .parts = kReserve, .writes = true, .text = kReserveText}),
    limits("rl.settle", {2, 0}, "", "Replaces an estimated cost by the actual one.", nullptr,
           {.role = Role::kOperate, .parts = kSettle, .writes = true, .text = kSettleText}),
    limits("rl.take", {2, 0}, "", "Takes as many units as are left, up to a number.", nullptr,
           {.parts = kTake, .writes = true, .text = kTakeText}),
    limits("rl.throttle", {5, 6}, "key max_burst count period_seconds [quantity]",
           "The same as CL.THROTTLE.", commands::throttle, {.has_key = true, .writes = true}),
    limits("rl.top", {2, 0},
           "rule [LIMIT name] [BY asked|denied] [OVER minute|hour|day] [COUNT keys]",
           "Returns the most asked or most denied keys of a rule.", commands::top,
           {.role = Role::kOperate, .text = kTopText}),
    limits("rl.unblock", {3, 0}, "rule limit [attribute value]...", "Ends the block of a key.",
           commands::unblock, {.role = Role::kOperate, .writes = true, .text = kUnblockText}),
    connection("auth", {2, 0}, "[user] password",
               "Authenticates the connection. Without a user name, the user is `default`.",
               commands::auth, Role::kNobody),
    with_parts(
        connection("client", {2, 0}, "", "Returns or sets properties of the connection.", nullptr),
        kClient),
    connection("echo", {2, 2}, "message", "Returns the message.", commands::echo),
    connection("hello", {1, 0}, "[protocol] [AUTH user password] [SETNAME name]",
               "Selects RESP2 or RESP3, authenticates and names the connection.", commands::hello,
               Role::kNobody),
    connection("ping", {1, 0}, "[message]", "Returns PONG, or the message.", commands::ping),
    connection("quit", {1, 0}, "", "Closes the connection after all earlier requests are answered.",
               commands::quit, Role::kNobody),
    connection("reset", {1, 1}, "",
               "Resets the connection to its initial state: RESP2, no user, no name.",
               commands::reset, Role::kNobody),
    connection("select", {2, 2}, "index", "Selects a database. The only database is 0.",
               commands::select),
    with_parts(server("command", {1, 0}, "",
                      "Returns the properties of all commands, for programs.", commands::command),
               kCommand),
    server("info", {1, 0}, "[section]...",
           "Returns the sections server, clients, persistence, replication and cluster.",
           commands::info),
};

}  // namespace

std::span<const Command> all_commands() noexcept { return kAll; }

}  // namespace sluice::server::resp
