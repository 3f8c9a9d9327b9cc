#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::rules {

// The number of leading bits of an address that are kept.
struct PrefixBits {
  std::uint8_t v4 = 32;
  std::uint8_t v6 = 128;
};

// The text of an address or of a network.
struct AddressText {
  std::array<char, 52> bytes;
  std::size_t size = 0;

  std::string_view view() const noexcept { return {bytes.data(), size}; }
};

// Returns the network that contains the address ("192.0.2.0/24", "2001:db8::/64"), or the address
// in its canonical form if all bits are kept. Treats IPv4-mapped IPv6 addresses as IPv4. Returns
// nothing if the text is not an address.
std::optional<AddressText> network_of(std::string_view address, PrefixBits bits) noexcept;

}  // namespace sluice::rules
