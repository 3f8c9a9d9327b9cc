#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::base {

// Text that a constant expression composes, of at most N bytes. A longer text does not compile.
template <std::size_t N>
class FixedText {
 public:
  constexpr FixedText& append(std::string_view text) {
    for (const char c : text) bytes_[size_++] = c;
    return *this;
  }
  constexpr FixedText& append_upper(std::string_view text) {
    for (const char c : text)
      bytes_[size_++] = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    return *this;
  }
  constexpr std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, N> bytes_{};
  std::size_t size_ = 0;
};

// Returns the length of the character at the front of `text` if it could change how the text around
// it looks, else 0: controls, which a terminal obeys; ends of lines; and the marks that reverse the
// direction of text, by which a name can look like another one (Unicode TR36, UTS #39).
constexpr std::size_t control_length(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned second = byte(1);
  const unsigned third = byte(2);
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xC2 && second >= 0x80 && second < 0xA0) return 2;  // U+0080 to U+009F
  if (byte(0) == 0xD8 && second == 0x9C) return 2;                   // U+061C
  if (byte(0) != 0xE2) return 0;
  const bool is_mark = third == 0x8E || third == 0x8F;  // U+200E, U+200F
  if (second == 0x80 && (is_mark || (third >= 0xA8 && third <= 0xAE)))
    return 3;                                                       // U+2028 to U+202E
  return second == 0x81 && third >= 0xA6 && third <= 0xA9 ? 3 : 0;  // U+2066 to U+2069
}

// Text from a client, a file or a program for a message: in single quotes, cut between characters
// after 60 bytes, with the bytes of control characters and of what is not UTF-8 as \xNN.
std::string in_quotes(std::string_view text);

}  // namespace sluice::base
