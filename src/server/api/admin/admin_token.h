#pragma once

#include <string>
#include <string_view>

#include "server/config/secret.h"
#include "sluice/expected.h"

namespace sluice::server {

// The bearer token of the administration, from a file or an environment variable, or no token.
//
// Thread-safety: that of a value. Cost: the time of matches() depends only on the length of the
// presented token, not on how much of it is right.
class AdminToken {
 public:
  // Reads the file, or the variable of that name. With neither there is no token. Line ends at the
  // end are not part of the token. Errors: the problem with the source and what is expected.
  static Expected<AdminToken> from(SecretSource source);

  // Reads the source again. After an error the token is unchanged. Returns whether it changed.
  Expected<bool> reload();
  bool is_set() const noexcept { return !token_.empty(); }
  bool matches(std::string_view presented) const noexcept;
  // Returns a weakness of the token ("others may read the file"), or an empty text.
  const std::string& warning() const noexcept { return warning_; }

 private:
  SecretSource source_;
  std::string token_;
  std::string warning_;
};

}  // namespace sluice::server
