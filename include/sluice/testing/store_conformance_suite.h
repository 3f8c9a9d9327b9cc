#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/decision.h"
#include "sluice/limiter.h"
#include "sluice/testing/manual_clock.h"

// What the checks of store_conformance_impl.h are written in.
namespace sluice::testing {

struct StoreConformance;

namespace detail {

// Long periods, so that a store whose counters expire by a real clock keeps them for the suite; and
// a start at which the windows of that period open on the clock's grid.
inline constexpr Duration kPeriod = std::chrono::seconds{1000};
inline constexpr Instant kStart{std::chrono::seconds{1600000000}};

inline Limit limit_of(Algorithm algorithm, std::uint64_t units) {
  return Limit::make({.algorithm = algorithm, .limit = units, .per = kPeriod}).value();
}

inline std::string shown(const std::optional<Duration>& wait) {
  return wait ? std::to_string(wait->count()) + "us" : "none";
}
inline std::string shown(const Decision& d) {
  return std::string(to_string(d.outcome)) + " (" + std::string(to_string(d.reason)) + ") limit " +
         std::to_string(d.capacity) + " remaining " + std::to_string(d.remaining) +
         " reset_after " + shown(std::optional(d.reset_after)) + " retry_after " +
         shown(d.retry_after) + " delay " + shown(d.delay) + " taken " + std::to_string(d.taken);
}

// The answers that a check expects.
inline Decision ok(std::uint32_t limit, std::uint32_t remaining, std::int64_t reset_after,
                   std::optional<Duration> delay = {}) {
  return {.capacity = limit,
          .remaining = remaining,
          .reset_after = Duration{reset_after},
          .delay = delay};
}
inline Decision limited(std::uint32_t limit, std::uint32_t remaining, std::int64_t reset_after,
                        std::int64_t retry_after) {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kLimited,
          .capacity = limit,
          .remaining = remaining,
          .reset_after = Duration{reset_after},
          .retry_after = Duration{retry_after}};
}
inline Decision never(std::uint32_t limit, std::uint32_t remaining, std::int64_t reset_after) {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kNever,
          .capacity = limit,
          .remaining = remaining,
          .reset_after = Duration{reset_after}};
}

// One check: a fresh store, and a list that failures are added to. Instants are given as the time
// since kStart.
class Check {
 public:
  using Make = std::function<std::unique_ptr<Store>(const Clock&)>;

  Check(const StoreConformance& conformance, const Make& make, std::string name,
        std::vector<std::string>& failures)
      : conformance_(conformance),
        name_(std::move(name)),
        failures_(failures),
        clock_(kStart),
        store_(make(clock_)),
        limiter_(*store_) {}

  const StoreConformance& conformance() const noexcept { return conformance_; }
  ManualClock& clock() noexcept { return clock_; }
  Limiter& limiter() noexcept { return limiter_; }

  Decision take(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                Duration at = Duration{0}) {
    return limiter_.try_acquire(key, limit, cost, kStart + at);
  }
  Decision peek(std::string_view key, const Limit& limit, std::uint64_t cost = 0,
                Duration at = Duration{0}) {
    return limiter_.peek(key, limit, cost, kStart + at);
  }
  Decision refund(std::string_view key, const Limit& limit, std::uint64_t cost = 1,
                  Duration at = Duration{0}) {
    return limiter_.refund(key, limit, cost, kStart + at);
  }
  Decision reset(std::string_view key, const Limit& limit) {
    const Charge charge{key, limit, 0};
    return limiter_.apply(Verb::kReset, {&charge, 1}, {}, kStart);
  }
  Decision check(std::span<const Charge> charges, std::span<Decision> each) {
    return limiter_.check(charges, each, kStart);
  }

  void expect(bool holds, const std::string& what) {
    if (!holds) failures_.push_back(name_ + ": " + what);
  }
  void expect_equal(const Decision& got, const Decision& wanted, const std::string& what) {
    expect(got == wanted, what + ": expected " + shown(wanted) + ", got " + shown(got));
  }
  // That it is so, whatever its numbers.
  void expect_allowed(const Decision& got, const std::string& what) {
    expect(got.allowed() && got.reason == Reason::kOk && !got.retry_after,
           what + ": expected it to be allowed, got " + shown(got));
  }
  void expect_limited(const Decision& got, const std::string& what) {
    expect(!got.allowed() && got.reason == Reason::kLimited && got.retry_after,
           what + ": expected it to be limited, with retry_after; got " + shown(got));
  }

 private:
  const StoreConformance& conformance_;
  std::string name_;
  std::vector<std::string>& failures_;
  ManualClock clock_;
  std::unique_ptr<Store> store_;
  Limiter limiter_;
};

}  // namespace detail
}  // namespace sluice::testing
