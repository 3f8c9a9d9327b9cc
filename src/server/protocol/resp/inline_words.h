#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::server::resp {

// Splits an inline command into words at blanks, like redis-cli and Redis. In "..." the escapes are
//  \r \t \b \a \xHH and others; in '...' only \'. A quote ends a word. A NUL byte ends the command.
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
