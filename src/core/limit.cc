#include "sluice/limit.h"

#include <array>
#include <stdexcept>
#include <string>

#include "core/period.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 7> kAlgorithmNames = {"fixed_window",
                                                             "sliding_window_log",
                                                             "sliding_window_counter",
                                                             "sliding_window_hybrid",
                                                             "leaky_bucket",
                                                             "token_bucket",
                                                             "gcra"};

std::string does_not_apply(std::string_view option, const LimitSpec& spec,
                           std::string_view applies_to) {
  return std::string(option) + " does not apply to " + std::string(to_string(spec.algorithm)) +
         "; it applies to " + std::string(applies_to);
}

std::string out_of_range(std::string_view name, std::uint64_t value, std::uint64_t least,
                         std::uint64_t most) {
  return std::string(name) + " " + std::to_string(value) + " is out of range; it must be " +
         std::to_string(least) + " to " + std::to_string(most);
}

std::string explain_burst(const LimitSpec& spec) {
  const bool beyond_first = spec.algorithm == Algorithm::kGcra;
  return out_of_range("burst", spec.burst.value_or(0), beyond_first ? 0 : 1,
                      kMaxUnits - beyond_first);
}

}  // namespace

std::string_view to_string(Algorithm algorithm) noexcept {
  return kAlgorithmNames[static_cast<std::size_t>(algorithm)];
}

std::optional<Algorithm> algorithm_from(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kAlgorithmNames.size(); ++i) {
    if (kAlgorithmNames[i] == name) return static_cast<Algorithm>(i);
  }
  return std::nullopt;
}

std::string explain(LimitError error, const LimitSpec& spec) {
  switch (error) {
    case LimitError::kNone: return "nothing is wrong";
    case LimitError::kLimitTooLarge: return out_of_range("limit", spec.limit, 0, kMaxUnits);
    case LimitError::kPeriodOutOfRange:
      return "per " + core::format_period(spec.per) + " is out of range; it must be 1ms to 366d";
    case LimitError::kBurstDoesNotApply:
      return does_not_apply("burst", spec, "token_bucket, leaky_bucket and gcra");
    case LimitError::kBurstOutOfRange: return explain_burst(spec);
    case LimitError::kAlignDoesNotApply: return does_not_apply("align", spec, "fixed_window");
    case LimitError::kSlicesDoNotApply:
      return does_not_apply("slices", spec, "sliding_window_counter and sliding_window_hybrid");
    case LimitError::kSlicesOutOfRange:
      return out_of_range("slices", spec.slices.value_or(0), 1, kMaxSlices);
    case LimitError::kWeightingDoesNotApply:
      return does_not_apply("weighting", spec, "sliding_window_counter");
    case LimitError::kModeDoesNotApply: return does_not_apply("mode", spec, "leaky_bucket");
    case LimitError::kRefillDoesNotApply: return does_not_apply("refill", spec, "token_bucket");
    case LimitError::kRefillsTooSlowly:
      return "a burst of " + std::to_string(detail::capacity_of(spec)) + " at " +
             std::to_string(spec.limit) + " per " + core::format_period(spec.per) +
             " would need over 142 years to refill; lower burst, raise limit or shorten per";
  }
  return "unknown error";
}

Expected<Limit> Limit::make(const LimitSpec& spec) {
  const LimitError error = find_error(spec);
  if (error != LimitError::kNone) return Unexpected{explain(error, spec)};
  return Limit(spec);
}

void detail::throw_limit_error(LimitError error, const LimitSpec& spec) {
  throw std::invalid_argument(explain(error, spec));
}

}  // namespace sluice
