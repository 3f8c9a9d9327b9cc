#include "stores/redis/client/url.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <string>

#include "core/quoted.h"

namespace sluice::redis {
namespace {

using core::in_quotes;

constexpr std::string_view kForms =
    "redis://host:port/db, rediss://..., redis+unix:///path/to.sock, "
    "redis+sentinel://host:port,host:port/master or redis+cluster://host:port,host:port "
    "(rediss+sentinel and rediss+cluster over TLS)";
constexpr std::string_view kUnixScheme = "redis+unix";
constexpr std::array<std::string_view, 7> kSchemes = {
    "redis",           "rediss",        kUnixScheme,      "redis+sentinel",
    "rediss+sentinel", "redis+cluster", "rediss+cluster",
};
constexpr std::size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;

Unexpected<std::string> wrong_url(std::string what, std::string_view right) {
  return {std::move(what.append("; ").append(right))};
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_name(std::string_view host) noexcept {
  return !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

Expected<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || result.ec != std::errc{} || result.ptr != text.data() + text.size() ||
      port == 0) {
    return wrong_url("the URL has no port " + in_quotes(text),
                     "a port is a number from 1 to 65535");
  }
  return port;
}

// Parses "[v6]:port" or "[v6]". `text` begins with the bracket.
Expected<ServerAddress> parse_v6(std::string_view text) {
  const std::size_t close = text.find(']');
  const std::string_view host = text.substr(1, close == text.npos ? close : close - 1);
  boost::system::error_code error;
  (void)boost::asio::ip::make_address_v6(std::string(host), error);
  if (close == text.npos || error) {
    return wrong_url("the URL has no IPv6 address in brackets: " + in_quotes(text),
                     "such as [::1]:6379");
  }
  ServerAddress address{.host = std::string(host), .port = 0};
  const std::string_view rest = text.substr(close + 1);
  if (rest.empty()) return address;
  if (rest.front() != ':') {
    return wrong_url("the URL has " + in_quotes(rest) + " after an IPv6 address",
                     "a port: [::1]:6379");
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
    return wrong_url("the URL has more than one ':' in " + in_quotes(text),
                     "an IPv6 address is written in brackets, such as [::1]:6379");
  }
  if (!is_name(host)) {
    return wrong_url("the URL has no host " + in_quotes(host),
                     "a name or an address, such as 127.0.0.1:6379");
  }
  ServerAddress address{.host = std::string(host), .port = 0};
  if (colon == text.npos) return address;
  const auto port = parse_port(text.substr(colon + 1));
  if (!port) return Unexpected{port.error()};
  address.port = *port;
  return address;
}

Expected<bool> parse_servers(std::string_view text, Url& url) {
  while (true) {
    const std::size_t comma = text.find(',');
    auto server = parse_server(text.substr(0, comma));
    if (!server) return Unexpected{server.error()};
    url.servers.push_back(std::move(*server));
    if (comma == text.npos) return true;
    text.remove_prefix(comma + 1);
  }
}

Expected<bool> parse_socket(std::string_view authority, Url& url) {
  if (!authority.empty()) {
    return wrong_url("the URL of a Unix socket names a host", "redis+unix:///path/to.sock");
  }
  auto path = percent_decoded(url.path, "path");
  if (!path) return Unexpected{path.error()};
  if (path->size() < 2 || path->find('\0') != path->npos) {
    return wrong_url("the URL names no Unix socket", "redis+unix:///path/to.sock");
  }
  if (path->size() > kLongestSocketPath) {
    return wrong_url("the URL's path has " + std::to_string(path->size()) + " bytes",
                     "a Unix socket's has at most " + std::to_string(kLongestSocketPath));
  }
  url.servers.push_back({.host = *path, .port = 0});
  url.path = std::move(*path);
  return true;
}

// Decodes "user:password", and appends the part without the password to url.shown.
Expected<bool> parse_user(std::string_view text, Url& url) {
  const std::size_t colon = text.find(':');
  auto username = percent_decoded(text.substr(0, colon), "user name");
  if (!username) return Unexpected{username.error()};
  url.username = std::move(*username);
  if (colon != text.npos) {
    auto password = percent_decoded(text.substr(colon + 1), "password");
    if (!password) return Unexpected{password.error()};
    url.password = std::move(*password);
  }
  if (colon != 0) url.shown.append(text.substr(0, colon)).append("@");
  return true;
}

Expected<bool> check_characters(std::string_view text) {
  const auto* const bad = std::find_if(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7f;
  });
  if (bad == text.end()) return true;
  return wrong_url(
      "the URL has a space or control character at byte " + std::to_string(bad - text.begin()),
      "such bytes are written as %XX");
}

}  // namespace

Expected<std::string> percent_decoded(std::string_view text, std::string_view what) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return wrong_url(
          "the URL's " + std::string(what) + " has a '%' without two hexadecimal digits after it",
          "a '%' itself is written as %25");
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

Expected<Url> parse_url(std::string_view text) {
  if (auto fits = check_characters(text); !fits) return Unexpected{fits.error()};
  const std::size_t colon = text.find("://");
  if (colon == text.npos) return wrong_url("the URL has no scheme", kForms);
  Url url;
  url.scheme = text.substr(0, colon);
  if (std::find(kSchemes.begin(), kSchemes.end(), url.scheme) == kSchemes.end()) {
    return wrong_url("the URL has an unknown scheme " + in_quotes(url.scheme), kForms);
  }
  url.shown = url.scheme + "://";
  std::string_view rest = text.substr(colon + 3);
  if (rest.find('#') != rest.npos) return wrong_url("the URL has a '#'", "it is written as %23");

  const std::size_t slash = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, slash);
  rest.remove_prefix(slash);
  if (rest.find('@') != rest.npos) {
    return wrong_url("the URL has an '@' after a '/' or '?'",
                     "in a password these are written as %40, %2F and %3F");
  }
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
    if (auto user = parse_user(authority.substr(0, at), url); !user)
      return Unexpected{user.error()};
    authority.remove_prefix(at + 1);
  }
  url.shown.append(authority).append(rest);

  const std::size_t question = rest.find('?');
  url.path = rest.substr(0, question);
  if (question != rest.npos) url.query = rest.substr(question + 1);
  auto parsed =
      url.scheme == kUnixScheme ? parse_socket(authority, url) : parse_servers(authority, url);
  if (!parsed) return Unexpected{parsed.error()};
  return url;
}

}  // namespace sluice::redis
