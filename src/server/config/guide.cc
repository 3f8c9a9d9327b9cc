#include "server/config/schema.h"

namespace sluice::server::config {
namespace {

constexpr std::string_view kGuide = R"guide(# Configuration of the server

<!-- Written by `sluice config docs` from the program's own schema. Change it there. -->

`sluice serve --config FILE` reads how to serve from a YAML file. Every key has a default, so the
least file is `version: 1`. What flags of the command line say holds in the place of the file.

```yaml
version: 1
listen:
  http: 0.0.0.0:8080
  admin: unix:/run/sluice/admin.sock
rules: /etc/sluice/rules
trusted_proxies: [10.0.0.0/8, "fd00::/8"]
admin: { token_file: /etc/sluice/token }
log: { format: json, keys: hash }
```

`examples/sluice.yaml` names every key with its default. `sluice config check FILE` says everything
that is wrong with a file, each with its line and column, and exits with 1. `sluice config schema`
prints a JSON Schema of the format for editors; it is also `docs/config.schema.json`.

Files, directories and listeners' Unix sockets are found from the folder of the configuration file, unless
their path begins with `/`.

## Addresses

| address | listens on |
|---|---|
| `127.0.0.1:8080`, `localhost:8080` | that address, for this machine only |
| `0.0.0.0:8080` | every IPv4 address of the machine |
| `[::1]:8080`, `[::]:8080` | IPv6, in brackets |
| `127.0.0.1:0` | a port that the system picks; the `ready` line names it |
| `unix:/run/sluice.sock` | a Unix socket, at most 107 bytes |
| `off` | nothing: that door stays closed |

In YAML, an address that begins with `[` needs quotes.

## Redis

With a URL as its `store`, the counters are in Redis (6 or newer) or Valkey, shared by all servers
that have the same URL and `prefix`:

| URL | reaches |
|---|---|
| `redis://host:6379`, `redis://host/2` | one server by TCP; database 2 |
| `rediss://host:6379` | the same by TLS; the section `tls` says whom to believe |
| `redis+unix:///run/redis.sock` | a Unix socket; `?db=2` behind it is database 2 |
| `redis+sentinel://host:26379,host2:26379/NAME` | the master that the Sentinels call NAME; `rediss+sentinel://` by TLS |
| `redis+cluster://host:6379,host2:6379` | a cluster, by any of its servers; `rediss+cluster://` by TLS |

`user:password@` before the host names an ACL user, with `%XX` for what a URL cannot hold. A file or
a variable is a better place for a password than a URL or a command line:

```yaml
version: 1
store: rediss://redis.example.com
redis:
  username: sluice
  password_file: /etc/sluice/redis-password
  tls: { ca_file: /etc/sluice/ca.pem }
  deadline: 20ms
```

Passwords are in no log, no message and no status page. They and the certificates are read at the
start. What each failure of the store does is in `docs/operations.md`. `sluice keys --config FILE`
prints what the counters hold.

## Rules in Redis

`rules: redis` takes the rules from the store, where `sluice rules push FILE` publishes them: all
servers follow a push within a second, or keep the rules that they have where it is wrong for them,
and say why. Rules that were read stay in force while Redis is away, and where they are deleted
there. A server that finds no rules there when it starts, or no Redis, does not start: it tries for
5 seconds and says what is missing. What `PUT /v1/rules` puts in force holds until the next push.
A file called `redis` is written `./redis`.

```yaml
version: 1
store: redis://127.0.0.1:6379
rules: redis
```

```sh
sluice rules push rules.yaml --store redis://127.0.0.1:6379             # checks and publishes
sluice rules push rules.yaml --config sluice.yaml --expect 7            # only in the place of 7
sluice rules show --store redis://127.0.0.1:6379                        # what is there
```

They lie in a hash at `rules_key`: `version`, which counts the pushes, `id`, `pushed_at`, `files`,
and `name.0`, `text.0` and so on. A push replaces all of them at once, by a script; with `scripting:
off` without one, and then the later of two pushes at the same moment wins. Whoever may write that
key sets the limits of all servers.

## Files

At most 4 MiB of UTF-8, one document. Numbers are plain digits: no quotes, signs, fractions,
exponents, underscores or leading zeros. Flags are `true` and `false`. Periods are a whole number
and its unit: `500ms`, `60s`, `5m`, `1h`, `7d`. An unknown key is an error, and so is a key twice.

## Reference

)guide";

}  // namespace

std::string guide() { return std::string(kGuide) + rules::schema::reference(file()); }

}  // namespace sluice::server::config
