#include "base/quoted.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sluice::base {

std::size_t find_invalid_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t eight = 0;  // bytes at once, if all are ASCII
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const std::size_t size = character_length(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return std::string_view::npos;
}

std::string as_utf8(std::string_view text, std::string_view replacement) {
  std::string out;
  for (;;) {
    const std::size_t wrong = find_invalid_utf8(text);
    out.append(text.substr(0, wrong));
    if (wrong == text.npos) return out;
    out.append(replacement);
    text.remove_prefix(wrong + 1);
  }
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 60;
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
    for (const char c : character) append_hex(out += "\\x", c);
  }
  return out + (at < text.size() ? "...'" : "'");
}

}  // namespace sluice::base
