#include "stores/redis/client/target.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/quoted.h"
#include "stores/redis/client/tls.h"
#include "stores/redis/client/url.h"

namespace sluice::redis {
namespace {

using core::in_quotes;
using std::chrono::milliseconds;

constexpr std::uint16_t kPort = 6379;
constexpr std::uint16_t kSentinelPort = 26379;

Unexpected<std::string> wrong(std::string what, std::string_view right) {
  return {std::move(what.append("; ").append(right))};
}

Expected<bool> take_database(std::string_view text, Target& target) {
  if (text.empty()) return true;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), target.database);
  if (result.ec == std::errc{} && result.ptr == text.data() + text.size() && target.database >= 0) {
    return true;
  }
  return wrong("the URL has no database " + in_quotes(text), "a database is a number from 0");
}

Expected<bool> take_query(std::string_view query, Target& target) {
  constexpr std::string_view kDatabase = "db=";
  if (!query.starts_with(kDatabase) || query.size() == kDatabase.size()) {
    return wrong("the URL of a Unix socket has " + in_quotes(query) + " after its '?'",
                 "only ?db=N is allowed");
  }
  return take_database(query.substr(kDatabase.size()), target);
}

// "/master" or "/master/db".
Expected<bool> take_master(std::string_view path, Target& target) {
  path.remove_prefix(std::min<std::size_t>(1, path.size()));
  const std::size_t slash = path.find('/');
  auto name = percent_decoded(path.substr(0, slash), "master");
  if (!name) return Unexpected{name.error()};
  if (name->empty()) {
    return wrong("the URL does not name the master that the Sentinels watch",
                 "redis+sentinel://host:port,host:port/NAME, as `sentinel monitor` calls it");
  }
  target.master = std::move(*name);
  return slash == path.npos ? Expected<bool>(true) : take_database(path.substr(slash + 1), target);
}

Expected<bool> take_path(const Url& url, Target& target) {
  if (url.scheme == "redis+unix") {
    return url.query.empty() ? Expected<bool>(true) : take_query(url.query, target);
  }
  if (!url.query.empty()) {
    return wrong("the URL has " + in_quotes("?" + url.query),
                 "no query; use the options next to the URL");
  }
  if (target.kind == Target::Kind::kSentinel) return take_master(url.path, target);
  auto taken = take_database(url.path.empty() ? "" : url.path.substr(1), target);
  if (taken && target.kind == Target::Kind::kCluster && target.database != 0) {
    return wrong("the URL has database " + std::to_string(target.database),
                 "a cluster has only database 0");
  }
  return taken;
}

Expected<bool> take_servers(const Url& url, Target& target) {
  target.servers = url.servers;
  for (ServerAddress& server : target.servers) {
    if (server.port != 0 || server.host.starts_with('/')) continue;
    server.port = target.kind == Target::Kind::kSentinel ? kSentinelPort : kPort;
  }
  if (target.kind != Target::Kind::kStandalone || target.servers.size() == 1) return true;
  return wrong("the URL names " + std::to_string(target.servers.size()) + " servers",
               "one, or redis+sentinel:// or redis+cluster://");
}

Expected<bool> take_credentials(const Url& url, Target& target) {
  RedisOptions& options = target.options;
  if (options.username.empty()) options.username = url.username;
  if (options.password.empty()) options.password = url.password;
  if (!options.username.empty() && options.password.empty()) {
    return wrong("there is a user name but no password",
                 "user:password@ in the URL, or `username` and `password` next to it; a password "
                 "without a user is :password@");
  }
  if (!options.sentinel_username.empty() && options.sentinel_password.empty()) {
    return wrong("there is a sentinel_username but no sentinel_password", "both, or neither");
  }
  if (target.kind != Target::Kind::kSentinel && !options.sentinel_password.empty()) {
    return wrong("there is a sentinel_password, but the URL names no Sentinels",
                 "redis+sentinel://host:port/master, or leave it out");
  }
  return true;
}

Expected<bool> take_tls(const Url& url, Target& target) {
  const RedisOptions& options = target.options;
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return wrong("only one of tls_cert_file and tls_key_file is set", "both, or neither");
  }
  if (url.scheme.starts_with("rediss")) {
    auto tls = make_tls(options);
    if (!tls) return Unexpected{tls.error()};
    target.tls = std::move(*tls);
    return true;
  }
  for (const auto& [name, value] : {std::pair{"tls_ca_file", &options.tls_ca_file},
                                    std::pair{"tls_cert_file", &options.tls_cert_file},
                                    std::pair{"tls_server_name", &options.tls_server_name}}) {
    if (!value->empty()) {
      return wrong(std::string(name) + " is set, but the URL does not use TLS",
                   "a URL that begins with rediss, or leave it out");
    }
  }
  return true;
}

Expected<bool> check_time(std::string_view name, milliseconds value, milliseconds least) {
  constexpr milliseconds kMost = std::chrono::hours{24};
  if (value >= least && value <= kMost) return true;
  return wrong(std::string(name) + " is " + std::to_string(value.count()) + " ms",
               "from " + std::to_string(least.count()) + " ms to a day");
}

Expected<bool> check_numbers(const RedisOptions& options) {
  constexpr milliseconds kLeast{1};
  for (const auto& [name, value, least] :
       {std::tuple{"deadline", options.deadline, kLeast},
        std::tuple{"connect_timeout", options.connect_timeout, kLeast},
        std::tuple{"first_backoff", options.first_backoff, kLeast},
        std::tuple{"longest_backoff", options.longest_backoff, options.first_backoff}}) {
    if (auto fits = check_time(name, value, least); !fits) return fits;
  }
  if (options.explicit_timestamp_expiry < kLeast) {
    return wrong("explicit_timestamp_expiry is " +
                     std::to_string(options.explicit_timestamp_expiry.count()) + " ms",
                 "at least 1 ms");
  }
  if (options.max_pending == 0) return wrong("max_pending is 0", "at least 1");
  if (options.protocol != 0 && options.protocol != 2 && options.protocol != 3) {
    return wrong("protocol is " + std::to_string(options.protocol), "2, 3, or 0 for either");
  }
  return true;
}

Target::Kind kind_of(std::string_view scheme) noexcept {
  if (scheme.ends_with("+sentinel")) return Target::Kind::kSentinel;
  return scheme.ends_with("+cluster") ? Target::Kind::kCluster : Target::Kind::kStandalone;
}

}  // namespace

Expected<std::shared_ptr<const Target>> make_target(const RedisOptions& options) {
  const auto url = parse_url(options.url);
  if (!url) return Unexpected{url.error()};
  auto target = std::make_shared<Target>();
  target->kind = kind_of(url->scheme);
  target->options = options;
  target->options.url = url->shown;  // without the password, which is not needed any more
  target->shown = url->shown;
  if (auto ok = take_servers(*url, *target); !ok) return Unexpected{ok.error()};
  if (auto ok = take_path(*url, *target); !ok) return Unexpected{ok.error()};
  if (auto ok = take_credentials(*url, *target); !ok) return Unexpected{ok.error()};
  if (auto ok = check_numbers(options); !ok) return Unexpected{ok.error()};
  if (auto ok = take_tls(*url, *target); !ok) return Unexpected{ok.error()};
  return std::shared_ptr<const Target>(std::move(target));
}

std::string ServerAddress::to_string() const {
  if (host.starts_with('/')) return host;
  const bool v6 = host.find(':') != host.npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace sluice::redis
