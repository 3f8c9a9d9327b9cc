#pragma once

#include <string>
#include <string_view>

#include "sluice/expected.h"

namespace sluice::server {

// A file, or the name of an environment variable, that contains a secret. Neither: no secret.
struct SecretSource {
  std::string file;
  std::string variable;

  bool is_set() const noexcept { return !file.empty() || !variable.empty(); }
  friend bool operator==(const SecretSource&, const SecretSource&) = default;
};

// Reads a password, the only line of its source. Returns an empty text without a source. Errors:
// the source and the reason, never the password.
Expected<std::string> read_password(const SecretSource& source);
// Reads a token, which a header field can carry: printable ASCII without spaces. The file must be a
// regular one. Errors: as above, and if there is no source.
Expected<std::string> read_token(const SecretSource& source);

// Compares in a time that depends only on `presented`. An empty secret equals nothing.
bool is_same_secret(std::string_view presented, std::string_view secret) noexcept;

// Returns a warning if a secret is easy to read or to guess: every user can read its file, or it
// has fewer than 16 characters or fewer than 6 different ones. Returns an empty text otherwise.
// `what` names the secret: "the administration token".
std::string find_weakness(std::string_view what, const SecretSource& source,
                          std::string_view secret);

}  // namespace sluice::server
