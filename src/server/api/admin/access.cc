#include "server/api/admin/access.h"

#include <string>
#include <string_view>

#include "server/net/ip_address.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/host.h"

namespace sluice::server {
namespace {

constexpr std::string_view kScheme = "bearer ";

std::optional<Problem> check_token(const http::Request& request, const AdminToken& token) {
  Buffers buffers;
  const std::string_view field =
      find_header(request.fields, "authorization", buffers).value_or(std::string_view());
  if (!has_name({field.substr(0, kScheme.size()), {}}, kScheme)) {
    return Problem{401, "a token is required; expected the header Authorization: Bearer TOKEN"};
  }
  if (token.matches(trimmed(field.substr(kScheme.size())))) return std::nullopt;
  return Problem{401, "the token is not the one that is configured"};
}

// Returns the host of "http://host/path", or nothing if the target is a path.
std::string_view host_of_target(std::string_view target) noexcept {
  const std::size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == target.npos) return {};
  const std::string_view rest = target.substr(scheme + 3);
  return rest.substr(0, rest.find_first_of("/?#"));
}

bool is_local(std::string_view authority) {
  std::string buffer;
  const std::string_view host = host_name(authority, buffer);
  return host == "localhost" || IpAddress::parse(host).has_value();
}

bool is_from_page(const http::Request& request) {
  Buffers buffers;
  if (find_header(request.fields, "origin", buffers)) return true;
  return find_header(request.fields, "sec-fetch-site", buffers).value_or("none") != "none";
}

std::optional<Problem> check_local(const http::Request& request) {
  if (is_from_page(request)) {
    return Problem{403, "requests from web pages are rejected because no token is configured"};
  }
  const std::string_view target_host = host_of_target(request.target);
  bool local = target_host.empty() || is_local(target_host);
  for (const http::Field& field : request.fields) {
    if (has_name(field, "host")) local = local && is_local(field.value);
  }
  if (local) return std::nullopt;
  return Problem{403,
                 "the host is a name; expected an address or localhost, because no token is "
                 "configured"};
}

}  // namespace

std::optional<Problem> find_refusal(const http::Request& request, const AdminToken& token) {
  return token.is_set() ? check_token(request, token) : check_local(request);
}

}  // namespace sluice::server
