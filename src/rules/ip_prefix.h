#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::rules {

// How many leading bits of an address count.
struct PrefixBits {
  std::uint8_t v4 = 32;
  std::uint8_t v6 = 128;
};

// The text of an address or a network.
struct AddressText {
  std::array<char, 52> bytes;
  std::size_t size = 0;

  std::string_view view() const noexcept { return {bytes.data(), size}; }
};

// The network that an address belongs to ("192.0.2.0/24", "2001:db8::/64"), or the address in its
// usual spelling where all bits count. IPv4-mapped IPv6 is IPv4. Absent where the text is no
// address.
std::optional<AddressText> network_of(std::string_view address, PrefixBits bits) noexcept;

}  // namespace sluice::rules
