#pragma once

#include <cstdint>

#include "sluice/clock.h"

namespace sluice::detail {

// The time of the system, computed from a counter of ticks with a constant rate. It has a sample of
// both, at most a millisecond old, and the rate between two earlier samples. Reads neither itself.
//
// The error is at most that of the sample and its rounding, because a rate from 8 ms or more is
// wrong by less than a microsecond in a millisecond. If the rate changes, as on a virtual machine
// that moves to another host, the next sample shows it, and the anchor starts again.
class TickAnchor {
 public:
  // One instant on three clocks: the counter, the real-time clock, and one that is never set.
  struct Sample {
    std::uint64_t ticks = 0;
    std::int64_t real_ns = 0;
    std::int64_t steady_ns = 0;
  };

  // Whether the rate is known. If not, read() returns false.
  bool is_ready() const noexcept { return ticks_in_a_ms_ != 0; }
  // Sets `at` to the instant of a count. Returns false if a new sample is needed.
  [[gnu::always_inline]] bool read(std::uint64_t ticks, Instant& at) const noexcept {
    const std::uint64_t since = ticks - ticks_;
    if (since >= ticks_in_a_ms_) return false;
    at = Instant{Duration{micros_ + static_cast<std::int64_t>((part_ + since * rate_) >> kBits)}};
    return true;
  }

  constexpr void add(const Sample& sample) noexcept {
    constexpr std::int64_t kNanos = 1000;
    ticks_ = sample.ticks;
    micros_ = sample.real_ns / kNanos;
    part_ = (static_cast<std::uint64_t>(sample.real_ns % kNanos) << kBits) / kNanos;
    if (first_.ticks == 0) first_ = sample;
    if (sample.steady_ns - first_.steady_ns >= kShortest) set_rate(sample);
  }

 private:
  static constexpr int kBits = 40;                      // after the point, of a microsecond
  static constexpr std::int64_t kShortest = 8'000'000;  // ns between the samples of a rate
  static constexpr double kMostChange = 1e-3;
  static constexpr double kSlowest = 10;  // ns for a tick
  static constexpr double kFastest = 0.05;

  constexpr void set_rate(const Sample& sample) noexcept {
    const double rate = static_cast<double>(sample.steady_ns - first_.steady_ns) /
                        static_cast<double>(sample.ticks - first_.ticks);
    const double change = ns_for_a_tick_ == 0 ? 0 : rate / ns_for_a_tick_ - 1;
    const bool is_steady =
        rate >= kFastest && rate <= kSlowest && change <= kMostChange && change >= -kMostChange;
    first_ = sample;
    ns_for_a_tick_ = is_steady ? rate : 0;
    ticks_in_a_ms_ = is_steady ? static_cast<std::uint64_t>(1e6 / rate) : 0;
    rate_ = static_cast<std::uint64_t>(ns_for_a_tick_ / 1000 *
                                       static_cast<double>(std::uint64_t{1} << kBits));
  }

  std::uint64_t ticks_ = 0;
  std::uint64_t ticks_in_a_ms_ = 0;  // 0: the rate is unknown
  std::uint64_t rate_ = 0;           // microseconds for a tick
  std::uint64_t part_ = 0;           // of a microsecond
  std::int64_t micros_ = 0;
  double ns_for_a_tick_ = 0;
  Sample first_;  // the older sample of the next rate
};

}  // namespace sluice::detail
