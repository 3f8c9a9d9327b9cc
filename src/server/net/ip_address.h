#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::server {

// An address as 16 bytes: IPv4 as IPv4-mapped IPv6.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  static constexpr unsigned kMappedBits = 96;  // of the prefix of IPv4 addresses

  // Absent where the text is not exactly an address. Of IPv4 there is one spelling only.
  static std::optional<IpAddress> parse(std::string_view text) noexcept;
  bool is_v4() const noexcept;
  // Whether the first `bits` are the same.
  bool shares_prefix(const IpAddress& other, unsigned bits) const noexcept;

  // Whether any bit is set behind the first `bits`.
  bool has_bits_from(unsigned bits) const noexcept;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

// The address in "1.2.3.4:567", "[::1]:80" or "[::1]"; any other text as it is.
std::string_view without_port(std::string_view text) noexcept;

}  // namespace sluice::server
