#include "server/net/address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>

#include "base/quoted.h"

namespace sluice::server {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;

Unexpected<std::string> wrong(std::string_view text, std::string_view what,
                              std::string_view expected) {
  return {base::in_quotes(text).append(what).append("; expected ").append(expected)};
}

bool is_ip(int family, std::string_view text) {
  in6_addr address{};
  return ::inet_pton(family, std::string(text).c_str(), &address) == 1;
}

bool is_label(std::string_view label) {
  const auto fits = [](char c) { return base::is_letter_or("-_", c); };
  return !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), fits);
}

// Returns whether a text is a host name. A name whose last label has only digits is a mistyped
// address.
bool is_host_name(std::string_view host) {
  if (host.size() > 253) return false;
  const auto labels = base::split(host, '.');
  return std::ranges::all_of(labels, is_label) && !base::is_digits(labels.back());
}

Expected<Address> parse_unix(std::string_view text) {
  const std::string_view path = text.substr(kUnix.size());
  if (path.empty()) return wrong(text, " lacks a path", "unix:PATH, such as unix:/run/sluice.sock");
  if (path.size() > kLongestPath) {
    return wrong(text, " has a path of " + std::to_string(path.size()) + " bytes",
                 "at most " + std::to_string(kLongestPath));
  }
  if (path.find('\0') != path.npos) return wrong(text, " has a null byte", "unix:PATH");
  return Address{.kind = Address::Kind::kUnix, .host = {}, .path = std::string(path)};
}

Expected<std::uint16_t> parse_port(std::string_view text, std::string_view port) {
  const auto value = base::read_number<std::uint16_t>(port);
  if (value) return *value;
  return wrong(text, " has no port " + base::in_quotes(port), "a port from 0 to 65535");
}

Expected<Address> parse_tcp(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  for (const std::string_view url : {"http://", "https://"}) {
    if (!text.starts_with(url)) continue;
    return wrong(text, " is a URL", "its address alone: " + std::string(text.substr(url.size())));
  }
  if (text.starts_with('/')) return wrong(text, " is a path", "unix:" + std::string(text));
  if (colon == text.npos || host.ends_with(':')) {
    return wrong(text, " is not an address", "host:port, [v6]:port, unix:PATH or off");
  }
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (!brackets && host.find(':') != host.npos) {
    return wrong(text, " has colons in its host", "brackets around IPv6, such as [::1]:8080");
  }
  if (host.empty() || host == "*") {
    return wrong(text, " names no host",
                 "127.0.0.1:PORT for this machine only, 0.0.0.0:PORT or [::]:PORT for all");
  }
  if (brackets && !is_ip(AF_INET6, host)) {
    return wrong(text, " has no IPv6 address in brackets", "such as [::1]:8080");
  }
  if (!brackets && !is_ip(AF_INET, host) && !is_host_name(host)) {
    return wrong(text, " has no host " + base::in_quotes(host),
                 "an IP address or a host name, such as 127.0.0.1 or localhost");
  }
  const auto port = parse_port(text, text.substr(colon + 1));
  if (!port) return Unexpected{port.error()};
  return Address{.kind = Address::Kind::kTcp, .host = std::string(host), .port = *port, .path = {}};
}

}  // namespace

Expected<Address> parse_address(std::string_view text) {
  if (text == "off") return Address{};
  return text.starts_with(kUnix) ? parse_unix(text) : parse_tcp(text);
}

bool collide(const Address& a, const Address& b) noexcept {
  return a.kind != Address::Kind::kOff && a == b && (a.kind == Address::Kind::kUnix || a.port != 0);
}

}  // namespace sluice::server
