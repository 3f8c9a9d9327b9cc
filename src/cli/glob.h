#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

// Whether a pattern as Redis knows them matches the whole text: `*`, `?`, `[a-z]`, `[^a]`, and `\`
// before what is meant as it is. Bytes are compared. Cost: at worst pattern times text.
bool glob_matches(std::string_view pattern, std::string_view text) noexcept;

// Whether it can match one text only.
bool is_literal(std::string_view pattern) noexcept;

// The pattern that matches this text and no other.
std::string as_glob(std::string_view text);

}  // namespace sluice::cli
