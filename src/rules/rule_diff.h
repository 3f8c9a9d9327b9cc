#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/rule_set.h"

namespace sluice::rules {

// One difference between two sets of rules.
struct RuleDifference {
  enum class Kind : std::uint8_t { kAdded, kRemoved, kChanged };

  Kind kind = Kind::kChanged;
  std::string rule;           // empty: the order of the rules
  std::string limit;          // empty: a difference of the rule
  std::string key;            // "per", "block.for"; empty: the whole rule or limit
  std::string before, after;  // the values of the key; empty: absent

  friend bool operator==(const RuleDifference&, const RuleDifference&) = default;
};

// Compares valid rules by what they mean: rules and limits by their names, whichever file they are
// in; with the defaults, the domain and the numbers of plans; without comments and spelling
// ("60s" is "1m"). In the order of `after`; those that were removed come last.
std::vector<RuleDifference> compare_rules(std::span<const RuleText> before,
                                          std::span<const RuleText> after);

}  // namespace sluice::rules
