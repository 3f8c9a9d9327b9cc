#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/quoted.h"
#include "base/request_target.h"
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
                                base::AddressText& buffer) noexcept;

using base::Buffers;
using base::trimmed;

// Compares two names of the same length.
bool same_letters(std::string_view sent, std::string_view lower_case_name) noexcept;

// Whether two texts are equal. The case of ASCII letters in the first does not matter.
inline bool is_same_name(std::string_view sent, std::string_view lower_case_name) noexcept {
  return sent.size() == lower_case_name.size() && same_letters(sent, lower_case_name);
}
inline bool has_name(const http::Field& field, std::string_view lower_case_name) noexcept {
  return is_same_name(field.name, lower_case_name);
}

// Returns the values of all fields of that name, joined by ", " ("; " for cookies), because one
// field with all values means the same. Returns nothing if there is no such field.
std::optional<std::string_view> find_header(std::span<const http::Field> fields,
                                            std::string_view lower_case_name, Buffers& buffers);

// Returns the value of the first cookie of that name in all Cookie fields, as it was sent.
std::optional<std::string_view> find_cookie(std::span<const http::Field> fields,
                                            std::string_view name) noexcept;

// Returns the token of "Bearer TOKEN", the value of an Authorization field, or an empty text.
std::string_view bearer_token(std::string_view authorization) noexcept;

}  // namespace sluice::server
