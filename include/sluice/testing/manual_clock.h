#pragma once

#include <atomic>

#include "sluice/clock.h"

namespace sluice::testing {

// A clock that a test moves forward or back; it does not move by itself.
//
// Thread-safety: any member from any thread. Ownership: none. Cost: one atomic load.
class ManualClock final : public Clock {
 public:
  // A clock at `start`; the default is in 2019.
  explicit ManualClock(Instant start = Instant{std::chrono::hours{24 * 365 * 50}}) noexcept
      : ticks_(start.time_since_epoch().count()) {}

  Instant now() const noexcept override {
    return Instant{Duration{ticks_.load(std::memory_order_relaxed)}};
  }
  // Moves the clock to an instant.
  void set(Instant instant) noexcept {
    ticks_.store(instant.time_since_epoch().count(), std::memory_order_relaxed);
  }
  // Moves the clock by a step. A negative step moves it back.
  void advance(Duration step) noexcept {
    ticks_.fetch_add(step.count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<Duration::rep> ticks_;
};

}  // namespace sluice::testing
