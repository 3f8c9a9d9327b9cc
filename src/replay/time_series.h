#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/clock.h"

namespace sluice::replay {

// Counts over time, in several channels, in constant memory: equal buckets, of a width that people
// count in (1 s, 5 s, 15 s, ... 1 h, ... 1 d, ...) and aligned to it in UTC. They start at one
// second and widen whenever the time span outgrows kMostBuckets of them.
//
// Not thread-safe. Cost: an addition where the last bucket is hit again.
class TimeSeries {
 public:
  static constexpr std::size_t kMostBuckets = 1024;

  explicit TimeSeries(std::size_t channels) : channels_(channels) {}

  // Makes the bucket of `at` the one that add() counts into. Instants never go back.
  void advance(Instant at) {
    if (at >= current_end_ || counts_.empty()) move_to(at);
  }
  // Counts one in a channel at the instant of the last advance().
  void add(std::size_t channel) noexcept { ++counts_[current_ * channels_ + channel]; }

  std::size_t channels() const noexcept { return channels_; }
  std::size_t buckets() const noexcept { return counts_.size() / channels_; }
  Duration width() const noexcept { return width_; }
  // Where the first bucket begins.
  Instant start() const noexcept { return start_; }
  std::uint64_t at(std::size_t bucket, std::size_t channel) const noexcept {
    return counts_[bucket * channels_ + channel];
  }
  // One channel, bucket after bucket.
  std::vector<std::uint64_t> channel(std::size_t channel) const;

  // The same counts in wider buckets, at most `columns` of them, for a picture.
  TimeSeries in_columns(std::size_t columns) const;

 private:
  void move_to(Instant at);
  void widen(Duration width);

  std::size_t channels_;
  std::vector<std::uint64_t> counts_;  // bucket after bucket
  Duration width_{std::chrono::seconds{1}};
  Instant start_{};
  std::size_t current_ = 0;
  Instant current_end_{};
};

}  // namespace sluice::replay
