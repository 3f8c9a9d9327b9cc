#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "sluice/decision.h"
#include "sluice/rule.h"

namespace sluice {

// The answer of one limit of one matched rule.
struct LimitAnswer {
  const Rule* rule = nullptr;
  const RuleLimit* limit = nullptr;
  std::string_view counter;   // the counter's key in the store (unambiguous, docs/rules.md)
  std::string_view label;     // the key as a person reads it: the template filled in
  Decision decision;          // the limit's own answer, also under a shadow rule
  std::string_view tag = {};  // of the counter, where the rule has one (docs/rules.md)
  std::size_t part = 0;       // of a request of several parts: the one that it was asked for
};

// The answer of a set of rules to one request.
struct RuleAnswer {
  // What to do. Allowed with `kOk` and no rule when none matched; `kShadow` when only rules on
  // trial would have denied.
  Decision decision;
  const Rule* rule = nullptr;  // the rule that decided: the first that denied, else that matched
  // Of every limit that applied, in the order of the rules. The views live until the next request.
  std::vector<LimitAnswer> limits;
  // Of every rule that matched: whether it denied (for a rule on trial: would have).
  struct Matched {
    const Rule* rule = nullptr;
    bool denied = false;
  };
  std::vector<Matched> matched;
};

}  // namespace sluice
