#pragma once

#include "rules/diagnostics.h"
#include "rules/yaml_tree.h"

namespace sluice::envoy {

// Rewrites what YAML 1.1, by which Envoy's service reads its files, allows beyond what rules do:
// merge keys (`<<`), `yes`, `On`, `True` and their like for flags, and `1_000` or `0x10` for
// numbers.
//
// Errors, to the diagnostics: a merge key with something else than maps. Cost: once over the nodes,
// aliases counted as what they stand for.
void read_as_yaml_1_1(rules::Document& document, rules::Diagnostics& diagnostics);

}  // namespace sluice::envoy
