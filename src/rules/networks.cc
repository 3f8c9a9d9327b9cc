#include "rules/networks.h"

#include <charconv>

#include "base/ip_address.h"
#include "rules/diagnostics.h"

namespace sluice::rules {
namespace {

// Returns the last address of the network with that many bits.
Address last_of(Address address, unsigned bits) noexcept {
  if (address.is_v4) {
    address.v4 |= static_cast<std::uint32_t>(~std::uint64_t{0} >> 32 >> bits);
    return address;
  }
  if (bits < 64) address.v6.high |= ~std::uint64_t{0} >> bits;
  address.v6.low |= bits <= 64   ? ~std::uint64_t{0}
                    : bits < 128 ? ~std::uint64_t{0} >> (bits - 64)
                                 : 0;
  return address;
}

}  // namespace

std::optional<Address> parse_address(std::string_view text) noexcept {
  const auto parsed = base::IpAddress::parse(text);
  if (!parsed) return std::nullopt;
  Address out{.is_v4 = parsed->is_v4()};
  for (std::size_t i = 0; i < 8; ++i) {
    out.v6.high = out.v6.high << 8 | parsed->bytes[i];
    out.v6.low = out.v6.low << 8 | parsed->bytes[i + 8];
  }
  if (out.is_v4) return Address{.is_v4 = true, .v4 = static_cast<std::uint32_t>(out.v6.low)};
  return out;
}

Expected<std::optional<Network>> parse_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view written = text.substr(0, slash);
  const auto address = parse_address(written);
  if (!address) return std::optional<Network>();
  if (slash == text.npos) return std::optional(Network{*address, *address});
  const auto whole = base::network_of(written, {});
  const std::uint8_t most = address->is_v4 ? 32 : 128;
  std::uint8_t bits = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, bits);
  // IPv4-mapped IPv6 addresses are IPv4 addresses here, so their networks are IPv4, too.
  const bool is_mapped = address->is_v4 && written.find(':') != written.npos;
  if (error != std::errc() || rest != end || bits > most || is_mapped) {
    return Unexpected{"the network " + in_quotes(text) + " is wrong; expected '" +
                      std::string(whole->view()) + "/' and a number from 0 to " +
                      std::to_string(most)};
  }
  const auto bits_of = address->is_v4 ? base::PrefixBits{.v4 = bits} : base::PrefixBits{.v6 = bits};
  const auto network = base::network_of(written, bits_of);
  const std::string_view first = network->view().substr(0, network->view().find('/'));
  if (first != whole->view()) {
    return Unexpected{"the network " + in_quotes(text) + " has bits after its prefix; expected '" +
                      std::string(network->view()) + "'"};
  }
  return std::optional(Network{*address, last_of(*address, bits)});
}

bool looks_like_network(std::string_view text) noexcept {
  const std::size_t slash = text.find('/');
  if (slash == text.npos || slash + 1 == text.size()) return false;
  const std::string_view bits = text.substr(slash + 1);
  return bits.find_first_not_of("0123456789") == bits.npos &&
         parse_address(text.substr(0, slash)).has_value();
}

void NetworkSet::add(const Network& network) {
  if (network.first.is_v4) {
    v4_.add(network.first.v4, network.last.v4);
  } else if (network.first.v6.low == 0 && network.last.v6.low == ~std::uint64_t{0}) {
    wide_v6_.add(network.first.v6.high, network.last.v6.high);
  } else {
    narrow_v6_.add(network.first.v6, network.last.v6);
  }
}

void NetworkSet::build() {
  v4_.build();
  wide_v6_.build();
  narrow_v6_.build();
}

}  // namespace sluice::rules
