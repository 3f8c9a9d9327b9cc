#include "server/protocol/resp/inline_words.h"

#include <optional>

namespace sluice::server::resp {
namespace {

// Like isspace() in the C locale, whatever the current locale is.
constexpr bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }
// Returns whether a byte ends a word outside of quotes.
constexpr bool ends_word(char c) noexcept {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

std::optional<int> hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

constexpr char escaped(char c) noexcept {
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
  }
}

}  // namespace

InlineWords::Next InlineWords::next(std::string& out) {
  while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  if (rest_.empty()) return Next::kEnd;
  while (!rest_.empty() && !ends_word(rest_.front())) {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '"' || c == '\'') {
      const Quotes quotes = c == '"' ? take_double(out) : take_single(out);
      return quotes == Quotes::kClosed ? Next::kWord : Next::kUnbalanced;
    }
    out += c;
  }
  return Next::kWord;
}

InlineWords::Quotes InlineWords::take_double(std::string& out) {
  while (!rest_.empty()) {
    const char c = rest_.front();
    if (c == '\\' && rest_.size() >= 4 && rest_[1] == 'x' && hex_digit(rest_[2]) &&
        hex_digit(rest_[3])) {
      out += static_cast<char>(*hex_digit(rest_[2]) * 16 + *hex_digit(rest_[3]));
      rest_.remove_prefix(4);
    } else if (c == '\\' && rest_.size() >= 2) {
      out += escaped(rest_[1]);
      rest_.remove_prefix(2);
    } else if (c == '"') {
      return close();
    } else {
      out += c;
      rest_.remove_prefix(1);
    }
  }
  return Quotes::kUnbalanced;
}

InlineWords::Quotes InlineWords::take_single(std::string& out) {
  while (!rest_.empty()) {
    const char c = rest_.front();
    if (c == '\\' && rest_.size() >= 2 && rest_[1] == '\'') {
      out += '\'';
      rest_.remove_prefix(2);
    } else if (c == '\'') {
      return close();
    } else {
      out += c;
      rest_.remove_prefix(1);
    }
  }
  return Quotes::kUnbalanced;
}

// The closing quote must be followed by a blank or by the end.
InlineWords::Quotes InlineWords::close() {
  rest_.remove_prefix(1);
  return rest_.empty() || is_space(rest_.front()) ? Quotes::kClosed : Quotes::kUnbalanced;
}

}  // namespace sluice::server::resp
