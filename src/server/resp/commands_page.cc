#include <array>
#include <string>

#include "server/resp/command.h"

namespace sluice::server::resp {
namespace {

constexpr std::string_view kTop = R"page(# Commands for clients of Redis

<!-- Written by `sluice commands` from the program's own table. Change it there. -->

The RESP door (`listen.resp` in docs/config.md, `127.0.0.1:6380` unless it says otherwise) speaks the
protocol of Redis, RESP2 and RESP3, so that any client of Redis in any language can ask for
decisions. It keeps no data: commands of Redis that are not here are refused as unknown.

```sh
redis-cli -p 6380 CL.THROTTLE user123 15 30 60
```

Names of commands and of options count in any case. Keys are any bytes. Requests are answered in
their order, however many come at once; a client that does not read its replies is not read from
either, and is cut off after `bounds.write_timeout`. A request may take `bounds.body_bytes` and
have 4096 arguments. There are no transactions: `MULTI` is unknown, but what a client's library
sends behind it is done all the same, so let its pipelines do without
(`pipeline(transaction=False)` in Python, `execAsPipeline()` in node-redis). What is no request is
answered with the error that Redis 7.0 gives for it, and the connection is closed.

## Who may

Without users in the configuration, whoever can connect may do everything: so the door then listens
at loopback addresses and Unix sockets only. With users, a client first shows a password, by `AUTH`
or by `HELLO`; until then it has `bounds.header_timeout`.

```yaml
version: 1
resp:
  users:
    - { name: default, password_file: /etc/sluice/resp-password }
    - { name: ops, role: admin, password_env: SLUICE_RESP_OPS }
```

`check-only` may do everything but what gives back or resets.

## Replies

`CL.THROTTLE` answers as redis-cell does. `RL.*` answer maps in RESP3, in RESP2 flat arrays of names
and values, with these values; what there is not is null.

| name | value |
|---|---|
| `outcome` | `allowed` or `denied` |
| `reason` | `ok`, `limited`, `never`, `shadow`, `deny_cache`, `fallback`, `store_timeout`, `store_error`, `foreign_value`, `missing` |
| `limit` | units that the limit holds when untouched; of several limits, those of the tightest |
| `remaining` | whole units that would pass now |
| `reset_after_ms` | until it is untouched again |
| `retry_after_ms` | where it is denied: until the same would pass; null where it never would |
| `delay_ms` | of a leaky bucket in queue mode: how long to wait before going on |

Milliseconds are rounded up. Replies to a rule's address also have `rule`, the name of the rule that
decided, or null, and `limits`, with `name`, `rule`, `mode` and the values above for each limit.

## Errors

`ERR` (a wrong argument, which it names; also: the store could not decide, and no rule says what
then), `WRONGTYPE` (the store holds something else under that key), `NOAUTH`, `WRONGPASS`, `NOPERM`,
`NOPROTO`. Nothing is counted where a request is refused; where the store did not answer in time,
that is unknown.

## Metrics and log

`CL.THROTTLE` and `RL.LIMIT` count in `sluice_requests_total` under the empty `rule`, as no rule
decides; `RL.CHECK` counts as at every door. Denials are logged as at every door, with the key if
`log.keys` says so. With `log.access: true` each request is a line with `command`, `status` (`ok`
or the first word of the error), `outcome` of a decision, `peer`, `user`, `duration_us` and
`door=resp`; its arguments are not told, as they may be passwords.
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

std::string who(Role role) {
  switch (role) {
    case Role::kNobody: return "anybody";
    case Role::kCheckOnly: return "`check-only`";
    case Role::kAdmin: break;
  }
  return "`admin`";
}

void append_command(std::string& page, const Command& command) {
  page.append("\n### ").append(upper(command.name)).append("\n\n");
  if (command.handle != nullptr) {
    page.append(heading(command.name, command)).append("\n\n");
  }
  page.append(command.summary).append(" For ").append(who(command.role)).append(".\n");
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

}  // namespace sluice::server::resp
