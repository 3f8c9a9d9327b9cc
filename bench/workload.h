#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "sluice/limiter.h"

namespace sluice::bench {

// "user:0000000042": 15 bytes, the maximum for a std::string of libstdc++ without an allocation.
inline constexpr std::size_t kKeyBytes = 15;

inline void write_key(char* to, std::uint64_t number) {
  constexpr std::string_view kPrefix = "user:";
  std::copy(kPrefix.begin(), kPrefix.end(), to);
  for (std::size_t i = kKeyBytes; i > kPrefix.size(); --i, number /= 10) {
    to[i - 1] = static_cast<char>('0' + number % 10);
  }
}

// The uniformly random keys of a run, prepared before it and stored in the order of their use, so
// that reading a key costs almost nothing.
class KeyStream {
 public:
  // Keys `lowest` to `lowest + keys - 1`.
  KeyStream(std::uint64_t keys, std::size_t length, std::uint64_t seed = 1,
            std::uint64_t lowest = 0)
      : bytes_(length * kKeyBytes), length_(length) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<std::uint64_t> pick(lowest, lowest + keys - 1);
    for (std::size_t i = 0; i < length; ++i) write_key(&bytes_[i * kKeyBytes], pick(random));
  }

  // Calls `use(key)` for `count` requests from `first` on, and starts again at the end.
  template <typename Use>
  void each(std::size_t first, std::size_t count, Use use) const {
    std::size_t at = first % length_;
    for (std::size_t i = 0; i < count; ++i) {
      use(std::string_view(&bytes_[at * kKeyBytes], kKeyBytes));
      if (++at == length_) at = 0;
    }
  }

 private:
  std::vector<char> bytes_;
  std::size_t length_;
};

// Calls `use(key)` once for each of `keys` keys.
template <typename Use>
void each_key(std::uint64_t keys, Use use) {
  char key[kKeyBytes];
  for (std::uint64_t i = 0; i < keys; ++i) {
    write_key(key, i);
    use(std::string_view(key, sizeof(key)));
  }
}

// A clock that advances by one microsecond per request.
class Timeline {
 public:
  Instant next() { return Instant{Duration{ticks_++}}; }

 private:
  std::int64_t ticks_ = 1'767'225'600'000'000;  // 2026
};

// Numbers for which one request per microsecond on uniformly random keys uses about 70 % of each
// limit. Nearly all requests are admitted, and no division has an integer result.
struct Numbers {
  std::uint64_t limit;
  Duration per;
};
inline Numbers numbers_for(std::uint64_t keys) {
  if (keys == 1) return {2003, Duration{1400}};
  return {101, std::max(Duration{1000}, Duration{70 * static_cast<std::int64_t>(keys)})};
}

}  // namespace sluice::bench
