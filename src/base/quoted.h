#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// Text of any origin: UTF-8, numbers, in messages, and with %XX for single bytes as in URLs.
namespace sluice::base {

// Returns the length of the well-formed UTF-8 character at the front (Unicode, table 3-7), or 0.
// The text must not be empty.
constexpr std::size_t character_length(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

// Returns the offset of the first byte that is not valid UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text) noexcept;

// Returns the text with `replacement`, by default U+FFFD, instead of each byte that is not UTF-8.
std::string as_utf8(std::string_view text, std::string_view replacement = "\xEF\xBF\xBD");

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

// Returns the number that the whole text is in decimal digits. Nothing if T does not have it.
template <typename T>
std::optional<T> read_number(std::string_view text) noexcept {
  T number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

// Returns the value of a hex digit, or a negative number.
constexpr int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  const int lower = c | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Removes the first byte of `rest` and returns it, decoded if it begins a %XX. A % that begins no
// escape is returned as it is. `rest` must not be empty.
constexpr char take_decoded(std::string_view& rest) noexcept {
  const char first = rest.front();
  const int high = first == '%' && rest.size() >= 3 ? hex_digit(rest[1]) : -1;
  const int low = high >= 0 ? hex_digit(rest[2]) : -1;
  rest.remove_prefix(low >= 0 ? 3 : 1);
  return low >= 0 ? static_cast<char>(high * 16 + low) : first;
}

// Returns the text with each %XX decoded.
inline std::string decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) out += take_decoded(text);
  return out;
}

}  // namespace sluice::base
