#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

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

}  // namespace sluice::server
