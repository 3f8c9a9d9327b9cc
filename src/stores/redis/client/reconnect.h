#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// When to connect to one server, without I/O: at any time at first, after a wait if an attempt
// failed or its connection was short, and at once after a connection that lasted for the longest
// wait.
//
// The wait doubles after each failure up to a maximum. The actual wait is random between half of it
// and all of it, so that clients that lost the same server do not all return at the same time.
class Reconnect {
 public:
  using Duration = std::chrono::steady_clock::duration;

  Reconnect(Duration first_backoff, Duration longest_backoff) noexcept
      : first_(first_backoff), longest_(longest_backoff) {}

  // Whether a connection may be made now.
  bool is_due(Time now) const noexcept { return !has_link_ && now >= earliest_; }
  // When one may be made. Time::max(): there is one, or it is being made.
  Time due() const noexcept { return has_link_ ? Time::max() : earliest_; }
  // The last attempt failed or its connection did not last, and none has been ready since, so that
  // another attempt would probably fail too.
  bool is_failing() const noexcept { return is_failing_; }

  void connecting() noexcept {
    has_link_ = true;
    is_ready_ = false;
  }
  void ready(Time now) noexcept {
    is_ready_ = true;
    is_failing_ = false;
    ready_at_ = now;
  }
  // `random`: any 64 bits, evenly distributed.
  void ended(Time now, std::uint64_t random) noexcept {
    is_failing_ = !is_ready_ || now - ready_at_ < longest_;
    has_link_ = is_ready_ = false;
    if (!is_failing_) {
      wait_ = Duration::zero();
    } else {
      wait_ = wait_ == Duration::zero() ? first_ : std::min(longest_, 2 * wait_);
    }
    const auto half = static_cast<std::uint64_t>(wait_.count()) / 2;
    earliest_ = now + wait_ - Duration(static_cast<std::int64_t>(random % (half + 1)));
  }

 private:
  Duration first_;
  Duration longest_;
  Duration wait_ = Duration::zero();  // the last one, before its random part
  bool has_link_ = false;
  bool is_ready_ = false;
  bool is_failing_ = false;
  Time ready_at_ = {};
  Time earliest_ = Time::min();
};

}  // namespace sluice::redis
