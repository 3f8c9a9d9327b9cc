#include <array>
#include <string>

#include "server/api/resp/command.h"

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

}  // namespace sluice::server::resp
