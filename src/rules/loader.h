#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "rules/rule_set.h"
#include "sluice/expected.h"

namespace sluice::rules {

// Reads the rules of a YAML file, or says all that is wrong with it. Never throws for bad input.
Expected<std::shared_ptr<const RuleSet::Impl>, std::vector<RuleError>> load_rules(
    std::string_view yaml, std::string_view file);

}  // namespace sluice::rules
