#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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
  struct Known {
    std::uint64_t limit;
    std::optional<Duration> per;
    std::optional<CalendarUnit> calendar;
    std::optional<std::uint64_t> burst;
    Limit planned, numbers;
  };
  std::array<std::optional<Known>, 64> known_;
};

}  // namespace sluice::rules
