#include "rules/source_text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sluice::rules {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kMostQuoted = 60;

bool continues(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Returns the size of the UTF-8 sequence at the start of `text`, or 0 if it is invalid. The range
// of the second byte excludes overlong forms, surrogates and code points over U+10FFFF.
std::size_t sequence_size(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first < 0xC2   ? 0
                           : first < 0xE0 ? 2
                           : first < 0xF0 ? 3
                           : first < 0xF5 ? 4
                                          : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(text[i])) return 0;
  }
  const unsigned second = byte(1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return size;
}

}  // namespace

SourceText::SourceText(std::string_view bytes) : text_(bytes), lines_{0} {
  if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  for (std::size_t at = text_.find('\n'); at != text_.npos; at = text_.find('\n', at + 1)) {
    lines_.push_back(at + 1);
  }
}

Place SourceText::place(std::size_t at) const {
  at = std::min(at, text_.size());
  const auto after = std::upper_bound(lines_.begin(), lines_.end(), at);
  const std::string_view before = text_.substr(*(after - 1), at - *(after - 1));
  const auto more = std::count_if(before.begin(), before.end(), continues);
  return {static_cast<int>(after - lines_.begin()),
          static_cast<int>(static_cast<std::ptrdiff_t>(before.size()) - more + 1)};
}

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
    const std::size_t size = sequence_size(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return std::string_view::npos;
}

std::string in_quotes(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out = "'";
  std::size_t at = 0;
  while (at < text.size() && at < kMostQuoted) {
    const std::size_t size = sequence_size(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    if (size == 0 || byte < 0x20 || byte == 0x7F) {
      out.append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
      ++at;
    } else {
      out.append(text.substr(at, size));
      at += size;
    }
  }
  return out + (at < text.size() ? "...'" : "'");
}

}  // namespace sluice::rules
