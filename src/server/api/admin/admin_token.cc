#include "server/api/admin/admin_token.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

#include "server/config/secret.h"

namespace sluice::server {
namespace {

constexpr std::size_t kLongest = 4096;

std::string because_of(int error) { return std::system_category().message(error); }

// Returns the file's content, at most one byte more than the bound.
Expected<std::string> read_file(const std::string& path) {
  const std::string file = "token file " + path;
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    return Unexpected{file + " cannot be opened: " + because_of(errno)};
  }
  if (!S_ISREG(found.st_mode)) return Unexpected{file + " is not a regular file"};
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Unexpected{file + " cannot be opened: " + because_of(errno)};
  std::string text(kLongest + 3, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

// Returns a token that a header field can carry, or its error.
Expected<std::string> checked(std::string text, const std::string& source) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (text.empty()) return Unexpected{source + " is empty; expected a token"};
  if (text.size() > kLongest) {
    return Unexpected{source + " is too long; expected a token of at most 4096 bytes"};
  }
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return Unexpected{source +
                      " is not a token; expected one line of printable ASCII without spaces"};
  }
  return text;
}

}  // namespace

Expected<AdminToken> AdminToken::from(std::string file, std::string variable) {
  if (!file.empty() && !variable.empty()) {
    return Unexpected{"both a token file and a token variable are given; expected one of them"};
  }
  AdminToken token;
  token.file_ = std::move(file);
  token.variable_ = std::move(variable);
  if (auto read = token.reload(); !read) return Unexpected{std::move(read.error())};
  return token;
}

Expected<bool> AdminToken::reload() {
  if (file_.empty() && variable_.empty()) return false;
  auto read = this->read();
  if (!read) return Unexpected{std::move(read.error())};
  warning_ = find_weakness("the administration token", file_, *read);
  return std::exchange(token_, *read) != *read;
}

Expected<std::string> AdminToken::read() const {
  if (!file_.empty()) {
    auto text = read_file(file_);
    if (!text) return text;
    return checked(*std::move(text), "token file " + file_);
  }
  const char* const value = std::getenv(variable_.c_str());
  if (value == nullptr) return Unexpected{"environment variable " + variable_ + " is not set"};
  return checked(value, "environment variable " + variable_);
}

bool AdminToken::matches(std::string_view presented) const noexcept {
  return is_same_secret(presented, token_);
}

}  // namespace sluice::server
