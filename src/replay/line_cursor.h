#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace sluice::replay {

// Reads a line from its front to its end.
class LineCursor {
 public:
  explicit LineCursor(std::string_view line) noexcept
      : at_(line.data()), end_(line.data() + line.size()) {}

  std::string_view rest() const noexcept { return {at_, left()}; }
  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  void skip(std::size_t bytes) noexcept { at_ += bytes; }

  bool eat(std::string_view text) noexcept {
    if (left() < text.size() || std::memcmp(at_, text.data(), text.size()) != 0) return false;
    at_ += text.size();
    return true;
  }

  // Returns the text up to the next space or the end, and skips the space. Returns an empty text at
  // the end.
  std::string_view word() noexcept {
    const char* space = find(at_, ' ');
    const char* stop = space == nullptr ? end_ : space;
    const std::string_view found(at_, static_cast<std::size_t>(stop - at_));
    at_ = space == nullptr ? end_ : space + 1;
    return found;
  }

  // Returns the quoted text after an opening quote, or a null data() if the quote is not closed.
  // The closing quote is not escaped, and a space or the end follows it, so unescaped quotes in the
  // names of clients are part of the text.
  std::string_view quoted() noexcept {
    for (const char* quote = find(at_, '"'); quote != nullptr; quote = find(quote + 1, '"')) {
      if ((quote + 1 == end_ || quote[1] == ' ') && !escaped(quote)) {
        const std::string_view inside(at_, static_cast<std::size_t>(quote - at_));
        at_ = quote + 1;
        return inside;
      }
    }
    return {};
  }

 private:
  const char* find(const char* from, char wanted) const noexcept {
    return static_cast<const char*>(
        std::memchr(from, wanted, static_cast<std::size_t>(end_ - from)));
  }

  bool escaped(const char* quote) const noexcept {
    const char* before = quote;
    while (before != at_ && before[-1] == '\\') --before;
    return (quote - before) % 2 != 0;
  }

  const char* at_;
  const char* end_;
};

// "-" is an absent field.
inline std::string_view unless_dash(std::string_view field) noexcept {
  return field.size() == 1 && field[0] == '-' ? std::string_view{} : field;
}

}  // namespace sluice::replay
