#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::server::resp {

// The permissions of a client. Each role includes the roles before it.
enum class Role : std::uint8_t {
  kNobody,     // not logged in: may log in and leave
  kCheckOnly,  // may request decisions
  kAdmin,      // may also refund and reset, which make room in a limit
};
// "nobody", "check-only" and "admin".
std::string_view to_string(Role role) noexcept;

struct User {
  std::string name;
  std::string password;
  Role role = Role::kCheckOnly;
};

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
  explicit Users(std::vector<User> users) : users_(std::move(users)) {}

  bool none() const noexcept { return users_.empty(); }
  // Returns the role of a client before it logs in.
  Role at_first() const noexcept { return none() ? Role::kAdmin : Role::kNobody; }
  // Returns the user with that name and password, or null if there is none.
  const User* find(std::string_view name, std::string_view password) const noexcept;

 private:
  std::vector<User> users_;
};

}  // namespace sluice::server::resp
