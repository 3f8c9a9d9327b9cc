#pragma once

#include <string>

#include "sluice/expected.h"

namespace sluice::server {

// Reads a password, the only line of a file or an environment variable. Returns an empty text if
// neither is given. Errors: the source and the reason, never the password.
Expected<std::string> read_secret(const std::string& file, const std::string& variable);

}  // namespace sluice::server
