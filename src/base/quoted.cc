#include "base/quoted.h"

#include <algorithm>

#include "base/utf8.h"

namespace sluice::base {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 60;
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out = "'";
  std::size_t at = 0;
  while (at < text.size() && at < kMost) {
    const std::string_view rest = text.substr(at);
    const std::size_t size = character_length(rest);
    const std::string_view character = rest.substr(0, std::max<std::size_t>(size, 1));
    at += character.size();
    if (size > 0 && control_length(character) == 0) {
      out += character;
      continue;
    }
    for (const char c : character) {
      const auto byte = static_cast<unsigned char>(c);
      out.append("\\x").append({kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out + (at < text.size() ? "...'" : "'");
}

}  // namespace sluice::base
