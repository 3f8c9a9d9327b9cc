#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/expected.h"

namespace sluice::server {

// The address that a listener listens at.
struct Address {
  enum class Kind : std::uint8_t { kOff, kTcp, kUnix };

  Kind kind = Kind::kOff;
  std::string host;        // of kTcp: an IP address, without brackets, or a host name
  std::uint16_t port = 0;  // 0: the system picks a free port
  std::string path;        // of kUnix

  friend bool operator==(const Address&, const Address&) = default;
};

// Reads "host:port", "[v6]:port", "unix:PATH" or "off". Does not resolve host names. Errors:
// "PROBLEM; EXPECTED".
Expected<Address> parse_address(std::string_view text);

// Returns whether two listeners would share an address, so that each would accept connections for
// the other.
bool collide(const Address& a, const Address& b) noexcept;

}  // namespace sluice::server
