#pragma once

#include <algorithm>
#include <cstdint>

#include "core/step.h"
#include "sluice/calendar.h"
#include "sluice/clock.h"
#include "stores/redis/script/format.h"

namespace sluice::redis {

// Returns the window of the calendar at an instant, and the next one, for a counter with this
// number.
inline format::Windows windows_of(const Calendar& calendar, core::Ticks of, std::uint64_t number) {
  const auto ticks = [](Instant instant) {
    return static_cast<std::uint64_t>(instant.time_since_epoch().count());
  };
  const Instant at = std::clamp(Instant{Duration{of}}, kFirstInstant, kLastInstant);
  const Calendar::Window window = calendar.window_at(at);
  const Instant next_close =
      window.end > kLastInstant ? window.end : calendar.window_at(window.end).end;
  return {number, ticks(window.start), ticks(window.end), ticks(next_close)};
}

}  // namespace sluice::redis
