#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::core {

// The text in single quotes, as errors show it: cut after 40 bytes, never within a UTF-8 character,
// and with '?' for bytes that could disturb a terminal.
inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 40;
  const auto continues = [&](std::size_t i) { return (text[i] & 0xC0) == 0x80; };
  std::size_t end = text.size() <= kMost ? text.size() : kMost;
  while (end < text.size() && end > kMost - 3 && continues(end)) --end;
  std::string out = "'";
  for (const char c : text.substr(0, end)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return out + (end < text.size() ? "...'" : "'");
}

}  // namespace sluice::core
