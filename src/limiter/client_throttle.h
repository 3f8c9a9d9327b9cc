#pragma once

#include <optional>
#include <string_view>

#include "sluice/clock.h"

namespace sluice {

// Returns the wait that a field Retry-After asks for: seconds, or a date of HTTP (IMF-fixdate),
// which is compared with `now`. Absent if it is neither. Waits over 10^9 seconds count as these.
std::optional<Duration> read_retry_after(std::string_view field, Instant now) noexcept;

// Returns the longest `t` of the policies of a field RateLimit that have no units left: how long
// they have none. 0 if there is none.
Duration read_rate_limit(std::string_view field) noexcept;

}  // namespace sluice
