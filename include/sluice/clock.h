#pragma once

#if __cplusplus <= 201703L
#error "Sluice needs C++20: compile with -std=c++20, or set(CMAKE_CXX_STANDARD 20)"
#endif

#include <chrono>
#include <concepts>
#include <cstdint>
#include <ratio>
#include <utility>

namespace sluice {

// Every wait and period: whole ticks of one microsecond.
using Duration = std::chrono::microseconds;

// Every point in time: microseconds since the Unix epoch, UTC.
using Instant = std::chrono::sys_time<Duration>;

// The first and the last instant of a decision: 1970 to 2112, which is 2^52 ticks, so that an
// instant plus the longest wait is still exact in the doubles of Lua. Any other is
// Reason::kInvalid.
inline constexpr Instant kFirstInstant{Duration{0}};
inline constexpr Instant kLastInstant{Duration{(std::int64_t{1} << 52) - 1}};

// Returns the time of decisions. Derive from it to give a store another time.
//
// Thread-safety: now() may be called from any thread. Ownership: stores borrow a clock, which must
// outlive them. Cost: one virtual call. A clock may step back; counters never go back with it.
class Clock {
 public:
  virtual ~Clock() = default;
  // The current time.
  virtual Instant now() const noexcept = 0;
};

// The system's real-time clock, at a resolution of one microsecond. The default of everything
// that needs the date, except for MemoryStore.
//
// Thread-safety: any member from any thread. Ownership: none. Cost: about 25 ns a call.
class SystemClock final : public Clock {
 public:
  Instant now() const noexcept override {
    return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  }

  // The instance that a store uses if it is given no clock. It lives as long as the program.
  static const SystemClock& instance() noexcept {
    static const SystemClock clock;
    return clock;
  }
};

// The system's real-time clock, read through the processor's counter of time stamps: the default of
// a MemoryStore. It differs from SystemClock by at most 2 microseconds, and follows a clock that is
// set within a millisecond. For that each thread reads the system's clock once a millisecond. It is
// SystemClock where the kernel does not use the counter for its own clocks (on Linux on x86-64,
// another clock source than `tsc`), and on other systems.
//
// Thread-safety: any member from any thread. Ownership: none. Cost: about 10 ns a call.
class CounterClock final : public Clock {
 public:
  Instant now() const noexcept override;

  // The instance that a MemoryStore uses if it is given no clock. It lives as long as the program.
  static const CounterClock& instance() noexcept {
    static const CounterClock clock;
    return clock;
  }
};

// Counts from an arbitrary start at the pace of real time. Nobody can set it, so use it for waits
// that a step of the system's clock must not change, and not for dates.
//
// Thread-safety: any member from any thread. Ownership: none. Cost: about 25 ns a call.
class SteadyClock final : public Clock {
 public:
  Instant now() const noexcept override {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return Instant{std::chrono::duration_cast<Duration>(since)};
  }

  // The instance that circuit breakers and caches use. It lives as long as the program.
  static const SteadyClock& instance() noexcept {
    static const SteadyClock clock;
    return clock;
  }
};

// When a wait ends at the latest: an instant of std::chrono::steady_clock, or the time until then.
// Both convert to it: `limiter.acquire(key, limit, 1, 5s)`.
//
// A plain value. Cost: made from a time, a reading of the clock.
class Deadline {
 public:
  // The wait ends at this instant.
  template <typename D>
  Deadline(std::chrono::time_point<std::chrono::steady_clock, D> at) noexcept
      : at_(std::chrono::time_point_cast<Duration>(at).time_since_epoch()) {}
  // The wait ends this long after the call. A fraction of a microsecond is rounded up.
  template <std::integral Rep, typename Period>
  Deadline(std::chrono::duration<Rep, Period> wait) noexcept
      : at_(after(bounded(wait), SteadyClock::instance().now())) {}

  // The instant, as SteadyClock counts.
  Instant at() const noexcept { return at_; }

 private:
  // The last instant of std::chrono::steady_clock, which counts nanoseconds.
  static constexpr Instant kLast{
      std::chrono::floor<Duration>(std::chrono::steady_clock::duration::max())};

  template <std::integral Rep, typename Period>
  static Duration bounded(std::chrono::duration<Rep, Period> wait) noexcept {
    using Wait = std::chrono::duration<std::int64_t, Period>;
    if constexpr (std::ratio_greater_equal_v<Period, Duration::period>) {
      const auto most = std::chrono::floor<Wait>(kLast.time_since_epoch());
      if (std::cmp_greater(wait.count(), most.count())) return kLast.time_since_epoch();
      if (std::cmp_less(wait.count(), -most.count())) return -kLast.time_since_epoch();
    }
    return std::chrono::ceil<Duration>(wait);
  }
  static Instant after(Duration wait, Instant now) noexcept {
    return wait < kLast - now ? now + wait : kLast;
  }

  Instant at_;
};

}  // namespace sluice
