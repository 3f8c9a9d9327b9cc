#include "server/config/secret.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

namespace sluice::server {
namespace {

constexpr std::size_t kLongest = 4096;

// Returns one line of at most kLongest bytes without its line end.
Expected<std::string> checked(std::string text, const std::string& source) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (text.empty()) return Unexpected{source + " is empty; expected a password"};
  if (text.size() > kLongest || text.find('\n') != text.npos) {
    return Unexpected{source + " is not a password; expected one line of at most 4096 bytes"};
  }
  return text;
}

Expected<std::string> read_secret_file(const std::string& path) {
  const std::string source = "password file " + path;
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::string text(kLongest + 3, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) {
    return Unexpected{source + " cannot be read: " + std::system_category().message(errno)};
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return checked(std::move(text), source);
}

}  // namespace

Expected<std::string> read_secret(const std::string& file, const std::string& variable) {
  if (!file.empty()) return read_secret_file(file);
  if (variable.empty()) return std::string();
  const char* const value = std::getenv(variable.c_str());
  if (value == nullptr) return Unexpected{"environment variable " + variable + " is not set"};
  return checked(value, "environment variable " + variable);
}

}  // namespace sluice::server
