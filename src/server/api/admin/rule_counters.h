#pragma once

#include <string>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// The counter of a limit of a rule for some attributes.
struct RuleCounter {
  const RuleLimit* limit;
  std::string key;    // the key in the store (docs/rules.md); empty if attributes are missing
  std::string label;  // the key in a readable form
  std::string tag;    // like Charge::tag; a missing attribute counts as empty
  std::vector<std::string> missing;  // "ip", "header.x-user-id or ip"
};

// Returns the counters of all limits of the rule, whether it matches the attributes or not. The
// rule must be in the set.
std::vector<RuleCounter> counters_of(const RuleSet& rules, const Rule& rule,
                                     const AttributeSource& attributes);

}  // namespace sluice::server
