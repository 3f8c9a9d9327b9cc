#pragma once

#include <string>

#include "sluice/expected.h"

namespace sluice::server {

// Reads a password: the one line of a file, or of an environment variable; empty where neither is
// named. Errors: which of them, and why. Never tells the password.
Expected<std::string> read_secret(const std::string& file, const std::string& variable);

}  // namespace sluice::server
