// The part of a limit in this process: an assignment that one thread writes and all read, and a
// token bucket, which is the instant at which it is full again.

#include <algorithm>

#include "sluice/quota_client.h"

namespace sluice {

void QuotaBucket::assign(const Assignment& assignment) noexcept {
  const Assignment before = this->assignment();
  const std::uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  kind_.store(assignment.kind, std::memory_order_release);
  shift_.store(assignment.shift, std::memory_order_release);
  interval_.store(assignment.interval, std::memory_order_release);
  tolerance_.store(assignment.tolerance, std::memory_order_release);
  until_.store(assignment.until, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
  if (assignment.kind == Kind::kTokens) keep_tokens(before, assignment);
}

// The bucket keeps its tokens when its numbers change, up to the new maximum, as Envoy's does: only
// time adds tokens, which the service counts. After a blanket rule it is full.
void QuotaBucket::keep_tokens(const Assignment& before, const Assignment& now) noexcept {
  if (before.interval == now.interval && before.shift == now.shift &&
      before.tolerance == now.tolerance && before.kind == Kind::kTokens) {
    return;
  }
  const std::int64_t time = this->now();
  std::int64_t full_at = full_at_.load(std::memory_order_relaxed), then = 0;
  do {
    if (before.kind != Kind::kTokens) {
      then = time;
    } else {
      // With the part of a token: many changes would lose all that time adds.
      const std::int64_t had = before.tolerance - std::max<std::int64_t>(full_at - time, 0);
      const __int128 whole = static_cast<__int128>(std::max<std::int64_t>(had, 0)) << before.shift;
      const __int128 kept = whole * now.interval / before.interval >> now.shift;
      then =
          time + now.tolerance - static_cast<std::int64_t>(std::min<__int128>(kept, now.tolerance));
    }
  } while (!full_at_.compare_exchange_weak(full_at, then, std::memory_order_relaxed));
}

QuotaBucket::Assignment QuotaBucket::assignment() const noexcept {
  for (;;) {
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    const Assignment read{.kind = kind_.load(std::memory_order_acquire),
                          .shift = shift_.load(std::memory_order_acquire),
                          .interval = interval_.load(std::memory_order_acquire),
                          .tolerance = tolerance_.load(std::memory_order_acquire),
                          .until = until_.load(std::memory_order_acquire)};
    if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) return read;
  }
}

bool QuotaBucket::is_assigned() const noexcept { return now() < assignment().until; }

// `is_done`: takes the units even if it does not admit them, up to an empty bucket.
bool QuotaBucket::take_tokens(const Assignment& of, std::uint32_t units, std::int64_t now,
                              bool is_done) noexcept {
  const bool fits = units <= of.units_in(of.tolerance);
  if (!fits && !is_done) return false;
  const std::int64_t time = fits ? of.time_of(units) : of.tolerance;
  std::int64_t full_at = full_at_.load(std::memory_order_relaxed);
  for (;;) {
    std::int64_t then = std::max(full_at, now) + time;
    const bool is_admitted = fits && then - now <= of.tolerance;
    if (!is_admitted && !is_done) return false;
    then = std::min(then, now + of.tolerance);
    if (full_at_.compare_exchange_weak(full_at, then, std::memory_order_relaxed)) {
      return is_admitted;
    }
  }
}

bool QuotaBucket::try_take(std::uint32_t units) noexcept { return take(units, false); }
bool QuotaBucket::charge(std::uint32_t units) noexcept { return take(units, true); }

void QuotaBucket::give_back(std::uint32_t units) noexcept {
  const Assignment assigned = assignment();
  if (assigned.kind == Kind::kTokens) {
    const std::int64_t most = assigned.units_in(assigned.tolerance);
    full_at_.fetch_sub(assigned.time_of(std::min<std::int64_t>(units, most)),
                       std::memory_order_relaxed);
  }
  // No less than nothing: units may come back twice, or from before the client was made.
  std::uint64_t allowed = allowed_.load(std::memory_order_relaxed);
  while (!allowed_.compare_exchange_weak(allowed, allowed - std::min<std::uint64_t>(units, allowed),
                                         std::memory_order_relaxed)) {
  }
}

QuotaBucket::Tokens QuotaBucket::tokens() const noexcept {
  const std::int64_t now = this->now();
  const Assignment assigned = assignment();
  if (now >= assigned.until) return {};
  if (assigned.kind == Kind::kAllowAll) return {.is_assigned = true, .admits_all = true};
  if (assigned.kind == Kind::kDenyAll) return {.is_assigned = true};
  const std::int64_t full_at = full_at_.load(std::memory_order_relaxed);
  const std::int64_t missing = std::clamp<std::int64_t>(full_at - now, 0, assigned.tolerance);
  const auto whole = [&](std::int64_t time) {
    return static_cast<std::uint64_t>(assigned.units_in(time));
  };
  return {.is_assigned = true,
          .most = whole(assigned.tolerance),
          .left = whole(assigned.tolerance - missing),
          .interval = std::chrono::nanoseconds(assigned.time_of(1)),
          .refill = std::chrono::nanoseconds(assigned.tolerance),
          .full_after = std::chrono::nanoseconds(missing)};
}

bool QuotaBucket::take(std::uint32_t units, bool is_done) noexcept {
  const std::int64_t now = this->now();
  const Assignment assigned = assignment();
  bool is_allowed = fallback_ == QuotaFallback::kAllow;
  if (now < assigned.until) {
    is_allowed = assigned.kind == Kind::kTokens ? take_tokens(assigned, units, now, is_done)
                                                : assigned.kind == Kind::kAllowAll;
  }
  (is_allowed || is_done ? allowed_ : denied_).fetch_add(units, std::memory_order_relaxed);
  if (!is_reported_.load(std::memory_order_relaxed) && !is_reported_.exchange(true)) {
    on_first_use_();
  }
  return is_allowed;
}

}  // namespace sluice
