#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "sluice/rule_answer.h"

namespace sluice {

// Returns the rule's name if another limit of the answer has the same name as the limit at
// `index`, or one that spells it. Otherwise returns an empty text. With it, the names of an answer
// are unique.
std::string_view group_of(std::span<const LimitAnswer> limits, std::size_t index) noexcept;

}  // namespace sluice
