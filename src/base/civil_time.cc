#include "base/civil_time.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "base/quoted.h"

namespace sluice::base {

void append_civil(std::string& out, Instant at, int fraction) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(at - day);
  std::array<char, 64> text;
  const int size = std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%06d", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
      static_cast<int>(time.seconds().count()), static_cast<int>(time.subseconds().count()));
  const int cut = fraction > 0 ? 6 - fraction : 7;  // also the point
  out.append(text.data(), static_cast<std::size_t>(size - cut));
}

std::string to_rfc3339(Instant at, int fraction) {
  std::string out;
  append_civil(out, at, fraction);
  return out + "Z";
}

namespace {

constexpr std::int64_t kDigitsOfFraction = 6;  // an Instant has microseconds

// Reads a text from its front to its end.
class Scanner {
 public:
  explicit Scanner(std::string_view text) noexcept : text_(text) {}

  bool done() const noexcept { return text_.empty(); }
  char front() const noexcept { return text_.empty() ? '\0' : text_[0]; }

  bool eat(std::string_view any_of) noexcept {
    if (text_.empty() || any_of.find(text_[0]) == any_of.npos) return false;
    text_.remove_prefix(1);
    return true;
  }

  // Returns the number of exactly `digits` digits, or -1.
  int number(std::size_t digits) noexcept {
    if (text_.size() < digits || !std::all_of(text_.begin(), text_.begin() + digits, is_digit)) {
      return -1;
    }
    int value = 0;
    for (const char c : text_.substr(0, digits)) value = value * 10 + (c - '0');
    text_.remove_prefix(digits);
    return value;
  }

  // Returns the digits at the front.
  std::string_view digits() noexcept {
    const auto* const end = std::find_if_not(text_.begin(), text_.end(), is_digit);
    const std::string_view found = text_.substr(0, static_cast<std::size_t>(end - text_.begin()));
    text_.remove_prefix(found.size());
    return found;
  }

 private:
  std::string_view text_;
};

// Returns the first `places` digits of a fraction as a number: of "5" and 3 places, 500.
std::int64_t fraction_of(std::string_view digits, std::int64_t places) noexcept {
  std::int64_t value = 0;
  for (std::int64_t i = 0; i < places; ++i) {
    const auto at = static_cast<std::size_t>(i);
    value = value * 10 + (at < digits.size() ? digits[at] - '0' : 0);
  }
  return value;
}

TimestampFault in_range(std::int64_t microseconds, Instant& at) noexcept {
  const Instant instant{Duration{microseconds}};
  if (instant < kFirstInstant || instant > kLastInstant) return TimestampFault::kOutOfRange;
  at = instant;
  return TimestampFault::kNone;
}

// Returns the seconds that local time is ahead of UTC. Without a zone 0.
std::optional<int> read_zone(Scanner& scanner) noexcept {
  if (scanner.done()) return 0;
  if (scanner.eat("Zz")) return 0;
  scanner.eat(" ");
  const bool west = scanner.front() == '-';
  if (!scanner.eat("+-")) return {};
  const int hours = scanner.number(2);
  const bool has_colon = scanner.eat(":");
  const int minutes = scanner.done() && !has_colon ? 0 : scanner.number(2);
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return {};
  const int seconds = hours * 3600 + minutes * 60;
  return west ? -seconds : seconds;
}

}  // namespace

TimestampFault read_unix_time(std::string_view text, Instant& at) noexcept {
  constexpr std::size_t kMostDigits = 18;
  constexpr std::array<std::int64_t, 7> kPowers = {1, 10, 100, 1000, 10'000, 100'000, 1'000'000};
  Scanner scanner(text);
  std::string_view whole = scanner.digits();
  std::string_view fraction;
  if (scanner.eat(".")) fraction = scanner.digits();
  if (whole.empty() || !scanner.done()) return TimestampFault::kMalformed;
  std::int64_t places = whole.size() < 12 ? kDigitsOfFraction : whole.size() < 15 ? 3 : 0;
  if (whole.size() > kMostDigits + 1) return TimestampFault::kOutOfRange;
  if (whole.size() >= kMostDigits) {  // nanoseconds
    whole.remove_suffix(3);
    places = 0;
  }
  const auto digits = static_cast<std::int64_t>(whole.size());
  const std::int64_t units = fraction_of(whole, digits);
  return in_range(units * kPowers[static_cast<std::size_t>(places)] + fraction_of(fraction, places),
                  at);
}

TimestampFault read_iso8601(std::string_view text, Instant& at) noexcept {
  Scanner scanner(text);
  const int year = scanner.number(4);
  const bool dashed = scanner.eat("-");
  const int month = scanner.number(2);
  const bool dashed_twice = scanner.eat("-");
  const int day = scanner.number(2);
  const bool has_time = scanner.eat("Tt ");
  const int hour = scanner.number(2);
  const bool colon = scanner.eat(":");
  const int minute = scanner.number(2);
  const bool second_colon = scanner.eat(":");
  const int second = scanner.number(2);
  if (!dashed || !dashed_twice || !has_time || !colon || !second_colon ||
      std::min({year, month, day, hour, minute, second}) < 0) {
    return TimestampFault::kMalformed;
  }
  std::string_view fraction;
  if (scanner.eat(".,")) fraction = scanner.digits();
  const std::optional<int> zone = read_zone(scanner);
  if (!zone || !scanner.done()) return TimestampFault::kMalformed;
  const std::chrono::year_month_day date{std::chrono::year{year},
                                         std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return TimestampFault::kNoSuchDate;
  const std::chrono::seconds midnight = std::chrono::sys_days{date}.time_since_epoch();
  const std::int64_t seconds =
      (midnight + std::chrono::hours{hour} + std::chrono::minutes{minute}).count() + second - *zone;
  return in_range(seconds * 1'000'000 + fraction_of(fraction, kDigitsOfFraction), at);
}

std::optional<Instant> parse_rfc3339(std::string_view text) noexcept {
  const std::size_t size = text.size();
  const bool has_offset =
      size > 6 && (text[size - 6] == '+' || text[size - 6] == '-') && text[size - 3] == ':';
  if (!has_offset && !text.ends_with('Z') && !text.ends_with('z')) return std::nullopt;
  const std::size_t point = text.find_first_of(".,");
  if (point != text.npos && (text[point] == ',' || !is_digit(text[point + 1]))) return {};
  if (text.find(' ', sizeof "2026-11-23 " - 1) != text.npos) return std::nullopt;
  Instant at{};
  return read_iso8601(text, at) == TimestampFault::kNone ? std::optional(at) : std::nullopt;
}

}  // namespace sluice::base
