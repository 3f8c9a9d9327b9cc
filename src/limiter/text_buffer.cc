#include "limiter/text_buffer.h"

#include <algorithm>
#include <array>

namespace sluice {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

// Whether a field text contains a byte as it is.
constexpr auto kIsPlain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c <= 0x7E; ++c) plain[c] = c != '%' && c != '"' && c != '\\';
  return plain;
}();

}  // namespace

void TextBuffer::grow(std::size_t bytes) {
  const std::size_t capacity = std::max(capacity_ * 2, size_ + bytes + 256);
  std::unique_ptr<char[]> data(new char[capacity]);  // not make_unique: that would write zeros
  if (size_ > 0) std::memcpy(data.get(), data_.get(), size_);
  data_ = std::move(data);
  capacity_ = capacity;
}

void TextBuffer::put_json(std::string_view text) {
  char* out = room(6 * text.size() + 2);
  *out++ = '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      const char escaped[] = {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]};
      out = std::copy(std::begin(escaped), std::end(escaped), out);
      continue;
    }
    if (c == '"' || c == '\\') *out++ = '\\';
    *out++ = c;
  }
  *out++ = '"';
  size_ = static_cast<std::size_t>(out - data_.get());
}

void TextBuffer::put_field_text(std::string_view text, char also) {
  char* out = room(3 * text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (kIsPlain[byte] && c != also) {
      *out++ = c;
    } else if ((c == '"' || c == '\\') && c != also) {
      *out++ = '\\';
      *out++ = c;
    } else {
      *out++ = '%';
      *out++ = kHex[byte >> 4];
      *out++ = kHex[byte & 15];
    }
  }
  size_ = static_cast<std::size_t>(out - data_.get());
}

}  // namespace sluice
