#include "base/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <system_error>

namespace sluice::base {
namespace {

// Converts a number from the order of its bytes here to that in a network, or back.
std::uint64_t network_order(std::uint64_t number) noexcept {
  return std::endian::native == std::endian::little ? __builtin_bswap64(number) : number;
}

void append(AddressText& text, char c) noexcept { text.bytes[text.size++] = c; }

void append(AddressText& text, unsigned number) noexcept {
  if (number >= 100) append(text, static_cast<char>('0' + number / 100));
  if (number >= 10) append(text, static_cast<char>('0' + number / 10 % 10));
  append(text, static_cast<char>('0' + number % 10));
}

void append_bits(AddressText& text, std::uint8_t bits, std::size_t of) noexcept {
  if (bits == of) return;
  append(text, '/');
  append(text, unsigned{bits});
}

// Without inet_ntop(), which formats IPv4 through sprintf(): that costs more than everything else
// here.
AddressText print_v4(std::uint32_t address, std::uint8_t bits) noexcept {
  AddressText text;
  for (unsigned shift = 32; shift > 0; shift -= 8) {
    if (shift < 32) append(text, '.');
    append(text, unsigned{static_cast<std::uint8_t>(address >> (shift - 8))});
  }
  append_bits(text, bits, 32);
  return text;
}

AddressText print_v6(IpAddress::Number address, std::uint8_t bits) noexcept {
  const std::array halves{network_order(static_cast<std::uint64_t>(address >> 64)),
                          network_order(static_cast<std::uint64_t>(address))};
  AddressText text;
  inet_ntop(AF_INET6, halves.data(), text.bytes.data(), static_cast<socklen_t>(text.bytes.size()));
  text.size = std::strlen(text.bytes.data());
  append_bits(text, bits, 128);
  return text;
}

// Reads four decimal numbers without leading zeros. This is much faster than inet_pton(), and
// accepts only one spelling of an address.
std::optional<std::uint32_t> parse_v4(std::string_view text) noexcept {
  const char* at = text.data();
  const char* const end = at + text.size();
  std::uint32_t address = 0;
  for (int i = 0; i < 4; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return std::nullopt;
    std::uint8_t byte = 0;
    const auto [stop, error] = std::from_chars(at, end, byte);
    if (error != std::errc{} || (*at == '0' && stop - at > 1)) return std::nullopt;
    address = address << 8 | byte;
    at = stop;
  }
  return at == end ? std::optional(address) : std::nullopt;
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) noexcept {
  if (const auto v4 = parse_v4(text)) return IpAddress{Number{0xFFFF} << 32 | *v4};
  std::array<char, INET6_ADDRSTRLEN> ended{};
  if (text.size() >= ended.size() || text.find('\0') != text.npos) return std::nullopt;
  std::copy(text.begin(), text.end(), ended.begin());
  std::array<std::uint64_t, 2> halves;
  if (inet_pton(AF_INET6, ended.data(), halves.data()) != 1) return std::nullopt;
  return IpAddress{Number{network_order(halves[0])} << 64 | network_order(halves[1])};
}

AddressText IpAddress::network(PrefixBits bits) const noexcept {
  if (!is_v4()) return print_v6(number & ~after(bits.v6), bits.v6);
  return print_v4(static_cast<std::uint32_t>(number & ~after(kMappedBits + bits.v4)), bits.v4);
}

std::optional<AddressText> network_of(std::string_view address, PrefixBits bits) noexcept {
  const auto parsed = IpAddress::parse(address);
  return parsed ? std::optional(parsed->network(bits)) : std::nullopt;
}

}  // namespace sluice::base
