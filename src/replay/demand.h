#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>

#include "replay/peaks.h"
#include "sluice/clock.h"

namespace sluice::replay {

// The measures of a period: for each, the smallest limit (of a bucket: burst) that would admit a
// request if it had admitted everything before.
enum class Measure : std::uint8_t { kFixedWindow, kSlidingCounter, kTokenBucket };
inline constexpr std::size_t kMeasures = 3;

// What a request needs, by Measure.
struct Need {
  std::uint64_t units[kMeasures];
};

// Measures the demand of keys in one period, at times that never go back: windows that are aligned
// to the clock, a sliding window counter of one slice, and a token bucket that refills `rate` units
// per period. In exact integers, as the algorithms count.
//
// Not thread-safe. Remembers only the keys of the current and of the previous window, and those
// whose bucket is not full.
class Demand {
 public:
  static constexpr std::uint32_t kMostRate = 1000;

  // `rate` is at most kMostRate.
  Demand(Duration period, std::uint32_t rate) noexcept
      : period_(static_cast<std::uint64_t>(period.count())), rate_(rate) {}

  // Adds a request of the key with this number.
  Need add(std::uint32_t key, std::uint64_t units, Instant at);

 private:
  struct KeyHash {
    using is_avalanching = void;
    std::size_t operator()(std::uint32_t key) const noexcept {
      const std::uint64_t mixed = key * 0x9e3779b97f4a7c15u;
      return mixed ^ mixed >> 32;
    }
  };
  template <typename Value>
  using ByKey = boost::unordered_flat_map<std::uint32_t, Value, KeyHash>;

  void advance(std::uint64_t window);
  std::uint64_t fill_bucket(std::uint32_t key, std::uint64_t units, std::uint64_t at);
  void drop_full_buckets(std::uint64_t drained);

  std::uint64_t period_;
  std::uint64_t rate_;
  std::uint64_t window_ = 0;  // the number of the current window since 1970
  ByKey<std::uint32_t> current_;
  ByKey<std::uint32_t> previous_;
  // The level of a bucket in units of 1/period, plus what has drained since the first request.
  ByKey<std::uint64_t> levels_;
  std::uint64_t first_ = 0;  // the time of the first request
  bool began_ = false;
  std::size_t most_levels_ = 1024;  // before full buckets are dropped
};

}  // namespace sluice::replay
