#pragma once

#include <string>
#include <string_view>

namespace sluice::envoy {

// Returns whether the text matches a pattern in which each `*` matches zero or more bytes.
//
// Cost: about linear in both lengths for every pattern; no allocation.
bool matches_wildcard(std::string_view pattern, std::string_view text) noexcept;

}  // namespace sluice::envoy
