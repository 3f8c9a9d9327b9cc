#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/role.h"
#include "server/net/loop_clock.h"

namespace sluice::server::resp {

// The users of the RESP front end and their passwords. Without any user, every client may do
// everything.
//
// Thread-safety: const, so any thread. Cost of a password check: a comparison with the passwords of
// all users, which takes as long for a wrong password as for a right one.
class Users {
 public:
  // The user that AUTH uses if it gets only a password.
  static constexpr std::string_view kDefault = "default";

  Users() = default;
  explicit Users(std::vector<KnownClient> users) : users_(std::move(users)) {}

  bool none() const noexcept { return users_.empty(); }
  // Returns the role of a client before it logs in.
  Role at_first() const noexcept { return none() ? Role::kAdmin : Role::kNobody; }
  // Returns the user whose certificate has one of these names, or null if there is none.
  const KnownClient* find_certificate(std::span<const std::string> names) const noexcept;
  // Returns the user with that name and password, or null if there is none.
  const KnownClient* find(std::string_view name, std::string_view password) const noexcept;

 private:
  std::vector<KnownClient> users_;
};

// The properties of a connection and the settings that its client made.
struct Client {
  std::uint64_t id = 0;  // unique among all connections since the server started
  std::string peer;      // "203.0.113.9:50121"; the path of a Unix socket and ":0"
  net::SteadyTime connected;
  const KnownClient* user = nullptr;            // null: not logged in
  const KnownClient* of_certificate = nullptr;  // the user of the TLS certificate
  Role role = Role::kNobody;
  std::uint8_t protocol = 2;
  bool leaves = false;  // has sent QUIT: the connection closes after the reply
  std::string name;     // set by CLIENT SETNAME
  std::string library;  // set by CLIENT SETINFO
  std::string library_version;
};

}  // namespace sluice::server::resp
