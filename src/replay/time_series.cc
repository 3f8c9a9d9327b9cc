#include "replay/time_series.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::replay {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::seconds;

// Widths that are easy to read.
constexpr std::array<seconds, 31> kWidths = {
    1s,      2s,       5s,       10s,      15s,       20s,       30s,      1min,
    2min,    5min,     10min,    15min,    20min,     30min,     1h,       2h,
    3h,      4h,       6h,       12h,      days{1},   days{2},   days{3},  days{4},
    days{7}, days{14}, days{28}, days{56}, days{112}, days{224}, days{448}};

// Returns the next of these widths above `width` that is a multiple of `bucket`.
Duration wider_than(Duration width, Duration bucket) {
  for (const Duration wider : kWidths) {
    if (wider > width && wider % bucket == Duration{0}) return wider;
  }
  return width * 2;
}

Instant floor_to(Instant at, Duration width) {
  return at - at.time_since_epoch() % width;  // times are never before the epoch
}

std::size_t buckets_between(Instant start, Instant at, Duration width) {
  return static_cast<std::size_t>((at - start) / width);
}

}  // namespace

void TimeSeries::move_to(Instant at) {
  if (counts_.empty()) start_ = floor_to(at, width_);
  while (buckets_between(start_, at, width_) >= kMostBuckets) widen(wider_than(width_, width_));
  current_ = buckets_between(start_, at, width_);
  current_end_ = start_ + (static_cast<std::int64_t>(current_) + 1) * width_;
  counts_.resize((current_ + 1) * channels_);
}

void TimeSeries::widen(Duration width) {
  const Instant start = floor_to(start_, width);
  const std::size_t count = buckets();
  std::size_t last = 0;
  for (std::size_t bucket = 0; bucket < count; ++bucket) {
    const Instant at = start_ + static_cast<std::int64_t>(bucket) * width_;
    last = buckets_between(start, at, width);  // never beyond `bucket`: it moves within counts_
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      const std::uint64_t moved = std::exchange(counts_[bucket * channels_ + channel], 0);
      counts_[last * channels_ + channel] += moved;
    }
  }
  counts_.resize(count == 0 ? 0 : (last + 1) * channels_);
  start_ = start;
  width_ = width;
}

std::vector<std::uint64_t> TimeSeries::channel(std::size_t channel) const {
  std::vector<std::uint64_t> counts(buckets());
  for (std::size_t bucket = 0; bucket < counts.size(); ++bucket)
    counts[bucket] = at(bucket, channel);
  return counts;
}

TimeSeries TimeSeries::in_columns(std::size_t columns) const {
  TimeSeries wide = *this;
  if (buckets() <= columns) return wide;
  const Instant last = start_ + static_cast<std::int64_t>(buckets() - 1) * width_;
  const auto fits = [&](Duration width) {
    return buckets_between(floor_to(start_, width), last, width) < columns;
  };
  Duration width = width_;
  while (!fits(width)) width = wider_than(width, width_);
  wide.widen(width);
  return wide;
}

}  // namespace sluice::replay
