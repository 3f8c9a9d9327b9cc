#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::rules {

// A position in a file. Both numbers start at 1; columns count characters, not bytes.
struct Place {
  int line = 1;
  int column = 1;
};

// The text of a file, and the positions of its bytes. Borrows the text.
class SourceText {
 public:
  // text() omits a UTF-8 byte order mark at the start.
  explicit SourceText(std::string_view bytes);

  std::string_view text() const noexcept { return text_; }
  // Returns the position of the byte at that offset of text(), at most the position of its end.
  Place place(std::size_t at) const;

 private:
  std::string_view text_;
  std::vector<std::size_t> lines_;  // the offset of each line
};

// Returns the offset of the first byte that is not valid UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text) noexcept;

// Formats text from a file or a program for a message: in single quotes, shortened, with control
// bytes and invalid UTF-8 made visible.
std::string in_quotes(std::string_view text);

}  // namespace sluice::rules
