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
      - { name: tokens, key: "{header.x-team}", algorithm: token_bucket, limit: 90000, per: 1m,
          cost: "{body.max_tokens|500}" }
      - { name: bytes, key: "{header.x-team}", algorithm: fixed_window, limit: 10000000, per: 1h,
          cost: request }
```

| `cost` | the request takes |
|---|---|
| none | the number that the request gives, else 1. The header `X-Sluice-Cost` does not count |
| `5` | always 5 units; with 0, the limit never denies |
| `request` | the number that the request gives, else 1. At `/v1/auth` it is the header `X-Sluice-Cost` of a trusted proxy (`docs/attributes.md`) |
| `"{body.max_tokens}"` | the number in an attribute |
| `"{body.max_tokens\|header.x-units\|500}"` | the number in the first of these attributes that is present, else 500 |

A request can also give the cost of single limits by their names: `costs` of `/v1/check`
(`docs/http.md`), `COST tokens=700` of `RL.CHECK` (`docs/commands.md`), `LimitCost` in C++. Such a
cost replaces the `cost` of the limit. A name that no limit of the matching rules has makes the
request `invalid`.

The value of an attribute must be a whole number from 0 to 4294967295, in plain digits without a
sign or leading zeros. Any other value makes the request `invalid`: Sluice denies it, over HTTP with
the status 400, and charges no limit. An empty value counts as absent. If all attributes are absent
and there is no default, `on_missing` decides. With `skip` a client can then avoid the limit by
omitting the attribute, so give a default, or use `deny`.

A refund gives back what the same request would take, from every limit. To give back tokens only,
give the other limits a cost of 0: `"costs": {"tokens": 200, "requests": 0, "bytes": 0}`. A reset has
no costs.

Costs that a rule reads from attributes need no role, unlike numbers over 1 that a client gives
(`docs/http.md`, *Who may do what*). Read them only from attributes that you would also use as a key.

## Plans

Customers with different limits need one rule: `plans` has numbers by the name of the plan and by the
name of the limit, and the `plan` of a rule says where the name of the plan is.

```yaml
version: 1
plans:
  free: { requests: { limit: 60, per: 1m }, tokens: { limit: 10000, per: 1m } }
  pro: { requests: { limit: 6000, per: 1m }, tokens: { limit: 500000, per: 1m } }
rules:
  - name: api
    match: { path: /v1/** }
    plan: { from: "{header.x-plan}", default: free }
    limits:
      - { name: requests, key: "{header.x-customer}", algorithm: token_bucket }
      - { name: tokens, key: "{header.x-customer}", algorithm: token_bucket,
          cost: "{body.max_tokens|500}" }
```

A limit without numbers needs numbers in every plan of the file. A limit with numbers of its own has
them in the plans that have none for it. Everything else of a limit (key, algorithm, cost, options
other than `burst`) is the same in all plans. Numbers that the algorithm cannot have are an error, and
numbers that no limit takes are a warning.

A request without the name of a plan gets the `default`, and so does one with an unknown name. Let
only a proxy that you trust set that attribute: a client that can choose it chooses its limits.

What was consumed still counts when a key gets another plan: the counter is the same, and only its
numbers change. Plans belong to their file. A file has at most 100,000 numbers: each limit with a plan
counts once for each plan.

## Calendar

A `fixed_window` may have `per: day`, `week`, `month` or `year`. Its windows begin at midnight in a
time zone and have their true length: months of 28 to 31 days, and days of 23 or 25 hours when clocks
change.

```yaml
version: 1
rules:
  - name: quota
    match: { path: /v1/** }
    limits:
      - { key: "{header.x-customer}", algorithm: fixed_window, limit: 50000, per: month,
          zone: Asia/Shanghai, starts: 15 }
```

- `zone` is a name of the IANA time zone database; the default is `UTC`. The machine needs the package
  `tzdata`. Sluice looks in the folder of the environment variable `TZDIR`, or in
  `/usr/share/zoneinfo`. It reads a time zone once: restart the server after an update of `tzdata`.
- `starts` is the first day. Of a month it is a day, 1 to 31 (default 1); in a month without that day,
  it is the last day of the month. Of a week it is a weekday (default `monday`). Of a year it is a
  date such as `04-06` (default `01-01`).
- A window begins at the first instant at which clocks of the zone show its first day. If clocks skip
  midnight, it is the instant after the skip. If they show midnight twice, it is the first one.
- If you change `zone` or `starts`, what was consumed still counts until the present window ends. If
  you change between a period and the calendar, the same is true.
- In RateLimit-Policy `w` is 86400 for a day, 604800 for a week, 2678400 (31 days) for a month and
  31622400 (366 days) for a year. Retry-After and `reset_after` are exact.
- Plans may have `per: month`; `zone` and `starts` belong to the limit. An override with a `per` has
  that period; with a unit, such as `month`, in the `zone` of the limit.
- With `scripting: off` in Redis the calendar is not available.

## Blocks

A limit denies what exceeds it, and goes on to admit the rest: a program that guesses passwords
tries again as soon as it can. With a `block`, a key that is denied too often is denied everything
for a time:

```yaml
version: 1
rules:
  - name: login
    match: { method: POST, path: /login }
    limits:
      - { name: address, key: "{ip}", algorithm: fixed_window, limit: 10, per: 1m,
          block: { after: 5, within: 10m, for: 15m, grow: 2, at_most: 24h } }
```

An address that this limit denies 5 times within any 10 minutes is denied for 15 minutes from then on,
the next time for 30, and so on up to a day. The reason is `blocked`, and `Retry-After` is exact.
Denials during a block are not counted. If a key stays unblocked for `at_most`, its next block is as
short as the first. Only denials by this limit count, and not those of a cost that could never
be admitted. A request that is let wait (`wait_ms`) counts only with a bucket. Rules in shadow mode
count and block for themselves and never deny. `docs/algorithms.md` has every detail.

Blocks are stored next to the counters: all servers with one Redis share them, they last when a
server restarts, and they cost no further round trip. A reset of the counter ends the block;
`/v1/blocks` blocks and unblocks keys by hand (`docs/admin.md`), also a key whose override says
`unlimited`. `on_store_error: local` has its own
blocks in each process. Blocks need scripts in Redis.

## Near the limit

`warn` says how much of a limit a key may use before Sluice reports it, so that you can talk to a
customer before requests are denied:

```yaml
version: 1
rules:
  - name: api
    match: { path: /v1/** }
    limits:
      - { name: month, key: "{header.x-customer}", algorithm: fixed_window, limit: 50000, per: month,
          warn: 80% }
```

It is a whole percentage, 1% to 100%, of what the limit holds: of its burst if it has one, of the
permits in flight with `concurrency`, and of the numbers of a plan or an override. A key is near if at
least this much is used after the decision, even if the request was denied. A limit of 0 is never near.
Sluice reports it in these ways:

- Answers have `near` for each limit with `warn`: `limits` of `/v1/check` and `RL.CHECK`, and
  `LimitAnswer::near` in C++. It does not change the reason.
- `sluice_near_keys_total` counts, and the log has a line `near` with the rule, the limit and the key:
  once per key and window, by requests that take or charge units. The log has at most
  `log.denials_per_second` such lines in a second, and shows keys as for denials.

The window begins with the report. It ends when the limit would be untouched again if nothing else
arrived (`reset_after_ms` of that answer): with `fixed_window` at the end of the window; for a bucket,
when it would be full; for permits, when their leases end. A key that is still near then is reported
again.

Each server reports for itself, and a restart forgets what was reported. A server remembers 65,536
keys, in 1 MiB that the first one allocates. If more keys are near at the same time, it forgets those
whose windows end first, and may report them again. Limits without `warn` cost nothing.

## Counting by the response

Some requests count only if they fail: logins with a wrong password, pages that do not exist. Others
say afterwards what they cost. A limit with `count` is only looked at when the request is decided,
and charged when its response is reported:

```yaml
version: 1
rules:
  - name: login
    match: { method: POST, path: /login }
    limits:
      - { name: failures, key: "{ip}", algorithm: fixed_window, limit: 5, per: 15m,
          count: { on: [401, 403] } }
```

`on` is a status, a class of statuses such as `5xx`, or a list of them: such a response costs what a
request would cost, one unit without `cost`. An attribute of the response with `add` adds the number
that it has, whatever the status: `count: { on: 5xx, header.x-cost: add }`. If it is absent, nothing
is added. A request is denied if its cost is more than what is left, as without `count`.

`POST /v1/report` (`docs/http.md`), `RL.REPORT` (`docs/commands.md`) and `RuleDecider::report` report
a response with its status, and with the same attributes as the decision. nginx and Caddy can do so
(`docs/gateway.md`); how Envoy counts responses is in `docs/envoy.md`. A report charges only limits
with `count`, and always: the response is sent even if it is beyond the limit. Sluice does not
remember decisions, so a report counts without one, and requests that are decided before the
responses of others may pass the limit together. A status that
is missing or wrong, or is not a number, makes the report `invalid`, and it charges nothing.

Refund, charge and settle do not change such a limit; a reset does. A `block` counts the requests that
are denied, not the responses. With Redis, a rule that has limits with and without `count` asks twice,
and so does a request that is denied by one with `count`.

## Permits

The algorithm `concurrency` limits the requests in flight: at most `limit` units at the same time. It
has a `lease` instead of `per`:

```yaml
version: 1
rules:
  - name: exports
    match: { path: /export }
    limits:
      - { key: "{header.x-team}", algorithm: concurrency, limit: 3, lease: 5m }
```

An admitted request receives one permit for all its `concurrency` limits. Its units are in flight
until the holder releases the permit, or until the lease ends. So a holder that has died keeps its
units no longer than the lease. A holder that needs more time extends the lease before it ends.
`docs/algorithms.md` defines all of this.

Permits are in the store, including Redis (but not with `scripting: off`), so any server can release
them. A request that cannot receive a permit is `invalid` if such a limit applies to it: at
`/v1/auth`, from Envoy, and over gRPC, because nobody reports when the request ends. A refund
shrinks the newest permits, and settling leaves permits as they are.

## Leases

With `lease`, a limit of any other algorithm lets a server take units of busy counters ahead from
Redis, and admit requests without asking Redis for each:

```yaml
version: 1
rules:
  - name: search
    match: { path: /search }
    limits: [{ algorithm: token_bucket, limit: 100000, per: 1s, lease: 100ms }]
```

In total nothing is admitted that Redis has not counted, but a unit may be used up to one lease later.
`docs/leases.md` says when it helps and by how much a limit can be exceeded.

## Rejections

`reject` is the HTTP response to a denied request. Its `body` and the values of its `headers` may
contain numbers of the decision:

```yaml
version: 1
rules:
  - name: order
    match: { path: /api/order/** }
    limits:
      - { key: "{header.x-user-id|ip}", algorithm: token_bucket, limit: 10, per: 1m }
    reject:
      body: '{"code":429,"message":"try again in {retry_after} s","limit":{limit},"reset":{reset_at}}'
      headers: { X-Wait: "{retry_after}" }
```

| name | becomes |
|---|---|
| `{retry_after}` | the whole seconds until this request would pass, rounded up, as in `Retry-After` |
| `{limit}` | the units that the limit holds: its burst, or else its number. If several limits apply, this is the number of the tightest limit, as in `X-RateLimit-Limit` |
| `{remaining}` | the units that are left |
| `{reset_at}` | when the limit is untouched again if nothing else arrives: RFC 3339 in UTC by the clock of the server, such as `2026-11-23T12:00:00Z`, rounded up to a second |
| `{{limit}}` | the text `{limit}`; the same for the other names |

Sluice changes no other braces, so any JSON can be a body. It sends any other name in braces unchanged;
`sluice rules check` prints a warning, with a proposal if it looks like a typing error.

A denial does not always have all numbers. `{retry_after}` is absent with the reason `never`, if a block
has no end, and with `deny_rule`. With `deny_rule`, after a failure of the store, and for a key that an
override blocks, the others are absent too. In a body an absent number is `-`, or `null` as a value of
JSON. A header with an absent number is left out.

In a body of JSON (a `content_type` with `json`), a name outside a string becomes a JSON value: numbers
as they are, `{reset_at}` in quotes. The values contain only digits, `-`, `:`,
`T` and `Z`, so that they need no escaping in JSON, HTML or a header.

A header has a name of letters, digits and `-`, and a value in printable ASCII, so that it cannot contain
a line break. A rule cannot set headers of the connection (`Connection`, `Transfer-Encoding` and others),
those that describe the body, `Retry-After`, or RateLimit fields that Sluice writes (see `headers` of the
rule). `/v1/auth` sends status, body and headers. `/v1/check` sends the status and the headers if the
request is no array; its body is its answer.

## Format of the file

A file is at most 4 MiB of UTF-8: one YAML document, at most 32 levels deep, with at most 1,000,000
values and 10,000 regular expressions.

- Numbers are plain digits: no quotes, signs, fractions, exponents, underscores or leading zeros.
- Flags are `true` and `false`.
- Periods are a whole number and a unit: `500ms`, `60s`, `5m`, `1h`, `7d`.
- Where text is expected, a number is read as text, exactly as written.
- A key may appear only once in a map.
- Anchors and aliases (`&a`, `*a`) work. Merge keys (`<<`) and tags (`!!str`) do not.

If a program reads several files as one set, the rules follow each other in the order of the files.
Each file has its own `version`, `domain`, `defaults` and `plans`. The name of a rule must be unique across
all files.

## Reference

)guide";

}  // namespace

std::string guide() { return std::string(kGuide) + reference(file()); }

}  // namespace sluice::rules::schema
