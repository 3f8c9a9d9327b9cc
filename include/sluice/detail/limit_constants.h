#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>

#include "sluice/limit.h"

// The members of limit.h that are constexpr, so that limits can be constants.
namespace sluice {

namespace detail {

constexpr bool is_bucket(Algorithm a) noexcept { return info(a).state == StateKind::kBucket; }
constexpr bool is_sliced(Algorithm a) noexcept { return applies(LimitOption::kSlices, a); }

constexpr std::uint64_t most_units(Algorithm a) noexcept {
  if (holds_amounts(a)) return kMaxAmount;
  return holds_permits(a) ? kMaxPermitUnits : kMaxUnits;
}

// Whether the windows of an algorithm may be those of a calendar.
constexpr bool may_follow_calendar(Algorithm a) noexcept {
  return info(a).state == StateKind::kWindow || holds_amounts(a);
}

// Returns the first option that is set and does not apply to the algorithm.
constexpr std::optional<LimitOption> option_without_use(const LimitSpec& spec) noexcept {
  const bool is_set[] = {spec.burst.has_value(),     spec.align.has_value(),
                         spec.slices.has_value(),    spec.weighting.has_value(),
                         spec.mode.has_value(),      spec.refill.has_value(),
                         spec.on_expiry.has_value(), spec.holds.has_value(),
                         spec.remember.has_value()};  // by LimitOption
  for (std::size_t i = 0; i < std::size(is_set); ++i) {
    const auto option = static_cast<LimitOption>(i);
    if (is_set[i] && !applies(option, spec.algorithm)) return option;
  }
  return std::nullopt;
}

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) noexcept {
  return a / b + (a % b != 0);
}

// The capacity of a spec whose numbers are in range.
constexpr std::uint64_t capacity_of(const LimitSpec& spec) noexcept {
  if (spec.limit == 0 || !applies(LimitOption::kBurst, spec.algorithm)) return spec.limit;
  return spec.burst ? *spec.burst + info(spec.algorithm).burst_excludes_first : spec.limit;
}

// Whether an emptied bucket is full again within kMaxWait, in 64-bit arithmetic: its factors are
// below 2^32 (units) and 2^45 (ticks).
constexpr bool refills_in_time(const LimitSpec& spec) noexcept {
  const std::uint64_t capacity = capacity_of(spec);
  const auto most = static_cast<std::uint64_t>(kMaxWait.count());
  const auto period = static_cast<std::uint64_t>(spec.per.count());
  if (spec.refill == Refill::kInterval) return ceil_div(capacity, spec.limit) <= most / period;
  const std::uint64_t whole = period / spec.limit;
  const std::uint64_t rest = period % spec.limit;
  if (whole > most / capacity) return false;
  return capacity * whole + ceil_div(capacity * rest, spec.limit) <= most;
}

constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t value) noexcept {
  h = (h ^ value) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

}  // namespace detail

// See limit.h: the first error of a spec.
constexpr LimitError find_error(const LimitSpec& spec) noexcept {
  const AlgorithmInfo& row = info(spec.algorithm);
  if (spec.limit > detail::most_units(row.algorithm)) return LimitError::kLimitTooLarge;
  if (spec.calendar != nullptr && !detail::may_follow_calendar(row.algorithm)) {
    return LimitError::kCalendarDoesNotApply;
  }
  const bool never_ends = spec.per == kNeverEnds && holds_amounts(row.algorithm);
  if (spec.calendar == nullptr && !never_ends && (spec.per < kMinPeriod || spec.per > kMaxPeriod)) {
    return LimitError::kPeriodOutOfRange;
  }
  if (detail::option_without_use(spec)) return LimitError::kOptionDoesNotApply;
  if (spec.burst) {
    const std::uint64_t least = row.burst_excludes_first ? 0 : 1;
    if (*spec.burst < least || *spec.burst > kMaxUnits - row.burst_excludes_first) {
      return LimitError::kBurstOutOfRange;
    }
  }
  if (spec.align && spec.calendar != nullptr) return LimitError::kAlignWithCalendar;
  if (spec.slices && (*spec.slices < 1 || *spec.slices > kMaxSlices)) {
    return LimitError::kSlicesOutOfRange;
  }
  if (spec.holds && (*spec.holds < 1 || *spec.holds > kMaxHolds)) {
    return LimitError::kHoldsOutOfRange;
  }
  if (spec.remember && (*spec.remember < kMinRemember || *spec.remember > kMaxRemember)) {
    return LimitError::kRememberOutOfRange;
  }
  if (detail::is_bucket(row.algorithm) && spec.limit > 0 && !detail::refills_in_time(spec)) {
    return LimitError::kRefillsTooSlowly;
  }
  if (spec.lease == std::chrono::milliseconds{0}) return LimitError::kNone;
  if (holds_permits(row.algorithm) || holds_amounts(row.algorithm)) {
    return LimitError::kLeaseDoesNotApply;
  }
  const bool is_in_range = spec.lease >= kMinLease && spec.lease <= kMaxLease;
  return is_in_range ? LimitError::kNone : LimitError::kLeaseOutOfRange;
}

// Makes a limit of a spec that has no error.
constexpr Limit::Limit(const LimitSpec& spec) noexcept
    : period_(static_cast<std::uint64_t>(
          (spec.calendar != nullptr ? spec.calendar->period() : spec.per).count())),
      rate_ticks_(period_ / std::gcd(spec.limit, period_)),
      calendar_(spec.calendar),
      capacity_(detail::capacity_of(spec)),
      limit_(static_cast<std::uint32_t>(spec.limit)),
      rate_units_(static_cast<std::uint32_t>(spec.limit / std::gcd(spec.limit, period_))),
      remember_(static_cast<std::uint32_t>(spec.remember.value_or(kDefaultRemember).count())),
      slices_(static_cast<std::uint16_t>(
          detail::is_sliced(spec.algorithm) ? spec.slices.value_or(kDefaultSlices)
          : holds_amounts(spec.algorithm)   ? spec.holds.value_or(kDefaultHolds)
                                            : 1)),
      lease_(static_cast<std::uint16_t>(spec.lease.count())),
      algorithm_(spec.algorithm),
      state_kind_(info(spec.algorithm).state),
      align_(spec.calendar != nullptr ? Align::kClock : spec.align.value_or(Align::kFirstRequest)),
      weighting_(spec.weighting.value_or(Weighting::kLinear)),
      mode_(spec.mode.value_or(LeakyMode::kMeter)),
      refill_(spec.refill.value_or(Refill::kContinuous)),
      on_expiry_(spec.on_expiry.value_or(OnExpiry::kCharge)) {
  std::uint64_t h = detail::mix(0, limit_);
  h = detail::mix(h, period_);
  h = detail::mix(h, capacity_);
  h = detail::mix(h, static_cast<std::uint64_t>(refill_));
  h = detail::mix(h, static_cast<std::uint64_t>(align_));
  if (calendar_ != nullptr) h = detail::mix(h, calendar_->checksum());
  tag_ = static_cast<std::uint32_t>(h >> 36);
}

}  // namespace sluice
