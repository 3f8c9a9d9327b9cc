#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::redis {

// Numbers in bytes, the least significant first, as the scripts' struct.pack('<I..') has them.

// Appends to a string that it borrows.
class Bytes {
 public:
  explicit Bytes(std::string& out) noexcept : out_(out) {}
  void append(std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFF);
  }

 private:
  std::string& out_;
};

// Reads from the front of bytes that it borrows, which must be there: see size().
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) noexcept : bytes_(bytes) {}
  std::size_t size() const noexcept { return bytes_.size(); }
  std::uint64_t take(std::size_t size) noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
    }
    bytes_.remove_prefix(size);
    return value;
  }
  std::string_view take_bytes(std::size_t size) noexcept {
    const std::string_view front = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return front;
  }

 private:
  std::string_view bytes_;
};

}  // namespace sluice::redis
