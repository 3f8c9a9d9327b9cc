#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"

// Text of any origin: UTF-8, numbers, in messages, and with %XX for single bytes as in URLs.
namespace sluice::base {

// Letters are those of ASCII; other bytes stay as they are.
constexpr bool is_upper(char c) noexcept { return c >= 'A' && c <= 'Z'; }
constexpr char lower(char c) noexcept { return is_upper(c) ? static_cast<char>(c | 0x20) : c; }
constexpr char upper(char c) noexcept {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c & ~0x20) : c;
}
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_digits(std::string_view text) noexcept {  // only, and at least one
  return !text.empty() && std::ranges::all_of(text, is_digit);
}
constexpr bool is_letter(char c) noexcept { return is_upper(upper(c)); }
// Whether it is a letter, a digit or one of the others.
constexpr bool is_letter_or(std::string_view others, char c) noexcept {
  return is_letter(c) || is_digit(c) || others.find(c) != others.npos;
}
inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}
inline std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = upper(c);
  return out;
}
// Whether two words are equal, whatever the case of their letters.
constexpr bool same_word(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

// Removes the text before the next separator, and that, from the front of `rest`. Returns the text.
constexpr std::string_view take_until(std::string_view& rest, char separator) noexcept {
  const std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}
// Returns the texts between the separators, one more than there are of these.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (bool is_last = false; !is_last;) {
    is_last = text.find(separator) == text.npos;
    parts.push_back(take_until(text, separator));
  }
  return parts;
}

// Joins texts: "a, b, c". `last`: between the last two, as in "a, b or c".
template <typename Texts>
std::string joined(const Texts& texts, std::string_view last = ", ",
                   std::string_view between = ", ") {
  std::string out;
  std::size_t left = std::size(texts);
  for (const auto& text : texts) {
    if (left-- < std::size(texts)) out.append(left == 0 ? last : between);
    out.append(text);
  }
  return out;
}

// Returns the text without spaces and tabs at both ends.
constexpr std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return text.substr(text.size());
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// What some programs write at the beginning of UTF-8 files.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Appends a byte as two hexadecimal digits, in upper case, or in lower case.
inline void append_hex(std::string& out, char byte, std::string_view digits = "0123456789ABCDEF") {
  const auto number = static_cast<unsigned char>(byte);
  out.append({digits[number >> 4], digits[number & 15]});
}
inline void append_lower_hex(std::string& out, char byte) {
  append_hex(out, byte, "0123456789abcdef");
}

// Writes a number in decimal digits where there is room for 20 bytes, and returns the end. Most
// numbers of requests and answers have one or two digits.
inline char* write_number(char* to, std::uint64_t number) noexcept {
  if (number >= 100) return std::to_chars(to, to + 20, number).ptr;
  if (number >= 10) *to++ = static_cast<char>('0' + number / 10);
  *to++ = static_cast<char>('0' + number % 10);
  return to;
}
// Appends a number in decimal digits.
inline void append_number(std::string& out, std::uint64_t number) {
  char digits[20];
  out.append(digits, write_number(digits, number));
}

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
    for (const char c : text) bytes_[size_++] = upper(c);
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
  if (is_digit(c)) return c - '0';
  const int lower = c | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Returns the value of two hex digits, or a negative number.
constexpr int hex_byte(char high, char low) noexcept {
  const int first = hex_digit(high);
  const int second = hex_digit(low);
  return first < 0 || second < 0 ? -1 : first * 16 + second;
}

// Removes the first byte of `rest` and returns it, decoded if it begins a %XX. A % that begins no
// escape is returned as it is. `rest` must not be empty.
constexpr char take_decoded(std::string_view& rest) noexcept {
  const char first = rest.front();
  const int byte = first == '%' && rest.size() >= 3 ? hex_byte(rest[1], rest[2]) : -1;
  rest.remove_prefix(byte >= 0 ? 3 : 1);
  return byte >= 0 ? static_cast<char>(byte) : first;
}

// Returns the text with each %XX decoded.
inline std::string decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) out += take_decoded(text);
  return out;
}

// The same, but a % that begins no escape is an error: it and up to two bytes after it.
inline Expected<std::string, std::string_view> strictly_decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view before = text;
    out += take_decoded(text);
    const bool is_plain = text.size() + 1 == before.size();
    if (is_plain && before.front() == '%') return Unexpected{before.substr(0, 3)};
  }
  return out;
}

}  // namespace sluice::base
