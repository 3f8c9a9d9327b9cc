#pragma once

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

namespace sluice::base {

// Returns why a file cannot be read; empty if it can be. For files that a library opens whose own
// message is hard to understand, such as OpenSSL.
inline std::string why_unreadable(const std::string& file) {
  if (std::ifstream(file).good()) return {};
  return std::generic_category().message(errno);
}

}  // namespace sluice::base
