#pragma once

#include <string>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// The counter that a limit of a rule has for some attributes.
struct RuleCounter {
  const RuleLimit* limit;
  std::string key;    // in the store (docs/rules.md); empty where attributes are missing
  std::string label;  // as a person reads it
  std::string tag;    // as Charge::tag; a missing attribute in it counts as empty
  std::vector<std::string> missing;  // what the limit's key lacks: "ip", "header.x-user-id or ip"
};

// Of every limit of the rule, which is one of the set, whether it matches the attributes or not.
std::vector<RuleCounter> counters_of(const RuleSet& rules, const Rule& rule,
                                     const AttributeSource& attributes);

}  // namespace sluice::server
