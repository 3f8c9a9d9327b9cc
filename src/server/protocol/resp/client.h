#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/net/loop_clock.h"
#include "server/protocol/resp/users.h"

namespace sluice::server::resp {

// The properties of a connection and the settings that its client made.
struct Client {
  std::uint64_t id = 0;  // unique among all connections since the server started
  std::string peer;      // "203.0.113.9:50121"; the path of a Unix socket and ":0"
  net::SteadyTime connected;
  const User* user = nullptr;  // null: not logged in
  Role role = Role::kNobody;
  std::uint8_t protocol = 2;
  bool leaves = false;  // has sent QUIT: the connection closes after the reply
  std::string name;     // set by CLIENT SETNAME
  std::string library;  // set by CLIENT SETINFO
  std::string library_version;
};

}  // namespace sluice::server::resp
