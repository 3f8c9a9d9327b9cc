#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "sluice/limiter.h"

namespace sluice::bench {

// "user:0000000042": 15 bytes, the most that a std::string of libstdc++ holds without allocating.
inline constexpr std::size_t kKeyBytes = 15;

inline void write_key(char* to, std::uint64_t number) {
  constexpr std::string_view kPrefix = "user:";
  std::copy(kPrefix.begin(), kPrefix.end(), to);
  for (std::size_t i = kKeyBytes; i > kPrefix.size(); --i, number /= 10) {
    to[i - 1] = static_cast<char>('0' + number % 10);
  }
}

// The keys of a run of requests in the order in which they are asked for, uniformly random and
// beforehand, one after the other in memory: reading a key costs next to nothing, for whoever asks.
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

  // Calls `use(key)` for `count` requests from the first on, starting over at the end.
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

// Calls `use(key)` for each of `keys` keys once.
template <typename Use>
void each_key(std::uint64_t keys, Use use) {
  char key[kKeyBytes];
  for (std::uint64_t i = 0; i < keys; ++i) {
    write_key(key, i);
    use(std::string_view(key, sizeof(key)));
  }
}

// Time that passes by a microsecond with every request.
class Timeline {
 public:
  Instant next() { return Instant{Duration{ticks_++}}; }

 private:
  std::int64_t ticks_ = 1'767'225'600'000'000;  // 2026
};

// Numbers under which requests that come every microsecond on uniformly random keys fill about 70 %
// of each limit, so that nearly all are admitted, and no division comes out even.
struct Numbers {
  std::uint64_t limit;
  Duration per;
};
inline Numbers numbers_for(std::uint64_t keys) {
  if (keys == 1) return {2003, Duration{1400}};
  return {101, std::max(Duration{1000}, Duration{70 * static_cast<std::int64_t>(keys)})};
}

}  // namespace sluice::bench
