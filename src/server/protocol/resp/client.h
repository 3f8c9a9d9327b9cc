#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/protocol/resp/users.h"

namespace sluice::server::resp {

// What a connection has said of itself.
struct Client {
  std::uint64_t id = 0;        // of all connections since the start of the server
  std::string peer;            // "203.0.113.9:50121"; the path of a Unix socket and ":0"
  const User* user = nullptr;  // null: has shown no password
  Role role = Role::kNobody;
  std::uint8_t protocol = 2;
  bool leaves = false;  // has said QUIT: closes behind its reply
  std::string name;     // by CLIENT SETNAME
  std::string library;  // by CLIENT SETINFO
  std::string library_version;
};

}  // namespace sluice::server::resp
