#pragma once

#include <string>
#include <string_view>

#include "sluice/expected.h"

namespace sluice::server {

// The bearer token of the administration, from a file or an environment variable; or none.
//
// Thread-safety: that of a value. Cost: matches() takes time by the length of what is presented,
// and not by how much of it is right.
class AdminToken {
 public:
  // From the file, or the variable of that name; with neither, none is set. Line ends at the end
  // are no part of it. Errors: what is wrong with the source, and what would be right.
  static Expected<AdminToken> from(std::string file, std::string variable);

  // Reads the source again; after an error the token stays as it was. Answers whether it changed.
  Expected<bool> reload();
  bool is_set() const noexcept { return !token_.empty(); }
  bool matches(std::string_view presented) const noexcept;
  // What is unwise about it ("others may read the file"), or nothing.
  const std::string& warning() const noexcept { return warning_; }

 private:
  Expected<std::string> read(std::string& warning) const;

  std::string file_;
  std::string variable_;
  std::string token_;
  std::string warning_;
};

}  // namespace sluice::server
