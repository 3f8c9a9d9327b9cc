#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

// How a limit counts. The enumerators index kAlgorithms.
enum class Algorithm : std::uint8_t {
  kFixedWindow,
  kSlidingWindowLog,
  kSlidingWindowCounter,
  kSlidingWindowHybrid,
  kLeakyBucket,
  kTokenBucket,
  kGcra,
  kConcurrency,
  kBudget,
};

// What a limit may say besides its units and its period (see LimitSpec).
enum class LimitOption : std::uint8_t {
  kBurst,
  kAlign,
  kSlices,
  kWeighting,
  kMode,
  kRefill,
  kOnExpiry,
  kHolds,
  kRemember,
};

// What a counter stores. Stores choose a memory layout by it.
enum class StateKind : std::uint8_t {
  kBucket,           // the units spent, which drain: fixed size
  kWindow,           // the units used in the current window: fixed size
  kSlices,           // a count for each slice of the period
  kLog,              // each admitted instant
  kLogAndSummaries,  // the admitted instants of the newest slice, and summaries of older slices
  kPermits,          // each permit, until its lease ends
  kBudget,           // the units spent in the window, the open holds, and ids that have ended
};

// One row of kAlgorithms: everything about an algorithm that is not arithmetic.
struct AlgorithmInfo {
  Algorithm algorithm;
  std::string_view name;  // in rules, commands and answers: "token_bucket"
  char letter;            // in the keys of counters in Redis (docs/reference/state-format.md)
  StateKind state;
  std::uint16_t options;      // bit i: LimitOption i applies
  bool burst_excludes_first;  // the capacity is burst + 1, not burst
  std::string_view summary;   // one line of documentation
};

namespace detail {

template <typename... Options>
constexpr std::uint16_t options_of(Options... options) noexcept {
  return static_cast<std::uint16_t>((0u | ... | (1u << static_cast<unsigned>(options))));
}

}  // namespace detail

// The table of algorithms. Schemas, commands, help, conversions and the conformance suite are
// derived from it.
inline constexpr std::array<AlgorithmInfo, 9> kAlgorithms{{
    {Algorithm::kFixedWindow, "fixed_window", 'f', StateKind::kWindow,
     detail::options_of(LimitOption::kAlign), false,
     "At most `limit` units in each window of one period."},
    {Algorithm::kSlidingWindowLog, "sliding_window_log", 'l', StateKind::kLog, detail::options_of(),
     false,
     "At most `limit` units in any period, exactly; stores the time of each admitted request."},
    {Algorithm::kSlidingWindowCounter, "sliding_window_counter", 'c', StateKind::kSlices,
     detail::options_of(LimitOption::kSlices, LimitOption::kWeighting), false,
     "About `limit` units in any period, with one count for each slice of the period."},
    {Algorithm::kSlidingWindowHybrid, "sliding_window_hybrid", 'h', StateKind::kLogAndSummaries,
     detail::options_of(LimitOption::kSlices), false,
     "Like the log for the newest slice; assumes that requests in older slices are evenly spread."},
    {Algorithm::kLeakyBucket, "leaky_bucket", 'b', StateKind::kBucket,
     detail::options_of(LimitOption::kBurst, LimitOption::kMode), false,
     "A level of at most `burst` units that drains evenly; in queue mode it also reports a delay."},
    {Algorithm::kTokenBucket, "token_bucket", 't', StateKind::kBucket,
     detail::options_of(LimitOption::kBurst, LimitOption::kRefill), false,
     "Up to `burst` units at once; tokens refill evenly, or all at once every period."},
    {Algorithm::kGcra, "gcra", 'g', StateKind::kBucket, detail::options_of(LimitOption::kBurst),
     true, "One unit, and `burst` more at once; like CL.THROTTLE of redis-cell."},
    {Algorithm::kConcurrency, "concurrency", 'p', StateKind::kPermits, detail::options_of(), false,
     "At most `limit` units in flight; each request has a permit until it ends."},
    {Algorithm::kBudget, "budget", 'u', StateKind::kBudget,
     detail::options_of(LimitOption::kOnExpiry, LimitOption::kHolds, LimitOption::kRemember), false,
     "At most `limit` units spent in a window, in amounts up to 2^53 - 1; can be held and "
     "settled."},
}};

// Returns the row of an algorithm.
constexpr const AlgorithmInfo& info(Algorithm algorithm) noexcept {
  return kAlgorithms[static_cast<std::size_t>(algorithm)];
}

// Whether an option applies to an algorithm.
constexpr bool applies(LimitOption option, Algorithm algorithm) noexcept {
  return (info(algorithm).options >> static_cast<unsigned>(option) & 1) != 0;
}

// Whether a take needs a permit (Charge::permit), which holds its units until it ends.
constexpr bool holds_permits(Algorithm algorithm) noexcept {
  return info(algorithm).state == StateKind::kPermits;
}

// Whether the units of a charge can be held under an id and settled later (Verb::kHold), and are
// amounts up to kMaxAmount.
constexpr bool holds_amounts(Algorithm algorithm) noexcept {
  return info(algorithm).state == StateKind::kBudget;
}

// Returns the name of an algorithm, and the algorithm of that name.
std::string_view to_string(Algorithm algorithm) noexcept;
std::optional<Algorithm> algorithm_from(std::string_view name) noexcept;

}  // namespace sluice
