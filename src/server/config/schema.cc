#include "server/config/schema.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::server::config {
namespace {

using rules::schema::Key;
using rules::schema::Map;
using rules::schema::Type;

// In the order of their enumerators, which the reader relies on.
constexpr std::array<std::string_view, 5> kLevels{"debug", "info", "warning", "error", "off"};
constexpr std::array<std::string_view, 2> kFormats{"text", "json"};
constexpr std::array<std::string_view, 3> kKeys{"plain", "hash", "none"};
constexpr std::array<std::string_view, 2> kSwitch{"off", "on"};
constexpr std::array<std::string_view, 2> kCompat{"none", "consume_on_reject"};

constexpr std::uint64_t kDay = 86'400'000;  // milliseconds
constexpr std::uint64_t kLongestPath = 4096;

constexpr Key text(std::string_view name, std::string_view otherwise, std::uint64_t most,
                   std::string_view help) {
  return {.name = name, .type = Type::kText, .otherwise = otherwise, .most = most, .help = help};
}

constexpr Key texts(std::string_view name, std::uint64_t most, std::string_view help) {
  return {.name = name,
          .type = Type::kTexts,
          .otherwise = "`[]`",
          .least = 1,
          .most = most,
          .help = help};
}

constexpr Key integer(std::string_view name, std::string_view otherwise, std::uint64_t least,
                      std::uint64_t most, std::string_view help) {
  return {.name = name,
          .type = Type::kInteger,
          .otherwise = otherwise,
          .least = least,
          .most = most,
          .help = help};
}

constexpr Key flag(std::string_view name, std::string_view otherwise, std::string_view help) {
  return {.name = name, .type = Type::kFlag, .otherwise = otherwise, .help = help};
}

constexpr Key choice(std::string_view name, std::string_view otherwise,
                     std::span<const std::string_view> values, std::string_view help) {
  return {
      .name = name, .type = Type::kChoice, .otherwise = otherwise, .values = values, .help = help};
}

constexpr Key period(std::string_view name, std::string_view otherwise, std::uint64_t least,
                     std::string_view help, std::uint64_t most = 366 * kDay) {
  return {.name = name,
          .type = Type::kPeriod,
          .otherwise = otherwise,
          .least = least,
          .most = most,
          .help = help};
}

constexpr Key map_of(std::string_view name, const Map& map, std::string_view help) {
  return {.name = name, .type = Type::kMap, .otherwise = "those below", .map = &map, .help = help};
}

constexpr std::array<Key, 4> kListenKeys{
    text("http", "`127.0.0.1:8080`", kLongestPath,
         "Decisions over HTTP: `/v1/check`, `/v1/auth`, `/healthz`, `/readyz`, `/metrics`."),
    text("grpc", "`127.0.0.1:8081`", kLongestPath,
         "Decisions for Envoy over gRPC, and `grpc.health.v1.Health`."),
    text("resp", "`127.0.0.1:6380`", kLongestPath,
         "Decisions for clients of Redis (docs/commands.md). Beyond this machine only with users."),
    text("admin", "`127.0.0.1:6070`", kLongestPath,
         "Administration: rules, counters and status. Beyond this machine only with a token."),
};
constexpr Map kListen{"listen", "`listen`", kListenKeys};

constexpr std::array<Key, 2> kMemoryKeys{
    integer("max_keys", "1048576", 128, std::uint64_t{1} << 32,
            "The most counters kept; past it some are evicted, and counted in the metrics. About "
            "60 bytes each."),
    integer("max_log_bytes", "268435456", 4096, std::uint64_t{1} << 40,
            "The most bytes kept for the logs and slices of sliding windows."),
};
constexpr Map kMemory{"memory", "`memory`", kMemoryKeys};

constexpr std::array<Key, 5> kTlsKeys{
    text("ca_file", "`\"\"`", kLongestPath,
         "The authorities whose certificates are believed, PEM; where empty, the system's."),
    text("cert_file", "`\"\"`", kLongestPath, "The certificate of this client, PEM."),
    text("key_file", "`\"\"`", kLongestPath, "Its key, PEM; both or neither."),
    text("server_name", "`\"\"`", 253,
         "The name that the server's certificate has to have; where empty, the host's of the URL."),
    flag(
        "verify", "`true`",
        "Whether the server's certificate is checked; without, anybody in between can read along."),
};
constexpr Map kTls{"tls", "`redis.tls`", kTlsKeys};

constexpr std::array<Key, 3> kDenyCacheKeys{
    flag("enabled", "`true`", "Whether denials are remembered."),
    integer("max_keys", "65536", 1, std::uint64_t{1} << 28,
            "The most denied counters remembered; about 73 bytes each, taken at the start."),
    period("longest", "1s", 1,
           "The longest that a denial is believed without asking again: what other servers reset "
           "or give back is seen after so long.",
           kDay),
};
constexpr Map kDenyCache{"deny_cache", "`redis.deny_cache`", kDenyCacheKeys};

constexpr std::array<Key, 3> kBreakerKeys{
    integer("failures", "5", 1, 1'000'000, "Failures in a row that open it."),
    period("open_for", "1s", 1,
           "How long nothing is asked before one request tries again; doubled for each that fails.",
           kDay),
    period("longest_open", "10s", 1, "The longest that it is doubled to.", kDay),
};
constexpr Map kBreaker{"breaker", "`redis.breaker`", kBreakerKeys};

constexpr std::array<Key, 17> kRedisKeys{
    text("username", "`\"\"`", 1024, "The ACL user; where empty, that of the URL, or the default."),
    text("password_file", "`\"\"`", kLongestPath,
         "The file that holds the password, read at the start; where empty, that of the URL."),
    text("password_env", "`\"\"`", 128,
         "The environment variable that holds it, instead of a file."),
    text("sentinel_username", "`\"\"`", 1024, "The ACL user of the Sentinels themselves."),
    text("sentinel_password_file", "`\"\"`", kLongestPath,
         "The file that holds the password of the Sentinels."),
    text("sentinel_password_env", "`\"\"`", 128,
         "The environment variable that holds it, instead of a file."),
    map_of("tls", kTls, "For URLs that begin with `rediss`."),
    text("prefix", "`sluice:`", 128,
         "Before every key, without braces. Servers that share it share their counters."),
    period("deadline", "50ms", 1,
           "The longest that a request waits for its answer; then `on_store_error` answers.", kDay),
    period("connect_timeout", "1s", 1, "The longest that making a connection may take.", kDay),
    integer("max_pending", "16384", 1, 1'000'000,
            "The most requests under way on one connection; one more is answered by "
            "`on_store_error` at once."),
    integer("protocol", "0", 0, 3, "Of RESP, 2 or 3; 0: 3 where the server speaks it."),
    choice("scripting", "`on`", kSwitch,
           "`off` where the server runs no scripts: then rules may use `sliding_window_counter` "
           "and `fixed_window` with `align: clock` only, and lose some exactness "
           "(docs/state-format.md)."),
    integer("nodes", "1", 1, 100'000,
            "How many servers share the counters: with `on_store_error: local` each keeps its "
            "limits at one of so many parts while the store fails."),
    map_of("deny_cache", kDenyCache,
           "A counter that was denied is denied by this process until its time has come."),
    map_of("breaker", kBreaker, "When the store is not asked any more for a while, as it fails."),
    text("rules_key", "`\"\"`", 1024,
         "Where `rules: redis` are kept; where empty, `rules` behind the prefix."),
};
constexpr Map kRedis{"redis", "`redis`", kRedisKeys};

constexpr std::array<Key, 3> kGrpcTlsKeys{
    text("cert_file", "`\"\"`", kLongestPath, "The server's certificate and those above it, PEM."),
    text("key_file", "`\"\"`", kLongestPath, "Its key, PEM."),
    text("client_ca_file", "`\"\"`", kLongestPath,
         "The authorities that vouch for clients, PEM; where empty, clients need no certificate."),
};
constexpr Map kGrpcTls{"tls", "`grpc.tls`", kGrpcTlsKeys};

constexpr std::array<Key, 3> kGrpcKeys{
    integer("streams", "1024", 1, 1'000'000, "The most calls at once of a connection."),
    period("max_age", "0s", 0,
           "How old a connection may grow before its client is told to make another one, so that "
           "clients spread over servers; 0: any age."),
    map_of("tls", kGrpcTls,
           "With a certificate, only TLS is spoken; without one, only plaintext. Files are read "
           "again on "
           "SIGHUP."),
};
constexpr Map kGrpc{"grpc", "`grpc`", kGrpcKeys};

constexpr std::array<std::string_view, 2> kRoles{"check-only", "admin"};

constexpr std::array<Key, 4> kUserKeys{
    Key{.name = "name",
        .type = Type::kText,
        .required = true,
        .least = 1,
        .most = 256,
        .help = "The name, as `AUTH` and `HELLO` give it; `default` where they give none."},
    choice("role", "`check-only`", kRoles,
           "`check-only` may ask for decisions; `admin` may also give back and reset."),
    text("password_file", "`\"\"`", kLongestPath,
         "The file that holds the password, read at the start."),
    text("password_env", "`\"\"`", 128,
         "The environment variable that holds it, instead of a file."),
};
constexpr Map kUser{"user", "each of `resp.users`", kUserKeys};

constexpr std::array<Key, 2> kRespKeys{
    Key{.name = "users",
        .type = Type::kList,
        .otherwise = "`[]`",
        .most = 1000,
        .map = &kUser,
        .help = "Who may use the door. Without any, whoever can connect may do everything."},
    period("idle_timeout", "0s", 0,
           "How long a connection may stay without a request; 0: as long as it likes, which is "
           "what pools of clients expect."),
};
constexpr Map kResp{"resp", "`resp`", kRespKeys};

constexpr std::array<Key, 2> kAdminKeys{
    text("token_file", "`\"\"`", kLongestPath,
         "The file that holds the bearer token of administration; none where empty. Read again on "
         "SIGHUP."),
    text("token_env", "`\"\"`", 128,
         "The environment variable that holds it, instead of a file; none where empty."),
};
constexpr Map kAdmin{"admin", "`admin`", kAdminKeys};

constexpr std::array<Key, 8> kBoundsKeys{
    integer("header_bytes", "32768", 1024, 1 << 20, "The most bytes of a request's header."),
    integer("body_bytes", "1048576", 1024, 64 << 20, "The most bytes of a request's body."),
    period("header_timeout", "10s", 1, "From a request's first byte to the end of its header."),
    period("body_timeout", "10s", 1, "From there to the end of its body."),
    period("write_timeout", "10s", 1, "For a client to take its answers."),
    period("idle_timeout", "75s", 1, "Between the requests of a connection."),
    integer("connections", "10000", 1, 1'000'000,
            "The most connections at once; the next one is refused."),
    integer("requests_per_connection", "0", 0, UINT32_MAX,
            "The most requests of one connection, which then closes; 0: any number."),
};
constexpr Map kBounds{"bounds", "`bounds`", kBoundsKeys};

constexpr std::array<Key, 2> kDrainKeys{
    period("delay", "0s", 0,
           "How long `/readyz` answers 503, while all goes on, before listeners close: time for "
           "load balancers to look elsewhere."),
    period("timeout", "10s", 0, "How long connections may then take to finish."),
};
constexpr Map kDrain{"drain", "`drain`", kDrainKeys};

constexpr std::array<Key, 5> kLogKeys{
    choice("level", "`info`", kLevels, "The least that is worth a line."),
    choice("format", "`text`", kFormats, "Lines for people, or JSON objects for programs."),
    choice("keys", "`plain`", kKeys,
           "How the keys of denied requests are told, which may hold addresses and names: as they "
           "are, as a hash, or not at all."),
    integer("denials_per_second", "10", 0, 1'000'000,
            "The most lines a second about denied requests; the others are counted. 0: none."),
    flag("access", "`false`", "A line for every request."),
};
constexpr Map kLog{"log", "`log`", kLogKeys};

constexpr std::array<Key, 8> kEnvoyKeys{
    texts("files", kLongestPath,
          "Envoy's configuration files, and directories of them (`*.yaml`, `*.yml`), one domain "
          "each (docs/envoy.md). Read again as `rules` are."),
    choice("compat", "`none`", kCompat,
           "`consume_on_reject`: what a request asks is taken of each limit by itself, and of one "
           "that denies what is left, as Envoy's own service does."),
    flag("shadow_mode", "`false`", "Whether every request passes, and is only counted."),
    flag("headers", "`false`",
         "Whether clients are told the tightest limit, in the three fields below."),
    text("limit_header", "`RateLimit-Limit`", 128, "The field with the requests per unit."),
    text("remaining_header", "`RateLimit-Remaining`", 128, "The field with what is left."),
    text("reset_header", "`RateLimit-Reset`", 128, "The field with the seconds to the next unit."),
    flag("request_metadata", "`false`",
         "Whether `dynamic_metadata` tells the request, and which quotas are over."),
};
constexpr Map kEnvoy{"envoy", "`envoy`", kEnvoyKeys};

constexpr std::array<Key, 16> kFileKeys{
    Key{.name = "version",
        .type = Type::kInteger,
        .required = true,
        .least = 1,
        .most = 1,
        .help = "The version of this format: 1."},
    map_of("listen", kListen,
           "Where the server listens: `host:port`, `[v6]:port`, `unix:PATH`, or `off`."),
    Key{.name = "store",
        .type = Type::kText,
        .otherwise = "`memory`",
        .least = 1,
        .most = kLongestPath,
        .is_secret = true,
        .help = "Where counters are kept: `memory`, in this process; or the URL of a Redis or "
                "Valkey (see Redis)."},
    map_of("memory", kMemory, "The bounds of the memory store."),
    map_of("redis", kRedis, "How a `store` in Redis is reached and used."),
    map_of("grpc", kGrpc, "How gRPC is spoken."),
    map_of("envoy", kEnvoy, "How Envoy is answered, by its own configuration files."),
    texts("rules", kLongestPath,
          "Files of rules, and directories of them (`*.yaml`, `*.yml`); or `redis`, the rules that "
          "were pushed to the store (see Rules in Redis). Without any, a small built-in example."),
    flag("watch", "`true`", "Whether rules are read again when their files change."),
    texts("trusted_proxies", 64,
          "Addresses and networks (`10.0.0.0/8`) of the proxies whose word about the client's "
          "address is believed; `unix` for peers on a Unix socket."),
    integer("threads", "0", 0, 1024, "Threads that serve requests; 0: as many as processors."),
    map_of("resp", kResp, "Who may use the door for clients of Redis."),
    map_of("admin", kAdmin, "Who may administer. Without a token, only from this machine."),
    map_of("bounds", kBounds, "What a client may ask of a listener; each has its own count."),
    map_of("drain", kDrain, "How the server stops on SIGTERM."),
    map_of("log", kLog, "What is written to standard error."),
};
constexpr Map kFile{"file", "the top of the file", kFileKeys};

}  // namespace

const Map& file() noexcept { return kFile; }

std::string json_schema() { return rules::schema::json_schema(file(), "Configuration of Sluice"); }

}  // namespace sluice::server::config
