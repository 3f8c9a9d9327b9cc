#pragma once

#include <memory>
#include <span>
#include <vector>

#include "rules/rule_set.h"
#include "sluice/expected.h"

namespace sluice::rules {

// Reads YAML files as one set of rules that meets the terms, or returns all errors, file by file.
// Does not throw for bad input.
Expected<std::shared_ptr<const RuleSet::Impl>, std::vector<RuleError>> load_rules(
    std::span<const RuleText> files, const RuleTerms& terms);

}  // namespace sluice::rules
