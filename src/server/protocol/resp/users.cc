#include "server/protocol/resp/users.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice::server::resp {
namespace {

// Compares in a time that depends only on `presented`.
bool equal(std::string_view presented, std::string_view secret) noexcept {
  if (secret.empty()) return false;
  // Volatile, so that the compiler cannot make the loop stop early.
  volatile unsigned difference = presented.size() == secret.size() ? 0U : 1U;
  for (std::size_t i = 0; i < presented.size(); ++i) {
    const auto a = static_cast<unsigned char>(presented[i]);
    const auto b = static_cast<unsigned char>(secret[i % secret.size()]);
    difference = difference | (static_cast<unsigned>(a) ^ b);
  }
  return difference == 0;
}

}  // namespace

std::string_view to_string(Role role) noexcept {
  static constexpr std::array<std::string_view, 3> kNames{"nobody", "check-only", "admin"};
  return kNames[static_cast<std::size_t>(role)];
}

const User* Users::find(std::string_view name, std::string_view password) const noexcept {
  const User* found = nullptr;
  for (const User& user : users_) {
    const bool same_password = equal(password, user.password);
    if (same_password && user.name == name) found = &user;
  }
  return found;
}

}  // namespace sluice::server::resp
