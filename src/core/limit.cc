// A limit is a value of 56 bytes that contains its ratio in lowest terms, so that no decision needs
// a division to find it.
#include "core/limit.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/quoted.h"
#include "core/calendar.h"
#include "core/period.h"
#include "sluice/limit.h"

namespace sluice::core {
namespace {

constexpr bool is_indexed() {
  for (std::size_t i = 0; i < kLimitOptions.size(); ++i) {
    if (kLimitOptions[i].option != static_cast<LimitOption>(i)) return false;
  }
  return true;
}
static_assert(is_indexed(), "kLimitOptions must be indexed by LimitOption");

template <typename Enum>
std::optional<std::uint64_t> index_of(std::optional<Enum> value) noexcept {
  return value ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

template <typename Enum>
void set_enum(std::optional<Enum>& field, std::optional<std::uint64_t> value) noexcept {
  field = value ? std::optional(static_cast<Enum>(*value)) : std::nullopt;
}

}  // namespace

std::vector<std::string_view> algorithms_with(LimitOption option) {
  std::vector<std::string_view> names;
  for (const AlgorithmInfo& row : kAlgorithms) {
    if (applies(option, row.algorithm)) names.push_back(row.name);
  }
  return names;
}

std::optional<std::uint64_t> value_of(const LimitSpec& spec, LimitOption option) noexcept {
  switch (option) {
    case LimitOption::kBurst: return spec.burst;
    case LimitOption::kAlign: return index_of(spec.align);
    case LimitOption::kSlices: return spec.slices;
    case LimitOption::kWeighting: return index_of(spec.weighting);
    case LimitOption::kMode: return index_of(spec.mode);
    case LimitOption::kRefill: return index_of(spec.refill);
    case LimitOption::kOnExpiry: return index_of(spec.on_expiry);
    case LimitOption::kHolds: return spec.holds;
    case LimitOption::kRemember:
      if (!spec.remember) break;
      return static_cast<std::uint64_t>(spec.remember->count());
  }
  return std::nullopt;
}

void set_value(LimitSpec& spec, LimitOption option, std::optional<std::uint64_t> value) noexcept {
  switch (option) {
    case LimitOption::kBurst: spec.burst = value; return;
    case LimitOption::kAlign: return set_enum(spec.align, value);
    case LimitOption::kSlices: spec.slices = value; return;
    case LimitOption::kWeighting: return set_enum(spec.weighting, value);
    case LimitOption::kMode: return set_enum(spec.mode, value);
    case LimitOption::kRefill: return set_enum(spec.refill, value);
    case LimitOption::kOnExpiry: return set_enum(spec.on_expiry, value);
    case LimitOption::kHolds: spec.holds = value; return;
    case LimitOption::kRemember:
      spec.remember.reset();
      if (value) spec.remember = std::chrono::milliseconds{static_cast<std::int64_t>(*value)};
      return;
  }
}

std::optional<LimitOption> option_of(LimitError error, const LimitSpec& spec) noexcept {
  switch (error) {
    case LimitError::kOptionDoesNotApply: return detail::option_without_use(spec);
    case LimitError::kBurstOutOfRange: return LimitOption::kBurst;
    case LimitError::kAlignWithCalendar: return LimitOption::kAlign;
    case LimitError::kSlicesOutOfRange: return LimitOption::kSlices;
    case LimitError::kHoldsOutOfRange: return LimitOption::kHolds;
    case LimitError::kRememberOutOfRange: return LimitOption::kRemember;
    case LimitError::kRefillsTooSlowly:
      return spec.burst ? std::optional(LimitOption::kBurst) : std::nullopt;
    case LimitError::kNone:
    case LimitError::kLimitTooLarge:
    case LimitError::kPeriodOutOfRange:
    case LimitError::kCalendarDoesNotApply:
    case LimitError::kLeaseDoesNotApply:
    case LimitError::kLeaseOutOfRange: break;
  }
  return std::nullopt;
}

void drop_wrong_field(LimitSpec& spec, LimitError error) noexcept {
  if (const auto option = option_of(error, spec)) {
    set_value(spec, *option, std::nullopt);
  } else if (error == LimitError::kPeriodOutOfRange) {
    spec.per = kMinPeriod;
  } else if (error == LimitError::kCalendarDoesNotApply) {
    spec.per = spec.calendar->period();
    spec.calendar = nullptr;
  } else if (is_about_lease(error)) {
    spec.lease = {};
  } else {
    spec.limit = detail::most_units(spec.algorithm);
  }
}

LimitSpec spec_of(const Limit& limit) noexcept {
  const AlgorithmInfo& row = info(limit.algorithm());
  LimitSpec all{.algorithm = limit.algorithm(),
                .limit = limit.limit(),
                .per = limit.period(),
                .calendar = limit.calendar(),
                .align = limit.align(),
                .slices = limit.slices(),
                .weighting = limit.weighting(),
                .mode = limit.mode(),
                .refill = limit.refill(),
                .on_expiry = limit.on_expiry(),
                .holds = limit.holds(),
                .remember = std::chrono::duration_cast<std::chrono::milliseconds>(limit.remember()),
                .lease = limit.lease()};
  // A limit of 0 has no capacity, whatever its burst was.
  if (limit.limit() > 0) all.burst = limit.capacity() - row.burst_excludes_first;
  for (const OptionInfo& option : kLimitOptions) {
    if (!applies(option.option, limit.algorithm())) set_value(all, option.option, std::nullopt);
  }
  if (limit.calendar() != nullptr) all.align.reset();
  return all;
}

}  // namespace sluice::core

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
         "; it applies to " + base::joined(algorithms, " and ");
}

std::string option_does_not_apply(const LimitSpec& spec) {
  const auto option = detail::option_without_use(spec);
  if (!option) return "every option applies";
  return does_not_apply(core::info(*option).name, spec, core::algorithms_with(*option));
}

std::string calendar_does_not_apply(const LimitSpec& spec) {
  std::vector<std::string_view> names;
  for (const AlgorithmInfo& row : kAlgorithms) {
    if (detail::may_follow_calendar(row.algorithm)) names.push_back(row.name);
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
             " is out of range; it must be 1ms to 366d" +
             (holds_amounts(spec.algorithm) ? ", day, week, month, year or never" : "");
    case LimitError::kCalendarDoesNotApply: return calendar_does_not_apply(spec);
    case LimitError::kOptionDoesNotApply: return option_does_not_apply(spec);
    case LimitError::kBurstOutOfRange: return explain_burst(spec);
    case LimitError::kAlignWithCalendar:
      return "align does not apply to per " +
             std::string(core::name_of(spec.calendar->spec().unit)) +
             ", whose windows begin at midnight; leave it out";
    case LimitError::kSlicesOutOfRange:
      return out_of_range("slices", spec.slices.value_or(0), 1, kMaxSlices);
    case LimitError::kHoldsOutOfRange:
      return out_of_range("holds", spec.holds.value_or(0), 1, kMaxHolds);
    case LimitError::kRememberOutOfRange:
      return "remember " + core::format_period(spec.remember.value_or(kDefaultRemember)) +
             " is out of range; it must be 1s to 24h";
    case LimitError::kRefillsTooSlowly:
      return "a burst of " + std::to_string(detail::capacity_of(spec)) + " at " +
             std::to_string(spec.limit) + " per " + core::format_period(spec.per) +
             " would need over 142 years to refill; lower burst, raise limit or shorten per";
    case LimitError::kLeaseDoesNotApply:
      return "a quota lease does not apply to " + std::string(to_string(spec.algorithm)) +
             "; it applies to all algorithms but concurrency and budget";
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
