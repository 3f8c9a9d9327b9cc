#include "server/protocol/resp/users.h"

#include "server/config/secret.h"

namespace sluice::server::resp {

const User* Users::find(std::string_view name, std::string_view password) const noexcept {
  const User* found = nullptr;
  for (const User& user : users_) {
    const bool same_password = is_same_secret(password, user.password);
    if (same_password && user.name == name) found = &user;
  }
  return found;
}

}  // namespace sluice::server::resp
