#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/algorithm.h"
#include "sluice/calendar.h"
#include "sluice/clock.h"
#include "sluice/expected.h"

namespace sluice {
namespace core {
struct LimitAccess;
}  // namespace core

// When a fixed window opens. kFirstRequest: at its first admitted request. kClock: at multiples of
// the period since the Unix epoch, in UTC.
enum class Align : std::uint8_t { kFirstRequest, kClock };

// How a sliding window counter counts its oldest slice. kLinear: by the share of the slice that is
// still inside the window. kNone: whole, so that the limit is never exceeded.
enum class Weighting : std::uint8_t { kLinear, kNone };

// What a leaky bucket does with requests ahead of others. kMeter: it admits or denies. kQueue: it
// admits by the same test, and reports how long the request has to wait (Decision::delay).
enum class LeakyMode : std::uint8_t { kMeter, kQueue };

// How a token bucket refills. kContinuous: evenly over the period. kInterval: the whole limit at
// once, every period from the first use of the bucket.
enum class Refill : std::uint8_t { kContinuous, kInterval };

// What becomes of a hold of a budget that nobody settles before its end. kCharge: its units are
// spent, because the call was probably made. kRelease: they come back.
enum class OnExpiry : std::uint8_t { kCharge, kRelease };

// The largest limit, burst and cost: 2^32 - 1 units.
inline constexpr std::uint64_t kMaxUnits = 0xFFFFFFFFu;
// The largest limit and cost of `budget`: 2^53 - 1 units, exact in JSON and Lua, too.
inline constexpr std::uint64_t kMaxAmount = (std::uint64_t{1} << 53) - 1;
// The largest limit of `concurrency`.
inline constexpr std::uint64_t kMaxPermitUnits = 0xFFFF;
inline constexpr Duration kMinPeriod = std::chrono::milliseconds{1};
inline constexpr Duration kMaxPeriod = std::chrono::days{366};
inline constexpr std::uint32_t kMaxSlices = 1000;
inline constexpr std::chrono::milliseconds kMinLease{1};
inline constexpr std::chrono::milliseconds kMaxLease{10'000};
inline constexpr std::uint32_t kDefaultSlices = 10;
// The period of a budget that does not renew: it ends after the last instant.
inline constexpr Duration kNeverEnds{std::int64_t{1} << 52};
inline constexpr std::uint32_t kMaxHolds = 65'535;
inline constexpr std::uint32_t kDefaultHolds = 1'000;
inline constexpr std::chrono::milliseconds kMinRemember{1'000};
inline constexpr std::chrono::milliseconds kMaxRemember = std::chrono::hours{24};
inline constexpr std::chrono::milliseconds kDefaultRemember = std::chrono::hours{1};
// How long a hold lasts if it is neither settled nor extended.
inline constexpr Duration kMinHold = std::chrono::seconds{1};
inline constexpr Duration kMaxHold = std::chrono::hours{24};
// The longest wait that a limit can cause: 142 years. A bucket that refills more slowly is an
// error.
inline constexpr Duration kMaxWait{std::int64_t{1} << 52};

// The numbers of a limit that are known at run time only. Limit::make checks them: each option that
// is set must apply to the algorithm.
//
// A plain value. An option that is absent has the algorithm's default.
struct LimitSpec {
  Algorithm algorithm = Algorithm::kTokenBucket;
  // Units per period, 0 to kMaxUnits; for concurrency units in flight, 0 to kMaxPermitUnits; for
  // budget 0 to kMaxAmount. With 0 every cost above 0 is denied for ever (kNever).
  std::uint64_t limit = 0;
  // The period, for concurrency the lease: kMinPeriod to kMaxPeriod; for budget also kNeverEnds.
  Duration per{0};
  // fixed_window, budget: the windows, instead of `per` and `align`; null: none.
  const Calendar* calendar = nullptr;
  // token_bucket, leaky_bucket: the capacity in units, 1 to kMaxUnits; default: `limit`. gcra: the
  // units after the first, 0 to kMaxUnits - 1; default: `limit` - 1. Raise it to admit more units
  // at once; the rate stays the same.
  std::optional<std::uint64_t> burst = {};
  // fixed_window; default: kFirstRequest.
  std::optional<Align> align = {};
  // sliding_window_counter, sliding_window_hybrid: 1 to kMaxSlices; default: kDefaultSlices. More
  // slices are more exact and take more memory.
  std::optional<std::uint64_t> slices = {};
  // sliding_window_counter; default: kLinear.
  std::optional<Weighting> weighting = {};
  // leaky_bucket; default: kMeter.
  std::optional<LeakyMode> mode = {};
  // token_bucket; default: kContinuous.
  std::optional<Refill> refill = {};
  // budget: what becomes of holds that nobody settles; default: kCharge.
  std::optional<OnExpiry> on_expiry = {};
  // budget: the most open holds of a counter, 1 to kMaxHolds; default: kDefaultHolds.
  std::optional<std::uint64_t> holds = {};
  // budget: for how long after its end an id is known, so that it counts once; kMinRemember to
  // kMaxRemember; default: kDefaultRemember. Longer: for clients that retry later, in more memory.
  std::optional<std::chrono::milliseconds> remember = {};
  // All but concurrency and budget: a LeasedStore may admit units this long after it took them from
  // its store, kMinLease to kMaxLease; 0: every request asks the store. Longer: fewer requests to
  // the store.
  std::chrono::milliseconds lease{0};
};

// What is wrong with a LimitSpec; kNone if nothing is.
enum class LimitError : std::uint8_t {
  kNone,
  kLimitTooLarge,
  kPeriodOutOfRange,
  kCalendarDoesNotApply,
  kOptionDoesNotApply,
  kBurstOutOfRange,
  kAlignWithCalendar,
  kSlicesOutOfRange,
  kRefillsTooSlowly,
  kHoldsOutOfRange,
  kRememberOutOfRange,
  kLeaseDoesNotApply,
  kLeaseOutOfRange,
};
// Returns the first error of a spec.
constexpr LimitError find_error(const LimitSpec& spec) noexcept;
// Returns a sentence that says what is wrong with a spec that has this error, and what is right.
std::string explain(LimitError error, const LimitSpec& spec);

// A checked limit: an algorithm and its numbers. Make one with a builder (limit_builder.h), such as
// `token_bucket(100).per(1s)`, or from numbers known at run time with make().
//
// An immutable value of 56 bytes that borrows nothing: copy it freely, use it from any thread.
// Cost of making one: a greatest common divisor; no allocation.
class Limit {
 public:
  // Checks the numbers. Errors: explain() of the first error.
  static Expected<Limit> make(const LimitSpec& spec);

  // How it counts.
  constexpr Algorithm algorithm() const noexcept { return algorithm_; }
  // What a counter of it stores.
  constexpr StateKind state_kind() const noexcept { return state_kind_; }
  // Units per period; for concurrency units in flight.
  constexpr std::uint64_t limit() const noexcept {
    return state_kind_ == StateKind::kBudget ? capacity_ : limit_;
  }
  // The period; for concurrency the lease. With a calendar: Calendar::period(). kNeverEnds: a
  // budget that does not renew.
  constexpr Duration period() const noexcept { return Duration{period_}; }
  // The windows of a fixed window or a budget that follow the calendar; null: none.
  constexpr const Calendar* calendar() const noexcept { return calendar_; }
  // Units that an untouched counter admits at once: the burst (burst + 1 for gcra), or the limit.
  // At most kMaxUnits, except for budget.
  constexpr std::uint64_t capacity() const noexcept { return capacity_; }
  // The slices of a period; 1 for algorithms without slices, except for budget.
  constexpr std::uint32_t slices() const noexcept { return slices_; }

  // When a fixed window opens; kClock with a calendar.
  constexpr Align align() const noexcept { return align_; }
  // How a sliding window counter counts its oldest slice.
  constexpr Weighting weighting() const noexcept { return weighting_; }
  // Whether a leaky bucket reports a delay.
  constexpr LeakyMode mode() const noexcept { return mode_; }
  // How a token bucket refills.
  constexpr Refill refill() const noexcept { return refill_; }
  // What becomes of holds that nobody settles.
  constexpr OnExpiry on_expiry() const noexcept { return on_expiry_; }
  // The most open holds of a counter of a budget.
  constexpr std::uint32_t holds() const noexcept { return slices_; }
  // For how long a budget knows an id after its end.
  constexpr Duration remember() const noexcept { return std::chrono::milliseconds{remember_}; }
  // How long a LeasedStore may admit units that it took ahead; 0: it takes none.
  constexpr std::chrono::milliseconds lease() const noexcept {
    return std::chrono::milliseconds{lease_};
  }

  friend constexpr bool operator==(const Limit&, const Limit&) = default;

 private:
  template <Algorithm>
  friend class LimitBuilder;
  friend struct core::LimitAccess;

  constexpr explicit Limit(const LimitSpec& spec) noexcept;

  std::uint64_t period_;
  std::uint64_t rate_ticks_;  // rate_units_ / rate_ticks_ is limit_ / period_ in lowest terms
  const Calendar* calendar_;
  std::uint64_t capacity_;
  std::uint32_t limit_;  // not of a budget
  std::uint32_t rate_units_;
  std::uint32_t tag_ = 0;   // a checksum of the numbers
  std::uint32_t remember_;  // milliseconds
  std::uint16_t slices_;    // of a budget: holds
  std::uint16_t lease_;     // milliseconds
  Algorithm algorithm_;
  StateKind state_kind_;
  Align align_ : 1;
  Weighting weighting_ : 1;
  LeakyMode mode_ : 1;
  Refill refill_ : 1;
  OnExpiry on_expiry_ : 1;
};

}  // namespace sluice

#include "sluice/detail/limit_constants.h"
#include "sluice/limit_builder.h"
