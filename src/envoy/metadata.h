#pragma once

#include "envoy/config.h"
#include "rules/diagnostics.h"
#include "rules/yaml_tree.h"

namespace sluice::envoy {

// The deepest nesting of lists and maps; readers of messages also have a bound.
inline constexpr std::size_t kMaxMetadataDepth = 16;

// Reads `metadata`: any maps, lists and scalars. The unquoted scalars `true`, `12` and `~` become a
// flag, a number and null, as in YAML; quoted scalars are text.
Value read_metadata(const rules::Node& node, rules::Diagnostics& diagnostics);

// Returns whether YAML reads the unquoted scalar as a number, a flag or null instead of text.
bool is_plain_text(const rules::Node& scalar);

}  // namespace sluice::envoy
