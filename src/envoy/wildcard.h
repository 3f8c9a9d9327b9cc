#pragma once

#include <string>
#include <string_view>

namespace sluice::envoy {

// Whether the text matches a pattern, each `*` of which matches zero or more bytes.
//
// Cost: about the length of both; no allocation, and no pattern makes it try all ways to match.
bool matches_wildcard(std::string_view pattern, std::string_view text) noexcept;

}  // namespace sluice::envoy
