#pragma once

#include <memory>
#include <span>
#include <vector>

#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/rule_set.h"
#include "sluice/calendar.h"
#include "sluice/expected.h"
#include "sluice/rule.h"

namespace sluice::rules {

// Reads the calendar of a limit: `per` of its numbers, `zone` and `starts` of the limit itself.
// Returns null if `per` is a period, or if something is wrong, which is reported.
const Calendar* read_calendar(const Fields& numbers, const Fields& limit, Diagnostics& diagnostics);

// Reads `action` of a rule, and reports keys of the rule that contradict it: `limits` is missing
// without an action, and most keys mean nothing with one.
RuleAction read_action(const Fields& rule, Diagnostics& diagnostics);

// Reads YAML files as one set of rules that meets the terms, or returns all errors, file by file.
// Does not throw for bad input.
Expected<std::shared_ptr<const RuleSet::Impl>, std::vector<RuleError>> load_rules(
    std::span<const RuleText> files, const RuleTerms& terms);

}  // namespace sluice::rules
