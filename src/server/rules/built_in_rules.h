#pragma once

#include <string_view>

namespace sluice::server {

// The name of the built-in rules, which are active if no rules are configured.
inline constexpr std::string_view kBuiltInName = "built-in";

// The text of these rules: an example to try.
std::string_view built_in_rules() noexcept;

}  // namespace sluice::server
