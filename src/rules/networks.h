#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "sluice/expected.h"

namespace sluice::rules {

// The numbers from `first` to `last`.
template <typename Number>
struct Interval {
  Number first, last;
  friend constexpr auto operator<=>(const Interval&, const Interval&) = default;
};

// A set of numbers, given by intervals.
//
// The intervals are in one sorted array. Above their first numbers are levels of samples, each a
// fraction of the one below, so that a look-up reads few cache lines.
//
// Thread-safety: contains() from any thread once build() was called. Cost: two numbers per
// interval, and 1/15 of a number for the samples.
template <typename Number>
class IntervalSet {
 public:
  void add(Number first, Number last) { intervals_.push_back({first, last}); }

  // Call it after the last add() and before the first contains().
  void build() {
    std::ranges::sort(intervals_);
    std::size_t kept = 0;
    for (const auto& next : intervals_) {
      if (kept > 0 && next.first <= intervals_[kept - 1].last) {
        intervals_[kept - 1].last = std::max(intervals_[kept - 1].last, next.last);
      } else {
        intervals_[kept++] = next;
      }
    }
    intervals_.resize(kept);
    intervals_.shrink_to_fit();
    std::vector<Number> level;
    for (std::size_t i = 0; i < kept; i += kFan) level.push_back(intervals_[i].first);
    while (level.size() > 1) {
      level.shrink_to_fit();
      samples_.push_back(std::move(level));
      level = std::vector<Number>();
      const std::vector<Number>& below = samples_.back();
      for (std::size_t i = 0; i < below.size(); i += kFan) level.push_back(below[i]);
    }
  }

  bool contains(Number number) const noexcept {
    std::size_t begin = 0;
    for (std::size_t level = samples_.size(); level > 0; --level) {
      const std::vector<Number>& samples = samples_[level - 1];
      const Number* const at = samples.data() + begin;
      const std::size_t up_to = count_up_to(at, samples.size() - begin, number);
      if (up_to == 0) return false;
      begin = (begin + up_to - 1) * kFan;
    }
    const Interval<Number>* const at = intervals_.data() + begin;
    const std::size_t up_to = count_up_to(at, intervals_.size() - begin, number);
    return up_to > 0 && number <= at[up_to - 1].last;
  }

  // Whether every number of `other` is in this set.
  bool contains(const IntervalSet& other) const noexcept {
    return std::ranges::all_of(other.intervals_, [&](const auto& of) {
      const auto above =
          std::ranges::upper_bound(intervals_, of.first, {}, &Interval<Number>::first);
      return above != intervals_.begin() && of.last <= std::prev(above)->last;
    });
  }
  bool empty() const noexcept { return intervals_.empty(); }
  std::size_t bytes() const noexcept {
    std::size_t numbers = 2 * intervals_.capacity();
    for (const auto& level : samples_) numbers += level.capacity();
    return numbers * sizeof(Number);
  }

 private:
  static constexpr std::size_t kFan = 16;

  static Number first_of(const Interval<Number>& interval) noexcept { return interval.first; }
  static Number first_of(Number sample) noexcept { return sample; }

  // Returns how many of the next kFan, or of the `left` that there are, are not above `number`.
  template <typename Entry>
  static std::size_t count_up_to(const Entry* sorted, std::size_t left, Number number) noexcept {
    std::size_t count = 0;
    const std::size_t most = std::min(kFan, left);
    for (std::size_t i = 0; i < most; ++i) {
      count += first_of(sorted[i]) <= number ? 1 : 0;
    }
    return count;
  }

  std::vector<Interval<Number>> intervals_;
  std::vector<std::vector<Number>> samples_;  // from the largest to the smallest
};

using Address = base::IpAddress::Number;

// Returns nothing if the text is not an address.
inline std::optional<Address> parse_address(std::string_view text) noexcept {
  const auto parsed = base::IpAddress::parse(text);
  return parsed ? std::optional(parsed->number) : std::nullopt;
}
constexpr bool is_v4(Address address) noexcept { return base::IpAddress{address}.is_v4(); }

// The addresses of a network, of one kind.
using Network = Interval<Address>;
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
  bool contains(Address address) const noexcept {
    if (is_v4(address)) return v4_.contains(static_cast<std::uint32_t>(address));
    return wide_v6_.contains(static_cast<std::uint64_t>(address >> 64)) ||
           narrow_v6_.contains(address);
  }
  // Whether each network of `other` is in one network of this set.
  bool contains(const NetworkSet& other) const noexcept {
    return v4_.contains(other.v4_) && wide_v6_.contains(other.wide_v6_) &&
           narrow_v6_.contains(other.narrow_v6_);
  }
  bool empty() const noexcept { return v4_.empty() && wide_v6_.empty() && narrow_v6_.empty(); }
  std::size_t bytes() const noexcept { return v4_.bytes() + wide_v6_.bytes() + narrow_v6_.bytes(); }

 private:
  IntervalSet<std::uint32_t> v4_;
  IntervalSet<std::uint64_t> wide_v6_;  // of at most 64 bits: the high halves
  IntervalSet<Address> narrow_v6_;
};

}  // namespace sluice::rules
