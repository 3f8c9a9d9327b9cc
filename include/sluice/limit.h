#pragma once

#include <compare>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/algorithm.h"
#include "sluice/clock.h"
#include "sluice/expected.h"

namespace sluice {

enum class Align : std::uint8_t { kFirstRequest, kClock };    // where a fixed window opens
enum class Weighting : std::uint8_t { kLinear, kNone };       // how the oldest slice counts
enum class LeakyMode : std::uint8_t { kMeter, kQueue };       // reject only, or also say a delay
enum class Refill : std::uint8_t { kContinuous, kInterval };  // drop by drop, or all at once

inline constexpr std::uint64_t kMaxUnits = 0xFFFFFFFFu;  // limit, burst and cost: 2^32 - 1
inline constexpr Duration kMinPeriod = std::chrono::milliseconds{1};
inline constexpr Duration kMaxPeriod = std::chrono::days{366};
inline constexpr std::uint32_t kMaxSlices = 1000;
inline constexpr std::uint32_t kDefaultSlices = 10;
// The longest wait a limit may lead to (142 years); one that refills more slowly is refused.
inline constexpr Duration kMaxWait{std::int64_t{1} << 52};

// A limit as it comes in at run time: every field that is set must apply to the algorithm.
struct LimitSpec {
  Algorithm algorithm = Algorithm::kTokenBucket;
  // Units per period, 0 to kMaxUnits; 0 bans.
  std::uint64_t limit = 0;
  // kMinPeriod to kMaxPeriod.
  Duration per{0};
  // token_bucket, leaky_bucket: the capacity, 1 to kMaxUnits, default limit. gcra: units beyond the
  // first, 0 to kMaxUnits - 1, default limit - 1.
  std::optional<std::uint64_t> burst = {};
  // fixed_window; default kFirstRequest.
  std::optional<Align> align = {};
  // sliding_window_counter and _hybrid: 1 to kMaxSlices, default 10. More: smoother, more memory.
  std::optional<std::uint64_t> slices = {};
  // sliding_window_counter; default kLinear.
  std::optional<Weighting> weighting = {};
  // leaky_bucket; default kMeter.
  std::optional<LeakyMode> mode = {};
  // token_bucket; default kContinuous.
  std::optional<Refill> refill = {};
};

// What is wrong with a LimitSpec, or nothing.
enum class LimitError : std::uint8_t {
  kNone,
  kLimitTooLarge,
  kPeriodOutOfRange,
  kBurstDoesNotApply,
  kBurstOutOfRange,
  kAlignDoesNotApply,
  kSlicesDoNotApply,
  kSlicesOutOfRange,
  kWeightingDoesNotApply,
  kModeDoesNotApply,
  kRefillDoesNotApply,
  kRefillsTooSlowly,
};
constexpr LimitError find_error(const LimitSpec& spec) noexcept;
// A sentence that says what is wrong and what would be right, for a spec with that error.
std::string explain(LimitError error, const LimitSpec& spec);

// A checked limit: an algorithm and its numbers, with the period reduced to lowest terms.
//
// Made by the builders below, or from run-time input by make(). An immutable value of 40 bytes:
// copy it freely, use it from any thread. Making one costs a greatest common divisor; no
// allocation.
class Limit {
 public:
  // Errors: explain() of the first thing wrong.
  static Expected<Limit> make(const LimitSpec& spec);

  constexpr Algorithm algorithm() const noexcept { return algorithm_; }
  constexpr StateKind state_kind() const noexcept { return state_kind_; }
  constexpr std::uint32_t limit() const noexcept { return limit_; }
  constexpr Duration period() const noexcept { return Duration{period_}; }
  // Units it holds when untouched: the burst, burst + 1 for gcra, the limit for windows.
  constexpr std::uint32_t capacity() const noexcept { return capacity_; }
  constexpr std::uint32_t slices() const noexcept { return slices_; }
  constexpr Align align() const noexcept { return align_; }
  constexpr Weighting weighting() const noexcept { return weighting_; }
  constexpr LeakyMode mode() const noexcept { return mode_; }
  constexpr Refill refill() const noexcept { return refill_; }

  // limit/period in lowest terms: `rate_units` units each `rate_ticks` ticks. {0, 1} for a ban.
  constexpr std::uint32_t rate_units() const noexcept { return rate_units_; }
  constexpr std::uint64_t rate_ticks() const noexcept { return rate_ticks_; }
  // A checksum of 28 bits over limit, period, capacity, refill and align: by it a counter notices
  // that its numbers have changed (docs/algorithms.md).
  constexpr std::uint32_t tag() const noexcept { return tag_; }

  friend constexpr bool operator==(const Limit&, const Limit&) = default;

 private:
  template <Algorithm>
  friend class LimitBuilder;

  constexpr explicit Limit(const LimitSpec& spec) noexcept;

  std::uint64_t period_;
  std::uint64_t rate_ticks_;
  std::uint32_t limit_;
  std::uint32_t capacity_;
  std::uint32_t rate_units_;
  std::uint32_t tag_ = 0;
  std::uint16_t slices_;
  Algorithm algorithm_;
  StateKind state_kind_;
  Align align_;
  Weighting weighting_;
  LeakyMode mode_;
  Refill refill_;
};

// Makes a Limit of a known algorithm. Its options are those that apply to the algorithm, so that a
// wrong one does not compile. It converts to a Limit wherever one is expected.
//
// An immutable value that borrows nothing: use it from any thread. Each option returns another
// builder. Errors: a number out of range does not compile in a constant expression, and throws
// std::invalid_argument (with the text of explain()) at run time.
template <Algorithm A>
class LimitBuilder {
 public:
  constexpr explicit LimitBuilder(const LimitSpec& spec) : spec_(spec), limit_(checked(spec)) {}

  // The limit. Cost: a copy of 40 bytes; it was checked when the builder was made.
  constexpr operator Limit() const noexcept { return limit_; }

  constexpr LimitBuilder burst(std::uint64_t units) const
      requires(applies(LimitOption::kBurst, A)) {
    return with([=](LimitSpec& spec) { spec.burst = units; });
  }
  constexpr LimitBuilder slices(std::uint64_t count) const
      requires(applies(LimitOption::kSlices, A)) {
    return with([=](LimitSpec& spec) { spec.slices = count; });
  }
  constexpr LimitBuilder aligned_to_clock() const requires(applies(LimitOption::kAlign, A)) {
    return with([](LimitSpec& spec) { spec.align = Align::kClock; });
  }
  constexpr LimitBuilder counting_oldest_whole() const
      requires(applies(LimitOption::kWeighting, A)) {
    return with([](LimitSpec& spec) { spec.weighting = Weighting::kNone; });
  }
  constexpr LimitBuilder queueing() const requires(applies(LimitOption::kMode, A)) {
    return with([](LimitSpec& spec) { spec.mode = LeakyMode::kQueue; });
  }
  constexpr LimitBuilder refilled_at_intervals() const requires(applies(LimitOption::kRefill, A)) {
    return with([](LimitSpec& spec) { spec.refill = Refill::kInterval; });
  }

 private:
  static constexpr const LimitSpec& checked(const LimitSpec& spec);

  template <typename Change>
  constexpr LimitBuilder with(Change change) const {
    LimitSpec spec = spec_;
    change(spec);
    return LimitBuilder(spec);
  }

  LimitSpec spec_;
  Limit limit_;
};

// The first half of the sentence: `token_bucket(100)` waits for its `.per(1s)`.
template <Algorithm A>
struct Units {
  std::uint64_t limit;

  constexpr LimitBuilder<A> per(Duration period) const {
    return LimitBuilder<A>(LimitSpec{.algorithm = A, .limit = limit, .per = period});
  }
};

// token_bucket(100).per(1s).burst(200)
constexpr Units<Algorithm::kTokenBucket> token_bucket(std::uint64_t limit) { return {limit}; }
// leaky_bucket(10).per(1s).burst(50).queueing()
constexpr Units<Algorithm::kLeakyBucket> leaky_bucket(std::uint64_t limit) { return {limit}; }
// gcra(30).per(60s).burst(15): 16 at once, then one every 2 s
constexpr Units<Algorithm::kGcra> gcra(std::uint64_t limit) { return {limit}; }
// fixed_window(1000).per(1h).aligned_to_clock()
constexpr Units<Algorithm::kFixedWindow> fixed_window(std::uint64_t limit) { return {limit}; }
// sliding_window_log(3).per(60s)
constexpr Units<Algorithm::kSlidingWindowLog> sliding_window_log(std::uint64_t limit) {
  return {limit};
}
// sliding_window_counter(1000).per(1min).slices(6)
constexpr Units<Algorithm::kSlidingWindowCounter> sliding_window_counter(std::uint64_t limit) {
  return {limit};
}
// sliding_window_hybrid(1000).per(1min).slices(6)
constexpr Units<Algorithm::kSlidingWindowHybrid> sliding_window_hybrid(std::uint64_t limit) {
  return {limit};
}

}  // namespace sluice

#include "sluice/limit_impl.h"
