#pragma once

#include <chrono>
#include <ctime>

namespace sluice::server::net {

using SteadyTime = std::chrono::steady_clock::time_point;

// The clock of an event loop, so that tests can set the time. Thread-safety: any thread.
class LoopClock {
 public:
  virtual ~LoopClock() = default;
  // For deadlines and durations. Never goes back.
  virtual SteadyTime now() const noexcept = 0;
  // Seconds since the Unix epoch, for dates.
  virtual std::time_t date() const noexcept = 0;

  // Returns the system's clock.
  static const LoopClock& system() noexcept;
};

}  // namespace sluice::server::net
