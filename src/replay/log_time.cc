#include "replay/log_time.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace sluice::replay {
namespace {

// Returns the number of two digits, or a negative number.
int two_digits(const char* text) noexcept {
  const unsigned tens = static_cast<unsigned char>(text[0]) - unsigned{'0'};
  const unsigned ones = static_cast<unsigned char>(text[1]) - unsigned{'0'};
  return tens > 9 || ones > 9 ? -1 : static_cast<int>(tens * 10 + ones);
}

// Returns 1 to 12, or 0.
unsigned month_of(const char* text) noexcept {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  for (std::size_t i = 0; i < 12; ++i) {
    if (std::memcmp(kMonths.data() + i * 3, text, 3) == 0) return static_cast<unsigned>(i + 1);
  }
  return 0;
}

bool punctuated(const char* text) noexcept {
  return text[2] == '/' && text[6] == '/' && text[11] == ':' && text[14] == ':' &&
         text[17] == ':' && text[20] == ' ' && (text[21] == '+' || text[21] == '-');
}

}  // namespace

TimestampFault TimestampReader::read(const char* text, Instant& at) noexcept {
  if (std::memcmp(text, last_, kLength) == 0) {
    at = last_at_;
    return TimestampFault::kNone;
  }
  if (!punctuated(text)) return TimestampFault::kMalformed;
  const bool same_day = std::memcmp(text, day_.data(), day_.size()) == 0 &&
                        std::memcmp(text + 20, zone_.data(), zone_.size()) == 0;
  if (!same_day) {
    if (const auto fault = read_day(text); fault != TimestampFault::kNone) return fault;
  }
  return read_time(text, at);
}

TimestampFault TimestampReader::read_time(const char* text, Instant& at) noexcept {
  const int hour = two_digits(text + 12);
  const int minute = two_digits(text + 15);
  const int second = two_digits(text + 18);
  if (std::min({hour, minute, second}) < 0) return TimestampFault::kMalformed;
  if (hour > 23 || minute > 59 || second > 60) return TimestampFault::kNoSuchDate;
  const std::chrono::seconds since = std::chrono::seconds{day_start_seconds_} +
                                     std::chrono::hours{hour} + std::chrono::minutes{minute} +
                                     std::chrono::seconds{second};
  const Instant instant{since};
  if (instant < kFirstInstant || instant > kLastInstant) return TimestampFault::kOutOfRange;
  std::memcpy(last_, text, kLength);
  last_at_ = instant;
  at = instant;
  return TimestampFault::kNone;
}

TimestampFault TimestampReader::read_day(const char* text) noexcept {
  const int day = two_digits(text);
  const int century = two_digits(text + 7);
  const int year = two_digits(text + 9);
  const int zone_hours = two_digits(text + 22);
  const int zone_minutes = two_digits(text + 24);
  if (std::min({day, century, year, zone_hours, zone_minutes}) < 0) {
    return TimestampFault::kMalformed;
  }
  const std::chrono::year_month_day date{std::chrono::year{century * 100 + year},
                                         std::chrono::month{month_of(text + 3)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok() || zone_hours > 23 || zone_minutes > 59) return TimestampFault::kNoSuchDate;
  const std::chrono::seconds midnight = std::chrono::sys_days{date}.time_since_epoch();
  const int offset = (zone_hours * 60 + zone_minutes) * 60;
  day_start_seconds_ = midnight.count() + (text[21] == '-' ? offset : -offset);
  std::copy_n(text, day_.size(), day_.begin());
  std::copy_n(text + 20, zone_.size(), zone_.begin());
  return TimestampFault::kNone;
}

namespace {

constexpr std::int64_t kDigitsOfFraction = 6;  // an Instant has microseconds

bool is_decimal(char c) noexcept { return c >= '0' && c <= '9'; }

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
    if (text_.size() < digits || !std::all_of(text_.begin(), text_.begin() + digits, is_decimal)) {
      return -1;
    }
    int value = 0;
    for (const char c : text_.substr(0, digits)) value = value * 10 + (c - '0');
    text_.remove_prefix(digits);
    return value;
  }

  // Returns the digits at the front.
  std::string_view digits() noexcept {
    const auto* const end = std::find_if_not(text_.begin(), text_.end(), is_decimal);
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

TimestampFault read_since_1970(std::string_view text, Instant& at) noexcept {
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

TimestampFault read_iso(std::string_view text, Instant& at) noexcept {
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

}  // namespace

TimestampFault LogTimeReader::read(std::string_view text, Instant& at) noexcept {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text.size() == TimestampReader::kLength && text[2] == '/') {
    return timestamps_.read(text.data(), at);
  }
  return text.size() > 4 && text[4] == '-' ? read_iso(text, at) : read_since_1970(text, at);
}

}  // namespace sluice::replay
