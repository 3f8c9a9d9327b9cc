#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

// Every wait and period: whole ticks of one microsecond.
using Duration = std::chrono::microseconds;

// Every point in time: microseconds since the Unix epoch, UTC.
using Instant = std::chrono::sys_time<Duration>;

// Decisions are exact from 1970 to the year 2112: 2^52 ticks, so that an instant plus the longest
// wait still counts exactly in the doubles of Lua. Outside of it a request is `Reason::kInvalid`.
inline constexpr Instant kFirstInstant{Duration{0}};
inline constexpr Instant kLastInstant{Duration{(std::int64_t{1} << 52) - 1}};

// Tells the time; the one place where a program that uses Sluice reads it.
//
// Thread-safety: now() may be called from any thread. Ownership: users borrow a clock; it outlives
// them. Cost: one virtual call. A clock may step back: a counter never goes back with it.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const noexcept = 0;
};

// The system's real-time clock, at microsecond resolution.
class SystemClock final : public Clock {
 public:
  Instant now() const noexcept override {
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }

  // The instance that a Limiter uses when it is given none.
  static const SystemClock& instance() noexcept {
    static const SystemClock clock;
    return clock;
  }
};

// Counts on from an arbitrary start at the pace of real time, and nobody can set it: for waits that
// a step of the system's clock must not change, not for dates.
class SteadyClock final : public Clock {
 public:
  Instant now() const noexcept override {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return Instant{std::chrono::duration_cast<Duration>(since)};
  }

  static const SteadyClock& instance() noexcept {
    static const SteadyClock clock;
    return clock;
  }
};

}  // namespace sluice
