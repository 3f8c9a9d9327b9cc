#include "server/protocol/resp/client.h"

#include <algorithm>

#include "server/config/secret.h"

namespace sluice::server::resp {

const KnownClient* Users::find(std::string_view name, std::string_view password) const noexcept {
  const KnownClient* found = nullptr;
  for (const KnownClient& user : users_) {
    const bool same_password = is_same_secret(password, user.secret);
    if (same_password && user.name == name) found = &user;
  }
  return found;
}

const KnownClient* Users::find_certificate(std::span<const std::string> names) const noexcept {
  for (const KnownClient& user : users_) {
    if (user.certificate.empty()) continue;
    if (std::find(names.begin(), names.end(), user.certificate) != names.end()) return &user;
  }
  return nullptr;
}

}  // namespace sluice::server::resp
