#include "base/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <system_error>

namespace sluice::base {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

void keep_bits(std::span<std::uint8_t> address, std::size_t bits) noexcept {
  for (std::size_t i = 0; i < address.size(); ++i) {
    const std::size_t kept = std::min<std::size_t>(8, bits - std::min(bits, i * 8));
    address[i] = static_cast<std::uint8_t>(address[i] & (0xFF00u >> kept));
  }
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

// inet_ntop() formats IPv4 through sprintf(), which costs more than everything else here.
AddressText print_v4(std::span<std::uint8_t> address, std::uint8_t bits) noexcept {
  keep_bits(address, bits);
  AddressText text;
  for (std::size_t i = 0; i < address.size(); ++i) {
    if (i > 0) append(text, '.');
    append(text, unsigned{address[i]});
  }
  append_bits(text, bits, 32);
  return text;
}

AddressText print_v6(std::span<std::uint8_t> address, std::uint8_t bits) noexcept {
  keep_bits(address, bits);
  AddressText text;
  inet_ntop(AF_INET6, address.data(), text.bytes.data(), static_cast<socklen_t>(text.bytes.size()));
  text.size = std::strlen(text.bytes.data());
  append_bits(text, bits, 128);
  return text;
}

// Reads four decimal numbers without leading zeros. This is much faster than inet_pton(), and
// accepts only one spelling of an address.
bool parse_v4(std::string_view text, std::span<std::uint8_t, 4> out) noexcept {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return false;
    const auto [stop, error] = std::from_chars(at, end, out[i]);
    if (error != std::errc{} || (*at == '0' && stop - at > 1)) return false;
    at = stop;
  }
  return at == end;
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) noexcept {
  IpAddress address;
  std::copy(kMapped.begin(), kMapped.end(), address.bytes.begin());
  if (parse_v4(text, std::span(address.bytes).last<4>())) return address;
  std::array<char, INET6_ADDRSTRLEN> ended{};
  if (text.size() >= ended.size() || text.find('\0') != text.npos) return std::nullopt;
  std::copy(text.begin(), text.end(), ended.begin());
  if (inet_pton(AF_INET6, ended.data(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

bool IpAddress::is_v4() const noexcept {
  return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

bool IpAddress::shares_prefix(const IpAddress& other, unsigned bits) const noexcept {
  const std::size_t whole = bits / 8;
  if (!std::equal(bytes.begin(), bytes.begin() + whole, other.bytes.begin())) return false;
  const unsigned mask = 0xFF00u >> (bits % 8) & 0xFFu;
  return mask == 0 || ((bytes[whole] ^ other.bytes[whole]) & mask) == 0;
}

bool IpAddress::has_bits_from(unsigned bits) const noexcept {
  for (unsigned bit = bits; bit < 8 * bytes.size(); ++bit) {
    if ((bytes[bit / 8] & (0x80u >> bit % 8)) != 0) return true;
  }
  return false;
}

AddressText IpAddress::network(PrefixBits bits) const noexcept {
  std::array<std::uint8_t, 16> kept = bytes;
  if (is_v4()) return print_v4(std::span(kept).last(4), bits.v4);
  return print_v6(kept, bits.v6);
}

std::optional<AddressText> network_of(std::string_view address, PrefixBits bits) noexcept {
  const auto parsed = IpAddress::parse(address);
  return parsed ? std::optional(parsed->network(bits)) : std::nullopt;
}

}  // namespace sluice::base
