#include "limiter/throttle_arguments.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "core/quoted.h"
#include "limiter/limit_arguments.h"
#include "limiter/whole_number.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostCount = static_cast<std::int64_t>(kMaxUnits);
constexpr std::int64_t kMostPeriodSeconds =
    std::chrono::duration_cast<std::chrono::seconds>(kMaxPeriod).count();
constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int64_t>::max();

constexpr NumberArgument kBurst{"max_burst", 0, kMostCount - 1};
constexpr NumberArgument kCrabBurst{"max_burst", 1, kMostCount};
constexpr NumberArgument kPeriod{"period_seconds", 1, kMostPeriodSeconds};
constexpr NumberArgument kQuantity{"quantity", -kAnyNumber, kAnyNumber};
constexpr NumberArgument kCrabQuantity{"quantity", 0, kAnyNumber};
constexpr NumberArgument kTokens{"count", 0, kMostCount};

constexpr NumberArgument count_of(ThrottleForm form) noexcept {
  return {form == ThrottleForm::kGcra ? "tokens_per_period" : "count", 1, kMostCount};
}

bool is_digits(std::string_view text) noexcept {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Seconds with at most six digits after the point.
Expected<Duration> parse_seconds(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  std::string fraction(text.substr(std::min(point + 1, text.size())));
  const bool has_fraction = point < text.size();
  const auto seconds = whole_number(whole);
  constexpr std::size_t kDigits = 6;
  const bool is_number = seconds && *seconds >= 0 && is_digits(fraction) &&
                         fraction.size() <= kDigits && has_fraction == !fraction.empty();
  if (is_number && *seconds <= kMostPeriodSeconds) {
    fraction.resize(kDigits, '0');
    const std::size_t first = std::min(fraction.find_first_not_of('0'), kDigits - 1);
    const auto micros = whole_number(std::string_view(fraction).substr(first));
    const Duration period = std::chrono::seconds(*seconds) + Duration{micros.value_or(0)};
    if (period >= kMinPeriod && period <= kMaxPeriod) return period;
  }
  return Unexpected{std::string("period ") +
                    (is_number ? "is out of range: "
                               : "is not a number of "
                                 "seconds with at most 6 digits after the "
                                 "point: ") +
                    core::in_quotes(text) + "; expected 0.001 to " +
                    std::to_string(kMostPeriodSeconds)};
}

Expected<Duration> parse_period_of(ThrottleForm form, std::string_view text) {
  if (form == ThrottleForm::kGcra) return parse_seconds(text);
  const auto seconds = parse_number(text, kPeriod);
  if (!seconds) return Unexpected{seconds.error()};
  return Duration{std::chrono::seconds(*seconds)};
}

Expected<std::int64_t> parse_quantity(ThrottleForm form, std::span<const std::string_view> words) {
  if (words.empty()) return 1;
  if (form != ThrottleForm::kGcra) {
    if (words.size() > 1) return Unexpected{std::string("there are too many arguments")};
    return parse_number(words[0], form == ThrottleForm::kCrab ? kCrabQuantity : kQuantity);
  }
  if (words.size() == 2 && (same_word(words[0], "TOKENS") || same_word(words[0], "NUM_REQUESTS"))) {
    return parse_number(words[1], kTokens);
  }
  return Unexpected{"there is no option " + core::in_quotes(words[0]) + "; expected TOKENS count"};
}

std::int64_t whole_seconds(Duration duration) noexcept {
  return std::chrono::ceil<std::chrono::seconds>(duration).count();
}

// Returns the seconds until reset and until retry as throttlecrab computes them: the time for one
// unit is cut to nanoseconds, the counter starts one unit behind the clock, and times are cut to
// seconds.
std::array<std::int64_t, 2> crab_seconds(const ThrottleArguments& asked, const Limit& limit,
                                         const Decision& decision) noexcept {
  using std::chrono::nanoseconds;
  const nanoseconds unit = nanoseconds(asked.period) / static_cast<std::int64_t>(asked.count);
  const std::int64_t capacity = limit.capacity();
  // `reset_after` is rounded up to a microsecond, so at most the time of the units that are used.
  const nanoseconds used =
      std::min(nanoseconds(decision.reset_after), (capacity - decision.remaining) * unit);
  const auto seconds = [](nanoseconds time) {
    return std::max<std::int64_t>(std::chrono::floor<std::chrono::seconds>(time).count(), 0);
  };
  const std::int64_t excess =
      std::min(static_cast<std::int64_t>(asked.cost()) - capacity,
               (nanoseconds::max() - used) / std::max(unit, nanoseconds{1}));  // longest: 292 years
  return {seconds(used + (capacity - 2) * unit),
          decision.allowed() ? 0 : seconds(used + excess * unit)};
}

}  // namespace

Expected<std::int64_t> parse_number(std::string_view text, const NumberArgument& argument) {
  const auto number = whole_number(text);
  if (number && *number >= argument.least && *number <= argument.most) return *number;
  // A number that needs more than 64 bits is still a number.
  const std::string_view unsigned_text = text.substr(text.starts_with('-') ? 1 : 0);
  const bool has_digits =
      !unsigned_text.empty() && unsigned_text.front() != '0' && is_digits(unsigned_text);
  std::string error(argument.name);
  error.append(number || has_digits ? " is out of range: " : " is not an integer: ");
  error.append(core::in_quotes(text)).append("; expected a whole number from ");
  error.append(std::to_string(argument.least)).append(" to ");
  error.append(std::to_string(argument.most));
  return Unexpected{error};
}

Expected<Limit> ThrottleArguments::limit() const {
  return Limit::make(
      {.algorithm = Algorithm::kGcra, .limit = count, .per = period, .burst = burst});
}

Verb ThrottleArguments::verb() const noexcept {
  if (quantity < 0) return Verb::kRefund;
  return quantity == 0 ? Verb::kPeek : Verb::kTake;
}

std::uint64_t ThrottleArguments::cost() const noexcept {
  const auto units = static_cast<std::uint64_t>(quantity);
  return quantity < 0 ? std::min(0 - units, kMaxUnits) : std::min(units, kMaxUnits + 1);
}

Expected<ThrottleArguments> parse_throttle(ThrottleForm form,
                                           std::span<const std::string_view> words) {
  const bool is_crab = form == ThrottleForm::kCrab;
  const auto burst = parse_number(words[0], is_crab ? kCrabBurst : kBurst);
  if (!burst) return Unexpected{burst.error()};
  const auto count = parse_number(words[1], count_of(form));
  if (!count) return Unexpected{count.error()};
  const auto period = parse_period_of(form, words[2]);
  if (!period) return Unexpected{period.error()};
  const auto quantity = parse_quantity(form, words.subspan(3));
  if (!quantity) return Unexpected{quantity.error()};
  return ThrottleArguments{.burst = static_cast<std::uint64_t>(*burst - (is_crab ? 1 : 0)),
                           .count = static_cast<std::uint64_t>(*count),
                           .period = *period,
                           .quantity = *quantity};
}

std::array<std::int64_t, 5> throttle_reply(ThrottleForm form, const ThrottleArguments& asked,
                                           const Limit& limit, const Decision& decision) noexcept {
  const bool is_allowed = decision.allowed();
  const std::int64_t capacity = limit.capacity();
  if (form == ThrottleForm::kCrab) {
    const auto [reset, retry] = crab_seconds(asked, limit, decision);
    return {is_allowed ? 1 : 0, capacity, decision.remaining, reset, retry};
  }
  const bool waits = !is_allowed && decision.retry_after;
  const std::int64_t retry = waits ? whole_seconds(*decision.retry_after) : -1;
  return {is_allowed ? 0 : 1, capacity, decision.remaining, retry,
          whole_seconds(decision.reset_after)};
}

}  // namespace sluice
