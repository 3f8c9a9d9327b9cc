#pragma once

#include "rules/diagnostics.h"
#include "rules/yaml_tree.h"

namespace sluice::envoy {

// Rewrites the YAML 1.1 forms that Envoy's service accepts and rules do not: merge keys (`<<`),
// flags such as `yes`, `On` and `True`, and numbers such as `1_000` and `0x10`.
//
// Errors, to the diagnostics: a merge key whose value is not made of maps. Cost: one pass over the
// nodes, each alias counted as its target.
void read_as_yaml_1_1(rules::Document& document, rules::Diagnostics& diagnostics);

}  // namespace sluice::envoy
