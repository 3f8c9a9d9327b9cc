#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::base {

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

// An address as a number: that of an IPv4 address is that of the IPv4-mapped IPv6 address
// (::ffff:192.0.2.1).
struct IpAddress {
  __extension__ using Number = unsigned __int128;
  Number number = 0;

  static constexpr unsigned kAllBits = 128;
  static constexpr unsigned kMappedBits = 96;  // of the prefix of IPv4 addresses

  // Returns nothing if the text is not exactly an address. An IPv4 address has only one valid
  // spelling.
  static std::optional<IpAddress> parse(std::string_view text) noexcept;
  constexpr bool is_v4() const noexcept { return number >> 32 == 0xFFFF; }
  // Returns the bits after the first `bits`, all set.
  static constexpr Number after(unsigned bits) noexcept {
    return bits < kAllBits ? ~Number{0} >> bits : 0;
  }
  // Returns whether the first `bits` are equal.
  constexpr bool shares_prefix(const IpAddress& other, unsigned bits) const noexcept {
    return ((number ^ other.number) & ~after(bits)) == 0;
  }
  // Returns whether any bit after the first `bits` is set.
  constexpr bool has_bits_from(unsigned bits) const noexcept { return (number & after(bits)) != 0; }
  // Returns the network that contains the address ("192.0.2.0/24", "2001:db8::/64"), or the address
  // in its canonical form if all bits are kept.
  AddressText network(PrefixBits bits) const noexcept;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

// The network of the address in a text. Returns nothing if the text is not an address.
std::optional<AddressText> network_of(std::string_view address, PrefixBits bits) noexcept;

}  // namespace sluice::base
