#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace sluice::redis {

// Where one server listens.
struct ServerAddress {
  std::string host;  // a name, an IP address, or the path of a Unix socket ("/...")
  std::uint16_t port = 6379;

  std::string to_string() const;  // "127.0.0.1:6379", "[::1]:6379", "/run/redis.sock"
  friend auto operator<=>(const ServerAddress&, const ServerAddress&) = default;
};

}  // namespace sluice::redis
