#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/role.h"
#include "server/config/secret.h"
#include "server/logging/ledger_file.h"
#include "server/logging/log.h"
#include "server/logging/traffic_log.h"
#include "server/net/bounds.h"
#include "server/net/tls_context.h"
#include "server/otlp/exporter.h"
#include "sluice/deny_cache.h"
#include "sluice/expected.h"
#include "sluice/failure_policy.h"
#include "sluice/leased_store.h"
#include "sluice/redis_store.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// The connection to a Redis store and its use.
struct RedisConfig {
  // Without the URL and the passwords, which redis_options() adds.
  RedisOptions options;
  SecretSource password;  // read at the start, as the next
  SecretSource sentinel_password;
  std::size_t nodes = 1;          // servers that share the counters
  std::size_t lease_percent = 0;  // of a capacity, in one batch; 0: 25 / nodes
  std::size_t lease_keys = LeaseOptions{}.max_keys;
  bool deny_cache_enabled = true;
  DenyCacheOptions deny_cache;
  CircuitBreakerOptions breaker;
  std::string rules_key;    // empty: "rules" after the prefix
  std::string rules_cache;  // a file that keeps the rules from there; empty: none
};

// The settings for Envoy's requests.
struct EnvoyOptions {
  std::vector<std::string> files = {};  // Envoy's configuration files, and directories of them
  bool merge_domains = false;           // several files may have one domain
  bool consume_on_reject = false;       // as Envoy's own service; see envoy::Request
  bool shadow_mode = false;  // answer OK to every request; descriptors keep their own answer
  bool headers = false;      // add the tightest limit in the fields below
  std::string limit_header = "RateLimit-Limit";
  std::string remaining_header = "RateLimit-Remaining";
  std::string reset_header = "RateLimit-Reset";
  bool request_metadata = false;  // add the request itself to dynamic_metadata
};

// The quota service (docs/quota.md).
struct QuotaConfig {
  std::chrono::milliseconds every{1'000};  // between two divisions of a limit
  std::chrono::milliseconds idle{60'000};  // then a bucket without reports is abandoned
  std::chrono::milliseconds ttl{0};        // of an assignment; 0: as the reports need
};

// The server above this one, whose quotas decide here (`store: quota://`).
struct UpstreamConfig {
  SecretSource token;
  std::string ca_file, cert_file, key_file;  // of TLS
  std::chrono::milliseconds deadline{100};   // of the first assignment of a counter
};

// The settings of `sluice serve` from its file and its flags.
struct Config {
  std::string found_file;  // the file, if no flag named it and it was in the current folder
  std::string http = "127.0.0.1:8080";  // host:port, [v6]:port, unix:PATH, off
  std::string grpc = "127.0.0.1:8081";
  std::string resp = "127.0.0.1:6380";
  std::string admin = "127.0.0.1:6070";
  net::TlsFiles http_tls, grpc_tls, resp_tls, admin_tls;
  // Or a URL: of Redis, which may have a password, or of a server that assigns quotas.
  std::string store = "memory";
  RedisConfig redis;                          // used if `store` is Redis
  UpstreamConfig upstream;                    // used if `store` assigns quotas
  std::size_t grpc_streams = 1024;            // concurrent calls of each connection
  std::chrono::milliseconds grpc_max_age{0};  // then a connection ends gracefully; 0: no limit
  EnvoyOptions envoy;
  QuotaConfig quota;
  std::size_t threads = 0;  // 0: as many as processors
  std::size_t max_keys = std::size_t{1} << 20;
  std::size_t max_log_bytes = std::size_t{256} << 20;
  std::string snapshot;  // the file of the memory store's counters; empty: none
  std::chrono::milliseconds snapshot_interval{60'000};  // 0: written at the end only
  std::vector<std::string>
      rules;  // files and directories; relative to the configuration file's folder
  bool rules_in_redis = false;  // `rules: redis`, the rules pushed there; `rules` is empty
  bool watch = true;            // reload when they change
  std::string overrides;        // the file of overrides; empty: see overrides_path()
  std::vector<std::string>
      trusted_proxies;       // addresses and CIDR networks, and "unix" for Unix sockets; checked
  SecretSource admin_token;  // a file is read again on SIGHUP
  std::vector<KnownClient> clients;     // of HTTP and gRPC; secrets are read at the start
  std::vector<std::string> hosts;       // names of this server for HTTP, in lower case
  std::vector<KnownClient> resp_users;  // none: every client may do everything
  std::chrono::milliseconds resp_idle_timeout{300'000};  // between requests; 0: none
  Bounds bounds;
  std::chrono::milliseconds drain_delay{
      2000};  // on SIGTERM: /readyz says 503 for so long before anything closes
  std::chrono::milliseconds drain_timeout{
      10'000};           // then connections may finish for at most this long
  std::string handover;  // path of a Unix socket; empty: a new process cannot take over
  LogOptions log;
  TrafficOptions record;
  LedgerOptions ledger;
  OtlpOptions otlp;            // without what the environment sets; see otlp_options()
  std::size_t top_keys = 256;  // counted per limit; 0: none
};

// Where the counters are.
enum class StoreKind : std::uint8_t { kMemory, kRedis, kQuota };
StoreKind kind_of(const Config& config) noexcept;
// The address of the server above; empty if `store` is another one.
std::string_view upstream_address(std::string_view store) noexcept;

// The listening addresses. The schema of `listen` and the flags of `sluice serve` read this table.
struct ListenAddress {
  std::string_view key;    // under `listen`, the listener's own section, and the name of the flag
  std::string_view title;  // in messages
  std::string Config::* address;
  net::TlsFiles Config::* tls;
  std::string_view otherwise;  // the default, as shown to people
  std::string_view help;       // in the reference
};
inline constexpr auto kListenAddresses = std::to_array<ListenAddress>(
    {{"http", "HTTP", &Config::http, &Config::http_tls, "`127.0.0.1:8080`",
      "The HTTP front end: `/v1/check`, `/v1/auth`, `/json`, `/healthz`, `/readyz`, `/metrics`."},
     {"grpc", "gRPC", &Config::grpc, &Config::grpc_tls, "`127.0.0.1:8081`",
      "The gRPC front end: the rate limit service for Envoy, and `grpc.health.v1.Health`."},
     {"resp", "RESP", &Config::resp, &Config::resp_tls, "`127.0.0.1:6380`",
      "The RESP front end: commands for Redis clients (docs/reference/commands.md). An address "
      "that other machines can reach requires `resp.users`."},
     {"admin", "the administration", &Config::admin, &Config::admin_tls, "`127.0.0.1:6070`",
      "Administration: rules, counters and status. An address that other machines can reach "
      "requires a token."}});

// Returns the row of that key.
constexpr const ListenAddress& listen_address(std::string_view key) noexcept {
  return *std::ranges::find(kListenAddresses, key, &ListenAddress::key);
}

// The file in which a server with a memory store keeps its overrides: `overrides`, else
// overrides.txt next to the first rules. Empty: in no file.
std::string overrides_path(const Config& config);

// Reads the YAML of a configuration file. Errors are like those of rules: file:line:column, the
// problem, and what is expected.
Expected<Config, std::vector<RuleError>> parse_config(std::string_view yaml, std::string_view file);
Expected<Config, std::vector<RuleError>> load_config(const std::string& path);

// Returns the problem of `store`, or of the options that a URL excludes, as "PROBLEM; EXPECTED", or
// an empty text. Reads no files.
std::string find_store_error(const std::string& store, const RedisConfig& redis);

// Sets where the ledger is written: "file:PATH", "redis" or "off". Returns what is wrong, "WHAT;
// EXPECTED", or an empty text.
std::string set_ledger(std::string_view text, LedgerOptions& ledger);

// Returns a conflict between the settings of a configuration after flags were applied, or an empty
// text.
std::string find_conflict(const Config& config);

// Returns why a listener that other machines can reach at `address` must not open, or an empty
// text.
std::string find_unprotected(const Config& config, const ListenAddress& listener,
                             std::string_view address);

// Reads the secrets and certificates that a server reads at its start, and resolves the names of
// its listeners. Returns what would make it fail, and adds to `not_set` the variables of secrets
// that this process does not have.
std::vector<std::string> find_start_errors(const Config& config, std::vector<std::string>& not_set);

// Returns the options of a Redis store: the URL, and the passwords from their files and variables.
// Errors: the source and the reason; also those of redis::make_target(). Errors never contain a
// password.
Expected<RedisOptions> redis_options(const Config& config);

// Returns the options of OpenTelemetry. The variables OTEL_EXPORTER_OTLP_ENDPOINT and _CERTIFICATE,
// and OTEL_SERVICE_NAME, are used if the file does not set them; _HEADERS has no key of the file.
OtlpOptions otlp_options(const Config& config);

// Returns the bounds that rules must respect because of the store.
RuleTerms rule_terms(const Config& config) noexcept;

// Returns the key of the rules in Redis.
std::string rules_key(const RedisConfig& redis);

}  // namespace sluice::server
