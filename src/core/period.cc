#include "core/period.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/quoted.h"
#include "core/calendar.h"
#include "core/limit.h"

namespace sluice::core {
namespace {

// Names and ticks, the largest first.
constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> kUnits{
    {{"d", 86400000000}, {"h", 3600000000}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000}}};
constexpr std::string_view kForm = "expected a whole number and its unit (ms, s, m, h or d)";

Unexpected<std::string> no_period(std::string_view text, std::string_view what,
                                  std::string_view example) {
  return {base::in_quotes(text)
              .append(what)
              .append("; ")
              .append(kForm)
              .append(", such as ")
              .append(example)};
}

// The same period in whole units: "90s" for "1" and ".5m". Empty: there is none, or it is too long.
std::string without_fraction(std::string_view digits, std::string_view fraction) {
  constexpr std::size_t kMostDigits = 7;  // of days, so that the ticks fit
  std::size_t size = 1;
  while (size < fraction.size() && base::is_digit(fraction[size])) ++size;
  if (fraction.front() != '.' || digits.size() + size > kMostDigits) return {};
  std::int64_t count = 0, share = 1;
  for (const char c : digits) count = count * 10 + (c - '0');
  for (const char c : fraction.substr(1, size - 1)) {
    count = count * 10 + (c - '0');
    share *= 10;
  }
  for (const auto& [name, ticks] : kUnits) {
    const std::int64_t unit = kUnits.back().second * share;
    if (fraction.substr(size) == name && count > 0 && count * ticks % unit == 0) {
      return format_period(Duration{count * ticks / share});
    }
  }
  return {};
}

Unexpected<std::string> wrong_unit(std::string_view text, std::string_view digits,
                                   std::string_view unit) {
  // "15min" means minutes; 's' is for what means nothing.
  std::string_view nearest = "s";
  for (const auto& [name, _] : kUnits) {
    if (name.size() == 1 && unit.front() == name.front()) nearest = name;
  }
  if (unit.starts_with("ms") || unit.starts_with("mil")) nearest = "ms";
  std::string example = without_fraction(digits, unit);
  if (example.empty()) {
    const bool is_zero = digits.find_first_not_of('0') == std::string_view::npos;
    example = std::string(is_zero ? "1" : digits.substr(0, 12)).append(nearest);
  }
  const std::string what = unit.front() == '.' || unit.front() == ',' || unit.front() == '_'
                               ? " is not a whole number with a unit"
                               : " has an unknown unit " + base::in_quotes(unit);
  return no_period(text, what, example);
}

}  // namespace

Expected<Duration> parse_limit_period(std::string_view text) {
  if (text == kNever) return kNeverEnds;
  auto period = parse_period(text);
  if (period || (!text.empty() && base::is_digit(text.front()))) return period;
  return Unexpected{std::move(period.error()) + ", or " + base::joined(kCalendarUnits) + " or " +
                    std::string(kNever)};
}

Expected<Duration> parse_period(std::string_view text, std::string_view usual_unit) {
  std::size_t size = 0;
  while (size < text.size() && base::is_digit(text[size])) ++size;
  const std::string_view digits = text.substr(0, size);
  const std::string_view unit = text.substr(size);
  if (digits.empty()) return no_period(text, " is not a period", "60s");
  if (unit.empty()) {
    return no_period(text, " has no unit", std::string(digits.substr(0, 12)).append(usual_unit));
  }
  for (const auto& [name, ticks] : kUnits) {
    if (unit != name) continue;
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() / ticks;
    std::int64_t count = 0;
    for (const char c : digits) {
      const std::int64_t digit = c - '0';
      if (count > (most - digit) / 10) return no_period(text, " is too long", "366d");
      count = count * 10 + digit;
    }
    return Duration{count * ticks};
  }
  return wrong_unit(text, digits, unit);
}

std::string format_period(Duration period) {
  const std::int64_t ticks = period.count();
  if (ticks == 0) return "0ms";
  if (period == kNeverEnds) return std::string(kNever);
  for (const auto& [name, of_unit] : kUnits) {
    if (ticks % of_unit == 0) return std::to_string(ticks / of_unit).append(name);
  }
  return std::to_string(ticks) + "us";
}

std::string format_period(const Limit& limit) {
  if (limit.calendar() != nullptr) return to_string(limit.calendar()->spec());
  return format_period(limit.period());
}

std::string format_pace(const Limit& limit, std::string_view period) {
  if (limit.period() == kNeverEnds) return " in total";
  return std::string(" per ").append(period);
}

std::string format_limit(const Limit& limit) {
  const std::string period = format_period(limit);
  std::string text = std::to_string(limit.limit());
  text +=
      holds_permits(limit.algorithm()) ? " at once, lease " + period : format_pace(limit, period);
  const auto burst = spec_of(limit).burst;  // of gcra it is less than the capacity
  if (burst && limit.capacity() != limit.limit()) text += ", burst " + std::to_string(*burst);
  return text;
}

}  // namespace sluice::core
