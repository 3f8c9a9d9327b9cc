#pragma once

#include <string>
#include <string_view>

#include "sluice/expected.h"
#include "sluice/overrides.h"

namespace sluice::rules {

// The text of an override in files and in Redis: words with one space between them, such as
// "limit=100 per=1m burst=5 until=1767225600000000" (microseconds since 1970), "plan=pro",
// "blocked" or "unlimited". A plan escapes '%', space and control bytes as %XX.
void append_text(const Override& given, std::string& out);

// Errors: "WHAT; EXPECTED".
Expected<Override> parse_override(std::string_view text);

}  // namespace sluice::rules
