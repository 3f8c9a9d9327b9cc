#pragma once

#include <concepts>
#include <cstdint>

#include "sluice/detail/limit_constants.h"
#include "sluice/limit.h"

// Builders of limits: one function for each algorithm, to be read as a sentence.
//
//   constexpr sluice::Limit kPerUser = sluice::token_bucket(100).per(1s).burst(200);
//
// An option that does not apply to the algorithm does not compile. A number out of range does not
// compile in a constant expression; at run time it throws std::invalid_argument with the text of
// explain(). The cost that a function states is that of a counter in the memory store: bytes for
// each key, and the time of a decision beyond one hash look-up. docs/reference/algorithms.md
// defines each algorithm exactly.
namespace sluice {
namespace detail {

// Throws std::invalid_argument with the text of explain().
[[noreturn]] void throw_limit_error(LimitError error, const LimitSpec& spec);
// As Calendar::make(), but throws std::invalid_argument with its error.
const Calendar* calendar_of(const CalendarSpec& spec);

template <typename>
inline constexpr bool kNever = false;

// A number of units as programs write it.
struct Units {
  constexpr Units(std::uint64_t units) noexcept : count(units) {}
  template <std::floating_point T>
  constexpr Units(T) noexcept {
    static_assert(
        kNever<T>,
        "sluice: units are whole numbers: token_bucket(1).per(2s) is half a unit a second");
  }

  std::uint64_t count;
};

// A compiler prints the name of the function that it cannot call in a constant expression.
namespace expected {
[[noreturn]] inline void at_most_4294967295_units(const LimitSpec& spec) {
  throw_limit_error(LimitError::kLimitTooLarge, spec);
}
[[noreturn]] inline void a_concurrency_of_at_most_65535(const LimitSpec& spec) {
  throw_limit_error(LimitError::kLimitTooLarge, spec);
}
[[noreturn]] inline void a_period_of_1_ms_to_366_days(const LimitSpec& spec) {
  throw_limit_error(LimitError::kPeriodOutOfRange, spec);
}
[[noreturn]] inline void a_burst_of_1_to_4294967295_units(const LimitSpec& spec) {
  throw_limit_error(LimitError::kBurstOutOfRange, spec);
}
[[noreturn]] inline void from_1_to_1000_slices(const LimitSpec& spec) {
  throw_limit_error(LimitError::kSlicesOutOfRange, spec);
}
[[noreturn]] inline void a_bucket_that_refills_within_142_years(const LimitSpec& spec) {
  throw_limit_error(LimitError::kRefillsTooSlowly, spec);
}
[[noreturn]] inline void a_lease_of_1_ms_to_10_s(const LimitSpec& spec) {
  throw_limit_error(LimitError::kLeaseOutOfRange, spec);
}
[[noreturn]] inline void a_budget_of_at_most_9007199254740991(const LimitSpec& spec) {
  throw_limit_error(LimitError::kLimitTooLarge, spec);
}
[[noreturn]] inline void from_1_to_65535_holds(const LimitSpec& spec) {
  throw_limit_error(LimitError::kHoldsOutOfRange, spec);
}
[[noreturn]] inline void to_remember_for_1_s_to_24_hours(const LimitSpec& spec) {
  throw_limit_error(LimitError::kRememberOutOfRange, spec);
}
}  // namespace expected
static_assert(kMaxAmount == 9007199254740991 && kMaxHolds == 65535 &&
              kMinRemember == std::chrono::seconds{1} && kMaxRemember == std::chrono::hours{24});
static_assert(kMaxUnits == 4294967295 && kMaxPermitUnits == 65535 && kMaxSlices == 1000 &&
              kMinPeriod == std::chrono::milliseconds{1} && kMaxPeriod == std::chrono::days{366} &&
              kMinLease == std::chrono::milliseconds{1} && kMaxLease == std::chrono::seconds{10});

// Throws std::invalid_argument, or stops the compiler.
constexpr void refuse(LimitError error, const LimitSpec& spec) {
  switch (error) {
    case LimitError::kLimitTooLarge:
      if (holds_permits(spec.algorithm)) expected::a_concurrency_of_at_most_65535(spec);
      if (holds_amounts(spec.algorithm)) expected::a_budget_of_at_most_9007199254740991(spec);
      expected::at_most_4294967295_units(spec);
    case LimitError::kPeriodOutOfRange: expected::a_period_of_1_ms_to_366_days(spec);
    case LimitError::kBurstOutOfRange: expected::a_burst_of_1_to_4294967295_units(spec);
    case LimitError::kSlicesOutOfRange: expected::from_1_to_1000_slices(spec);
    case LimitError::kRefillsTooSlowly: expected::a_bucket_that_refills_within_142_years(spec);
    case LimitError::kLeaseOutOfRange: expected::a_lease_of_1_ms_to_10_s(spec);
    case LimitError::kHoldsOutOfRange: expected::from_1_to_65535_holds(spec);
    case LimitError::kRememberOutOfRange: expected::to_remember_for_1_s_to_24_hours(spec);
    default: throw_limit_error(error, spec);
  }
}

}  // namespace detail

// A builder with its limit and period, which converts to a Limit wherever one is expected. The
// options return another builder.
//
// An immutable value that borrows nothing: use it from any thread. Cost of the conversion: a copy
// of 56 bytes; the numbers were checked when the builder was made.
template <Algorithm A>
class LimitBuilder {
 public:
  // Errors: throws std::invalid_argument for a number out of range.
  constexpr explicit LimitBuilder(const LimitSpec& spec) : spec_(spec), limit_(checked(spec)) {}

  // The limit.
  constexpr operator Limit() const noexcept { return limit_; }

  // token_bucket, leaky_bucket: the capacity in units, at least 1; default: the limit. gcra: the
  // units after the first; default: the limit - 1.
  constexpr LimitBuilder burst(detail::Units units) const
    requires(applies(LimitOption::kBurst, A))
  {
    return with([=](LimitSpec& spec) { spec.burst = units.count; });
  }
  // Does not compile: others have no burst.
  template <typename T>
    requires(!applies(LimitOption::kBurst, A))
  constexpr LimitBuilder burst(T) const {
    static_assert(detail::kNever<T>,
                  "sluice: burst applies to token_bucket, leaky_bucket and gcra only");
    return *this;
  }
  // sliding_window_counter, sliding_window_hybrid: 1 to kMaxSlices slices; default: 10.
  constexpr LimitBuilder slices(std::uint64_t count) const
    requires(applies(LimitOption::kSlices, A))
  {
    return with([=](LimitSpec& spec) { spec.slices = count; });
  }
  // fixed_window: windows open at multiples of the period since the Unix epoch (Align::kClock).
  constexpr LimitBuilder aligned_to_clock() const
    requires(applies(LimitOption::kAlign, A))
  {
    return with([](LimitSpec& spec) { spec.align = Align::kClock; });
  }
  // sliding_window_counter: never admits more than the limit (Weighting::kNone).
  constexpr LimitBuilder counting_oldest_whole() const
    requires(applies(LimitOption::kWeighting, A))
  {
    return with([](LimitSpec& spec) { spec.weighting = Weighting::kNone; });
  }
  // leaky_bucket: reports in Decision::delay how long a request has to wait (LeakyMode::kQueue).
  constexpr LimitBuilder queueing() const
    requires(applies(LimitOption::kMode, A))
  {
    return with([](LimitSpec& spec) { spec.mode = LeakyMode::kQueue; });
  }
  // token_bucket: refills the whole limit at once, every period (Refill::kInterval).
  constexpr LimitBuilder refilled_at_intervals() const
    requires(applies(LimitOption::kRefill, A))
  {
    return with([](LimitSpec& spec) { spec.refill = Refill::kInterval; });
  }

  // budget: the units of holds that nobody settles come back at their end (OnExpiry::kRelease).
  constexpr LimitBuilder releasing_unsettled() const
    requires(applies(LimitOption::kOnExpiry, A))
  {
    return on_expiry(OnExpiry::kRelease);
  }
  // budget: what becomes of holds that nobody settles; default: OnExpiry::kCharge.
  constexpr LimitBuilder on_expiry(OnExpiry what) const
    requires(applies(LimitOption::kOnExpiry, A))
  {
    return with([=](LimitSpec& spec) { spec.on_expiry = what; });
  }
  // budget: at most this many open holds for a key, 1 to 65,535; default: 1000.
  constexpr LimitBuilder holds(std::uint64_t count) const
    requires(applies(LimitOption::kHolds, A))
  {
    return with([=](LimitSpec& spec) { spec.holds = count; });
  }
  // budget: for how long after its end an id is known, 1 s to 24 hours; default: 1 hour.
  constexpr LimitBuilder remember(std::chrono::milliseconds time) const
    requires(applies(LimitOption::kRemember, A))
  {
    return with([=](LimitSpec& spec) { spec.remember = time; });
  }

  // All but concurrency and budget: a LeasedStore takes units ahead of requests, and may admit them
  // up to `time` after it took them, 1 ms to 10 s (docs/operations.md). Other stores ignore it.
  constexpr LimitBuilder leased(std::chrono::milliseconds time) const
    requires(!holds_permits(A) && !holds_amounts(A))
  {
    return with([=](LimitSpec& spec) {
      spec.lease = time;
      // A limit without a lease has 0.
      if (time.count() == 0) detail::refuse(LimitError::kLeaseOutOfRange, spec);
    });
  }

 private:
  static constexpr const LimitSpec& checked(const LimitSpec& spec) {
    const LimitError error = find_error(spec);
    if (error != LimitError::kNone) detail::refuse(error, spec);
    return spec;
  }
  template <typename Change>
  constexpr LimitBuilder with(Change change) const {
    LimitSpec spec = spec_;
    change(spec);
    return LimitBuilder(spec);
  }

  LimitSpec spec_;
  Limit limit_;
};

// The units of a limit that has no period yet: `token_bucket(100)`.
template <Algorithm A>
struct LimitUnits {
  std::uint64_t units;

  // Completes the limit with its period, 1 ms to 366 days, in any std::chrono unit that converts to
  // microseconds. Errors: throws std::invalid_argument for a number out of range.
  constexpr LimitBuilder<A> per(Duration period) const {
    return LimitBuilder<A>(LimitSpec{.algorithm = A, .limit = units, .per = period});
  }

  // Does not compile: the period comes first.
  template <typename T>
  constexpr LimitBuilder<A> burst(T) const {
    static_assert(
        detail::kNever<T>,
        "sluice: the period comes before the burst: token_bucket(100).per(1s).burst(200)");
    return per(kMinPeriod);
  }

  // Does not compile: there is no limit without a period.
  template <std::same_as<Limit> T>
  constexpr operator T() const {
    static_assert(
        detail::kNever<T>,
        "sluice: a limit needs a period: token_bucket(100).per(1s), not token_bucket(100)");
    return per(kMinPeriod);
  }
};

// The units of a limit whose period may be one of the calendar: `fixed_window(100)`.
template <Algorithm A>
struct CalendarUnits : LimitUnits<A> {
  using LimitUnits<A>::per;
  // Completes the limit with a calendar, such as calendar_month("Asia/Shanghai", 15). Errors:
  // throws std::invalid_argument for a wrong first day or a time zone that the system lacks.
  LimitBuilder<A> per(const CalendarSpec& calendar) const {
    return LimitBuilder<A>(
        LimitSpec{.algorithm = A, .limit = this->units, .calendar = detail::calendar_of(calendar)});
  }
  // Completes a budget that does not renew: an override or a plan raises it.
  constexpr LimitBuilder<A> never() const
    requires(holds_amounts(A))
  {
    return this->per(kNeverEnds);
  }
};

// The units of a `concurrency` limit that has no lease yet: `concurrency(10)`.
struct LeasedUnits {
  std::uint64_t units;

  // Completes the limit with the longest time that a permit lasts if nobody releases or extends it,
  // 1 ms to 366 days. Errors: throws std::invalid_argument for a number out of range.
  constexpr LimitBuilder<Algorithm::kConcurrency> lease(Duration time) const {
    return LimitBuilder<Algorithm::kConcurrency>(
        LimitSpec{.algorithm = Algorithm::kConcurrency, .limit = units, .per = time});
  }

  // Does not compile: there is no limit of permits without a lease.
  template <std::same_as<Limit> T>
  constexpr operator T() const {
    static_assert(detail::kNever<T>,
                  "sluice: permits need a lease: concurrency(10).lease(30s), not concurrency(10)");
    return lease(kMinPeriod);
  }
};

// Admits `burst` units at once; tokens refill evenly at the rate. Exact.
// Cost: 60 bytes a key; constant time. The usual choice: a rate that allows bursts.
//   token_bucket(100).per(1s).burst(200)
constexpr LimitUnits<Algorithm::kTokenBucket> token_bucket(detail::Units units) {
  return {units.count};
}

// A bucket of `burst` units that drains evenly at the rate. Exact. With queueing() a decision says
// how long an admitted request must wait, so that requests leave evenly spaced.
// Cost: 60 bytes a key; constant time. Choose it to protect a service that needs an even load.
//   leaky_bucket(10).per(1s).burst(50).queueing()
constexpr LimitUnits<Algorithm::kLeakyBucket> leaky_bucket(detail::Units units) {
  return {units.count};
}

// Decides as a token bucket of `burst` + 1 units. Exact.
// Cost: 60 bytes a key; constant time. Choose it if you think in the terms of redis-cell's
// CL.THROTTLE, or of cell rates: one unit every period / limit, and `burst` more at once.
//   gcra(30).per(60s).burst(15): 16 at once, then one every 2 s
constexpr LimitUnits<Algorithm::kGcra> gcra(detail::Units units) { return {units.count}; }

// Admits at most `units` in each window of one period. Up to twice as many pass across the boundary
// of two windows.
// Cost: 60 bytes a key; constant time. Choose it for quotas, such as 1000 a day: it is easy to
// explain.
//   fixed_window(1000).per(24h).aligned_to_clock()
//   fixed_window(50000).per(calendar_month("Asia/Shanghai", 15)): from the 15th to the 15th
constexpr CalendarUnits<Algorithm::kFixedWindow> fixed_window(detail::Units units) {
  return {{units.count}};
}

// Admits at most `units` in any window of one period. Exact: it stores every admitted request.
// Cost: 60 bytes a key and 12 for each request in the window; time in proportion to the requests
// that have left the window, and of a denial to those that have to leave. Choose it for small
// limits that must hold exactly, such as codes sent or logins.
//   sliding_window_log(3).per(60s)
constexpr LimitUnits<Algorithm::kSlidingWindowLog> sliding_window_log(detail::Units units) {
  return {units.count};
}

// Admits about `units` in any window of one period. It counts by slices of the period; the error is
// at most the units of the oldest slice, and none with counting_oldest_whole().
// Cost: 60 bytes a key and about 4 for each slice; time in proportion to the slices. Choose it for
// large limits over a sliding window, in fixed memory.
//   sliding_window_counter(1000).per(1min).slices(6)
constexpr LimitUnits<Algorithm::kSlidingWindowCounter> sliding_window_counter(detail::Units units) {
  return {units.count};
}

// Admits at most `units` in flight: a permit holds those of a request until it is released, or
// until the end of its lease. Exact. Cost: 60 bytes a key and 24 for each permit; time in
// proportion to the permits when one ends. Choose it for what takes long: exports, uploads,
// connections.
//   concurrency(10).lease(30s)
constexpr LeasedUnits concurrency(detail::Units units) { return {units.count}; }

// Admits at most `units` in each window of the clock or of the calendar, as amounts up to 2^53 - 1:
// micro-dollars, tokens, bytes. Units can be held before a call and settled after it, exactly once
// (sluice/hold.h). Exact. Cost: 60 bytes a key, 40 for each open hold and 24 for each id
// that is known; constant time, in proportion to the holds when one ends with its time.
//   budget(500'000'000).per(calendar_month("Europe/Berlin"))
//   budget(1'000'000).never().holds(100)
constexpr CalendarUnits<Algorithm::kBudget> budget(detail::Units units) { return {{units.count}}; }

// As sliding_window_log for the newest slice of the period; the requests of an older slice are
// assumed to be evenly spread. The error is at most the units of the oldest slice.
// Cost: 60 bytes a key, 12 for each request in the newest slice and 24 for each older slice; time
// in proportion to the slices. Choose it if recent requests must count exactly and a log needs too
// much memory.
//   sliding_window_hybrid(1000).per(1min).slices(6)
constexpr LimitUnits<Algorithm::kSlidingWindowHybrid> sliding_window_hybrid(detail::Units units) {
  return {units.count};
}

}  // namespace sluice
