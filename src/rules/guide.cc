#include "rules/schema.h"

namespace sluice::rules::schema {
namespace {

constexpr std::string_view kGuide = R"guide(# Rules

<!-- Written by `sluice rules docs` from the program's own schema. Change it there. -->

A rules file defines which requests are limited and how. This page is for everyone who writes
rules. It describes the whole format; the last section is a reference of every key.

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

To check a file:

```sh
sluice rules check rules.yaml
```

The command prints every error with its line and column (columns count characters) and exits with
status 1 if there is one. It also prints a warning for each limit whose cost exceeds its capacity,
for each limit whose log may not fit into the memory store (`--max-log-bytes`, by default that of the
server), and for each unknown name in braces in a rejection. `sluice replay --rules rules.yaml
access.log` shows how the rules would have decided the requests in an access log.

`sluice rules schema` prints a JSON Schema of the format for editors. The same schema is in
`docs/rules.schema.json`.

## How a request is decided

A request is a set of named attributes. Over HTTP these are `method`, `path` (without the query),
`host`, `ip`, `header.NAME`, `query.NAME`, `cookie.NAME` and `body.NAME` (nested names are joined
by dots). Envoy sends the entries of its descriptors. A C++ program passes any attributes that it
needs. Header names are in lower case; rules may write them in any case.

Sluice tries the rules in the order of the file. The first rule that matches decides the request.
If that rule has `continue: true`, Sluice also tries the rules after it. If no rule matches, the
request is allowed.

All limits of all matching rules make one decision: if every limit admits the request, each limit
is charged; otherwise no limit is charged. At most 64 limits can apply to one request. If more
apply, Sluice denies the request with the reason `invalid`.

**Shadow rules.** A rule with `mode: shadow` is decided and counted separately from the other rules
and never denies a request. If only shadow rules would have denied a request, the request is
allowed with the reason `shadow`.

**Allow and deny.** A rule with `action: allow` lets requests pass, and one with `action: deny` denies
them. Both have no limits:

```yaml
version: 1
rules:
  - name: office
    match: { ip: [192.0.2.0/24, 2001:db8:1::/48] }
    action: allow
  - name: scanners
    match: { path: [/wp-admin/**, "/**.php"] }
    action: deny
    reject: { status: 404, body: "not found" }
  - name: all
    limits:
      - { key: "{ip}", algorithm: gcra, limit: 10, per: 1s }
```

`allow` ends the search: Sluice tries no rule after it, not even with the numbers that a request
gives for the limits of other rules. The rules before it that matched with `continue: true` still
apply, with their limits. So put rules that allow first. `deny` denies with the reason `deny_rule`
and the status 403, or the `reject` of the rule. Nothing is counted then, by no limit of any rule.
In shadow mode a rule with `action: deny` is only counted: it never denies, and Sluice goes on with
the rules after it. Metrics count what both decide under the name of the rule. A refund, a reset, a
settlement or a charge reports what has happened, so `deny` does not deny it.

**Store failures.** If the store cannot decide, the `on_store_error` setting of the matching rules
decides, and the reason is `fallback`. If the rules have different settings, the strictest one
applies. `local` limits requests within this process; each process then admits a share of each
limit (`docs/operations.md` says how much that is in total). If no local limiting is configured,
`local` denies the request with the reason of the store (`store_error`, `store_timeout`). If Redis
is full, only limits that need a new counter meet this setting; the others are charged.

## Matching

`match` maps attributes to patterns. A rule matches if every one of these attributes matches its
pattern. A rule without `match` matches every request. A list of patterns matches if one of them
does. An absent attribute matches nothing, not even `**`. `not` is a map of the same form, and none of
its conditions may hold (see Networks and lists).

| pattern | matches |
|---|---|
| `/send/code` | exactly this text; upper and lower case differ |
| `/img/*` | one segment: one or more characters except `/` (`/img/a.png`, but not `/img/` or `/img/a/b`) |
| `/img/a*` | next to other characters of a segment, `*` matches zero or more characters except `/` |
| `/api/**` | `/api` and everything below it; between slashes, `**` matches zero or more segments |
| `/img/**.png` | next to other characters, `**` matches zero or more characters, including `/` |
| `*bot*` | in a pattern that does not begin with `/`, `*` matches zero or more characters, like `**` |
| `10.0.0.0/8` | of the attribute `ip`: an IPv4 or IPv6 address or network in CIDR notation, and every address in it |
| `~/v[0-9]+/.*` | after a leading `~`: an [RE2](https://github.com/google/re2/wiki/Syntax) regular expression that must match the whole value; `.` also matches line ends |

To match a value that contains `*` or begins with `~`, write a regular expression: `~a\*b`, `~\~a`.
In YAML, text that begins with `*`, `{`, `[`, `&`, `!`, `|`, `>`, `%` or `@` needs quotes. Methods
are case-sensitive: write `POST`, not `post`.

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

A text comparison takes a few nanoseconds. A regular expression takes a few hundred and sometimes
allocates memory. All expressions of a file together may have at most 200,000 instructions of RE2, so
that no request takes long. `~/v[0-9]+/.*` has about 30; repetitions such as `{1,1000}` have most.
They read at most 8 MiB of values of more than 8 KiB: 1,000 expressions read a value of 8 KiB, eight of
them one of a megabyte. Beyond it, a request is `invalid` (400) if an enforced rule would read more; a
shadow rule does not match it.

### Networks and lists

```yaml
version: 1
rules:
  - name: office
    match: { ip: [10.0.0.0/8, "2001:db8::/32"] }
    action: allow
  - name: partner
    match: { header.x-client: { network: [192.0.2.0/24, 198.51.100.7] } }
    action: allow
  - name: everyone-else
    match: { path: /v1/**, not: { path: /v1/health, method: [GET, HEAD] } }
    limits:
      - { key: "{ip}", algorithm: gcra, limit: 10, per: 1s }
```

| value of an attribute | matches |
|---|---|
| `ip: 10.0.0.0/8` | the addresses of a network, in any spelling. IPv4-mapped IPv6 addresses count as IPv4 |
| `NAME: { network: 10.0.0.0/8 }` | the same for an attribute other than `ip`. The value must be an address and nothing else |
| `ip: { in: FILE }`, `NAME: { network: { in: FILE } }` | the networks and addresses in a file |
| `NAME: { in: FILE }` | the texts in a file, exactly; patterns have no meaning there |

Each of these may also be an item of a list: `ip: [192.0.2.1, { in: office.txt }]`.

A network may have no bits after its prefix: `10.0.0.1/8` is an error that names `10.0.0.0/8`. A
network where text is compared (`header.x: 10.0.0.0/8`) would match nothing that people mean, so it is
an error too. For such a text, write a regular expression.

**Not.** A rule matches only if *none* of the conditions in `not` holds: the rule `everyone-else` does
not apply to `/v1/health`, and not to any `GET`. An absent attribute meets no condition, so it excludes
nothing. For requests that meet two conditions together, write a rule with `action: allow` before it.

**Files.** A file has one entry in each line. Blanks around it do not count. A `#` at the beginning of a
line, or after a blank, begins a comment. The path is relative to the folder of the rules file.

```
# office.txt
10.0.0.0/8
192.0.2.1      # the entrance of the office
2001:db8::/32
```

A file may have 512 MiB. A list of 1,000,000 networks takes 8 MB for IPv4 and 17 to 33 MB for IPv6. A
look-up takes about 0.2 µs more than one in a short list. A file is read when the
rules are read, and again when it has changed, together with all rules. If a line is wrong, the error
names the file and the line, and the previous rules and lists stay in use. Replace a file by renaming
a complete one, so that no half of it is read.

Only rules that the server reads from files read lists. Rules from `PUT /v1/rules`, from Redis
(`sluice rules push`) and from `RuleSet::parse()` may not: then nobody who may change rules can read
files of the server. `in: FILE` is an error there. Write the entries into the rules, as a list.

## Keys

The `key` of a limit is a template. Requests with the same key share one counter. A limit without a
key has one counter for all requests of its rule.

| template | result |
|---|---|
| `{ip}` | the value of an attribute |
| `{header.x-user-id\|ip}` | the first of these attributes that is present |
| `{ip/64}` | the network of an address: the first 64 bits of an IPv6 address (33 to 128 are possible), or the whole IPv4 address |
| `{ip/24/64}` | the first 24 bits of an IPv4 address or the first 64 bits of an IPv6 address |
| `{method} {path}` | several attributes with text between them |
| `{{` and `}}` | the characters `{` and `}` |

An empty value counts as absent. IPv4-mapped IPv6 addresses (`::ffff:192.0.2.1`) count as IPv4. If
a template asks for a network and the value is not an address, the key contains the value
unchanged.

If an attribute is missing and the template names no alternative, `on_missing` decides. With `skip`
the limit does not apply, so a client can avoid the limit by omitting a header. To prevent this,
end the list with an attribute that every request has (`{header.x-user-id|ip}`), or use `deny`.

### Keys in the store

The key of a counter is `DOMAIN|RULE|LIMIT`, followed by a `|` and the text of each part of the
template. An attribute is written as `NAME=VALUE`, a network as `ip/24/64=192.0.2.0/24`, and text
as it is. For example, the key of the limit `user` above is `shop|order|user|header.x-user-id=42`
for one request and `shop|order|user|ip=192.0.2.1` for another.

The characters `%`, `|`, `{`, `}`, control bytes and, outside of values, `=` are written as `%XX`.
Different attributes therefore never produce the same key.

The numbers of a limit are not part of the key, so counters survive when the numbers change
(`docs/algorithms.md` says how they are converted). A counter starts again when the algorithm of
its limit changes. A limit without a name is called `RULE/INDEX`; the index begins at 0. Name your
limits before you reorder them.

### Tags

In a Redis Cluster, the counters of one request can be on several servers. Sluice then decides each
slot separately. It never admits more than the limits allow, but if one slot denies the request, it
must give back what the other slots took (`docs/operations.md`). The `tag` of a rule puts its
counters into one slot, so that each request is one atomic step:

```yaml
version: 1
rules:
  - name: tenants
    tag: "{header.x-tenant}"
    limits:
      - { name: tenant, key: "{header.x-tenant}", algorithm: gcra, limit: 1000, per: 1s }
      - { name: user, key: "{header.x-tenant} {header.x-user|ip}", algorithm: gcra, limit: 10, per: 1s }
```

A tag is a template like a key and is written in the same way (`header.x-tenant=42`), so different
attributes never produce the same tag. A missing attribute counts as empty (`header.x-tenant=`).
Rules that are joined by `continue` share a slot if their tags are equal.

The tag is part of the counter's name in every store. If you change the tag of a rule, its counters
start again. A tag without attributes (`tag: all`) puts all counters of the rule on one server.
Choose an attribute that spreads the counters over the servers.

### New keys

A client that makes up keys (addresses, accounts, tokens) creates a counter with each request, and
fills the store. `max_new_keys` bounds how many counters a rule creates in each second:

```yaml
version: 1
rules:
  - name: login
    match: { method: POST, path: /login }
    max_new_keys: 100
    on_store_error: local
    limits:
      - { name: address, key: "{ip}", algorithm: sliding_window_log, limit: 10, per: 1h }
      - { name: account, key: "{body.email}", algorithm: sliding_window_log, limit: 5, per: 1h }
```

Counters that exist go on being charged and enforced. A limit that needs one counter more meets the
`on_store_error` of the rule, with the reason `fallback`; the other limits of the request are
charged. A report, a charge and a settlement create no more counters either: work for which the rule
may not create a counter is not counted by that limit (`store_full`), and by the other limits it is.
Choose a number well above the new clients that you expect in a second. Each server counts
for itself. Requests that are decided at the same moment may create a few counters more.

## Costs

A request takes one unit from each limit, or the number that it gives: `cost` of `/v1/check`, `COST`
of `RL.CHECK`, `hits_addend` of Envoy, the cost of a call in C++. The `cost` of a limit says
something else. So one decision can count requests, tokens and bytes together:

```yaml
version: 1
rules:
  - name: models
    match: { path: /v1/chat }
    limits:
      - { name: requests, key: "{header.x-team}", algorithm: gcra, limit: 60, per: 1m, cost: 1 }
