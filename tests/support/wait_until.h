#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace sluice::testing {

// The time after which a test stops waiting and fails. No test passes only because a state is
// reached sooner, so this time is longer than any state takes on the slowest machine.
inline constexpr std::chrono::seconds kPatience{60};

// Returns when the condition holds. Calls `between` before each further look: it sleeps for 1 ms,
// or runs an event loop for a while. Throws std::runtime_error with `what` after kPatience.
inline void wait_until(
    const std::string& what, const std::function<bool()>& holds,
    const std::function<void()>& between = [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) {
      throw std::runtime_error("waited in vain until " + what);
    }
    between();
  }
}

}  // namespace sluice::testing
