#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sluice/expected.h"
#include "sluice/overrides.h"

namespace sluice::rules {

// The text of an override in files and in Redis: words with one space between them, such as
// "limit=100 per=1m burst=5 until=1767225600000000" (microseconds since 1970), "limit=9 per=month",
// "plan=pro", "blocked" or "unlimited". A plan escapes '%', space and control bytes as %XX.
void append_text(const Override& given, std::string& out);

// Reads the period of an override, such as "1m" or "month". Returns what is wrong, "WHAT;
// EXPECTED", or nothing.
std::optional<std::string> set_period(std::string_view text, Override& given);
// The period as set_period() reads it; empty if there is none.
std::string period_of(const Override& given);

// Errors: "WHAT; EXPECTED".
Expected<Override> parse_override(std::string_view text);

}  // namespace sluice::rules
