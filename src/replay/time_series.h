#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/clock.h"

namespace sluice::replay {

// Counts over time in several channels, in constant memory. The buckets have equal, common widths
// (1 s, 5 s, 15 s, ... 1 h, ... 1 d, ...) and are aligned to them in UTC. The width is one second
// at first and grows if the time span needs more than kMostBuckets buckets.
//
// Not thread-safe. Cost: one addition if the bucket is the same as before.
class TimeSeries {
 public:
  static constexpr std::size_t kMostBuckets = 1024;

  explicit TimeSeries(std::size_t channels) : channels_(channels) {}

  // Selects the bucket of `at` for add(). Times never go back.
  void advance(Instant at) {
    if (at >= current_end_ || counts_.empty()) move_to(at);
  }
  // Adds one to a channel in the selected bucket.
  void add(std::size_t channel) noexcept { ++counts_[current_ * channels_ + channel]; }

  std::size_t channels() const noexcept { return channels_; }
  std::size_t buckets() const noexcept { return counts_.size() / channels_; }
  Duration width() const noexcept { return width_; }
  // The start of the first bucket.
  Instant start() const noexcept { return start_; }
  std::uint64_t at(std::size_t bucket, std::size_t channel) const noexcept {
    return counts_[bucket * channels_ + channel];
  }
  // The buckets of one channel, in order.
  std::vector<std::uint64_t> channel(std::size_t channel) const;

  // Returns the same counts in at most `columns` wider buckets, for a chart.
  TimeSeries in_columns(std::size_t columns) const;

 private:
  void move_to(Instant at);
  void widen(Duration width);

  std::size_t channels_;
  std::vector<std::uint64_t> counts_;  // in the order of buckets
  Duration width_{std::chrono::seconds{1}};
  Instant start_{};
  std::size_t current_ = 0;
  Instant current_end_{};
};

}  // namespace sluice::replay
