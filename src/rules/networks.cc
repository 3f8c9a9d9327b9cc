#include "rules/networks.h"

#include "base/ip_address.h"
#include "base/quoted.h"
#include "rules/diagnostics.h"

namespace sluice::rules {

Expected<std::optional<Network>> parse_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view written = text.substr(0, slash);
  const auto address = parse_address(written);
  if (!address) return std::optional<Network>();
  if (slash == text.npos) return std::optional(Network{*address, *address});
  const auto whole = base::network_of(written, {});
  const bool has_v4 = is_v4(*address);
  const std::uint8_t most = has_v4 ? 32 : 128;
  const auto bits = base::read_number<std::uint8_t>(text.substr(slash + 1));
  // IPv4-mapped IPv6 addresses are IPv4 addresses here, so their networks are IPv4, too.
  const bool is_mapped = has_v4 && written.find(':') != written.npos;
  if (!bits || *bits > most || is_mapped) {
    return Unexpected{"the network " + in_quotes(text) + " is wrong; expected '" +
                      std::string(whole->view()) + "/' and a number from 0 to " +
                      std::to_string(most)};
  }
  const auto bits_of = has_v4 ? base::PrefixBits{.v4 = *bits} : base::PrefixBits{.v6 = *bits};
  const auto network = base::network_of(written, bits_of);
  const std::string_view first = network->view().substr(0, network->view().find('/'));
  if (first != whole->view()) {
    return Unexpected{"the network " + in_quotes(text) + " has bits after its prefix; expected '" +
                      std::string(network->view()) + "'"};
  }
  const unsigned all = has_v4 ? *bits + base::IpAddress::kMappedBits : *bits;
  return std::optional(Network{*address, *address | base::IpAddress::after(all)});
}

bool looks_like_network(std::string_view text) noexcept {
  const std::size_t slash = text.find('/');
  return slash != text.npos && base::is_digits(text.substr(slash + 1)) &&
         parse_address(text.substr(0, slash)).has_value();
}

void NetworkSet::add(const Network& network) {
  const auto [first, last] = network;
  const auto high = [](Address of) { return static_cast<std::uint64_t>(of >> 64); };
  if (is_v4(first)) {
    v4_.add(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last));
  } else if (first << 64 == 0 && ~last << 64 == 0) {
    wide_v6_.add(high(first), high(last));
  } else {
    narrow_v6_.add(first, last);
  }
}

void NetworkSet::build() {
  v4_.build();
  wide_v6_.build();
  narrow_v6_.build();
}

}  // namespace sluice::rules
