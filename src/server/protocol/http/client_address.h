#pragma once

#include <string_view>

#include "rules/ip_prefix.h"
#include "server/net/trusted_proxies.h"
#include "server/protocol/http/message.h"

namespace sluice::server {

// The address of the client behind trusted proxies, `ip`: the peer's, unless the peer is trusted;
// then the rightmost address of X-Forwarded-For that is not, or the leftmost where all are; without
// that field the one of X-Real-IP. What is no address ends the search: the proxy to its right is
// then taken for the client. Ports behind addresses are left out; spelled as usual, IPv4-mapped
// IPv6 as IPv4.
//
// Empty where the peer is on a Unix socket and nothing better is known. A view of the request, or
// of `buffer`, which is overwritten. Cost: looks at no more addresses than there are trusted
// proxies on the way, and one.
std::string_view client_address(const http::Request& request, const TrustedProxies& trusted,
                                rules::AddressText& buffer) noexcept;

}  // namespace sluice::server
