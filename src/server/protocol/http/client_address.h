#pragma once

#include <string_view>

#include "rules/ip_prefix.h"
#include "server/net/trusted_proxies.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// Returns the address of the client, the attribute `ip`: the peer's address if the peer is not a
// trusted proxy. Otherwise it is the rightmost address of X-Forwarded-For that is not trusted, or
// the leftmost one if all are trusted; without that field, the address of X-Real-IP. An element
// that is not an address ends the search: the proxy to its right then counts as the client. Ports
// are removed. The address is in its canonical spelling, IPv4-mapped IPv6 as IPv4.
//
// Empty if the peer is on a Unix socket and no better address is known. Returns a view of the
// request, or of `buffer`, which is overwritten. Cost: parses one address for each trusted proxy on
// the path, and one more.
std::string_view client_address(const http::Request& request, const TrustedProxies& trusted,
                                rules::AddressText& buffer) noexcept;

}  // namespace sluice::server
