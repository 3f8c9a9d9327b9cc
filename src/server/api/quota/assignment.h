#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "sluice/clock.h"
#include "sluice/limit.h"

namespace sluice::server {

// The part of a limit that a bucket has, as a share of the whole.
struct QuotaPart {
  // The share that is the whole limit, as of quota::Allocator.
  static constexpr std::uint64_t kWhole = std::uint64_t{1} << 40;

  std::uint64_t share = 0;
  Limit limit;
  std::uint64_t cost = 1;  // the units of one request
};

// What a proxy does with the requests of a bucket. A plain value.
struct Assignment {
  enum class Kind : std::uint8_t { kAllowAll, kDenyAll, kTokens };

  Kind kind = Kind::kAllowAll;
  // kTokens: a bucket that begins with `tokens` requests and gets as many in each `interval`, and
  // never has more.
  std::uint32_t tokens = 0;
  std::chrono::milliseconds interval{0};

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// Returns the token bucket of the strictest part, which lasts for the period of its limit, at least
// `every` and at most 5 s; kDenyAll if one part is nothing. Its rate is never more than that of the
// part. There is at least one part.
Assignment assign(std::span<const QuotaPart> parts, Duration every);

// Returns how much of the limit `units` are in that time, as a share. At most 2^50.
std::uint64_t share_of(const Limit& limit, std::uint64_t units, Duration time);

// Counts the units of shares while time passes. It keeps the fractions, so that nothing is lost.
class ShareMeter {
 public:
  // Returns the whole units of `share` of the limit in `time`, with what was left before.
  std::uint64_t count(const Limit& limit, std::uint64_t share, Duration time);

 private:
  unsigned __int128 left_ = 0;  // 2^-40 units, times the period in ticks
};

}  // namespace sluice::server
