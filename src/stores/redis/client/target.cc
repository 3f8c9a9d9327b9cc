#include "stores/redis/client/target.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <limits>
#include <string>

#include "base/client_tls.h"
#include "base/quoted.h"

namespace sluice::redis {
namespace {

using base::in_quotes;

constexpr std::string_view kForms =
    "redis://host:port/db, rediss://..., redis+unix:///path/to.sock, "
    "redis+sentinel://host:port,host:port/master or redis+cluster://host:port,host:port "
    "(rediss+sentinel and rediss+cluster over TLS)";
constexpr std::string_view kUnixScheme = "redis+unix";
constexpr std::uint16_t kPort = 6379;
constexpr std::uint16_t kSentinelPort = 26379;
constexpr std::array<std::string_view, 7> kSchemes = {
    "redis",           "rediss",        kUnixScheme,      "redis+sentinel",
    "rediss+sentinel", "redis+cluster", "rediss+cluster",
};
constexpr std::size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;

Unexpected<std::string> wrong(std::string what, std::string_view right) {
  return {std::move(what.append("; ").append(right))};
}

bool is_name(std::string_view host) noexcept {
  return !host.empty() && host.size() <= 253 &&
         std::ranges::all_of(host, [](char c) { return base::is_letter_or("-_.", c); });
}

Expected<std::uint16_t> parse_port(std::string_view text) {
  const auto port = base::read_number<std::uint16_t>(text);
  if (port && *port > 0) return *port;
  return wrong("the URL has no port " + in_quotes(text), "a port is a number from 1 to 65535");
}

// Parses "[v6]:port" or "[v6]". `text` begins with the bracket.
Expected<ServerAddress> parse_v6(std::string_view text) {
  const std::size_t close = text.find(']');
  const std::string_view host = text.substr(1, close == text.npos ? close : close - 1);
  boost::system::error_code error;
  (void)boost::asio::ip::make_address_v6(std::string(host), error);
  if (close == text.npos || error) {
    return wrong("the URL has no IPv6 address in brackets: " + in_quotes(text),
                 "such as [::1]:6379");
  }
  ServerAddress address{.host = std::string(host), .port = 0};
  const std::string_view rest = text.substr(close + 1);
  if (rest.empty()) return address;
  if (rest.front() != ':') {
    return wrong("the URL has " + in_quotes(rest) + " after an IPv6 address", "a port: [::1]:6379");
  }
  const auto port = parse_port(rest.substr(1));
  if (!port) return Unexpected{port.error()};
  address.port = *port;
  return address;
}

Expected<ServerAddress> parse_server(std::string_view text) {
  if (text.starts_with('[')) return parse_v6(text);
  const std::size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  if (colon != text.npos && text.find(':', colon + 1) != text.npos) {
    return wrong("the URL has more than one ':' in " + in_quotes(text),
                 "an IPv6 address is written in brackets, such as [::1]:6379");
  }
  if (!is_name(host)) {
    return wrong("the URL has no host " + in_quotes(host),
                 "a name or an address, such as 127.0.0.1:6379");
  }
  ServerAddress address{.host = std::string(host), .port = 0};
  if (colon == text.npos) return address;
  const auto port = parse_port(text.substr(colon + 1));
  if (!port) return Unexpected{port.error()};
  address.port = *port;
  return address;
}

Status take_servers(std::string_view text, Target& target) {
  const bool are_sentinels = target.kind == Target::Kind::kSentinel;
  while (true) {
    const std::size_t comma = text.find(',');
    auto server = parse_server(text.substr(0, comma));
    if (!server) return Unexpected{server.error()};
    if (server->port == 0) server->port = are_sentinels ? kSentinelPort : kPort;
    target.servers.push_back(std::move(*server));
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
  if (target.kind != Target::Kind::kStandalone || target.servers.size() == 1) return {};
  return wrong("the URL names " + std::to_string(target.servers.size()) + " servers",
               "one, or redis+sentinel:// or redis+cluster://");
}

Status take_socket(std::string_view authority, std::string_view encoded, Target& target) {
  if (!authority.empty()) {
    return wrong("the URL of a Unix socket names a host", "redis+unix:///path/to.sock");
  }
  auto path = percent_decoded(encoded, "path");
  if (!path) return Unexpected{path.error()};
  if (path->size() < 2 || path->find('\0') != path->npos) {
    return wrong("the URL names no Unix socket", "redis+unix:///path/to.sock");
  }
  if (path->size() > kLongestSocketPath) {
    return wrong("the URL's path has " + std::to_string(path->size()) + " bytes",
                 "a Unix socket's has at most " + std::to_string(kLongestSocketPath));
  }
  target.servers.push_back({.host = std::move(*path), .port = 0});
  return {};
}

// Decodes "user:password" for options that are not set, and appends the part without the password
// to target.shown.
Status take_user(std::string_view text, Target& target) {
  const std::size_t colon = text.find(':');
  auto username = percent_decoded(text.substr(0, colon), "user name");
  if (!username) return Unexpected{username.error()};
  if (target.options.username.empty()) target.options.username = std::move(*username);
  if (colon != text.npos) {
    auto password = percent_decoded(text.substr(colon + 1), "password");
    if (!password) return Unexpected{password.error()};
    if (target.options.password.empty()) target.options.password = std::move(*password);
  }
  if (colon != 0) target.shown.append(text.substr(0, colon)).append("@");
  return {};
}

Status check_characters(std::string_view text) {
  const auto* const bad = std::find_if(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7f;
  });
  if (bad == text.end()) return {};
  return wrong(
      "the URL has a space or control character at byte " + std::to_string(bad - text.begin()),
      "such bytes are written as %XX");
}

}  // namespace

Expected<std::string> percent_decoded(std::string_view text, std::string_view what) {
  auto decoded = base::strictly_decoded(text);
  if (decoded) return *std::move(decoded);
  return wrong(
      "the URL's " + std::string(what) + " has a '%' without two hexadecimal digits after it",
      "a '%' itself is written as %25");
}

namespace {

using std::chrono::milliseconds;

Status take_database(std::string_view text, Target& target) {
  if (text.empty()) return {};
  const auto number = base::read_number<int>(text);
  if (!number || *number < 0) {
    return wrong("the URL has no database " + in_quotes(text), "a database is a number from 0");
  }
  target.database = *number;
  return {};
}

Status take_query(std::string_view query, Target& target) {
  constexpr std::string_view kDatabase = "db=";
  if (!query.starts_with(kDatabase) || query.size() == kDatabase.size()) {
    return wrong("the URL of a Unix socket has " + in_quotes(query) + " after its '?'",
                 "only ?db=N is allowed");
  }
  return take_database(query.substr(kDatabase.size()), target);
}

// "/master" or "/master/db".
Status take_master(std::string_view path, Target& target) {
  path.remove_prefix(std::min<std::size_t>(1, path.size()));
  const std::size_t slash = path.find('/');
  auto name = percent_decoded(path.substr(0, slash), "master");
  if (!name) return Unexpected{name.error()};
  if (name->empty()) {
    return wrong("the URL does not name the master that the Sentinels watch",
                 "redis+sentinel://host:port,host:port/NAME, as `sentinel monitor` calls it");
  }
  target.master = std::move(*name);
  return slash == path.npos ? Status() : take_database(path.substr(slash + 1), target);
}

Status take_path(std::string_view path, std::string_view query, Target& target) {
  if (!query.empty()) {
    return wrong("the URL has " + in_quotes("?" + std::string(query)),
                 "no query; use the options next to the URL");
  }
  if (target.kind == Target::Kind::kSentinel) return take_master(path, target);
  auto taken = take_database(path.substr(std::min<std::size_t>(1, path.size())), target);
  if (taken && target.kind == Target::Kind::kCluster && target.database != 0) {
    return wrong("the URL has database " + std::to_string(target.database),
                 "a cluster has only database 0");
  }
  return taken;
}

Target::Kind kind_of(std::string_view scheme) noexcept {
  if (scheme.ends_with("+sentinel")) return Target::Kind::kSentinel;
  return scheme.ends_with("+cluster") ? Target::Kind::kCluster : Target::Kind::kStandalone;
}

// Reads a URL in one of the forms of RedisOptions::url. Errors: what is wrong and what is right,
// without any part of the password.
Status read_url(std::string_view text, Target& target) {
  if (auto fits = check_characters(text); !fits) return fits;
  const std::size_t colon = text.find("://");
  if (colon == text.npos) return wrong("the URL has no scheme", kForms);
  const std::string_view scheme = text.substr(0, colon);
  if (std::find(kSchemes.begin(), kSchemes.end(), scheme) == kSchemes.end()) {
    return wrong("the URL has an unknown scheme " + in_quotes(scheme), kForms);
  }
  target.kind = kind_of(scheme);
  target.shown.assign(scheme).append("://");
  std::string_view rest = text.substr(colon + 3);
  if (rest.find('#') != rest.npos) return wrong("the URL has a '#'", "it is written as %23");

  const std::size_t slash = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, slash);
  rest.remove_prefix(slash);
  if (rest.find('@') != rest.npos) {
    return wrong("the URL has an '@' after a '/' or '?'",
                 "in a password these are written as %40, %2F and %3F");
  }
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
    if (auto user = take_user(authority.substr(0, at), target); !user) return user;
    authority.remove_prefix(at + 1);
  }
  target.shown.append(authority).append(rest);

  const std::size_t question = std::min(rest.find('?'), rest.size());
  const std::string_view path = rest.substr(0, question);
  const std::string_view query = rest.substr(std::min(question + 1, rest.size()));
  if (scheme == kUnixScheme) {
    if (auto socket = take_socket(authority, path, target); !socket) return socket;
    return query.empty() ? Status() : take_query(query, target);
  }
  if (auto servers = take_servers(authority, target); !servers) return servers;
  return take_path(path, query, target);
}

Status check_credentials(const Target& target) {
  const RedisOptions& options = target.options;
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
  return {};
}

Status take_tls(Target& target) {
  const RedisOptions& options = target.options;
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return wrong("only one of tls_cert_file and tls_key_file is set", "both, or neither");
  }
  if (target.shown.starts_with("rediss")) {
    auto tls = base::make_tls(
        {options.tls_ca_file, options.tls_cert_file, options.tls_key_file, options.tls_verify});
    if (!tls) return Unexpected{tls.error()};
    target.tls = std::move(*tls);
    return {};
  }
  for (const auto& [name, value] : {std::pair{"tls_ca_file", &options.tls_ca_file},
                                    std::pair{"tls_cert_file", &options.tls_cert_file},
                                    std::pair{"tls_server_name", &options.tls_server_name}}) {
    if (!value->empty()) {
      return wrong(std::string(name) + " is set, but the URL does not use TLS",
                   "a URL that begins with rediss, or leave it out");
    }
  }
  return {};
}

Status check_time(std::string_view name, milliseconds value, milliseconds least) {
  constexpr milliseconds kMost = std::chrono::hours{24};
  if (value >= least && value <= kMost) return {};
  return wrong(std::string(name) + " is " + std::to_string(value.count()) + " ms",
               "from " + std::to_string(least.count()) + " ms to a day");
}

Status check_numbers(const RedisOptions& options) {
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
  if (options.ledger_keep > std::numeric_limits<std::uint32_t>::max()) {
    return wrong("ledger_keep is " + std::to_string(options.ledger_keep), "at most 2^32 - 1");
  }
  if (options.protocol != 0 && options.protocol != 2 && options.protocol != 3) {
    return wrong("protocol is " + std::to_string(options.protocol), "2, 3, or 0 for either");
  }
  return {};
}

}  // namespace

Expected<std::shared_ptr<const Target>> make_target(const RedisOptions& options) {
  auto target = std::make_shared<Target>();
  target->options = options;
  if (auto ok = read_url(options.url, *target); !ok) return Unexpected{ok.error()};
  target->options.url = target->shown;
  if (auto ok = check_credentials(*target); !ok) return Unexpected{ok.error()};
  if (auto ok = check_numbers(options); !ok) return Unexpected{ok.error()};
  if (auto ok = take_tls(*target); !ok) return Unexpected{ok.error()};
  return std::shared_ptr<const Target>(std::move(target));
}

LinkOptions link_options(const Target& target) {
  const RedisOptions& options = target.options;
  return {.username = options.username,
          .password = options.password,
          .protocol = options.protocol,
          .database = target.database,
          .only_master = target.kind == Target::Kind::kSentinel,
          .max_pending = options.max_pending,
          .connect_timeout = options.connect_timeout,
          .longest_silence = std::max(milliseconds{1'000}, 3 * options.deadline)};
}

std::string ServerAddress::to_string() const {
  if (host.starts_with('/')) return host;
  const bool v6 = host.find(':') != host.npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace sluice::redis
