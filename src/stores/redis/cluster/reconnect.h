#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "stores/redis/client/backoff.h"
#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// When to connect to one server of a cluster, without I/O: with the first command for it, after a
// backoff if an attempt failed, and at once after a connection that had lasted.
class Reconnect {
 public:
  using Duration = std::chrono::steady_clock::duration;
  using Random = std::function<std::uint64_t()>;  // 64 random bits

  Reconnect(Duration first_backoff, Duration longest_backoff, Random random);

  // Whether a connection may be made now.
  bool is_due(Time now) const noexcept { return !has_link_ && now >= earliest_; }
  // When one may be made. Time::max(): there is one, or it is being made.
  Time due() const noexcept { return has_link_ ? Time::max() : earliest_; }
  // The last attempt failed or its connection did not last, and none has been ready since. Commands
  // are refused at once, because another attempt would probably fail too.
  bool is_failing() const noexcept { return is_failing_; }

  void connecting() noexcept { has_link_ = true; }
  void ready(Time now) noexcept;
  void ended(Time now);

 private:
  Backoff backoff_;
  Random random_;
  bool has_link_ = false;
  bool is_ready_ = false;
  bool is_failing_ = false;
  Time ready_at_ = {};
  Time earliest_ = Time::min();
};

}  // namespace sluice::redis
