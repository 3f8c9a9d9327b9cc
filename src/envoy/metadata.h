#pragma once

#include "envoy/config.h"
#include "rules/diagnostics.h"
#include "rules/yaml_tree.h"

namespace sluice::envoy {

// Of lists and maps in one another; who reads messages stops at some depth too.
inline constexpr std::size_t kMaxMetadataDepth = 16;

// Reads `metadata`: any maps, lists and plain values, whose plain `true`, `12` and `~` are a flag,
// a number and nothing, as YAML has it; in quotes they are text.
Value read_metadata(const rules::Node& node, rules::Diagnostics& diagnostics);

// Whether plain text is something else than text to YAML: a number, a flag, or nothing.
bool is_plain_text(const rules::Node& scalar);

}  // namespace sluice::envoy
