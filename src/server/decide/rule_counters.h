#pragma once

#include <string>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/overrides.h"
#include "sluice/rule_set.h"
#include "sluice/store.h"

namespace sluice::server {

// The counter of a limit of a rule for some attributes.
struct RuleCounter {
  const RuleLimit* limit;
  std::string key;    // the key in the store (docs/rules.md); empty if attributes are missing
  std::string label;  // the key in a readable form
  std::string tag;    // like Charge::tag; a missing attribute counts as empty
  std::vector<std::string> missing;  // "ip", "header.x-user-id or ip"
  std::string plan;                  // of the attributes, or of an override; empty: it has none
  Limit numbers;                     // those of the plan, or of an override
  std::uint32_t id;                  // RuleCharge::limit_id

  Charge charge(std::uint64_t cost) const;
  // The charge whose peek says whether the key is blocked. A limit of 0 denies each request for
  // ever, and says nothing of blocks, so this one is of a limit of 1.
  Charge block_charge() const;
  std::string missing_names() const;  // "ip, header.x-user-id or ip"
};

// "limit 100 per 2m burst 5, until 2100-01-01T00:00:00Z": an override, for people.
std::string override_text(const Override& given);

// Returns the counters of all limits of the rule, whether it matches the attributes or not. The
// rule must be in the set. `overrides` may be null.
std::vector<RuleCounter> counters_of(const RuleSet& rules, const Rule& rule,
                                     const AttributeSource& attributes,
                                     const Overrides* overrides = nullptr);

}  // namespace sluice::server
