#pragma once

#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "sluice/rule.h"

namespace sluice::rules {

// Reads `action` of a rule, and reports keys of the rule that contradict it: `limits` is missing
// without an action, and most keys mean nothing with one.
RuleAction read_action(const Fields& rule, Diagnostics& diagnostics);

}  // namespace sluice::rules
