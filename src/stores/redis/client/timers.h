#pragma once

namespace sluice::redis {

// Asio's timers say that they may throw when they are set or stopped; nothing there can fail.
template <typename Timer>
void set_timer(Timer& timer, typename Timer::time_point at) noexcept {
  try {
    timer.expires_at(at);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}
template <typename Timer>
void stop_timer(Timer& timer) noexcept {
  try {
    timer.cancel();
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

}  // namespace sluice::redis
