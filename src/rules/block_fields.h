#pragma once

#include <optional>

#include "rules/fields.h"
#include "sluice/block.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

// Reads the block of a limit. Returns nothing if it has none, or if that is wrong.
std::optional<Block> read_block(const Fields& limit, const RuleTerms& terms,
                                Diagnostics& diagnostics);

}  // namespace sluice::rules
