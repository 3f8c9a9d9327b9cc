#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::server::resp {

// What somebody may do. Each may do what those before it may.
enum class Role : std::uint8_t {
  kNobody,     // has shown no password: may show one, and leave
  kCheckOnly,  // may ask for decisions
  kAdmin,      // may also give back and forget: what makes room where a limit has left none
};
// "nobody", "check-only" and "admin".
std::string_view to_string(Role role) noexcept;

struct User {
  std::string name;
  std::string password;
  Role role = Role::kCheckOnly;
};

// Who may use the door, and by which password. Without any user, everybody may do everything.
//
// Thread-safety: const, so any thread. Cost of a password: a comparison with those of all users,
// which takes as long for a wrong one as for a right one.
class Users {
 public:
  // The name that AUTH means where it is given a password alone.
  static constexpr std::string_view kDefault = "default";

  Users() = default;
  explicit Users(std::vector<User> users) : users_(std::move(users)) {}

  bool none() const noexcept { return users_.empty(); }
  // The role of a client that has said nothing yet.
  Role at_first() const noexcept { return none() ? Role::kAdmin : Role::kNobody; }
  // The user, or null where there is none of that name with that password.
  const User* find(std::string_view name, std::string_view password) const noexcept;

 private:
  std::vector<User> users_;
};

}  // namespace sluice::server::resp
