#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/expected.h"

namespace sluice::server {

// Where a listener listens.
struct Address {
  enum class Kind : std::uint8_t { kOff, kTcp, kUnix };

  Kind kind = Kind::kOff;
  std::string host;        // of kTcp: an IP address, without brackets, or a host name
  std::uint16_t port = 0;  // 0: one that the system picks
  std::string path;        // of kUnix

  friend bool operator==(const Address&, const Address&) = default;
};

// Reads "host:port", "[v6]:port", "unix:PATH" or "off". Host names are not looked up. Errors: "WHAT
// IS WRONG; WHAT WOULD BE RIGHT".
Expected<Address> parse_address(std::string_view text);

// Whether two listeners would stand at the same place, where each would take connections that are
// meant for the other.
bool collide(const Address& a, const Address& b) noexcept;

}  // namespace sluice::server
