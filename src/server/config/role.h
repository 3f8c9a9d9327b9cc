#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/secret.h"

namespace sluice::server {

// What a client may do. Each role includes the roles before it.
enum class Role : std::uint8_t {
  kNobody,   // not logged in: may log in and leave
  kCheck,    // may request decisions
  kOperate,  // may also refund and reset, which make room in a limit
  kAdmin,
};

// "nobody", "check", "operate" and "admin".
constexpr std::string_view to_string(Role role) noexcept {
  constexpr std::array<std::string_view, 4> kNames{"nobody", "check", "operate", "admin"};
  return kNames[static_cast<std::size_t>(role)];
}

// A client that presents a token or a password, a certificate, or either.
struct KnownClient {
  std::string name;
  Role role = Role::kCheck;
  std::string secret = {};       // empty: none, or not read yet from its source
  std::string certificate = {};  // a name in it; empty: none
  SecretSource source = {};
};

// Returns the role of the client whose certificate has one of these names, or kNobody.
using RoleOfCertificate = std::function<Role(const std::vector<std::string>& names)>;
inline Role role_of(const std::vector<std::string>& names, const RoleOfCertificate& find) {
  return names.empty() || !find ? Role::kNobody : find(names);
}

// The other side of a connection.
struct Peer {
  std::string address;  // as the protocol shows it
  Role certificate_role = Role::kNobody;
  int descriptor = -1;  // of the socket; below 0: not known
};

}  // namespace sluice::server
