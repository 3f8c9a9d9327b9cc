#pragma once

#include <chrono>
#include <ctime>

namespace sluice::server::net {

using SteadyTime = std::chrono::steady_clock::time_point;

// The clock of an event loop: that of the system. Tests derive from it to set the time.
//
// Thread-safety: any thread.
class LoopClock {
 public:
  virtual ~LoopClock() = default;
  // For deadlines and durations. Never goes back.
  virtual SteadyTime now() const noexcept { return std::chrono::steady_clock::now(); }
  // Seconds since the Unix epoch, for dates.
  virtual std::time_t date() const noexcept { return std::time(nullptr); }

  static const LoopClock& system() noexcept {
    static const LoopClock clock;
    return clock;
  }
};

}  // namespace sluice::server::net
