#pragma once

#include <string_view>

namespace sluice::server {

// How the rules are called that hold where none are given.
inline constexpr std::string_view kBuiltInName = "built-in";

// Their text: something to try, and an example of a rules file.
std::string_view built_in_rules() noexcept;

}  // namespace sluice::server
