#include "tests/oracle/spec.h"

#include "tests/oracle/exact.h"

namespace sluice_oracle {
namespace {

constexpr std::uint64_t kMostInFlight = 65535;
constexpr std::int64_t kMillisecond = 1000;
constexpr std::int64_t kDayInMicroseconds = std::int64_t{86400} * 1000 * kMillisecond;

bool options_apply(const Spec& spec) {
  const Algorithm a = spec.algorithm;
  if (spec.burst && !is_bucket(a)) return false;
  if (spec.align && (a != Algorithm::kFixedWindow || spec.calendar)) return false;
  if (spec.calendar && a != Algorithm::kFixedWindow && a != Algorithm::kBudget) return false;
  if (spec.slices && a != Algorithm::kSlidingWindowCounter && a != Algorithm::kSlidingWindowHybrid)
    return false;
  if (spec.weighting && a != Algorithm::kSlidingWindowCounter) return false;
  if (spec.mode && a != Algorithm::kLeakyBucket) return false;
  if (spec.refill && a != Algorithm::kTokenBucket) return false;
  const bool has_options = spec.never || spec.on_expiry || spec.remember_us || spec.holds;
  return !has_options || a == Algorithm::kBudget;
}

bool numbers_of_budget_in_range(const Spec& spec) {
  if (spec.limit > kMaxAmount) return false;
  if (holds(spec) < 1 || holds(spec) > kMostInFlight) return false;
  if (remember_us(spec) < 1000 * kMillisecond || remember_us(spec) > kDayInMicroseconds)
    return false;
  if (spec.never) return spec.per_us == 0 && !spec.calendar;
  return spec.per_us >= kMillisecond && spec.per_us <= 366 * kDayInMicroseconds;
}

bool numbers_in_range(const Spec& spec) {
  if (is_budget(spec)) return numbers_of_budget_in_range(spec);
  if (spec.limit > kMaxUnits) return false;
  if (spec.algorithm == Algorithm::kConcurrency && spec.limit > kMostInFlight) return false;
  if (spec.per_us < kMillisecond || spec.per_us > 366 * kDayInMicroseconds) return false;
  if (spec.slices && (*spec.slices < 1 || *spec.slices > 1000)) return false;
  if (!spec.burst) return true;
  // The burst of gcra is added to the first unit: it may be 0, and the capacity is one more.
  if (spec.algorithm == Algorithm::kGcra) return *spec.burst + 1 <= kMaxUnits;
  return *spec.burst >= 1 && *spec.burst <= kMaxUnits;
}

bool refills_in_time(const Spec& spec) {
  if (!is_bucket(spec.algorithm) || spec.limit == 0) return true;
  const Rational periods = Rational(capacity(spec)) / spec.limit;
  const Rational whole = at_intervals(spec) ? Rational(round_up(periods)) : periods;
  return whole * spec.per_us <= kLongestWait;
}

}  // namespace

bool is_valid(const Spec& spec) {
  return options_apply(spec) && numbers_in_range(spec) && refills_in_time(spec);
}

bool is_bucket(Algorithm algorithm) {
  return algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kLeakyBucket ||
         algorithm == Algorithm::kGcra;
}

bool holds_permits(const Spec& spec) { return spec.algorithm == Algorithm::kConcurrency; }

bool is_budget(const Spec& spec) { return spec.algorithm == Algorithm::kBudget; }

std::uint64_t capacity(const Spec& spec) {
  if (spec.limit == 0 || !is_bucket(spec.algorithm) || !spec.burst) return spec.limit;
  return spec.algorithm == Algorithm::kGcra ? *spec.burst + 1 : *spec.burst;
}

std::uint64_t slices(const Spec& spec) { return spec.slices.value_or(10); }

bool at_intervals(const Spec& spec) {
  return spec.refill.value_or(Refill::kContinuous) == Refill::kInterval;
}

bool aligned_to_clock(const Spec& spec) {
  return spec.calendar || spec.align.value_or(Align::kFirstRequest) == Align::kClock;
}

bool queues(const Spec& spec) { return spec.mode.value_or(Mode::kMeter) == Mode::kQueue; }

OnExpiry on_expiry(const Spec& spec) { return spec.on_expiry.value_or(OnExpiry::kCharge); }

std::int64_t remember_us(const Spec& spec) {
  return spec.remember_us.value_or(kDayInMicroseconds / 24);
}

std::uint64_t holds(const Spec& spec) { return spec.holds.value_or(1000); }

bool same_numbers(const Spec& a, const Spec& b) {
  return a.limit == b.limit && a.per_us == b.per_us && a.calendar == b.calendar &&
         a.never == b.never && capacity(a) == capacity(b) && at_intervals(a) == at_intervals(b);
}

bool same_limit(const Spec& a, const Spec& b) {
  return a.algorithm == b.algorithm && same_numbers(a, b) && slices(a) == slices(b) &&
         aligned_to_clock(a) == aligned_to_clock(b) && queues(a) == queues(b) &&
         a.weighting.value_or(Weighting::kLinear) == b.weighting.value_or(Weighting::kLinear) &&
         on_expiry(a) == on_expiry(b) && remember_us(a) == remember_us(b) && holds(a) == holds(b);
}

}  // namespace sluice_oracle
