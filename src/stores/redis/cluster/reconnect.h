#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "stores/redis/client/backoff.h"
#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// When one server of a cluster is connected to, without I/O: with the first command for it, and
// after a failure when a backoff has passed. After a connection that has lasted: at once.
class Reconnect {
 public:
  using Duration = std::chrono::steady_clock::duration;
  using Random = std::function<std::uint64_t()>;  // of 64 bits

  Reconnect(Duration first_backoff, Duration longest_backoff, Random random);

  // Whether a connection is to be made now, if one is wanted.
  bool is_due(Time now) const noexcept { return !has_link_ && now >= earliest_; }
  // From when on. Time::max(): there is one, or it is being made.
  Time due() const noexcept { return has_link_ ? Time::max() : earliest_; }
  // The last attempt has failed, or its connection did not last, and none is ready since: commands
  // are refused at once, rather than to wait for what is likely to fail again.
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
