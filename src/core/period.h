#pragma once

#include <string>
#include <string_view>

#include "sluice/clock.h"
#include "sluice/expected.h"
#include "sluice/limit.h"

namespace sluice::core {

// Parses a period as rules and front ends write it: a whole number and its unit, ms, s, m, h or d
// ("500ms", "60s", "7d"). Does not check whether a limit can have such a period.
//
// Errors: "WHAT IS WRONG; WHAT WOULD BE RIGHT", with the text in question cut short. That of a
// number without a unit suggests `usual_unit`.
Expected<Duration> parse_period(std::string_view text, std::string_view usual_unit = "s");

// The period of a budget that does not renew, as rules and front ends write it.
inline constexpr std::string_view kNever = "never";
// As parse_period(), or kNeverEnds for "never".
Expected<Duration> parse_limit_period(std::string_view text);

// The period in the largest unit that holds it exactly: 60 s are "1m". What is no whole number of
// milliseconds is written in "us", which parse_period refuses; so are negative periods.
std::string format_period(Duration period);
// The period of a limit: as above, or its calendar, such as "month of Asia/Shanghai from 15".
std::string format_period(const Limit& limit);
// What follows the number of a limit of this period in words: " per 1m"; " in total" if the limit
// does not renew.
std::string format_pace(const Limit& limit, std::string_view period);
// A limit in words: "120 per 1m, burst 60", "3 at once, lease 30s", "50 in total".
std::string format_limit(const Limit& limit);

}  // namespace sluice::core
