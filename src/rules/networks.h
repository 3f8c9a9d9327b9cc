#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rules/interval_set.h"
#include "sluice/expected.h"

namespace sluice::rules {

// The number of an IPv6 address.
struct V6Number {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend constexpr bool operator==(const V6Number&, const V6Number&) = default;
  friend constexpr auto operator<=>(const V6Number& a, const V6Number& b) noexcept {
    return a.high != b.high ? a.high <=> b.high : a.low <=> b.low;
  }
};

// An address. An IPv4-mapped IPv6 address (::ffff:192.0.2.1) is an IPv4 address.
struct Address {
  bool is_v4 = true;
  std::uint32_t v4 = 0;
  V6Number v6 = {};
};
// Returns nothing if the text is not an address.
std::optional<Address> parse_address(std::string_view text) noexcept;

// The addresses from `first` to `last`, of one kind.
struct Network {
  Address first;
  Address last;
};
// Reads an address, or a network in CIDR notation. Returns nothing if the text before a slash is
// not an address. Errors: "WHAT; EXPECTED", for a network with a wrong prefix or with bits after
// it.
Expected<std::optional<Network>> parse_network(std::string_view text);

// Returns whether people who write this text mean a network: an address, a slash, and a number.
bool looks_like_network(std::string_view text) noexcept;

// A set of networks. It answers only whether an address is in one of them.
//
// Thread-safety: contains() from any thread once build() was called. Cost: 8 bytes for an IPv4
// network, 17 for an IPv6 network of at most 64 bits, 33 for another.
class NetworkSet {
 public:
  void add(const Network& network);
  // Call it after the last add() and before the first contains().
  void build();
  bool contains(const Address& address) const noexcept {
    if (address.is_v4) return v4_.contains(address.v4);
    return wide_v6_.contains(address.v6.high) || narrow_v6_.contains(address.v6);
  }
  bool empty() const noexcept { return v4_.empty() && wide_v6_.empty() && narrow_v6_.empty(); }
  std::size_t bytes() const noexcept { return v4_.bytes() + wide_v6_.bytes() + narrow_v6_.bytes(); }

 private:
  IntervalSet<std::uint32_t> v4_;
  IntervalSet<std::uint64_t> wide_v6_;  // of at most 64 bits: the high halves
  IntervalSet<V6Number> narrow_v6_;
};

}  // namespace sluice::rules
