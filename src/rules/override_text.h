#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "sluice/expected.h"
#include "sluice/overrides.h"

namespace sluice::rules {

// Returns the numbers of a limit with an override of kNumbers or kPlan. `planned` are the numbers
// without it, which also count if the limit cannot have those of the override.
Limit numbers_with(const Override& given, const Rule& rule, const RuleLimit& limit,
                   const Limit& planned);

// Why an override cannot be set.
struct OverrideError {
  std::string what;               // "WHAT; EXPECTED"
  bool lacks_limit = false;       // the rule or the limit is not there
  std::string unknown_name = {};  // an attribute that no rule reads
};

// Checks that there is the limit, and that its key, or if it reads any attributes another part of
// the rules, reads every attribute of these names (those of headers in lower case).
std::optional<OverrideError> find_place_error(const RuleSet& rules, std::string_view rule,
                                              std::string_view limit,
                                              std::span<const std::string> names);

// The rule and the limit of a counter.
struct CounterPlace {
  const Rule& rule;
  const RuleLimit& limit;
};
// Returns nothing if the rules have no such limit. The rest of the counter may be anything.
std::optional<CounterPlace> place_of(const RuleSet& rules, std::string_view counter);

// Checks that the counter is one of a limit that can have the override. Returns the counter as
// requests name it: escapes of other bytes are removed.
Expected<std::string, OverrideError> check_counter(const RuleSet& rules, std::string_view counter,
                                                   const Override& given);

// The same as numbers_with(), and remembers the latest results: checking numbers takes longer than
// deciding by them.
class OverrideNumbers {
 public:
  Limit with(const Override& given, const Rule& rule, const RuleLimit& limit, const Limit& planned);

 private:
  // The numbers of an override and those planned.
  using Numbers = std::tuple<std::uint64_t, std::optional<Duration>, std::optional<CalendarUnit>,
                             std::optional<std::uint64_t>, Limit>;
  std::array<std::optional<std::pair<Numbers, Limit>>, 64> known_;
};

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
