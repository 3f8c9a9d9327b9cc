#include "sluice/limit.h"

#include <stdexcept>
#include <string>

#include "core/calendar_text.h"
#include "core/limit_options.h"
#include "core/period.h"

namespace sluice {
namespace {

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) {
    if (kAlgorithms[i].algorithm != static_cast<Algorithm>(i)) return false;
  }
  return true;
}
static_assert(is_in_order(), "kAlgorithms must be indexed by Algorithm");

std::string does_not_apply(std::string_view name, const LimitSpec& spec,
                           std::span<const std::string_view> algorithms) {
  return std::string(name) + " does not apply to " + std::string(to_string(spec.algorithm)) +
         "; it applies to " + core::list_of(algorithms, "and");
}

std::string does_not_apply(LimitOption option, const LimitSpec& spec) {
  return does_not_apply(core::info(option).name, spec, core::algorithms_with(option));
}

std::string calendar_does_not_apply(const LimitSpec& spec) {
  std::vector<std::string_view> names;
  for (const AlgorithmInfo& row : kAlgorithms) {
    if (row.state == StateKind::kWindow) names.push_back(row.name);
  }
  const std::string_view unit = core::name_of(spec.calendar->spec().unit);
  return does_not_apply("per " + std::string(unit), spec, names);
}

std::string out_of_range(std::string_view name, std::uint64_t value, std::uint64_t least,
                         std::uint64_t most) {
  return std::string(name) + " " + std::to_string(value) + " is out of range; it must be " +
         std::to_string(least) + " to " + std::to_string(most);
}

std::string explain_burst(const LimitSpec& spec) {
  const bool excludes_first = info(spec.algorithm).burst_excludes_first;
  return out_of_range("burst", spec.burst.value_or(0), excludes_first ? 0 : 1,
                      kMaxUnits - excludes_first);
}

}  // namespace

std::string_view to_string(Algorithm algorithm) noexcept { return info(algorithm).name; }

std::optional<Algorithm> algorithm_from(std::string_view name) noexcept {
  for (const AlgorithmInfo& row : kAlgorithms) {
    if (row.name == name) return row.algorithm;
  }
  return std::nullopt;
}

std::string explain(LimitError error, const LimitSpec& spec) {
  switch (error) {
    case LimitError::kNone: return "nothing is wrong";
    case LimitError::kLimitTooLarge:
      return out_of_range("limit", spec.limit, 0, detail::most_units(spec.algorithm));
    case LimitError::kPeriodOutOfRange:
      return (holds_permits(spec.algorithm) ? "lease " : "per ") + core::format_period(spec.per) +
             " is out of range; it must be 1ms to 366d";
    case LimitError::kCalendarDoesNotApply: return calendar_does_not_apply(spec);
    case LimitError::kBurstDoesNotApply: return does_not_apply(LimitOption::kBurst, spec);
    case LimitError::kBurstOutOfRange: return explain_burst(spec);
    case LimitError::kAlignDoesNotApply: return does_not_apply(LimitOption::kAlign, spec);
    case LimitError::kAlignWithCalendar:
      return "align does not apply to per " +
             std::string(core::name_of(spec.calendar->spec().unit)) +
             ", whose windows begin at midnight; leave it out";
    case LimitError::kSlicesDoNotApply: return does_not_apply(LimitOption::kSlices, spec);
    case LimitError::kSlicesOutOfRange:
      return out_of_range("slices", spec.slices.value_or(0), 1, kMaxSlices);
    case LimitError::kWeightingDoesNotApply: return does_not_apply(LimitOption::kWeighting, spec);
    case LimitError::kModeDoesNotApply: return does_not_apply(LimitOption::kMode, spec);
    case LimitError::kRefillDoesNotApply: return does_not_apply(LimitOption::kRefill, spec);
    case LimitError::kRefillsTooSlowly:
      return "a burst of " + std::to_string(detail::capacity_of(spec)) + " at " +
             std::to_string(spec.limit) + " per " + core::format_period(spec.per) +
             " would need over 142 years to refill; lower burst, raise limit or shorten per";
    case LimitError::kLeaseDoesNotApply:
      return "a quota lease does not apply to " + std::string(to_string(spec.algorithm)) +
             "; it applies to all other algorithms";
    case LimitError::kLeaseOutOfRange:
      return "lease " + core::format_period(spec.lease) + " is out of range; it must be 1ms to 10s";
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

const Calendar* detail::calendar_of(const CalendarSpec& spec) {
  const auto calendar = Calendar::make(spec);
  if (!calendar) throw std::invalid_argument(calendar.error());
  return *calendar;
}

}  // namespace sluice
