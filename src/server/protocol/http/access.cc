#include "server/protocol/http/access.h"

#include <algorithm>
#include <string_view>

#include "base/quoted.h"
#include "server/config/secret.h"
#include "server/net/trusted_proxies.h"
#include "server/protocol/http/fields.h"

namespace sluice::server {
namespace {

// Returns the authority of "http://authority/path", or nothing if there is no scheme.
std::string_view authority_of(std::string_view url) noexcept {
  if (url.starts_with('/')) return {};
  const std::size_t scheme = url.find("://");
  if (scheme == url.npos) return {};
  const std::string_view rest = url.substr(scheme + 3);
  return rest.substr(0, rest.find_first_of("/?#"));
}

bool is_loopback(std::string_view host) noexcept {
  if (host == "localhost") return true;
  const auto address = IpAddress::parse(host);
  if (!address) return false;
  constexpr unsigned kFirstByte = IpAddress::kMappedBits + 8;
  static const IpAddress v4 = *IpAddress::parse("127.0.0.0");
  static const IpAddress v6 = *IpAddress::parse("::1");
  return *address == v6 || (address->is_v4() && address->shares_prefix(v4, kFirstByte));
}

bool marks_a_browser(const http::Field& field) noexcept {
  constexpr std::string_view kFetch = "sec-fetch-";
  const http::Field prefix{field.name.substr(0, kFetch.size()), {}};
  return has_name(prefix, kFetch) || has_name(field, "origin") ||
         has_name(field, "accept-language");
}

bool is_known(std::string_view authority, std::span<const std::string> hosts) {
  std::string buffer;
  const std::string_view host = base::host_name(authority, buffer);
  return is_loopback(host) || std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

bool has_known_host(const http::Request& request, std::span<const std::string> hosts) {
  const std::string_view target = authority_of(request.target);
  bool known = target.empty() || is_known(target, hosts);
  for (const http::Field& field : request.fields) {
    if (has_name(field, "host")) known = known && is_known(field.value, hosts);
  }
  return known;
}

// Whether a web page of another site sent the request, by the marks of its browser.
bool is_of_foreign_page(const http::Request& request) {
  Buffers buffers;
  const auto field = [&](std::string_view name) {
    return find_header(request.fields, name, buffers);
  };
  const std::string_view site = field("sec-fetch-site").value_or(std::string_view());
  if (site == "cross-site" || site == "same-site") return true;
  const auto origin = field("origin");
  if (!origin) return false;
  const std::string_view authority = authority_of(*origin);
  return authority.empty() ||
         !base::same_word(authority, field("host").value_or(std::string_view()));
}

}  // namespace

std::optional<Problem> Access::find_refusal(const http::Request& request) const {
  if (is_of_foreign_page(request)) {
    return Problem{403, "requests from web pages of another site are refused"};
  }
  if (reach_ != Reach::kLoopback || has_known_host(request, hosts_)) return std::nullopt;
  return Problem{403,
                 "the host is not this machine; expected localhost, a loopback address or one of "
                 "http.hosts in the configuration"};
}

std::optional<Problem> Access::find_gateway_refusal(const http::Request& request) const {
  if (reach_ != Reach::kLoopback) return std::nullopt;
  bool is_browser = false;
  for (const http::Field& field : request.fields) {
    if (has_name(field, "sec-sluice-gateway") && !field.value.empty()) return std::nullopt;
    is_browser = is_browser || marks_a_browser(field);
  }
  if (!is_browser || has_known_host(request, hosts_)) return std::nullopt;
  return Problem{
      403,
      "a web page may have sent this request, and the host is not this machine; expected "
      "a gateway that sets Sec-Sluice-Gateway: 1, or the host localhost, a loopback "
      "address or one of http.hosts in the configuration"};
}

// Compares with every token, so that the time depends on none of them.
std::optional<Role> Access::role_of(std::string_view authorization,
                                    Role certificate_role) const noexcept {
  const Role own =
      std::max(certificate_role, reach_ == Reach::kNetwork ? Role::kCheck : Role::kOperate);
  const std::string_view token = bearer_token(authorization);
  if (token.empty() || nobody_has_a_token()) return own;
  std::optional<Role> role;
  for (const KnownClient& client : clients_) {
    if (is_same_secret(token, client.secret)) role = std::max(client.role, own);
  }
  return role;
}

std::optional<Role> Access::role_of(const http::Request& request) const {
  Buffers buffers;
  return role_of(find_header(request.fields, "authorization", buffers).value_or(""),
                 request.certificate_role);
}

Role Access::role_of_certificate(std::span<const std::string> names) const noexcept {
  Role role = Role::kNobody;
  for (const KnownClient& client : clients_) {
    if (client.certificate.empty()) continue;
    const bool has = std::find(names.begin(), names.end(), client.certificate) != names.end();
    if (has) role = std::max(role, client.role);
  }
  return role;
}

bool Access::nobody_has_a_token() const noexcept {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const KnownClient& client) { return client.secret.empty(); });
}

bool Access::nobody_operates() const noexcept {
  return reach_ == Reach::kNetwork &&
         std::none_of(clients_.begin(), clients_.end(),
                      [](const KnownClient& client) { return client.role >= Role::kOperate; });
}

}  // namespace sluice::server
