#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::server {

// Returns the name of a member that an object in this JSON has twice. The text must be valid JSON.
std::optional<std::string> find_repeated_member(std::string_view json);

}  // namespace sluice::server
