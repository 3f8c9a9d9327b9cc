#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "sluice/clock.h"

namespace sluice {

// The most counters that charges may create in each second (RuleCharge::new_keys), so that clients
// that make up keys cannot fill a store. Existing counters need no permission.
//
// Seconds are those of the requests' clock, which may go back. Requests that are under way at the
// same moment may create a few counters more.
//
// Thread-safety: any member from any thread. Ownership: none; stores borrow it for a call. Cost: a
// load for each request, one atomic instruction for each new counter.
class NewKeyLimit {
 public:
  // `per_second` is at least 1.
  explicit NewKeyLimit(std::uint32_t per_second) noexcept : per_second_(per_second) {}

  // Returns whether a request at this instant may create a counter.
  bool allows(Instant now) const noexcept {
    const std::uint64_t word = window_.load(std::memory_order_relaxed);
    return is_other(word, second_of(now)) || static_cast<std::uint32_t>(word) < per_second_;
  }
  // Counts one that it has created. An instant of the second before counts in the newest one.
  void count(Instant now) noexcept {
    std::uint64_t word = window_.load(std::memory_order_relaxed);
    while (!window_.compare_exchange_weak(word, after(word, second_of(now)),
                                          std::memory_order_relaxed)) {
    }
  }

 private:
  static std::uint64_t second_of(Instant now) noexcept {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
    return static_cast<std::uint64_t>(std::clamp<std::int64_t>(seconds, 0, 0xFFFF'FFFF));
  }
  static bool is_other(std::uint64_t word, std::uint64_t second) noexcept {
    return second > word >> 32 || second + 1 < word >> 32;
  }
  static std::uint64_t after(std::uint64_t word, std::uint64_t second) noexcept {
    if (is_other(word, second)) return second << 32 | 1;
    return static_cast<std::uint32_t>(word) == 0xFFFF'FFFF ? word : word + 1;
  }

  const std::uint32_t per_second_;
  std::atomic<std::uint64_t> window_{0};  // the second, and in the low half the counters created
};

}  // namespace sluice
