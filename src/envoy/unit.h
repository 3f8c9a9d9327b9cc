#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sluice/clock.h"

namespace sluice::envoy {

// What a limit counts requests per, by the numbers of RateLimitResponse.RateLimit.Unit.
enum class Unit : std::uint8_t {
  kUnknown,
  kSecond,
  kMinute,
  kHour,
  kDay,
  kMonth,  // 30 days
  kYear,   // 365 days
  kWeek,
};

// "second" and so on, in letters of either case.
std::optional<Unit> unit_from(std::string_view name) noexcept;
// In lower case; "unknown" for kUnknown.
std::string_view to_string(Unit unit) noexcept;
// Zero for kUnknown.
Duration length_of(Unit unit) noexcept;
// The unit of that length, or kUnknown.
Unit unit_of(Duration length) noexcept;

}  // namespace sluice::envoy
