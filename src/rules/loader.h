#pragma once

#include <memory>
#include <span>
#include <vector>

#include "rules/rule_set.h"
#include "sluice/expected.h"

namespace sluice::rules {

// Reads the rules of YAML files as one set that keeps to the terms, or says all that is wrong with
// them, file by file. Never throws for bad input.
Expected<std::shared_ptr<const RuleSet::Impl>, std::vector<RuleError>> load_rules(
    std::span<const RuleText> files, const RuleTerms& terms);

}  // namespace sluice::rules
