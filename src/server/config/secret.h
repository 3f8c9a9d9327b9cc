#pragma once

#include <string>
#include <string_view>

#include "sluice/expected.h"

namespace sluice::server {

// Reads a password, the only line of a file or an environment variable. Returns an empty text if
// neither is given. Errors: the source and the reason, never the password.
Expected<std::string> read_secret(const std::string& file, const std::string& variable);

// Compares in a time that depends only on `presented`. An empty secret equals nothing.
bool is_same_secret(std::string_view presented, std::string_view secret) noexcept;

// Returns a warning if a secret is easy to read or to guess: every user can read its file, or it
// has fewer than 16 characters or fewer than 6 different ones. Returns an empty text otherwise.
// `what` names the secret: "the administration token".
std::string find_weakness(std::string_view what, const std::string& file, std::string_view secret);

}  // namespace sluice::server
