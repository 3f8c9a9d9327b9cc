#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::server::resp {

// Splits an inline command into words, as redis-cli and Redis do: at blanks; "..." with \n \r \t \b
// \a \xHH and other escapes; '...' with \' alone. A quote ends a word. Ends at a NUL byte.
class InlineWords {
 public:
  explicit InlineWords(std::string_view line) : rest_(line.substr(0, line.find('\0'))) {}

  enum class Next { kWord, kEnd, kUnbalanced };
  // Appends the next word to `out`.
  Next next(std::string& out);

 private:
  enum class Quotes { kClosed, kUnbalanced };
  Quotes take_double(std::string& out);
  Quotes take_single(std::string& out);
  Quotes close();

  std::string_view rest_;
};

}  // namespace sluice::server::resp
