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

Files, directories and Unix sockets are found from the folder of the configuration file, unless
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

## Files

At most 4 MiB of UTF-8, one document. Numbers are plain digits: no quotes, signs, fractions,
exponents, underscores or leading zeros. Flags are `true` and `false`. Periods are a whole number
and its unit: `500ms`, `60s`, `5m`, `1h`, `7d`. An unknown key is an error, and so is a key twice.

## Reference

)guide";

}  // namespace

std::string guide() { return std::string(kGuide) + rules::schema::reference(file()); }

}  // namespace sluice::server::config
