#include "server/config/secret.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>
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

bool is_same_secret(std::string_view presented, std::string_view secret) noexcept {
  if (secret.empty()) return false;
  // Volatile, so that the compiler cannot make the loop stop early.
  volatile unsigned difference = presented.size() == secret.size() ? 0U : 1U;
  for (std::size_t i = 0; i < presented.size(); ++i) {
    const auto a = static_cast<unsigned char>(presented[i]);
    const auto b = static_cast<unsigned char>(secret[i % secret.size()]);
    difference = difference | (static_cast<unsigned>(a) ^ b);
  }
  return difference == 0;
}

std::string find_weakness(std::string_view what, const std::string& file, std::string_view secret) {
  constexpr std::size_t kShortest = 16;
  constexpr std::size_t kFewest = 6;
  struct stat found {};
  const std::string name(what);
  if (!file.empty() && ::stat(file.c_str(), &found) == 0 && (found.st_mode & S_IROTH) != 0) {
    return "the file " + file + " of " + name + " can be read by every user; expected chmod o-r";
  }
  if (secret.size() < kShortest) return name + " is short; expected at least 16 characters";
  const std::set<char> different(secret.begin(), secret.end());
  if (different.size() >= kFewest) return {};
  return name + " is easy to guess; expected at least 6 different characters";
}

}  // namespace sluice::server
