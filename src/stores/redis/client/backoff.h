#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sluice::redis {

// How long to wait before the next attempt to connect: twice as long after each failure, up to a
// longest, each time drawn from the upper half, so that many that lost one server do not come back
// to it at one moment.
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

  // After a connection that was ready for so long. One that lasted was no failure, and the next may
  // be tried at once.
  Duration after_loss(Duration lasted, std::uint64_t random) noexcept {
    if (lasted < longest_) return after_failure(random);
    next_ = Duration::zero();
    return Duration::zero();
  }

 private:
  Duration first_;
  Duration longest_;
  Duration next_ = Duration::zero();  // what was waited last
};

}  // namespace sluice::redis
