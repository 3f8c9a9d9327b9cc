#include "server/config/schema.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/quoted.h"
#include "insight/key_sketch.h"
#include "rules/attributes.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/yaml_tree.h"
#include "server/config/config.h"
#include "server/net/trusted_proxies.h"

namespace sluice::server::config {
namespace {

using net::TlsFiles;
using rules::Diagnostics;
using rules::Node;
using rules::schema::choice;
using rules::schema::flag;
using rules::schema::integer;
using rules::schema::Key;
using rules::schema::kPart;
using rules::schema::kSameObject;
using rules::schema::kSet;
using rules::schema::Map;
using rules::schema::number_of;
using rules::schema::object_of;
using rules::schema::Part;
using rules::schema::Set;
using rules::schema::Type;

// In the order of their enumerators, on which kSet relies.
constexpr std::array<std::string_view, 5> kLevels{"debug", "info", "warning", "error", "off"};
constexpr std::array<std::string_view, 2> kFormats{"text", "json"};
constexpr std::array<std::string_view, 3> kKeys{"plain", "hash", "none"};
constexpr std::array<std::string_view, 2> kSwitch{"off", "on"};
constexpr std::array<std::string_view, 2> kModuleUse{"auto", "off"};
constexpr std::array<std::string_view, 2> kCompat{"none", "consume_on_reject"};

constexpr std::uint64_t kDay = 86'400'000;  // milliseconds
constexpr std::uint64_t kLongestPath = 4096;

constexpr Key text(std::string_view name, Set set, std::string_view otherwise, std::uint64_t most,
                   std::string_view help) {
  return rules::schema::text(name, set, otherwise, 0, most, help);
}

constexpr Key unset_text(std::string_view name, Set set, std::uint64_t most,
                         std::string_view help) {
  return text(name, set, "`\"\"`", most, help);
}

constexpr Key path(std::string_view name, Set set, std::string_view help) {
  return unset_text(name, set, kLongestPath, help);
}

constexpr Key texts(std::string_view name, Set set, std::uint64_t most, std::string_view help) {
  return rules::schema::text(name, set, "`[]`", 1, most, help).as(Type::kTexts);
}

constexpr Key period(std::string_view name, Set set, std::string_view otherwise,
                     std::uint64_t least, std::string_view help, std::uint64_t most = 366 * kDay) {
  return rules::schema::period(name, set, otherwise, least, most, help);
}

constexpr Key map_of(std::string_view name, Part part, const Map& map, std::string_view help) {
  return rules::schema::map_of(name, part, "see below", map, help);
}

// Setters. A path is relative to the folder of the file; an empty one leaves the default.

std::string in_folder(const Diagnostics& diagnostics, const std::string& written) {
  return std::filesystem::path(diagnostics.file()).parent_path() / written;
}

template <auto First, auto... Rest>
constexpr Set kPath = [](void* object, const Key&, const Node& value, Diagnostics& diagnostics) {
  if (value.text.empty()) return;
  ((object_of(First, object).*First).*....*Rest) = in_folder(diagnostics, value.text);
};

template <auto Member>
constexpr Set kPaths = [](void* object, const Key&, const Node& value, Diagnostics& diagnostics) {
  for (const Node* file : rules::texts_of(value)) {
    (object_of(Member, object).*Member).push_back(in_folder(diagnostics, file->text));
  }
};

// The names of attributes.
template <auto Member>
constexpr Set kNames = [](void* object, const Key&, const Node& value, Diagnostics& diagnostics) {
  for (const Node* name : rules::texts_of(value)) {
    if (const auto wrong = rules::find_name_error(name->text)) {
      diagnostics.add_message(name->at, *wrong);
    }
    (object_of(Member, object).*Member).push_back(rules::normalized(name->text));
  }
};

// The name of a header field.
template <auto Member>
constexpr Set kHeader =
    [](void* object, const Key& key, const Node& value, Diagnostics& diagnostics) {
      constexpr std::string_view kRight =
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
      if (value.text.empty()) return;
      if (value.text.find_first_not_of(kRight) != std::string::npos) {
        diagnostics.add(value.at, "'" + std::string(key.name) + "' is " + rules::describe(value),
                        "expected the name of a header field, such as X-RateLimit-Limit");
      }
      object_of(Member, object).*Member = value.text;
    };

template <auto Member>
constexpr Set kOption = kSet<&RedisConfig::options, Member>;

// Braces in the prefix would put all keys of a cluster into one slot.
void set_prefix(void* object, const Key& key, const Node& value, Diagnostics& diagnostics) {
  kOption<&RedisOptions::prefix>(object, key, value, diagnostics);
  if (value.text.find_first_of("{}") == std::string::npos) return;
  diagnostics.add(value.at, "'prefix' is " + rules::describe(value),
                  "expected text without braces, which mark tags");
}

void set_protocol(void* object, const Key& key, const Node& value, Diagnostics& diagnostics) {
  kOption<&RedisOptions::protocol>(object, key, value, diagnostics);
  if (value.text != "1") return;
  diagnostics.add(value.at, "'protocol' is '1'",
                  "expected 2, 3, or 0 for the version that the server supports");
}

void set_client_certificate(void* object, const Key&, const Node& value, Diagnostics&) {
  static_cast<TlsFiles*>(object)->requires_client = value.text != "optional";
}

// `check-only` is `check`.
void set_role(void* object, const Key& key, const Node& value, Diagnostics&) {
  constexpr std::array kRoles{Role::kCheck, Role::kOperate, Role::kAdmin, Role::kCheck};
  static_cast<KnownClient*>(object)->role = kRoles[number_of(key, value)];
}

void add_hosts(void* object, const Key&, const Node& value, Diagnostics& diagnostics) {
  for (const Node* const node : rules::texts_of(value)) {
    auto& hosts = static_cast<Config*>(object)->hosts;
    const std::string& host = hosts.emplace_back(base::lower_case(node->text));
    if (host.find_first_of(":/ ") == host.npos) continue;
    diagnostics.add(node->at, "the host is " + rules::describe(*node),
                    "expected a host name without a port, such as sluice.internal");
  }
}

// Only `redis` selects Redis. Write a file of that name as ./redis.
void add_rules(void* object, const Key&, const Node& value, Diagnostics& diagnostics) {
  Config& config = *static_cast<Config*>(object);
  const auto given = rules::texts_of(value);
  for (const Node* rules : given) {
    if (rules->text != "redis") {
      config.rules.push_back(in_folder(diagnostics, rules->text));
    } else if (given.size() == 1) {
      config.rules_in_redis = true;
    } else {
      diagnostics.add(rules->at, "'rules' has 'redis' among files",
                      "expected it alone, or ./redis for a file with this name");
    }
  }
}

void add_proxies(void* object, const Key&, const Node& value, Diagnostics& diagnostics) {
  for (const Node* node : rules::texts_of(value)) {
    const auto checked = TrustedProxies::parse(std::span(&node->text, 1));
    if (!checked) diagnostics.add_message(node->at, checked.error());
    static_cast<Config*>(object)->trusted_proxies.push_back(node->text);
  }
}

void set_sample_by(void* object, const Key&, const Node& value, Diagnostics&) {
  static_cast<TrafficOptions*>(object)->sample_by = rules::normalized(value.text);
}

constexpr auto kListenKeys = [] {
  std::array<Key, kListenAddresses.size()> keys;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const ListenAddress& one = kListenAddresses[i];
    keys[i] = text(one.key, nullptr, one.otherwise, kLongestPath, one.help);
  }
  return keys;
}();
constexpr Map kListen{"listen", "`listen`", kListenKeys};

constexpr std::array<Key, 4> kMemoryKeys{
    integer("max_keys", kSet<&Config::max_keys>, "1048576", 128, std::uint64_t{1} << 32,
            "The maximum number of counters, about 60 bytes each. If there are more, "
            "Sluice evicts counters and counts that in the metrics."),
    integer("max_log_bytes", kSet<&Config::max_log_bytes>, "268435456", 4096,
            std::uint64_t{1} << 40,
            "The maximum number of bytes for the logs and slices of sliding windows. A log that "
            "does not fit counts by slices, which is stricter than exact. Blocks have an eighth "
            "of that number of bytes in addition (docs/reference/guarantees.md)."),
    path("snapshot", kPath<&Config::snapshot>,
         "The file that keeps the counters while the server restarts (docs/config.md). Sluice "
         "reads it at the start and writes it when the server ends, readable by this user only. If "
         "empty, a restart forgets the counters."),
    period("snapshot_interval", kSet<&Config::snapshot_interval>, "60s", 0,
           "The time between snapshots. After a crash, Sluice continues from the last one. 0: "
           "Sluice writes one only when the server ends.",
           kDay),
};
constexpr Map kMemory{"memory", "`memory`", kMemoryKeys};

constexpr std::array<Key, 5> kTlsKeys{
    path("ca_file", kPath<&RedisConfig::options, &RedisOptions::tls_ca_file>,
         "The file of trusted certificate authorities, PEM. If empty, the authorities "
         "of the system."),
    path("cert_file", kPath<&RedisConfig::options, &RedisOptions::tls_cert_file>,
         "The file of the client certificate, PEM."),
    path("key_file", kPath<&RedisConfig::options, &RedisOptions::tls_key_file>,
         "The file of its private key, PEM. Requires `cert_file`, and `cert_file` "
         "requires it."),
    unset_text("server_name", kOption<&RedisOptions::tls_server_name>, 253,
               "The name that the server's certificate must contain. If empty, the host of "
               "the URL."),
    flag("verify", kOption<&RedisOptions::tls_verify>, "`true`",
         "Whether Sluice verifies the server's certificate. Without verification, a "
         "third party on the network can read and change the traffic."),
};
constexpr Map kTls{"tls", "`redis.tls`", kTlsKeys};

constexpr std::array<Key, 3> kDenyCacheKeys{
    flag("enabled", kSet<&RedisConfig::deny_cache_enabled>, "`true`",
         "Whether Sluice caches denials."),
    integer("max_keys", kSet<&RedisConfig::deny_cache, &DenyCacheOptions::max_keys>, "65536", 1,
            std::uint64_t{1} << 28,
            "The maximum number of denied counters in the cache. Each takes about 73 "
            "bytes, which are allocated at the start."),
    period("longest", kSet<&RedisConfig::deny_cache, &DenyCacheOptions::longest>, "1s", 1,
           "The maximum time for which a cached denial is valid. After this time "
           "Sluice notices what other servers reset or refund.",
           kDay),
};
constexpr Map kDenyCache{"deny_cache", "`redis.deny_cache`", kDenyCacheKeys};

constexpr std::array<Key, 2> kLeaseKeys{
    integer("share", kSet<&RedisConfig::lease_percent>, "0", 0, 100,
            "The most units that a server takes ahead for one counter, as a percentage of the "
            "limit's capacity. 0: 25 / `nodes`."),
    integer("max_keys", kSet<&RedisConfig::lease_keys>, "16384", 8, std::uint64_t{1} << 24,
            "The maximum number of leased counters that a server tracks, about 170 bytes each. For "
            "other counters it asks Redis about each request."),
};
constexpr Map kLeases{"leases", "`redis.leases`", kLeaseKeys};

constexpr std::array<Key, 3> kBreakerKeys{
    integer("failures", kSet<&CircuitBreakerOptions::failures>, "5", 1, 1'000'000,
            "The number of consecutive failures that opens the circuit breaker."),
    period("open_for", kSet<&CircuitBreakerOptions::open_for>, "1s", 1,
           "The time before one request probes the store again. It doubles with each "
           "failed probe.",
           kDay),
    period("longest_open", kSet<&CircuitBreakerOptions::longest_open>, "10s", 1,
           "The maximum of `open_for` after doubling.", kDay),
};
constexpr Map kBreaker{"breaker", "`redis.breaker`", kBreakerKeys};

constexpr std::array<Key, 20> kRedisKeys{
    unset_text("username", kOption<&RedisOptions::username>, 1024,
               "The ACL user. If empty, the user of the URL, or the default user."),
    path("password_file", kPath<&RedisConfig::password, &SecretSource::file>,
         "The file of the password, read at the start. If empty, the password of the "
         "URL."),
    unset_text("password_env", kSet<&RedisConfig::password, &SecretSource::variable>, 128,
               "The environment variable of the password, instead of a file."),
    unset_text("sentinel_username", kOption<&RedisOptions::sentinel_username>, 1024,
               "The ACL user for connections to the Sentinels."),
    path("sentinel_password_file", kPath<&RedisConfig::sentinel_password, &SecretSource::file>,
         "The file of the password for the Sentinels."),
    unset_text("sentinel_password_env",
               kSet<&RedisConfig::sentinel_password, &SecretSource::variable>, 128,
               "The environment variable of the password, instead of a file."),
    map_of("tls", kSameObject, kTls, "TLS settings for URLs that begin with `rediss`."),
    text("prefix", set_prefix, "`sluice:`", 128,
         "The prefix of every key. It must not contain braces. Servers with the same "
         "prefix share their counters."),
    period("deadline", kOption<&RedisOptions::deadline>, "50ms", 1,
           "The maximum time that a request waits for the store. Then "
           "`on_store_error` decides.",
           kDay),
    period("connect_timeout", kOption<&RedisOptions::connect_timeout>, "1s", 1,
           "The maximum time to open a connection.", kDay),
    integer("max_pending", kOption<&RedisOptions::max_pending>, "16384", 1, 1'000'000,
            "The maximum number of pending requests on one connection. For further "
            "requests, `on_store_error` decides at once."),
    integer("protocol", set_protocol, "0", 0, 3,
            "The version of the Redis protocol, 2 or 3. 0: version 3 if the server "
            "supports it, else 2."),
    choice("scripting", kOption<&RedisOptions::scripting>, "`on`", kSwitch,
           "`off` for servers that cannot run scripts. Rules may then use only "
           "`sliding_window_counter` and `fixed_window` with `align: clock`, and some "
           "results are less exact (docs/reference/state-format.md)."),
    choice("module", kOption<&RedisOptions::module>, "`auto`", kModuleUse,
           "`auto`: requests are commands of Sluice's module where the server has loaded it, and "
           "scripts elsewhere. `off`: always scripts."),
    integer("nodes", kSet<&RedisConfig::nodes>, "1", 1, 100'000,
            "The number of servers that share the counters. With `on_store_error: local`, each "
            "server applies 1/`nodes` of each limit while the store fails. It also bounds the "
            "batches of leases (docs/operations.md)."),
    map_of("deny_cache", kSameObject, kDenyCache,
           "The cache of denials. After a denial, the server denies requests for the same "
           "counter without Redis until `Retry-After` has passed."),
    map_of("leases", kSameObject, kLeases, "The batches of limits with a `lease`."),
    map_of("breaker", kPart<&RedisConfig::breaker>, kBreaker,
           "The circuit breaker, which stops requests to a failing store."),
    unset_text("rules_key", kSet<&RedisConfig::rules_key>, 1024,
               "The key of the rules for `rules: redis`. If empty, the prefix followed by "
               "`rules`."),
    path("rules_cache", kPath<&RedisConfig::rules_cache>,
         "The file that keeps the rules of `rules: redis`, written whenever other rules are "
         "active. A "
         "server that cannot read rules from Redis at its start takes them from there."),
};
constexpr Map kRedis{"redis", "`redis`", kRedisKeys};

constexpr std::array<std::string_view, 2> kClientCertificate{"required", "optional"};
constexpr std::array<Key, 4> kListenerTlsKeys{
    path("cert_file", kPath<&TlsFiles::cert_file>,
         "The file of the server's certificate chain, PEM."),
    path("key_file", kPath<&TlsFiles::key_file>, "The file of its private key, PEM."),
    path("client_ca_file", kPath<&TlsFiles::client_ca_file>,
         "The file of authorities for client certificates, PEM. If empty, clients "
         "need no certificate."),
    choice("client_certificate", set_client_certificate, "`required`", kClientCertificate,
           "With `client_ca_file`: `optional` also accepts clients without a certificate. A "
           "certificate of another authority is always refused."),
};
constexpr Map kListenerTls{"tls", "`http.tls`, `grpc.tls`, `resp.tls` and `admin.tls`",
                           kListenerTlsKeys};
template <auto Member>
constexpr Key kTlsOf =
    map_of("tls", kPart<Member>, kListenerTls,
           "The listener's certificate (see TLS). With one, the listener accepts only TLS; without "
           "one, only plaintext. Sluice reads the files again on SIGHUP.");

constexpr std::array<Key, 3> kGrpcKeys{
    integer("streams", kSet<&Config::grpc_streams>, "1024", 1, 1'000'000,
            "The maximum number of concurrent calls on a connection."),
    period("max_age", kSet<&Config::grpc_max_age>, "0s", 0,
           "The maximum age of a connection. Then the server asks the client to open a "
           "new connection, which spreads clients over servers. 0: no maximum."),
    kTlsOf<&Config::grpc_tls>,
};
constexpr Map kGrpc{"grpc", "`grpc`", kGrpcKeys};

constexpr std::array<std::string_view, 4> kRoleNames{"check", "operate", "admin", "check-only"};
constexpr std::string_view kRoleHelp =
    "`check` may request decisions. `operate` may also refund, reset and, on a listener that other "
    "machines can reach, take several units at once. `admin` includes `operate`. `check-only` is "
    "the same as `check`.";

constexpr std::string_view kCertificateHelp =
    "A name in the client's certificate: a DNS name in lower case or a URI of its alternative "
    "names, or its common name if it has neither. Requires `client_ca_file` (see TLS).";

// The keys of a client that is known by a secret or by its certificate.
constexpr std::array<Key, 5> known_client(std::string_view about, std::string_view file,
                                          std::string_view about_file, std::string_view variable,
                                          std::string_view about_variable) {
  return {Key{.name = "name",
              .type = Type::kText,
              .required = true,
              .least = 1,
              .most = 256,
              .help = about,
              .set = kSet<&KnownClient::name>},
          choice("role", set_role, "`check`", kRoleNames, kRoleHelp),
          path(file, kPath<&KnownClient::source, &SecretSource::file>, about_file),
          unset_text(variable, kSet<&KnownClient::source, &SecretSource::variable>, 128,
                     about_variable),
          unset_text("certificate", kSet<&KnownClient::certificate>, 1024, kCertificateHelp)};
}

constexpr auto kUserKeys = known_client(
    "The user name for `AUTH` and `HELLO`. `default` is the user of a client that sends only a "
    "password.",
    "password_file", "The file of the password, read at the start.", "password_env",
    "The environment variable of the password, instead of a file.");
constexpr Map kUser{"user", "each of `resp.users`", kUserKeys};

constexpr std::array<Key, 3> kRespKeys{
    Key{.name = "users",
        .type = Type::kList,
        .otherwise = "`[]`",
        .most = 1000,
        .map = &kUser,
        .help = "The users of the RESP front end. Without users, every client that can "
                "connect may use every command."},
    period("idle_timeout", kSet<&Config::resp_idle_timeout>, "5m", 0,
           "The maximum idle time of a connection. Clients must open a new one then, as connection "
           "pools do. 0: no maximum."),
    kTlsOf<&Config::resp_tls>,
};
constexpr Map kResp{"resp", "`resp`", kRespKeys};

constexpr auto kClientKeys =
    known_client("The name of the client, for messages.", "token_file",
                 "The file of the bearer token, read at the start.", "token_env",
                 "The environment variable of the token, instead of a file.");
constexpr Map kClient{"client", "each of `clients`", kClientKeys};

constexpr std::array<Key, 2> kHttpKeys{
    texts("hosts", add_hosts, 253,
          "Host names that a request to a loopback address may have besides `localhost`. Other "
          "names are refused, because a web page could have chosen them."),
    kTlsOf<&Config::http_tls>,
};
constexpr Map kHttp{"http", "`http`", kHttpKeys};

constexpr std::array<Key, 3> kAdminKeys{
    path("token_file", kPath<&Config::admin_token, &SecretSource::file>,
         "The file of the bearer token for administration, read again on SIGHUP. If "
         "empty, there is no token."),
    unset_text("token_env", kSet<&Config::admin_token, &SecretSource::variable>, 128,
               "The environment variable of the token, instead of a file."),
    kTlsOf<&Config::admin_tls>,
};
constexpr Map kAdmin{"admin", "`admin`", kAdminKeys};

constexpr std::array<Key, 9> kBoundsKeys{
    integer("header_bytes", kSet<&Bounds::header_bytes>, "32768", 1024, 1 << 20,
            "The maximum size of a request's header in bytes."),
    integer("body_bytes", kSet<&Bounds::body_bytes>, "1048576", 1024, 64 << 20,
            "The maximum size of a request's body in bytes."),
    period("header_timeout", kSet<&Bounds::header_timeout>, "10s", 1,
           "The maximum time from the first byte of a request to the end of its header."),
    period("body_timeout", kSet<&Bounds::body_timeout>, "10s", 1,
           "The maximum time from the end of the header to the end of the body."),
    period("write_timeout", kSet<&Bounds::write_timeout>, "10s", 1,
           "The maximum time for a client to read its responses."),
    period("idle_timeout", kSet<&Bounds::idle_timeout>, "75s", 1,
           "The maximum time between two requests of a connection."),
    integer("connections", kSet<&Bounds::connections>, "10000", 1, 1'000'000,
            "The maximum number of open connections. Sluice refuses further connections."),
    integer("requests_per_connection", kSet<&Bounds::requests_per_connection>, "0", 0, UINT32_MAX,
            "The number of requests after which Sluice closes a connection. 0: no "
            "maximum."),
    integer("waiting", kSet<&Bounds::waiting>, "1000", 0, 60'000,
            "The maximum number of requests to `/v1/check` that wait for units (`wait_ms`). 0: "
            "no request may wait."),
};
constexpr Map kBounds{"bounds", "`bounds`", kBoundsKeys};

constexpr std::array<Key, 3> kDrainKeys{
    period("delay", kSet<&Config::drain_delay>, "2s", 0,
           "The time during which `/readyz` answers 503 before the listeners close. The "
           "server still serves requests, so that load balancers have time to switch. It should "
           "be longer than they need to notice. It is left out if no connection is open and nobody "
           "has asked `/readyz`, and at a terminal; see docs/config.md."),
    period("timeout", kSet<&Config::drain_timeout>, "10s", 0,
           "The maximum time that open connections then have to finish."),
    unset_text("handover", kPath<&Config::handover>, 103,
               "The path of a Unix socket at which a new process of the same user takes over the "
               "listening sockets; see docs/config.md. Empty: none does."),
};
constexpr Map kDrain{"drain", "`drain`", kDrainKeys};

constexpr std::array<Key, 5> kLogKeys{
    choice("level", kSet<&LogOptions::level>, "`info`", kLevels,
           "The lowest level that Sluice logs."),
    choice("format", kSet<&LogOptions::json>, "`text`", kFormats,
           "`text` for people, `json` for programs."),
    choice("keys", kSet<&LogOptions::keys>, "`plain`", kKeys,
           "How Sluice logs the keys of requests that are denied or near a limit, which can "
           "contain addresses "
           "and names: unchanged, as a hash, or not at all."),
    integer(
        "denials_per_second", kSet<&LogOptions::denials_per_second>, "10", 0, 1'000'000,
        "The maximum number of log lines per second for denied requests, of those that rules in "
        "shadow mode would deny (`would_deny`), and of those for keys near a limit with `warn`. "
        "Sluice counts the others and logs their number. 0: none."),
    flag("access", kSet<&LogOptions::access>, "`false`",
         "Whether Sluice logs a line for every request."),
};
constexpr Map kLog{"log", "`log`", kLogKeys};

constexpr std::array<Key, 6> kRecordKeys{
    path("file", kPath<&TrafficOptions::file>,
         "The file of recorded requests. If empty, Sluice records none."),
    integer("share", kSet<&TrafficOptions::share>, "100", 1, 100,
            "The share of the clients that are recorded, in percent."),
    text("sample_by", set_sample_by, "`ip`", 256,
         "The attribute that names a client. All requests of a client are recorded, or none; those "
         "without this attribute are chosen one by one."),
    integer("max_bytes", kSet<&TrafficOptions::max_bytes>, "1073741824", std::uint64_t{16} << 20,
            std::uint64_t{1} << 50,
            "The maximum size of the file together with the previous one, in bytes. A file with "
            "half of it is renamed to `FILE.1`, and a new one begins."),
    texts("attributes", kNames<&TrafficOptions::attributes>, 256,
          "Attributes that are recorded besides `method`, `path`, `host`, `ip`, and those that the "
          "rules name."),
    texts(
        "hash", kNames<&TrafficOptions::hash>, 256,
        "Attributes whose values are recorded as hashes; `key`: the keys of requests that no rules "
        "decide. If `log.keys` is not `plain`, all are except for `method`, `path` and `host`."),
};
constexpr Map kRecord{"record", "`record`", kRecordKeys};

void set_ledger_file(void* object, const Key&, const Node& value, Diagnostics& diagnostics) {
  LedgerOptions& ledger = *static_cast<LedgerOptions*>(object);
  if (const std::string wrong = set_ledger(value.text, ledger); !wrong.empty()) {
    diagnostics.add_message(value.at, wrong);
  } else if (!ledger.file.empty()) {
    ledger.file = in_folder(diagnostics, ledger.file);
  }
}

constexpr std::array<Key, 3> kLedgerKeys{
    text("to", set_ledger_file, "`off`", kLongestPath,
         "`file:PATH`: a file of JSON lines, for a `store` in memory. `redis`: a stream next to "
         "each "
         "budget, for a `store` in Redis. `off`: there is no ledger. `ledger: file:PATH` is the "
         "same as `ledger: { to: file:PATH }`."),
    period("flush", kSet<&LedgerOptions::flush>, "1s", 10,
           "The maximum time from a change of a budget to its line on the disk. After a crash, the "
           "changes of this time may be missing.",
           60'000),
    integer(
        "keep", kSet<&LedgerOptions::keep>, "100000", 1, 1'000'000'000,
        "In Redis, about how many changes of each budget are kept; the oldest ones leave first."),
};
constexpr Map kLedger{.name = "ledger", .where = "`ledger`", .keys = kLedgerKeys, .is_short = true};

constexpr std::array<Key, 9> kEnvoyKeys{
    texts("files", kPaths<&EnvoyOptions::files>, kLongestPath,
          "Envoy's configuration files, one domain each, and directories of them "
          "(`*.yaml`, `*.yml`); see docs/envoy.md. Sluice reloads them like `rules`."),
    flag("merge_domains", kSet<&EnvoyOptions::merge_domains>, "`false`",
         "Whether several files may have the same domain, whose descriptors are then those of all. "
         "`MERGE_DOMAIN_CONFIG` of Envoy's own service."),
    choice("compat", kSet<&EnvoyOptions::consume_on_reject>, "`none`", kCompat,
           "`consume_on_reject`: each limit is charged on its own. A limit that denies "
           "is charged with what it has left, as in Envoy's own service."),
    flag("shadow_mode", kSet<&EnvoyOptions::shadow_mode>, "`false`",
         "Whether every request is allowed and only counted."),
    flag("headers", kSet<&EnvoyOptions::headers>, "`false`",
         "Whether responses report the tightest limit to clients in the three fields "
         "below."),
    text("limit_header", kHeader<&EnvoyOptions::limit_header>, "`RateLimit-Limit`", 128,
         "The field for the requests per unit."),
    text("remaining_header", kHeader<&EnvoyOptions::remaining_header>, "`RateLimit-Remaining`", 128,
         "The field for the remaining requests."),
    text("reset_header", kHeader<&EnvoyOptions::reset_header>, "`RateLimit-Reset`", 128,
         "The field for the seconds until the next unit."),
    flag("request_metadata", kSet<&EnvoyOptions::request_metadata>, "`false`",
         "Whether `dynamic_metadata` contains the request and the names of exhausted "
         "quotas."),
};
constexpr Map kEnvoy{"envoy", "`envoy`", kEnvoyKeys};

void set_otlp_endpoint(void* object, const Key& key, const Node& value, Diagnostics& diagnostics) {
  kSet<&OtlpOptions::endpoint>(object, key, value, diagnostics);
  const std::string wrong = value.text.empty() ? "" : find_endpoint_error(value.text);
  if (!wrong.empty()) diagnostics.add_message(value.at, wrong);
}

constexpr std::array<Key, 6> kOtlpKeys{
    unset_text(
        "endpoint", set_otlp_endpoint, 1024,
        "The address of a receiver of OTLP by HTTP, `http://HOST:PORT`, such as "
        "`http://127.0.0.1:4318`, or `https://HOST:PORT`. Sluice sends to `/v1/traces` and "
        "`/v1/metrics` there. If empty, the environment variable `OTEL_EXPORTER_OTLP_ENDPOINT`; "
        "without it, Sluice sends nothing."),
    path("ca_file", kPath<&OtlpOptions::ca_file>,
         "The certificate authorities of the receiver, in PEM. If empty, the environment variable "
         "`OTEL_EXPORTER_OTLP_CERTIFICATE`; without it, the system's."),
    unset_text("service_name", kSet<&OtlpOptions::service_name>, 256,
               "The attribute `service.name`. If empty, the environment variable "
               "`OTEL_SERVICE_NAME`; without it, `sluice`."),
    rules::schema::share("sample", kSet<&OtlpOptions::sample>, "`0.01`",
                         "The share of the decisions that have a span, among requests without a "
                         "valid `traceparent`. Otherwise its flag `sampled` decides."),
    period("slow", kSet<&OtlpOptions::slow>, "10ms", 0,
           "The duration of a decision from which on it has a span, sampled or not.", kDay),
    period("metrics_interval", kSet<&OtlpOptions::metrics_interval>, "60s", 0,
           "The time between two messages with all metrics. 0: Sluice sends no metrics.", kDay),
};
constexpr Map kOtlp{"otlp", "`otlp`", kOtlpKeys};

// `auto` is 0.
void set_quota_ttl(void* object, const Key& key, const Node& value, Diagnostics& diagnostics) {
  if (value.text != "auto") kSet<&QuotaConfig::ttl>(object, key, value, diagnostics);
}

constexpr std::array<std::string_view, 1> kAuto{"auto"};
constexpr std::array<Key, 3> kQuotaKeys{
    period(
        "every", kSet<&QuotaConfig::every>, "1s", 100,
        "The maximum time between two divisions of a limit. Sluice also divides it when a report "
        "arrives.",
        60'000),
    period(
        "idle", kSet<&QuotaConfig::idle>, "60s", 1000,
        "The time without a report after which Sluice abandons a bucket, and others may have its "
        "part.",
        kDay),
    Key{.name = "ttl",
        .type = Type::kPeriod,
        .otherwise = "`auto`",
        .values = kAuto,
        .least = 1000,
        .most = kDay,
        .help = "How long a proxy may use a part without a new one. `auto`: three times the "
                "interval of its reports, at most 60s.",
        .set = set_quota_ttl},
};
constexpr Map kQuota{"quota", "`quota`", kQuotaKeys};

constexpr std::array<Key, 6> kUpstreamKeys{
    path("token_file", kPath<&UpstreamConfig::token, &SecretSource::file>,
         "The file of the token of a client of the other server with the role `operate`, read at "
         "the start. If empty, no token is sent."),
    unset_text("token_env", kSet<&UpstreamConfig::token, &SecretSource::variable>, 128,
               "The environment variable of the token, instead of a file."),
    path("ca_file", kPath<&UpstreamConfig::ca_file>,
         "The file of trusted certificate authorities, PEM. If empty, the authorities of the "
         "system."),
    path("cert_file", kPath<&UpstreamConfig::cert_file>,
         "The file of the client certificate, PEM."),
    path("key_file", kPath<&UpstreamConfig::key_file>,
         "The file of its private key, PEM. Requires `cert_file`, and `cert_file` requires it."),
    period("deadline", kSet<&UpstreamConfig::deadline>, "100ms", 1,
           "The maximum time that the first requests for a key wait for an assignment. Then "
           "`on_store_error` decides.",
           60'000),
};
constexpr Map kUpstream{"upstream", "`upstream`", kUpstreamKeys};

constexpr std::array<Key, 25> kFileKeys{
    Key{.name = "version",
        .type = Type::kInteger,
        .required = true,
        .least = 1,
        .most = 1,
        .help = "The version of this format: 1."},
    map_of("listen", kSameObject, kListen,
           "The addresses of the listeners: `host:port`, `[v6]:port`, `unix:PATH`, or "
           "`off`."),
    Key{.name = "store",
        .type = Type::kText,
        .otherwise = "`memory`",
        .least = 1,
        .most = kLongestPath,
        .is_secret = true,
        .help = "The store of the counters: `memory` (in this process), the URL of a Redis or "
                "Valkey (see Redis), or `quota://HOST:PORT`, the gRPC listener of another Sluice, "
                "whose quotas decide here (docs/quota.md); `quotas://` for TLS.",
        .set = kSet<&Config::store>},
    map_of("memory", kSameObject, kMemory,
           "The bounds of the memory store, and the file of its counters."),
    map_of("redis", kPart<&Config::redis>, kRedis, "Settings for a `store` in Redis."),
    map_of("upstream", kPart<&Config::upstream>, kUpstream,
           "Settings for a `store` at another Sluice (docs/quota.md)."),
    map_of("grpc", kSameObject, kGrpc, "Settings of the gRPC front end."),
    map_of("envoy", kPart<&Config::envoy>, kEnvoy,
           "Envoy's rate limit service with Envoy's own configuration files."),
    map_of("quota", kPart<&Config::quota>, kQuota,
           "The quota service, which assigns parts of limits to proxies (docs/quota.md)."),
    texts("rules", add_rules, kLongestPath,
          "Rules files, and directories of them (`*.yaml`, `*.yml`); or `redis` for "
          "the rules in the store (see Rules in Redis). Without rules, Sluice uses a "
          "small built-in example."),
    path("overrides", kPath<&Config::overrides>,
         "The file that keeps overrides if the store is `memory` (docs/keys.md). If empty, "
         "`overrides.txt` next to the first of `rules`."),
    flag("watch", kSet<&Config::watch>, "`true`",
         "Whether Sluice reloads rules when their files change."),
    texts("trusted_proxies", add_proxies, 64,
          "Addresses and networks (`10.0.0.0/8`) of proxies that Sluice trusts to "
          "report the client's address. `unix` means peers on a Unix socket."),
    integer("threads", kSet<&Config::threads>, "0", 0, 1024,
            "The number of threads that serve requests. 0: the number of processors."),
    Key{.name = "clients",
        .type = Type::kList,
        .otherwise = "`[]`",
        .most = 1000,
        .map = &kClient,
        .help = "Clients of HTTP and gRPC that send `Authorization: Bearer TOKEN` or have a "
                "certificate. Others have the role `check`, or `operate` on a loopback address or "
                "a Unix socket."},
    map_of("http", kSameObject, kHttp, "Settings of the HTTP front end."),
    map_of("resp", kSameObject, kResp, "Users and settings of the RESP front end."),
    map_of("admin", kSameObject, kAdmin,
           "Access to administration. Without a token, only this machine has access."),
    map_of("bounds", kPart<&Config::bounds>, kBounds,
           "Bounds on the clients of a listener. Each listener counts its own "
           "connections."),
    map_of("drain", kSameObject, kDrain, "How the server shuts down on SIGTERM."),
    map_of("log", kPart<&Config::log>, kLog, "The log on standard error."),
    map_of("record", kPart<&Config::record>, kRecord,
           "The recording of requests (docs/replay.md)."),
    map_of("ledger", kPart<&Config::ledger>, kLedger,
           "The ledger of the budgets: every change of a balance (docs/budgets.md)."),
    map_of("otlp", kPart<&Config::otlp>, kOtlp,
           "Spans of decisions, and metrics, for a receiver of OpenTelemetry "
           "(docs/reference/metrics.md)."),
    integer("top_keys", kSet<&Config::top_keys>, "256", 0, insight::KeyFrame::kMostKeys,
            "The number of keys that Sluice counts per limit, for the most asked and the most "
            "denied ones (docs/see.md). Each takes at most 4 KB per limit. 0: none. Keys "
            "appear as `log.keys` says, and with `none` they are not counted."),
};
constexpr Map kFile{"file", "the file", kFileKeys};

}  // namespace

const Map& file() noexcept { return kFile; }

std::string json_schema() { return rules::schema::json_schema(file(), "Configuration of Sluice"); }

}  // namespace sluice::server::config
