#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "sluice/rule.h"

namespace sluice::rules {

// Reports a warning of the file: where, what, and what would be right.
using Warn = std::function<void(std::size_t at, std::string what, std::string expected)>;

// Completes Rule::reject from the keys of the rule, which are read into it already with its action.
// Reports wrong values, and warns about names in braces that it does not know.
void read_reject(const Fields& fields, Rule& rule, Diagnostics& diagnostics, const Warn& warn);

// The names that a number replaces, in the order of RejectPart::Kind.
inline constexpr std::array<std::string_view, 4> kRejectNames{"retry_after", "limit", "remaining",
                                                              "reset_at"};

// Returns the names in braces of a text for a rejection (docs/rules.md, Rejections). Calls
// `unknown` with the place and the name of each part that looks like one; it is sent as it is.
std::vector<RejectPart> parse_reject_text(
    std::string_view text, bool is_json,
    const std::function<void(std::size_t at, std::string_view name)>& unknown);

}  // namespace sluice::rules
