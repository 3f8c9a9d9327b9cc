// Header fields of arbitrary bytes, as lines "name:value" after a line with the peer. The client
// address is in canonical form or equals the peer's; fields of untrusted peers have no effect; and
// the same request has the same attributes when the buffers are reused.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "server/api/auth/auth_endpoint.h"

namespace {

using sluice::server::ForwardedAttributes;
using sluice::server::TrustedProxies;

void require(bool holds) {
  if (!holds) std::abort();
}

std::string_view take_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

void check_ip(std::string_view ip, std::string_view peer, bool trusted) {
  if (ip == peer) return;
  require(trusted);
  const auto usual = sluice::base::network_of(ip, {});
  require(usual && usual->view() == ip);
}

std::vector<std::string> values_of(const ForwardedAttributes& attributes) {
  std::vector<std::string> values;
  for (const char* name : {"method", "path", "host", "ip", "header.x", "header.cookie", "query.a",
                           "query.", "cookie.a", "other", ""}) {
    const auto value = attributes.find(name);
    values.emplace_back(value ? "=" + std::string(*value) : "");
  }
  return values;
}

void check(const ForwardedAttributes& attributes, std::string_view peer, bool trusted) {
  check_ip(attributes.find("ip").value_or(""), peer, trusted);
  require(attributes.find("path")->starts_with('/'));
  const std::string_view host = attributes.find("host").value_or("");
  require(std::none_of(host.begin(), host.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
  require(!attributes.find("other").has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::string> networks{"10.0.0.0/8", "2001:db8::/32", "unix"};
  const TrustedProxies trusted = TrustedProxies::parse(networks).value();
  const std::vector<char> exact(data, data + size);  // so that a read past the end is found
  std::string_view rest(exact.data(), exact.size());

  const std::string_view peer = take_line(rest);
  std::vector<sluice::server::http::Field> fields;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    const std::size_t colon = std::min(line.find(':'), line.size());
    fields.push_back({line.substr(0, colon), line.substr(std::min(colon + 1, line.size()))});
  }
  sluice::server::http::Request request;
  request.method = "GET";
  request.target = "/v1/auth";
  request.fields = fields;
  request.peer = peer;

  ForwardedAttributes attributes(trusted);
  const std::string_view wrong = attributes.begin(request);
  check(attributes, peer, trusted.contains(peer));
  const auto values = values_of(attributes);
  require(attributes.begin(request) == wrong && values_of(attributes) == values);
  static_cast<void>(TrustedProxies::parse(std::vector<std::string>{std::string(peer)}));
  return 0;
}
