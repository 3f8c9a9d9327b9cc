#pragma once

#include <cstddef>
#include <string>
#include <string_view>

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

}  // namespace sluice::base
