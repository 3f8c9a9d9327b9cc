#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

// Returns whether a pattern in the syntax of Redis matches the whole text: `*`, `?`, `[a-z]`,
// `[^a]`, and
// `\` before a literal character. Compares bytes. Cost: at worst the product of both lengths.
bool glob_matches(std::string_view pattern, std::string_view text) noexcept;

// Returns whether the pattern matches only one text.
bool is_literal(std::string_view pattern) noexcept;

// Returns the pattern that matches only this text.
std::string as_glob(std::string_view text);

}  // namespace sluice::cli
