#include "core/limit_options.h"

#include <algorithm>

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

std::string list_of(std::span<const std::string_view> names, std::string_view conjunction) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0 && i + 1 == names.size() && !conjunction.empty()) {
      list.append(" ").append(conjunction).append(" ");
    } else if (i > 0) {
      list += ", ";
    }
    list += names[i];
  }
  return list;
}

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
  }
}

std::optional<LimitOption> option_of(LimitError error, const LimitSpec& spec) noexcept {
  switch (error) {
    case LimitError::kBurstDoesNotApply:
    case LimitError::kBurstOutOfRange: return LimitOption::kBurst;
    case LimitError::kAlignDoesNotApply:
    case LimitError::kAlignWithCalendar: return LimitOption::kAlign;
    case LimitError::kSlicesDoNotApply:
    case LimitError::kSlicesOutOfRange: return LimitOption::kSlices;
    case LimitError::kWeightingDoesNotApply: return LimitOption::kWeighting;
    case LimitError::kModeDoesNotApply: return LimitOption::kMode;
    case LimitError::kRefillDoesNotApply: return LimitOption::kRefill;
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
