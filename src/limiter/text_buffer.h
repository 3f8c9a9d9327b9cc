#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/quoted.h"

namespace sluice {

// A buffer in which an answer is assembled; clear() empties it.
//
// Not thread-safe. Cost: a few instructions besides copying. Keeps its memory, so it allocates
// nothing once it has grown.
class TextBuffer {
 public:
  std::string_view view() const noexcept { return {data_.get(), size_}; }
  std::size_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }
  // Removes everything after the first `size` bytes.
  void shorten(std::size_t size) noexcept { size_ = size; }

  // Appends a literal.
  template <std::size_t N>
  void put(const char (&text)[N]) {
    std::memcpy(room(N - 1), text, N - 1);
    size_ += N - 1;
  }
  void put(char c) {
    *room(1) = c;
    ++size_;
  }
  void put_text(std::string_view text) {
    if (text.empty()) return;
    std::memcpy(room(text.size()), text.data(), text.size());
    size_ += text.size();
  }
  void put_number(std::uint64_t number) {
    char* const at = room(20);
    size_ += static_cast<std::size_t>(base::write_number(at, number) - at);
  }
  // Appends a byte, a number and the end of a line: the integers and lengths of RESP.
  void put_line(char kind, std::uint64_t number) {
    char* const at = room(24);
    *at = kind;
    char* end = base::write_number(at + 1, number);
    *end++ = '\r';
    *end++ = '\n';
    size_ += static_cast<std::size_t>(end - at);
  }
  // Appends a JSON string with its quotes. The text must be UTF-8.
  void put_json(std::string_view text);
  // Appends the content of a structured-field string (RFC 9651): printable ASCII, with a backslash
  // before '"' and '\'. Other bytes, '%' and the bytes of `also` become %XX, so different texts
  // stay different. The result is also valid inside a JSON string.
  void put_field_text(std::string_view text, char also = '%');

 private:
  char* room(std::size_t bytes) {
    if (capacity_ - size_ < bytes) grow(bytes);
    return data_.get() + size_;
  }
  void grow(std::size_t bytes);

  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace sluice
