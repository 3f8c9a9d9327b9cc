#include "server/net/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <span>
#include <system_error>

namespace sluice::server {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

bool is_port(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
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

std::string_view without_port(std::string_view text) noexcept {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos) return text;
    const std::string_view rest = text.substr(end + 1);
    const bool has_port = rest.starts_with(':') && is_port(rest.substr(1));
    return rest.empty() || has_port ? text.substr(1, end - 1) : text;
  }
  const std::size_t colon = text.find(':');
  if (colon == text.npos || !is_port(text.substr(colon + 1))) return text;
  return text.substr(0, colon);
}

}  // namespace sluice::server
