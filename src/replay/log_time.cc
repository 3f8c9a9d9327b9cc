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

TimestampFault LogTimeReader::read_access(const char* text, Instant& at) noexcept {
  if (std::memcmp(text, last_, kAccessLength) == 0) {
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

TimestampFault LogTimeReader::read_time(const char* text, Instant& at) noexcept {
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
  std::memcpy(last_, text, kAccessLength);
  last_at_ = instant;
  at = instant;
  return TimestampFault::kNone;
}

TimestampFault LogTimeReader::read_day(const char* text) noexcept {
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

TimestampFault LogTimeReader::read(std::string_view text, Instant& at) noexcept {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  if (text.size() == kAccessLength && text[2] == '/') {
    return read_access(text.data(), at);
  }
  return text.size() > 4 && text[4] == '-' ? base::read_iso8601(text, at)
                                           : base::read_unix_time(text, at);
}

}  // namespace sluice::replay
