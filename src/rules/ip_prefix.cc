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

AddressText print(int family, std::span<unsigned char> address, std::uint8_t bits) noexcept {
  keep_bits(address, bits);
  AddressText text;
  inet_ntop(family, address.data(), text.bytes.data(), static_cast<socklen_t>(text.bytes.size()));
  text.size = std::strlen(text.bytes.data());
  if (bits == address.size() * 8) return text;
  text.bytes[text.size++] = '/';
  if (bits >= 100) text.bytes[text.size++] = static_cast<char>('0' + bits / 100);
  if (bits >= 10) text.bytes[text.size++] = static_cast<char>('0' + bits / 10 % 10);
  text.bytes[text.size++] = static_cast<char>('0' + bits % 10);
  return text;
}

}  // namespace

std::optional<AddressText> network_of(std::string_view address, PrefixBits bits) noexcept {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.size() >= text.size() || address.find('\0') != address.npos) return std::nullopt;
  std::copy(address.begin(), address.end(), text.begin());
  std::array<unsigned char, 16> raw{};
  if (inet_pton(AF_INET, text.data(), raw.data()) == 1) {
    return print(AF_INET, std::span(raw).first(4), bits.v4);
  }
  if (inet_pton(AF_INET6, text.data(), raw.data()) != 1) return std::nullopt;
  if (std::equal(kMapped.begin(), kMapped.end(), raw.begin())) {
    return print(AF_INET, std::span(raw).last(4), bits.v4);
  }
  return print(AF_INET6, raw, bits.v6);
}

}  // namespace sluice::rules
