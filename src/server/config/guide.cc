#include "server/config/schema.h"

namespace sluice::server::config {
namespace {

constexpr std::string_view kGuide = R"guide(# Configuration of the server

<!-- Written by `sluice config docs` from the program's own schema. Change it there. -->

`sluice serve --config FILE` reads the configuration of the server from a YAML file. This page is
for everyone who runs `sluice serve`. Every key except `version` has a default, so the smallest
file is `version: 1`. Command-line flags override the file.

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

To check a file and start the server:

```sh
sluice config check sluice.yaml
sluice serve --config sluice.yaml
```

`sluice config check` prints every error with its line and column and exits with status 1 if there
is one. Then it prints keys that do not fit each other, which `sluice serve` refuses if its flags do
not change them. `examples/sluice.yaml` contains every key with its default. `sluice config schema` prints a
JSON Schema of the format for editors. The same schema is in `docs/config.schema.json`.

Paths of files, directories and Unix sockets are relative to the folder of the configuration file,
unless they begin with `/`.

## Addresses

| address | listens on |
|---|---|
| `127.0.0.1:8080`, `localhost:8080` | this address; only this machine can connect |
| `0.0.0.0:8080` | every IPv4 address of the machine |
| `[::1]:8080`, `[::]:8080` | IPv6 addresses, in brackets |
| `127.0.0.1:0` | a port that the system chooses; the `ready` line reports it |
| `unix:/run/sluice.sock` | a Unix socket; the path has at most 107 bytes |
| `off` | nothing: the server does not open this listener |

In YAML, an address that begins with `[` needs quotes.

## TLS

Each of `http`, `grpc`, `resp` and `admin` may have a section `tls`. The listener then accepts only
TLS, version 1.2 or newer.

```yaml
version: 1
listen: { http: 0.0.0.0:8443, resp: 0.0.0.0:6380 }
http:
  tls: { cert_file: /etc/sluice/server.crt, key_file: /etc/sluice/server.key }
resp:
  tls:
    cert_file: /etc/sluice/server.crt
    key_file: /etc/sluice/server.key
    client_ca_file: /etc/sluice/clients-ca.crt
  users:
    - { name: orders, certificate: orders.internal }
    - { name: refunds, role: operate, certificate: spiffe://shop/refunds }
```

<!-- run
stop
sluice serve --config sluice.yaml
-->

```sh
curl --cacert ca.crt https://sluice.internal:8443/healthz
redis-cli --tls --cacert ca.crt --cert orders.crt --key orders.key -h sluice.internal -p 6380 ping
```

- **Files.** PEM, the key without a passphrase. On SIGHUP Sluice reads the files of every listener
  again. New connections get the new certificate; open connections continue. If Sluice cannot use
  the files, it logs the reason and keeps the previous certificate.
- **Client certificates.** With `client_ca_file`, a client needs a certificate of one of these
  authorities, or none at all with `client_certificate: optional`. There are no revocation lists:
  use certificates that expire soon.
- **Roles.** An entry of `clients` (HTTP, gRPC, administration) or `resp.users` names the
  certificate of its client. Sluice compares the name with the DNS names and URIs of the
  certificate's alternative names; if it has neither, with its common name. DNS names are in lower
  case. A RESP client is then logged in as this user. The administration accepts the certificate of
  a client with the role `admin` instead of the token. A certificate without an entry changes
  nothing: its client has the rights of a client without a certificate.
- **Application protocols.** HTTP and the administration offer `http/1.1` by ALPN, gRPC `h2`. A
  client that does not use ALPN is accepted, such as a health check of Envoy. A client that offers
  only other protocols is refused.
- **Refused clients.** A handshake must end within `bounds.header_timeout`. A client without TLS
  receives an error that says so. Sluice logs failed handshakes with their reason, at most one per
  second, and counts them in `sluice_request_errors_total` (`tls_failed`, `timed_out`).

## Redis

If `store` is a URL, the counters are in Redis (6 or newer) or Valkey. All servers with the same
URL and the same `prefix` share them.

| URL | connects to |
|---|---|
| `redis://host:6379`, `redis://host/2` | one server over TCP; `/2` selects database 2 |
| `rediss://host:6379` | one server over TLS; the section `tls` defines which certificates are valid |
| `redis+unix:///run/redis.sock` | a Unix socket; append `?db=2` for database 2 |
| `redis+sentinel://host:26379,host2:26379/NAME` | the master that the Sentinels call NAME; use `rediss+sentinel://` for TLS |
| `redis+cluster://host:6379,host2:6379` | a cluster, through any of its servers; use `rediss+cluster://` for TLS |

`user:password@` before the host selects an ACL user. Write characters that a URL cannot contain as
`%XX`. A password is safer in a file or an environment variable than in a URL:

```yaml
version: 1
store: rediss://redis.example.com
redis:
  username: sluice
  password_file: /etc/sluice/redis-password
  tls: { ca_file: /etc/sluice/ca.pem }
  deadline: 20ms
```

Sluice never writes a password to a log, a message or a status page. It reads passwords and
certificates for Redis once, at the start. `docs/operations.md` describes what happens when the
store fails. `sluice keys --config FILE` prints the counters.

## Rules in Redis

With `rules: redis` the server reads its rules from the store. `sluice rules push FILE` publishes
them there:

```yaml
version: 1
store: redis://127.0.0.1:6379
rules: redis
```

<!-- run
redis-server --save ''
for i in 1 2 3 4 5 6; do
  echo "# $i" >>rules.yaml
  sluice rules push rules.yaml --config sluice.yaml
done
echo "# 7" >>rules.yaml
-->

```sh
sluice rules push rules.yaml --store redis://127.0.0.1:6379             # checks and publishes
sluice rules push rules.yaml --config sluice.yaml --expect 7            # only if it replaces version 7
sluice rules show --store redis://127.0.0.1:6379                        # prints the published rules
sluice rules diff redis rules.yaml --store redis://127.0.0.1:6379       # what a push would change
sluice rules history --store redis://127.0.0.1:6379                     # the last 50 pushes, by whom
sluice rules rollback 7 --store redis://127.0.0.1:6379                  # publishes version 7 again
```

- All servers activate pushed rules within a second. A server that cannot use the new rules keeps
  its current rules and logs the reason.
- A server keeps its rules while Redis is unavailable, and if the rules in Redis are deleted.
- If Redis or the rules in it are missing when a server starts, the server tries again for 5
  seconds. Then it reports what is missing and exits.
- Rules from `PUT /v1/rules` are active until the next push.
- To name a file that is called `redis`, write `./redis`.

The rules are stored in a hash at `rules_key`. Its fields are `version` (the number of pushes),
`id`, `pushed_at`, `by`, `files`, and `name.0`, `text.0` and so on. A push replaces all fields at
once with a script. With `scripting: off` there is no script; if two pushes happen at the same
moment, the later one wins. A client that can write this key controls the limits of all servers.

The same script keeps the last 50 pushes, of at most 64 MiB together, at
`RULES_KEY:history{RULES_KEY}` ([state-format.md](state-format.md#pushed-rules)). `sluice rules
history` lists them: the version, when and by whom (`USER@HOST`, or `--by NAME`). `sluice rules
rollback VERSION` checks the rules of one of them and pushes them as a new version. With
`scripting: off` there is no history.

## Format of the file

A file is at most 4 MiB of UTF-8 and contains one YAML document. Numbers are plain digits: no
quotes, signs, fractions, exponents, underscores or leading zeros. Flags are `true` and `false`.
Periods are a whole number and a unit: `500ms`, `60s`, `5m`, `1h`, `7d`. Unknown keys and repeated
keys are errors.

## Reference

)guide";

}  // namespace

std::string guide() { return std::string(kGuide) + rules::schema::reference(file()); }

}  // namespace sluice::server::config
