#include "server/config/secret.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

namespace sluice::server {
namespace {

constexpr std::size_t kLongest = 4096;

// Names a source for messages. `what` is "password" or "token".
std::string name_of(std::string_view what, const SecretSource& source) {
  return source.file.empty() ? "environment variable " + source.variable
                             : std::string(what) + " file " + source.file;
}

// Reads a secret without the line ends at its end; at most a few bytes more than the bound. Errors:
// the source and the reason.
Expected<std::string> read(std::string_view what, const SecretSource& source) {
  std::string text;
  if (!source.file.empty()) {
    errno = 0;
    std::ifstream stream(source.file, std::ios::binary);
    text.resize(kLongest + 3);
    if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!stream.is_open() || stream.bad()) {
      return Unexpected{name_of(what, source) +
                        " cannot be read: " + std::system_category().message(errno)};
    }
    text.resize(static_cast<std::size_t>(stream.gcount()));
  } else {
    const char* const value = std::getenv(source.variable.c_str());
    if (value == nullptr) return Unexpected{name_of(what, source) + " is not set"};
    text = value;
  }
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (!text.empty()) return text;
  return Unexpected{name_of(what, source) + " is empty; expected a " + std::string(what)};
}

}  // namespace

Expected<std::string> read_password(const SecretSource& source) {
  if (!source.is_set()) return std::string();
  auto secret = read("password", source);
  if (!secret) return Unexpected{secret.error()};
  if (secret->size() > kLongest || secret->find('\n') != secret->npos) {
    return Unexpected{name_of("password", source) +
                      " is not a password; expected one line of at most 4096 bytes"};
  }
  return std::move(*secret);
}

Expected<std::string> read_token(const SecretSource& source) {
  std::error_code unknown;
  const auto found = std::filesystem::status(source.file, unknown);
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return Unexpected{"token file " + source.file + " is not a regular file"};
  }
  auto secret = read("token", source);
  if (!secret) return Unexpected{secret.error()};
  const std::string& text = *secret;
  if (text.size() > kLongest) {
    return Unexpected{name_of("token", source) +
                      " is too long; expected a token of at most 4096 bytes"};
  }
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return Unexpected{name_of("token", source) +
                      " is not a token; expected one line of printable ASCII without spaces"};
  }
  return std::move(*secret);
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

std::string find_weakness(std::string_view what, const SecretSource& source,
                          std::string_view secret) {
  constexpr std::size_t kShortest = 16;
  constexpr std::size_t kFewest = 6;
  using std::filesystem::perms;
  const std::string name(what);
  std::error_code unknown;
  const auto found = std::filesystem::status(source.file, unknown);
  if (std::filesystem::exists(found) && (found.permissions() & perms::others_read) != perms::none) {
    return "the file " + source.file + " of " + name +
           " can be read by every user; expected chmod o-r";
  }
  if (secret.size() < kShortest) return name + " is short; expected at least 16 characters";
  const std::set<char> different(secret.begin(), secret.end());
  if (different.size() >= kFewest) return {};
  return name + " is easy to guess; expected at least 6 different characters";
}

}  // namespace sluice::server
