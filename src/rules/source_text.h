#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::rules {

// A place in a file, from 1; columns count characters, not bytes.
struct Place {
  int line = 1;
  int column = 1;
};

// The text of a file, and where its bytes stand. Borrows the text.
class SourceText {
 public:
  // A byte order mark of UTF-8 at the start is left out of text().
  explicit SourceText(std::string_view bytes);

  std::string_view text() const noexcept { return text_; }
  // Of the byte at that offset of text(); past the end, that of the end.
  Place place(std::size_t at) const;

 private:
  std::string_view text_;
  std::vector<std::size_t> lines_;  // where each begins
};

// The first byte of a text that is not valid UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text) noexcept;

// Text from a file or a program for a message: in single quotes, cut short, with control bytes and
// broken UTF-8 made visible.
std::string in_quotes(std::string_view text);

}  // namespace sluice::rules
