#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sluice/clock.h"
#include "sluice/limit.h"

namespace sluice::envoy {

// The unit of time of a limit, with the numbers of RateLimitResponse.RateLimit.Unit.
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

// Parses "second" and so on, in any case.
std::optional<Unit> unit_from(std::string_view name) noexcept;
// Returns the name in lower case; "unknown" for kUnknown.
std::string_view to_string(Unit unit) noexcept;
// Returns zero for kUnknown.
Duration length_of(Unit unit) noexcept;
// Returns the unit of that length, or kUnknown.
Unit unit_of(Duration length) noexcept;
// Returns the unit of a limit: that of its calendar, or as above that of its period.
Unit unit_of(const Limit& limit) noexcept;

}  // namespace sluice::envoy
