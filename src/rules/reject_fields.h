#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "rules/diagnostics.h"
#include "rules/yaml_tree.h"
#include "sluice/rule.h"

namespace sluice::rules {

// Reports a warning of the file: where, what, and what would be right.
using Warn = std::function<void(std::size_t at, std::string what, std::string expected)>;

// Reads `reject` of a rule into Rule::reject. Reports wrong values, and warns about names in braces
// that it does not know. Rule::headers must be read already.
void read_reject(const Node& node, Rule& rule, Diagnostics& diagnostics, const Warn& warn);

}  // namespace sluice::rules
