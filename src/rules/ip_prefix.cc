#include "rules/ip_prefix.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace sluice::rules {
namespace {

constexpr std::array<unsigned char, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

void keep_bits(std::span<unsigned char> address, std::size_t bits) noexcept {
  for (std::size_t i = 0; i < address.size(); ++i) {
    const std::size_t kept = std::min<std::size_t>(8, bits - std::min(bits, i * 8));
    address[i] = static_cast<unsigned char>(address[i] & (0xFF00u >> kept));
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
AddressText print_v4(std::span<unsigned char> address, std::uint8_t bits) noexcept {
  keep_bits(address, bits);
  AddressText text;
  for (std::size_t i = 0; i < address.size(); ++i) {
    if (i > 0) append(text, '.');
    append(text, unsigned{address[i]});
  }
  append_bits(text, bits, 32);
  return text;
}

AddressText print_v6(std::span<unsigned char> address, std::uint8_t bits) noexcept {
  keep_bits(address, bits);
  AddressText text;
  inet_ntop(AF_INET6, address.data(), text.bytes.data(), static_cast<socklen_t>(text.bytes.size()));
  text.size = std::strlen(text.bytes.data());
  append_bits(text, bits, 128);
  return text;
}

}  // namespace

std::optional<AddressText> network_of(std::string_view address, PrefixBits bits) noexcept {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.size() >= text.size() || address.find('\0') != address.npos) return std::nullopt;
  std::copy(address.begin(), address.end(), text.begin());
  std::array<unsigned char, 16> raw{};
  if (inet_pton(AF_INET, text.data(), raw.data()) == 1) {
    return print_v4(std::span(raw).first(4), bits.v4);
  }
  if (inet_pton(AF_INET6, text.data(), raw.data()) != 1) return std::nullopt;
  if (std::equal(kMapped.begin(), kMapped.end(), raw.begin())) {
    return print_v4(std::span(raw).last(4), bits.v4);
  }
  return print_v6(raw, bits.v6);
}

}  // namespace sluice::rules
