#pragma once

#include <atomic>

#include "sluice/clock.h"

namespace sluice::testing {

// A clock that stands still until a test moves it, forward or back.
//
// Thread-safety: any member from any thread. Ownership: none. Cost: one atomic load.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = Instant{std::chrono::hours{24 * 365 * 50}}) noexcept
      : ticks_(start.time_since_epoch().count()) {}

  Instant now() const noexcept override {
    return Instant{Duration{ticks_.load(std::memory_order_relaxed)}};
  }
  void set(Instant instant) noexcept {
    ticks_.store(instant.time_since_epoch().count(), std::memory_order_relaxed);
  }
  // A negative step turns the clock back.
  void advance(Duration step) noexcept {
    ticks_.fetch_add(step.count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<Duration::rep> ticks_;
};

}  // namespace sluice::testing
