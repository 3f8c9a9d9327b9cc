#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sluice::redis {

// How long to wait before the next attempt to connect. The wait doubles after each failure up to a
// maximum. The actual wait is random between half of it and all of it, so that clients that lost
// the same server do not all return at the same time.
class Backoff {
 public:
  using Duration = std::chrono::nanoseconds;

  Backoff(Duration first, Duration longest) noexcept : first_(first), longest_(longest) {}

  // `random`: any 64 bits, evenly distributed.
  Duration after_failure(std::uint64_t random) noexcept {
    next_ = next_ == Duration::zero() ? first_ : std::min(longest_, 2 * next_);
    const auto half = static_cast<std::uint64_t>(next_.count()) / 2;
    return next_ - Duration(static_cast<std::int64_t>(random % (half + 1)));
  }

  // After the end of a connection that was ready for that long. If it lasted for the longest wait,
  // it was no failure, and the client may connect again at once.
  Duration after_loss(Duration lasted, std::uint64_t random) noexcept {
    if (lasted < longest_) return after_failure(random);
    next_ = Duration::zero();
    return Duration::zero();
  }

 private:
  Duration first_;
  Duration longest_;
  Duration next_ = Duration::zero();  // the last wait
};

}  // namespace sluice::redis
