#include "server/protocol/http/access.h"

#include <algorithm>

#include "server/config/secret.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/web_page.h"

namespace sluice::server {

std::optional<Problem> Access::find_refusal(const http::Request& request) const {
  if (auto refusal = find_web_page(request)) return refusal;
  return reach_ == Reach::kLoopback ? find_foreign_host(request, hosts_) : std::nullopt;
}

std::optional<Problem> Access::find_gateway_refusal(const http::Request& request) const {
  return reach_ == Reach::kLoopback ? find_page_as_gateway(request, hosts_) : std::nullopt;
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
    if (is_same_secret(token, client.token)) role = std::max(client.role, own);
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
                     [](const KnownClient& client) { return client.token.empty(); });
}

bool Access::nobody_operates() const noexcept {
  return reach_ == Reach::kNetwork &&
         std::none_of(clients_.begin(), clients_.end(),
                      [](const KnownClient& client) { return client.role >= Role::kOperate; });
}

}  // namespace sluice::server
