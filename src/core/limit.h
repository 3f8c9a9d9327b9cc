#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/limit.h"

namespace sluice::core {

// One row of kLimitOptions: an option of limits as people write it. Its value is a number, one of
// several words, or a time, which is a number of milliseconds.
struct OptionInfo {
  LimitOption option;
  std::string_view name;
  std::string_view unit = {};                    // what a number counts; empty for words
  std::span<const std::string_view> words = {};  // in the order of their enumerators
  bool is_time = false;                          // written as a period
  std::uint64_t least = 0;                       // of a number
  std::uint64_t most = 0;
  std::string_view otherwise;  // the default, as Markdown
  std::string_view help;
};

inline constexpr std::array<std::string_view, 2> kAlignWords{"first_request", "clock"};
inline constexpr std::array<std::string_view, 2> kWeightingWords{"linear", "none"};
inline constexpr std::array<std::string_view, 2> kModeWords{"meter", "queue"};
inline constexpr std::array<std::string_view, 2> kRefillWords{"continuous", "interval"};
inline constexpr std::array<std::string_view, 2> kOnExpiryWords{"charge", "release"};
constexpr std::string_view to_string(OnExpiry what) noexcept {
  return kOnExpiryWords[static_cast<std::size_t>(what)];
}

// The options of limits, indexed by LimitOption.
inline constexpr std::array<OptionInfo, 9> kLimitOptions{{
    {.option = LimitOption::kBurst,
     .name = "burst",
     .unit = "units",
     .most = kMaxUnits,
     .otherwise = "`limit`; gcra: `limit` - 1",
     .help =
         "Units that may pass at once, at least 1. For gcra: units beyond the first, at least 0."},
    {.option = LimitOption::kAlign,
     .name = "align",
     .words = kAlignWords,
     .otherwise = "`first_request`",
     .help = "When a window begins: at its first request, or at multiples of the period (UTC)."},
    {.option = LimitOption::kSlices,
     .name = "slices",
     .unit = "count",
     .least = 1,
     .most = kMaxSlices,
     .otherwise = "10",
     .help =
         "The number of parts of the window. More parts are more accurate and take more memory."},
    {.option = LimitOption::kWeighting,
     .name = "weighting",
     .words = kWeightingWords,
     .otherwise = "`linear`",
     .help = "How the oldest slice counts: by its share that is inside the window, or as a whole."},
    {.option = LimitOption::kMode,
     .name = "mode",
     .words = kModeWords,
     .otherwise = "`meter`",
     .help = "`meter` only denies. `queue` also reports how long an admitted request must wait."},
    {.option = LimitOption::kRefill,
     .name = "refill",
     .words = kRefillWords,
     .otherwise = "`continuous`",
     .help = "Tokens return one by one, or all at once every period."},
    {.option = LimitOption::kOnExpiry,
     .name = "on_expiry",
     .words = kOnExpiryWords,
     .otherwise = "`charge`",
     .help = "What becomes of a hold that nobody settles: it is spent, or it comes back."},
    {.option = LimitOption::kHolds,
     .name = "holds",
     .unit = "count",
     .least = 1,
     .most = kMaxHolds,
     .otherwise = "1000",
     .help = "The most open holds of a key; one more is denied with `too_many_holds`."},
    {.option = LimitOption::kRemember,
     .name = "remember",
     .is_time = true,
     .least = static_cast<std::uint64_t>(kMinRemember.count()),
     .most = static_cast<std::uint64_t>(kMaxRemember.count()),
     .otherwise = "`1h`",
     .help = "How long an id is known after its end, so that a repeated call counts once."},
}};

constexpr const OptionInfo& info(LimitOption option) noexcept {
  return kLimitOptions[static_cast<std::size_t>(option)];
}

// The names of all algorithms, indexed by Algorithm.
inline constexpr auto kAllAlgorithmNames = [] {
  std::array<std::string_view, kAlgorithms.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kAlgorithms[i].name;
  return names;
}();

// The names of the algorithms that need neither permits nor amounts, indexed by Algorithm.
inline constexpr auto kAlgorithmNames = [] {
  static_assert(holds_permits(kAlgorithms[7].algorithm) && holds_amounts(kAlgorithms[8].algorithm));
  std::array<std::string_view, 7> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kAlgorithms[i].name;
  return names;
}();

// Returns the names of the algorithms that an option applies to.
std::vector<std::string_view> algorithms_with(LimitOption option);

// Reads, sets and clears one option of a spec. The value of a word is its index.
std::optional<std::uint64_t> value_of(const LimitSpec& spec, LimitOption option) noexcept;
void set_value(LimitSpec& spec, LimitOption option, std::optional<std::uint64_t> value) noexcept;

// Returns the option that an error is about; absent if it is about `limit`, `per`,
// `calendar` or `lease`.
std::optional<LimitOption> option_of(LimitError error, const LimitSpec& spec) noexcept;

constexpr bool is_about_lease(LimitError error) noexcept {
  return error == LimitError::kLeaseDoesNotApply || error == LimitError::kLeaseOutOfRange;
}

// Replaces the field that an error is about by one that is right, so that the next error is found.
void drop_wrong_field(LimitSpec& spec, LimitError error) noexcept;

// Returns the spec from which Limit::make() makes this limit, with every option that applies.
LimitSpec spec_of(const Limit& limit) noexcept;

// limit/period in lowest terms: `units` units each `ticks` ticks. {0, 1} for a ban.
struct Rate {
  std::uint32_t units;
  std::uint64_t ticks;
};

// The numbers of a limit that its algorithm needs and its user does not.
struct LimitAccess {
  static constexpr Rate rate(const Limit& limit) noexcept {
    return {limit.rate_units_, limit.rate_ticks_};
  }
  // A checksum of 28 bits over limit, period, capacity, refill, align
  // and calendar: by it a counter notices
  // that its numbers have changed (docs/reference/algorithms.md).
  static constexpr std::uint32_t tag(const Limit& limit) noexcept { return limit.tag_; }

  // The numbers that the step of an algorithm needs, as another process has sent them.
  struct Numbers {
    Algorithm algorithm;
    std::uint64_t limit;
    std::uint64_t capacity;
    std::uint64_t period = 1;
    Rate rate = {0, 1};
    std::uint64_t tag = 0;
    std::uint64_t slices = 1;
    Align align = Align::kFirstRequest;
    Weighting weighting = Weighting::kLinear;
    Refill refill = Refill::kContinuous;
    // Of a budget, whose holds are `slices`.
    OnExpiry on_expiry = OnExpiry::kCharge;
    std::uint64_t remember_ms = 0;
  };
  // Returns a limit with these numbers, which the caller has checked: each is in the range of a
  // limit. The others are arbitrary.
  static constexpr Limit restored(const Numbers& numbers) noexcept {
    constexpr Limit kAny{LimitSpec{.limit = 1, .per = kMinPeriod}};
    Limit limit = kAny;
    limit.algorithm_ = numbers.algorithm;
    limit.state_kind_ = info(numbers.algorithm).state;
    limit.limit_ = static_cast<std::uint32_t>(numbers.limit);
    limit.capacity_ = numbers.capacity;
    limit.period_ = numbers.period;
    limit.rate_units_ = numbers.rate.units;
    limit.rate_ticks_ = numbers.rate.ticks;
    limit.tag_ = static_cast<std::uint32_t>(numbers.tag);
    limit.slices_ = static_cast<std::uint16_t>(numbers.slices);
    limit.align_ = numbers.align;
    limit.weighting_ = numbers.weighting;
    limit.refill_ = numbers.refill;
    limit.on_expiry_ = numbers.on_expiry;
    limit.remember_ = static_cast<std::uint32_t>(numbers.remember_ms);
    return limit;
  }
};

}  // namespace sluice::core
