#include "rules/schema.h"

namespace sluice::rules::schema {
namespace {

constexpr std::string_view kGuide = R"guide(# Rules

<!-- Written by `sluice rules docs` from the program's own schema. Change it there. -->

A rules file says which requests are limited, by what, and how. It is YAML:

```yaml
version: 1
domain: shop
rules:
  - name: send-code
    match: { method: POST, path: /send/code }
    limits:
      - { key: "{body.email}", algorithm: sliding_window_log, limit: 3, per: 60s }
    reject: { status: 429, body: '{"code":429,"message":"too many requests"}' }
  - name: order
    match: { path: /api/order/** }
    limits:                                   # one decision: all or nothing
      - { name: global, algorithm: token_bucket, limit: 1000, per: 1s, burst: 10000 }
      - { name: user, key: "{header.x-user-id|ip}", algorithm: gcra, limit: 1, per: 1s, burst: 9 }
```

`sluice rules check FILE` says everything that is wrong with a file, each with its line and column
(columns count characters), and exits with 1. `sluice rules schema` prints a JSON Schema of the
format for editors; it is also `docs/rules.schema.json`.

## Deciding

A request is a set of named attributes. Over HTTP these are `method`, `path` (without the query),
`host`, `ip`, `header.NAME`, `query.NAME`, `cookie.NAME` and `body.NAME` (nested names joined by
dots); Envoy gives the entries of its descriptors; a program gives what it likes. Names of headers
are in lower case; a rule may write them in any.

The rules are tried in the order of the file. The first that matches decides; where it says
`continue: true`, the rules after it are tried too. Where no rule matches, the request is allowed.

All limits of all rules that match make one decision: either every limit admits the request, and
each is charged, or none is. At most 64 limits can apply to one request; a request that more apply
to is denied as `invalid`.

A rule on trial (`mode: shadow`) is decided and counted by itself, whatever the other rules say,
and lets everything pass. A request that only such rules would have denied is allowed with the
reason `shadow`.

When the store cannot decide, the `on_store_error` of the rules that match does, with the reason
`fallback`; of several rules the strictest. `local` limits within this process, each limit at its
share (`docs/operations.md` says how much that admits); where no local limiting is set up, it denies
with the store's own reason (`store_error`, `store_timeout`).

## Matching

`match` names attributes and the patterns that they have to match, all of them. A rule without
`match` matches every request. A list of patterns means any of them. An attribute that is absent
matches nothing, not even `**`.

| pattern | matches |
|---|---|
| `/send/code` | exactly that text, upper and lower case told apart |
| `/img/*` | one segment: any characters but `/`, at least one (`/img/a.png`, not `/img/` or `/img/a/b`) |
| `/img/a*` | `*` beside other characters of a segment: any characters but `/`, also none |
| `/api/**` | `/api` and everything below it; `/**` between slashes stands for any number of segments, also none |
| `/img/**.png` | `**` beside other characters: any characters, also `/`, also none |
| `*bot*` | in a pattern that does not begin with `/`, `*` means any characters, as `**` does |
| `~/v[0-9]+/.*` | a leading `~`: an [RE2](https://github.com/google/re2/wiki/Syntax) expression of the whole value; `.` matches line ends too |

A value that is to contain a `*`, or to begin with `~`, is written as an expression: `~a\*b`,
`~\~a`. In YAML, text that begins with `*`, `{`, `[`, `&`, `!`, `|`, `>`, `%` or `@` needs quotes.
Methods are compared as they are: `POST`, not `post`.

```yaml
version: 1
rules:
  - name: uploads
    match:
      method: [POST, PUT]
      path: /files/*/content
      host: "*.example.com"
      header.user-agent: "~(?i).*(bot|crawler).*"
    limits:
      - { key: "{ip/64}", algorithm: gcra, limit: 10, per: 1m, burst: 5 }
```

Comparing text costs some nanoseconds; an expression costs some hundred, and memory at times.

## Keys

The `key` of a limit is a template: who is counted together. Without one, the limit has one
counter for all requests of its rule.

| template | stands for |
|---|---|
| `{ip}` | the value of an attribute |
| `{header.x-user-id\|ip}` | the first of several that is there |
| `{ip/64}` | the network of an address: the first 64 bits of IPv6; IPv4 counts whole. 33 to 128 bits |
| `{ip/24/64}` | the first 24 bits of IPv4, the first 64 of IPv6 |
| `{method} {path}` | several attributes, and text between them |
| `{{` and `}}` | the characters `{` and `}` |

An empty value counts as absent. IPv4-mapped IPv6 addresses (`::ffff:192.0.2.1`) are IPv4. A value
that is no address is taken as it is where a network is asked for.

Where an attribute is missing and no alternative is there, `on_missing` says what happens. With
`skip` the limit does not apply, so a client dodges it by leaving the header out: end the list
with what it cannot leave out (`{header.x-user-id|ip}`), or use `deny`.

### Keys in the store

A counter's key is `DOMAIN|RULE|LIMIT`, and for each part of the template a `|` and the part: an
attribute as `NAME=VALUE`, a network as `ip/24/64=192.0.2.0/24`, text as it is. So the key of the
limit `user` above is `shop|order|user|header.x-user-id=42` for one request and
`shop|order|user|ip=192.0.2.1` for another. `%`, `|`, `{`, `}`, control bytes and, but in values,
`=` are written as `%XX`: two different requests never share a key by their spelling. The numbers
and the algorithm of a limit are no part of it: counters live on when a limit changes
(`docs/algorithms.md` says how they are converted). A limit without a name is called `RULE/INDEX`,
from 0: give limits names before you reorder them.

### Tags

On a Redis Cluster the counters of one request may lie on several servers, and are then decided slot
by slot: never more is admitted, but what one slot took is given back when another denies
(`docs/operations.md`). A rule's `tag` puts its counters into one slot, so that each request on them
is one atomic step:

```yaml
version: 1
rules:
  - name: tenants
    tag: "{header.x-tenant}"
    limits:
      - { name: tenant, key: "{header.x-tenant}", algorithm: gcra, limit: 1000, per: 1s }
      - { name: user, key: "{header.x-tenant} {header.x-user|ip}", algorithm: gcra, limit: 10, per: 1s }
```

A tag is a template as a key is, spelled as the parts of a key (`header.x-tenant=42`), so that two
different requests never share one by their spelling; but a missing attribute counts as empty
(`header.x-tenant=`). Rules that `continue` into each other share a slot where their tags are equal.
The tag is part of a counter's name in every store: a rule that is given another starts afresh.
Without attributes (`tag: all`) one server holds all counters of the rule: choose an attribute that
spreads them.

## Files

At most 4 MiB of UTF-8, one document, 32 levels deep, 1,000,000 values and 10,000 expressions.
Numbers are plain digits: no quotes, signs, fractions, exponents, underscores or leading zeros.
Flags are `true` and `false`. Periods are a whole number and its unit: `500ms`, `60s`, `5m`, `1h`,
`7d`. Where text is expected, a plain number is the text as written. Each key may stand once in a
map. Anchors and aliases (`&a`, `*a`) work, merge keys (`<<`) and tags (`!!str`) do not.

Where a program reads several files as one set, their rules follow each other in the order of the
files. Each file has its own `version`, `domain` and `defaults`; the names of rules differ over all.

## Reference

)guide";

}  // namespace

std::string guide() { return std::string(kGuide) + reference(file()); }

}  // namespace sluice::rules::schema
